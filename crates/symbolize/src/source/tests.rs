use super::*;
use crate::image::fixture::{identity, run, text};
use crate::image::{ElfFile, Finder};
use crate::{Wanted, source_checksums};

#[test]
fn paths_lose_their_leading_folders_and_never_lead_upwards() {
    let shown = |path: &str| -> Vec<String> {
        suffixes(Path::new(path)).iter().map(|path| path.display().to_string()).collect()
    };
    assert_eq!(shown("/build/x/../a.c"), ["build/a.c", "a.c"]);
    assert_eq!(shown("../../etc/passwd"), ["etc/passwd", "passwd"]);
    assert!(shown("/").is_empty() && shown("").is_empty());
}

#[test]
fn texts_are_judged_by_all_units_that_name_them() {
    let sums = |all: &[Option<&str>]| {
        let mut sums = Checksums::default();
        all.iter().for_each(|text| sums.note(text.map(|text| Md5::of(text.as_bytes()))));
        sums
    };
    let judged = |all: &[Option<&str>]| sums(all).judge(b"a");
    assert_eq!(judged(&[Some("a"), Some("a")]), Some(Proof::Md5));
    assert_eq!(judged(&[Some("b")]), None);
    assert_eq!(judged(&[]), Some(Proof::Unchecked));
    assert_eq!(judged(&[Some("a"), None]), Some(Proof::Unchecked), "a unit does not say");
    assert_eq!(judged(&[Some("a"), Some("b")]), Some(Proof::Unchecked), "two versions");
    assert_eq!(judged(&[Some("b"), None]), None);
    // RFC 1321, A.5.
    assert_eq!(Md5::of(b"abc").0[..4], [0x90, 0x01, 0x50, 0x98]);
}

#[test]
fn a_folder_comes_before_the_path_as_compiled_and_every_failure_is_told() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path().canonicalize().expect("a real path");
    std::fs::create_dir_all(dir.join("tree/src")).expect("room");
    let file = dir.join("a.c");
    std::fs::write(&file, "old").expect("room");
    std::fs::write(dir.join("tree/src/a.c"), "new").expect("room");
    let find = |path: &str, sum: Option<&str>, dirs: &[PathBuf]| {
        let mut sums = Checksums::default();
        sums.note(sum.map(|text| Md5::of(text.as_bytes())));
        find(path, &sums, dirs, &Search::nowhere()).map(|found| (found.path, found.proof))
    };
    let (own, tree) = (text(&file).to_owned(), dir.join("tree"));
    assert_eq!(find(&own, None, &[]), Ok((file.clone(), Proof::Unchecked)));
    assert_eq!(find(&own, Some("old"), &[]), Ok((file.clone(), Proof::Md5)));
    assert_eq!(find(&own, Some("new"), &[]), Err(NoSource::Differs(file.clone())));
    let found = find("/gone/src/a.c", Some("new"), std::slice::from_ref(&tree));
    assert_eq!(found, Ok((tree.join("src/a.c"), Proof::Md5)));
    // A wrong file below the folder does not hide the right one.
    assert_eq!(find(&own, Some("old"), &[tree.join("src")]), Ok((file, Proof::Md5)));
    assert_eq!(find("/no/such.c", None, &[]), Err(NoSource::Missing));
    assert_eq!(find(text(&dir), None, &[]), Err(NoSource::NotText(dir.clone())));
    std::fs::write(dir.join("nul"), b"\0").expect("room");
    assert_eq!(find(text(&dir.join("nul")), None, &[]), Err(NoSource::NotText(dir.join("nul"))));
    let long = dir.join("long");
    std::fs::File::create(&long).and_then(|file| file.set_len(MAX_SOURCE_BYTES + 1)).expect("sparse");
    assert_eq!(find(text(&long), None, &[]), Err(NoSource::TooLong(long)));
}

#[test]
fn clang_states_the_md5_and_gcc_does_not() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path().canonicalize().expect("a real path");
    let source = dir.join("x.c");
    std::fs::write(&source, "int f(int x) { return x + 1; }\n").expect("room");
    for (compiler, proof) in [("clang", Proof::Md5), ("cc", Proof::Unchecked)] {
        let library = dir.join(compiler);
        run(&dir, compiler, &["-gdwarf-5", "-shared", "-fPIC", "-o", text(&library), text(&source)]);
        let (off, _) = crate::image::fixture::function(&library, "f");
        let search = Search::nowhere();
        let finder = Finder { search: &search, embedded: None };
        let image = identity(&library);
        let wanted = Wanted { image: &image, offsets: &[off] };
        let sums = source_checksums(&wanted, &[text(&source), "/other.c"], &finder);
        let found = find(text(&source), &sums[0], &[], &search).expect("it is there");
        assert_eq!(found.proof, proof, "{compiler}");
        assert_eq!(sums[1], Checksums::default());
        if proof == Proof::Md5 {
            assert_eq!(sums[0].judge(b"int f(int x) { return x + 2; }\n"), None);
        }
    }
    assert!(ElfFile::open(&source).is_ok());
}
