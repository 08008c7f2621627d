//! Where a file that was asked for is written, and who may read it.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::way::{follow, is_open, own};

/// Finds where a path leads, and refuses links by which others could choose the file that is replaced: in a folder to which others may
/// write, only links of this user and of the folder's owner are followed, also on the way. Linux has the same rule for sticky folders
/// (`fs.protected_symlinks`), but not on every machine.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] with the link and the remedy; else those of the file system.
pub fn target(path: &Path) -> io::Result<PathBuf> {
    target_of(path, "-o")
}

/// As [`target`], for a path that was typed after this option.
///
/// # Errors
/// Those of [`target`].
pub fn target_of(path: &Path, option: &str) -> io::Result<PathBuf> {
    follow(path, |step| {
        let owner = step.meta.uid();
        let is_agreed = owner == own() || owner == step.folder.uid();
        if !step.meta.is_symlink() || is_agreed || !is_open(step.folder) {
            return Ok(());
        }
        let link = step.path.display();
        let cause = format!(
            "user {owner} has laid the symbolic link `{link}` into a folder of others: remove it, or name another file with {option}"
        );
        Err(io::Error::new(io::ErrorKind::InvalidInput, cause))
    })
}

/// Returns which permissions a file may have that is made of `inputs`: nobody but its owner may read it who could not read all of them.
/// `groups` are those of which the file may be. An input that is no regular file is for the reader alone.
pub fn allowed(inputs: &[Metadata], groups: &[u32]) -> u32 {
    let admits =
        |class: &dyn Fn(&Metadata) -> bool| inputs.iter().all(|input| input.is_file() && class(input));
    // The bits of a class admit its members alone: a member of the file's group may be refused where all others are not.
    let of_group = |input: &Metadata, group| if input.gid() == group { 0o040 } else { 0o004 };
    let group = admits(&|input| groups.iter().all(|group| input.mode() & of_group(input, *group) != 0));
    let others = admits(&|input| input.mode() & 0o044 == 0o044);
    0o700 | if group { 0o070 } else { 0 } | if others { 0o007 } else { 0 }
}

/// Returns the groups of which a new file in a folder may be: that of this process, or that of the folder.
pub fn groups(folder: &Metadata) -> [u32; 2] {
    [rustix::process::getegid().as_raw(), folder.gid()]
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, chown, lchown, symlink};

    use super::*;

    #[test]
    fn a_path_leads_where_the_file_system_says() {
        let dir = tempfile::tempdir().expect("a folder");
        let dir = dir.path().canonicalize().expect("a real path");
        fs::create_dir(dir.join("real")).expect("ours");
        fs::write(dir.join("real/file"), "x").expect("room");
        symlink("real", dir.join("link")).expect("ours");
        symlink(dir.join("link/file"), dir.join("name")).expect("ours");
        for path in ["name", "link/file", "link/../link/file", "real/file"] {
            let path = dir.join(path);
            assert_eq!(target(&path).expect("ours"), path.canonicalize().expect("there"), "{path:?}");
        }
        assert_eq!(target(&dir.join("link/new")).expect("ours"), dir.join("real/new"));
    }

    /// Only root can give links away.
    #[test]
    fn root_a_link_of_another_user_is_followed_only_where_no_others_may_write() {
        let dir = tempfile::tempdir().expect("a folder");
        let dir = dir.path().canonicalize().expect("a real path");
        let [shared, file, link] = ["shared", "file", "shared/link"].map(|name| dir.join(name));
        fs::create_dir(&shared).expect("ours");
        fs::write(&file, "precious").expect("room");
        symlink(&file, &link).expect("ours");
        lchown(&link, Some(1), None).expect("root");
        let says = |mode, owner| {
            chown(&shared, Some(owner), None).expect("root");
            fs::set_permissions(&shared, Permissions::from_mode(mode)).expect("root");
            target(&link).map_err(|error| error.to_string())
        };
        for mode in [0o1777, 0o777, 0o775] {
            let text = says(mode, 0).expect_err("refused");
            assert!(text.starts_with("user 1 has laid") && text.contains("-o"), "{mode:o}: {text}");
            assert_eq!(says(mode, 1).expect("the owner of the folder agrees"), file, "{mode:o}");
        }
        assert_eq!(says(0o755, 0).expect("root let it lie there"), file);
        chown(&shared, Some(0), None).expect("root");
        fs::set_permissions(&shared, Permissions::from_mode(0o1777)).expect("root");
        assert!(target(&link.join("below")).is_err(), "a link on the way");
        lchown(&link, Some(0), None).expect("root");
        assert_eq!(target(&link).expect("a link of this user"), file);
    }

    #[test]
    fn nobody_may_read_an_output_who_could_not_read_all_inputs() {
        let dir = tempfile::tempdir().expect("a folder");
        let input = |mode: u32| {
            let path = dir.path().join(format!("{mode:o}"));
            fs::write(&path, "x").expect("room");
            fs::set_permissions(&path, Permissions::from_mode(mode)).expect("ours");
            fs::metadata(path).expect("there")
        };
        let own = input(0o600).gid();
        let of = |modes: &[u32], groups: &[u32]| {
            allowed(&modes.iter().map(|mode| input(*mode)).collect::<Vec<_>>(), groups)
        };
        assert_eq!(of(&[], &[own]), 0o777);
        assert_eq!(of(&[0o644, 0o664], &[own, own + 1]), 0o777);
        assert_eq!(of(&[0o600], &[own]), 0o700);
        assert_eq!(of(&[0o640], &[own]), 0o770);
        assert_eq!(of(&[0o640], &[own, own + 1]), 0o700, "it may get another group");
        assert_eq!(of(&[0o604], &[own]), 0o700, "the group of the input is among the others of the output");
        assert_eq!(of(&[0o644, 0o640, 0o600], &[own]), 0o700, "the strictest counts");
        assert_eq!(allowed(&[fs::metadata("/dev/null").expect("there")], &[own]), 0o700);
    }
}
