//! The code of all functions of two builds of one program, of which one only has more in it.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use icecore_analysis::matching::code::{Code, CodeVerdict, compare};
use icecore_symbolize::image::{Finder, Identity, Kind, Search};
use object::Object;

use crate::builds::{Yard, functions};

fn open(path: &Path) -> Code {
    let meta = std::fs::metadata(path).expect("there");
    let bytes = std::fs::read(path).expect("readable");
    let image = Identity {
        kind: Kind::File,
        path: path.to_str().expect("UTF-8").to_owned(),
        build_id: object::File::parse(&*bytes)
            .expect("ELF")
            .build_id()
            .expect("notes")
            .unwrap_or_default()
            .to_vec(),
        size_bytes: meta.len(),
        modified_unix_ns: (meta.mtime() * 1_000_000_000 + meta.mtime_nsec()) as u64,
        inode: None,
        has_double: false,
    };
    let mut search = Search::default();
    search.debug_dirs.clear();
    Code::open(&image, &Finder { search: &search, embedded: None }).expect("its symbols are there")
}

/// Counts functions that both have: identical, different, unknown; the names of the different ones.
fn counts(before: &Path, after: &Path) -> (usize, Vec<String>, usize) {
    let (old, new) = (open(before), open(after));
    let (mut identical, mut different, mut unknown) = (0, Vec::new(), 0);
    for name in functions(before).intersection(&functions(after)) {
        match compare((&old, name), (&new, name)) {
            CodeVerdict::Identical => identical += 1,
            CodeVerdict::Different => different.push(name.clone()),
            CodeVerdict::Unknown(_) => unknown += 1,
        }
    }
    println!("{identical} identical, {unknown} unknown, different: {different:?}");
    (identical, different, unknown)
}

#[test]
fn an_added_dependency_leaves_the_code_of_the_library() {
    let yard = Yard::new();
    let (before, after) = (yard.rust("-O", false, "before"), yard.rust("-O -C metadata=x", true, "after"));
    let (identical, different, unknown) = counts(&before, &after);
    // The compiler lays out a few generic functions of the program otherwise; objdump shows it as well. The library
    // is the same.
    assert!(different.len() < 6 && different.iter().any(|name| name == "program::main"), "{different:?}");
    assert!(identical > 500 && unknown * 20 < identical);
}

#[test]
fn code_that_moves_is_identical() {
    let yard = Yard::new();
    for (compiler, flags) in [("g++", "-O2"), ("clang++", "-O2")] {
        let before = yard.cpp(compiler, flags, "before");
        let source = std::fs::read_to_string(yard.path("lib.cc")).expect("there");
        let more =
            "int more(int x) { return twice(x) * 3; } const char* more_text() { return \"more text\"; }\n";
        yard.write("lib.cc", &source.replace("double Shape::area", &format!("{more}double Shape::area")));
        let after = yard.cpp(compiler, flags, "after");
        yard.write("lib.cc", &source.replace("i ^ y", "i | y"));
        let changed = yard.cpp(compiler, flags, "changed");
        yard.write("lib.cc", &source);
        assert_eq!(counts(&before, &after).1, [] as [&str; 0], "{compiler}");
        let different = counts(&before, &changed).1;
        assert!(
            !different.is_empty()
                && different
                    .iter()
                    .all(|name| name.contains("helper(int, int, int)") || name.contains("work(")),
            "{different:?}"
        );
    }
}

#[test]
fn other_optimization_is_other_code_in_rust_as_well() {
    let yard = Yard::new();
    let (before, after) = (yard.rust("-O", false, "before"), yard.rust("-C opt-level=1", false, "after"));
    let (identical, different, _) = counts(&before, &after);
    assert!(identical > 400, "the standard library is not compiled again");
    assert!(different.iter().any(|name| name.contains("program::")), "{different:?}");
}
