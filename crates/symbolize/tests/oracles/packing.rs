//! The same code has the same names, however its DWARF is packed.

use std::path::Path;

use icecore_symbolize::image::{Search, Symbols};

use crate::programs::{Frame, Workshop, nowhere, ours, places, tool};

fn names(path: &Path) -> Vec<Vec<Frame>> {
    ours(path, &nowhere(), &places(path, 20_000))
}

/// Fails unless both say the same, and say enough.
fn assert_equal(packed: &[Vec<Frame>], plain: &[Vec<Frame>], what: &str) {
    let inlined = plain.iter().filter(|frames| frames.len() > 2).count();
    assert!(inlined > 500, "{what}: only {inlined} addresses in calls inlined into each other");
    assert_eq!(packed.len(), plain.len(), "{what}: the code itself differs");
    let differing = packed.iter().zip(plain).position(|(packed, plain)| packed != plain);
    let show = differing.map(|i| format!("{what}, address {i}:\n{:#?}\nplain:\n{:#?}", packed[i], plain[i]));
    assert_eq!(show, None);
}

#[test]
fn compressed_sections_say_the_same() {
    let shop = Workshop::new();
    let plain = names(&shop.compile("c++", "-O2 -g", "plain"));
    for kind in ["zlib", "zlib-gnu", "zstd"] {
        shop.run("objcopy", &format!("--compress-debug-sections={kind} plain {kind}"));
        assert_equal(&names(&shop.path(kind)), &plain, kind);
    }
}

#[test]
fn what_dwz_has_moved_elsewhere_is_found_there() {
    let shop = Workshop::new();
    for version in [4, 5] {
        let plain = names(&shop.compile("c++", &format!("-O2 -g -gdwarf-{version}"), "plain"));
        for copy in ["one", "two", "alone"] {
            std::fs::copy(shop.path("plain"), shop.path(copy)).expect("copied");
        }
        shop.run("dwz", "alone");
        assert_equal(&names(&shop.path("alone")), &plain, "partial units");
        shop.run("dwz", "-m shared one two");
        assert_equal(&names(&shop.path("one")), &plain, "a supplementary file");
        std::fs::remove_file(shop.path("shared")).expect("removed");
        let alone = names(&shop.path("two"));
        // A call without a name is left out, but the function that it was inlined into stands where it did. (In which
        // directory, the supplementary file may have known.)
        let lines = |all: &[Vec<Frame>]| -> Vec<_> {
            all.iter().map(|frames| frames.last().map(|frame| frame.2)).collect()
        };
        assert!(lines(&alone) == lines(&plain), "lines need no supplementary file");
    }
}

#[test]
fn the_supplementary_file_of_dwarf_5_is_found_by_its_own_section() {
    let shop = Workshop::new();
    let plain = names(&shop.compile("c++", "-O2 -g -gdwarf-5", "plain"));
    for copy in ["one", "two"] {
        std::fs::copy(shop.path("plain"), shop.path(copy)).expect("copied");
    }
    shop.run("dwz", "--dwarf-5 -m shared one two");
    let sections = std::fs::read(shop.path("one")).expect("readable");
    let has = |name: &[u8]| sections.windows(name.len()).any(|window| window == name);
    assert!(has(b"\0.debug_sup\0") && !has(b"\0.gnu_debugaltlink\0"));
    assert_equal(&names(&shop.path("one")), &plain, "beside it");
    let folder = shop.path("folder");
    std::fs::create_dir(&folder).expect("made");
    std::fs::rename(shop.path("shared"), folder.join("shared")).expect("one file system");
    assert!(names(&shop.path("one")) != plain, "it is gone");
    let search = Search { symbols: Symbols::below(vec![folder]), ..nowhere() };
    let one = shop.path("one");
    assert_equal(&ours(&one, &search, &places(&one, 20_000)), &plain, "below --symbols");
}

