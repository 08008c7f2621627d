//! Checks that a file is the one that ran.

use crate::image::Kind;

use super::{ElfFile, Identity, Layout, Outcome};
use crate::Reason;

/// The text that the kernel appends to the path of a mapping whose file was deleted.
pub const DELETED: &str = " (deleted)";

/// The text that views append to the path of an image if only the user says that its file ran (`--trust`).
pub const TRUSTED: &str = " (trusted)";

/// Returns why an image has no file; `None` if it has one.
pub(super) fn without_file(kind: Kind) -> Option<Reason> {
    match kind {
        Kind::File => None,
        Kind::Anonymous => Some(Reason::Jit),
        Kind::Vdso => Some(Reason::Vdso),
        _ => Some(Reason::Special),
    }
}

/// Reads the headers of a file if it is the one in the recording.
///
/// If the recording has a build-id, the file's must be equal, and nothing else counts (stripping a file changes its size, not its
/// code). Otherwise the size must be equal, and also the modification time and the inode, if they were recorded. If the recording has
/// neither build-id nor size, nobody knows.
///
/// `is_copy`: the user says that files at this place are copies of the recorded ones, so that inodes tell nothing. Then the recording
/// may have no second file of the same size and time.
pub(super) fn prove(file: &ElfFile, wanted: &Identity, is_copy: bool) -> Result<Layout, Outcome> {
    if !wanted.build_id.is_empty() {
        return of_build(file, &wanted.build_id);
    }
    if wanted.size_bytes == 0 {
        return Err(Outcome::Unknown);
    }
    let is_same_time = wanted.modified_unix_ns == 0 || wanted.modified_unix_ns == file.modified_unix_ns;
    if wanted.size_bytes != file.len || !is_same_time {
        return Err(Outcome::Changed);
    }
    let is_same_file =
        if is_copy { !wanted.has_double } else { wanted.inode.is_none_or(|inode| file.inode == Some(inode)) };
    if !is_same_file {
        return Err(Outcome::Unproven);
    }
    Ok(file.layout()?)
}