#[test]
fn split_units_are_found_in_their_files_and_in_a_package() {
    let shop = Workshop::new();
    for (compiler, version) in [("c++", 4), ("c++", 5), ("clang++", 4), ("clang++", 5)] {
        let what = format!("{compiler}, DWARF {version}");
        let flags = format!("-O2 -g -gdwarf-{version}");
        let plain = names(&shop.compile(compiler, &flags, "plain"));
        let split = shop.compile(compiler, &format!("{flags} -gsplit-dwarf"), "split");
        assert_equal(&names(&split), &plain, &what);

        // binutils 2.40 makes packages of DWARF 4 alone.
        let packer = if version == 4 { "dwp".to_owned() } else { tool("llvm-dwp") };
        shop.run(&packer, "-e split -o split.dwp");
        let files = std::fs::read_dir(split.parent().expect("a folder")).expect("readable");
        let files = files.map(|file| file.expect("readable").path());
        let files: Vec<_> = files.filter(|file| file.extension().is_some_and(|it| it == "dwo")).collect();
        assert!(files.len() >= 2, "{what}: {files:?}");
        for file in &files {
            std::fs::remove_file(file).expect("removed");
        }
        assert_equal(&names(&split), &plain, &format!("{what}, packed"));
        std::fs::remove_file(shop.path("split.dwp")).expect("removed");
        let bare = names(&split);
        let has_line = |frames: &&Vec<Frame>| frames.first().is_some_and(|frame| frame.2.is_some());
        assert!(bare.iter().filter(has_line).count() > 500, "{what}: lines need no other file");
        assert!(bare.iter().all(|frames| frames.len() <= 1), "{what}: inlined calls come from nowhere");
    }
}

#[test]
fn a_split_unit_of_another_build_is_not_believed() {
    let shop = Workshop::new();
    let split = shop.compile("c++", "-O2 -g -gsplit-dwarf", "split");
    let before = names(&split);
    shop.run("c++", "-O1 -g -gsplit-dwarf -std=c++17 -DOTHER -fPIE -c lib.cc -o split-lib.o");
    let after = names(&split);
    let inlined = |all: &[Vec<Frame>]| all.iter().filter(|frames| frames.len() > 1).count();
    assert!(inlined(&after) < inlined(&before), "one unit of two has lost its half");
    for (before, after) in before.iter().zip(&after) {
        let (before, after) = (before.first().map(|f| f.2), after.first().map(|f| f.2));
        assert_eq!(before, after, "lines are in the image");
    }
}

#[test]
fn of_several_split_units_of_one_name_the_right_one_is_taken() {
    let shop = Workshop::new();
    for version in [4, 5] {
        let flags = format!("-O2 -g -gdwarf-{version} -gsplit-dwarf");
        let split = shop.compile("c++", &flags, "split");
        let right = names(&split);
        let folder = |name: &str| {
            let folder = shop.path("").join(name);
            std::fs::create_dir_all(&folder).expect("made");
            folder
        };
        let (beside, kept) = (folder("beside"), folder(&format!("kept-{version}/a/b")));
        for to in [&beside, &kept] {
            std::fs::copy(shop.path("split-lib.dwo"), to.join("split-lib.dwo")).expect("copied");
        }
        // The same unit of another build lies where the compiler wrote the right one.
        let other = format!("{flags} -DOTHER -std=c++17 -fPIC -c lib.cc -O1 -o split-lib.o");
        shop.run("c++", &other);
        assert!(names(&split) != right, "DWARF {version}: the wrong one is not believed");

        let symbols = Symbols::below(vec![shop.path(&format!("kept-{version}"))]);
        let search = Search { symbols, ..nowhere() };
        assert_equal(&ours(&split, &search, &places(&split, 20_000)), &right, "below --symbols");
        let moved = beside.join("split");
        std::fs::rename(&split, &moved).expect("one file system");
        assert_equal(&names(&moved), &right, "beside the image");
    }
}