/// Reads the headers of a file if it has this build-id.
pub(super) fn of_build(file: &ElfFile, build_id: &[u8]) -> Result<Layout, Outcome> {
    let layout = file.layout()?;
    if build_id.is_empty() || layout.build_id != build_id {
        return Err(Outcome::OtherBuild);
    }
    Ok(layout)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Fixture, identity};
    use std::path::Path;

    use super::super::{FileSource, Finder, Inode, PathMap, Search};
    use super::*;

    fn reason(wanted: &Identity) -> Option<Reason> {
        Finder { search: &Search::nowhere(), embedded: None }.look(wanted).files.err()
    }

    #[test]
    fn kinds_without_a_file_are_answered_without_file_access() {
        let fixture = Fixture::shared(); // the files live as long as this
        let cases =
            [(Kind::Anonymous, Reason::Jit), (Kind::Vdso, Reason::Vdso), (Kind::Special, Reason::Special)];
        for (kind, expected) in cases {
            let wanted = Identity { kind, ..identity(&fixture.with_debug) };
            assert_eq!(reason(&wanted), Some(expected), "{kind:?}");
        }
    }

    #[test]
    fn an_equal_build_id_outweighs_size_and_time() {
        let fixture = Fixture::shared(); // the files live as long as this
        let mut wanted = identity(&fixture.with_debug);
        assert_eq!(wanted.build_id.len(), 20, "the linker wrote a SHA-1 build-id");
        (wanted.size_bytes, wanted.modified_unix_ns) = (1, 1);
        assert_eq!(reason(&wanted), None);
        wanted.build_id[19] ^= 1;
        assert_eq!(reason(&wanted), Some(Reason::BuildIdMismatch));
        wanted.build_id.truncate(8);
        assert_eq!(reason(&wanted), Some(Reason::BuildIdMismatch), "a prefix is not equal");
    }

    #[test]
    fn without_build_id_size_and_time_must_be_equal() {
        let fixture = Fixture::shared(); // the files live as long as this
        let good = Identity { build_id: Vec::new(), ..identity(&fixture.without_build_id) };
        assert_eq!(reason(&good), None);
        assert_eq!(reason(&Identity { modified_unix_ns: 0, ..good.clone() }), None);
        let changed = [
            Identity { size_bytes: good.size_bytes + 1, ..good.clone() },
            Identity { modified_unix_ns: good.modified_unix_ns + 1, ..good.clone() },
        ];
        for wanted in changed {
            assert_eq!(reason(&wanted), Some(Reason::ImageChanged), "{wanted:?}");
        }
        let untold = Identity { size_bytes: 0, ..good.clone() };
        assert_eq!(reason(&untold), Some(Reason::ImageUnknown));
        let wanted = Identity { build_id: vec![1; 20], ..good };
        assert_eq!(reason(&wanted), Some(Reason::BuildIdMismatch), "a file without one is another file");
    }

    #[test]
    fn another_file_of_equal_size_and_time_is_no_proof_unless_the_user_says_that_it_is_a_copy() {
        let fixture = Fixture::shared();
        let good = Identity { build_id: Vec::new(), ..identity(&fixture.without_build_id) };
        let inode = good.inode.expect("it is on a file system");
        let others =
            [Inode { number: inode.number + 1, ..inode }, Inode { device: inode.device + 1, ..inode }];
        let sysroot = Search { sysroot: Some("/".into()), ..Search::nowhere() };
        let mapped = PathMap {
            from: "/recorded".into(),
            to: Path::new(&good.path).parent().expect("a folder").into(),
        };
        let mapped = Search { maps: vec![mapped], ..Search::nowhere() };
        let name = Path::new(&good.path).file_name().expect("a name").display().to_string();
        for other in others {
            let other = Identity { inode: Some(other), ..good.clone() };
            assert_eq!(reason(&other), Some(Reason::ImageUnproven));
            let below = |search, path: &str, has_double| {
                let wanted = Identity { path: path.to_owned(), has_double, ..other.clone() };
                Finder { search, embedded: None }.look(&wanted).files.err()
            };
            for (search, path) in [(&sysroot, &*other.path), (&mapped, &format!("/recorded/{name}"))] {
                assert_eq!(below(search, path, false), None);
                assert_eq!(below(search, path, true), Some(Reason::ImageUnproven), "which of the two is it?");
            }
        }
        assert_eq!(reason(&Identity { has_double: true, ..good.clone() }), None, "its inode proves it");
        assert_eq!(reason(&Identity { inode: None, ..good }), None, "nothing contradicts it");
    }

    #[test]
    fn a_file_of_which_nobody_knows_whether_it_ran_is_taken_only_if_the_user_trusts_it() {
        let fixture = Fixture::shared(); // the files live as long as this
        let path = Path::new(&fixture.without_build_id);
        let known = Identity { build_id: Vec::new(), ..identity(path) };
        let wanted = Identity { size_bytes: 0, modified_unix_ns: 0, ..known.clone() };
        let look = |trusted: &Path, wanted: &Identity| {
            let search = Search { trusted: vec![trusted.to_owned()], ..Search::nowhere() };
            let looked = Finder { search: &search, embedded: None }.look(wanted);
            (looked.files.map(|files| files.source()), looked.attempts[0].evidence)
        };
        for trusted in [path, path.parent().expect("a folder")] {
            assert_eq!(look(trusted, &wanted).0, Ok(FileSource::Trusted));
        }
        let (source, evidence) = look(Path::new("/no/such"), &wanted);
        assert_eq!(
            (source, evidence.and_then(|it| it.is_same_inode)),
            (Err(Reason::ImageUnknown), Some(true))
        );
        // What is known of a file outweighs trust.
        assert_eq!(look(path, &known), (Ok(FileSource::Path), None));
        let changed = Identity { size_bytes: known.size_bytes + 1, ..known.clone() };
        assert_eq!(look(path, &changed).0, Err(Reason::ImageChanged));
        let other = Identity { build_id: vec![1; 20], ..known };
        assert_eq!(look(path, &other).0, Err(Reason::BuildIdMismatch));
        // The recording has two files of the path, and the user knows one.
        let inode = wanted.inode.expect("it is on a file system");
        let double = Identity { has_double: true, ..wanted };
        assert_eq!(look(path, &double).0, Ok(FileSource::Trusted));
        let double = Identity { inode: Some(Inode { number: inode.number + 1, ..inode }), ..double };
        assert_eq!(look(path, &double).0, Err(Reason::ImageUnproven));
    }

    #[test]
    fn a_deleted_file_is_missing_unless_the_build_id_is_back() {
        let fixture = Fixture::shared(); // the files live as long as this
        let deleted = |wanted: Identity| Identity { path: format!("{}{DELETED}", wanted.path), ..wanted };
        let good = deleted(identity(&fixture.with_debug));
        assert_eq!(reason(&good), None);
        assert_eq!(reason(&Identity { build_id: vec![1; 20], ..good.clone() }), Some(Reason::ImageMissing));
        assert_eq!(reason(&Identity { build_id: vec![], ..good }), Some(Reason::ImageMissing));
        let gone = Identity { path: "/no/such (deleted)".into(), ..identity(&fixture.with_debug) };
        assert_eq!(reason(&gone), Some(Reason::ImageMissing));
    }
}
