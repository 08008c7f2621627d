//! GSYM says what the DWARF said that it was made of, but for differences that are listed.

use std::path::{Path, PathBuf};

use icecore_symbolize::image::{Search, Symbols};

use crate::agreement::says_more;
use crate::programs::{Frame, Workshop, nowhere, ours, places, tool};

/// A program with DWARF, the same without, and the GSYM that was made between.
struct Converted {
    shop: Workshop,
    plain: PathBuf,
    stripped: PathBuf,
    gsym: PathBuf,
}

impl Converted {
    fn new(compiler: &str, flags: &str, strip: &str) -> Self {
        let shop = Workshop::new();
        let plain = shop.compile(compiler, flags, "plain");
        shop.run(&tool("llvm-gsymutil"), "--convert=plain --out-file=anything");
        shop.run("strip", &format!("{strip} plain -o stripped"));
        let (stripped, gsym) = (shop.path("stripped"), shop.path("anything"));
        Self { shop, plain, stripped, gsym }
    }

    /// Names addresses all over the code.
    fn names(&self, path: &Path, search: &Search) -> Vec<Vec<Frame>> {
        ours(path, search, &places(&self.plain, 20_000))
    }

    /// The GSYM alone in a folder.
    fn folder(&self) -> Search {
        let folder = self.shop.path("folder");
        std::fs::create_dir_all(&folder).expect("made");
        std::fs::copy(&self.gsym, folder.join("of any name")).expect("copied");
        Search { symbols: Symbols::below(vec![folder]), ..nowhere() }
    }
}

#[test]
fn names_inlined_calls_and_lines_are_those_of_dwarf() {
    for (compiler, flags) in
        [("c++", "-O2 -g"), ("c++", "-O0 -g"), ("clang++", "-O2 -g"), ("clang++", "-O2 -g -gdwarf-4")]
    {
        let program = Converted::new(compiler, flags, "-g");
        let gsym = program.names(&program.stripped, &program.folder());
        let dwarf = program.names(&program.plain, &nowhere());
        assert_eq!(gsym.len(), dwarf.len());
        let (mut equal, mut qualified) = (0, 0);
        for (gsym, dwarf) in gsym.iter().zip(&dwarf) {
            let pairs = || gsym.iter().zip(dwarf);
            let are_lines_equal = pairs().all(|(a, b)| (&a.1, a.2) == (&b.1, b.2));
            let are_names_alike =
                pairs().all(|(a, b)| a.0 == b.0 || says_more(&a.0, &b.0) || says_more(&b.0, &a.0));
            assert!(
                gsym.len() == dwarf.len() && are_lines_equal && are_names_alike,
                "{compiler} {flags}:\nGSYM {gsym:#?}\nDWARF {dwarf:#?}"
            );
            *(if gsym == dwarf { &mut equal } else { &mut qualified }) += 1;
        }
        println!("{compiler} {flags}: {equal} equal, {qualified} with longer names");
        let lines = gsym.iter().flatten().filter(|frame| frame.2.is_some()).count();
        let inlined = gsym.iter().filter(|frames| frames.len() > 2).count();
        assert!(lines > 4000 && equal > 4 * qualified, "{compiler} {flags}: {lines} {equal} {qualified}");
        assert!(inlined > 500 || flags.contains("-O0"), "{compiler} {flags}: {inlined}");
    }
}

#[test]
fn it_is_found_in_a_folder_beside_the_image_and_in_it() {
    let program = Converted::new("clang++", "-O2 -g", "");
    let dwarf = program.names(&program.plain, &nowhere());
    let bare = program.names(&program.stripped, &nowhere());
    assert!(bare.iter().flatten().all(|frame| frame.2.is_none()), "it was stripped");
    let named = program.names(&program.stripped, &program.folder());
    // The symbol table, which would tell more of what has no DWARF, is gone: `_start` and the like.
    let differing = named.iter().zip(&dwarf).filter(|(named, dwarf)| named != dwarf).count();
    assert!(differing * 50 < named.len(), "{differing} of {}", named.len());

    let (beside, inside) = (program.shop.path("stripped.gsym"), program.shop.path("inside"));
    std::fs::copy(&program.gsym, &beside).expect("copied");
    assert!(program.names(&program.stripped, &nowhere()) == named, "beside it");
    std::fs::remove_file(beside).expect("it was there");
    program.shop.run("objcopy", "--add-section .gsym=anything stripped inside");
    assert!(program.names(&inside, &nowhere()) == named, "in it");
}

#[test]
fn what_was_made_of_another_build_is_not_taken() {
    let program = Converted::new("c++", "-O2 -g", "");
    let bare = program.names(&program.stripped, &nowhere());
    let other = Converted::new("c++", "-O1 -g", "");
    std::fs::copy(&other.gsym, program.shop.path("stripped.gsym")).expect("copied");
    assert!(program.names(&program.stripped, &other.folder()) == bare);
    std::fs::copy(&other.gsym, program.shop.path("other")).expect("copied");
    program.shop.run("objcopy", "--add-section .gsym=other stripped inside");
    assert!(program.names(&program.shop.path("inside"), &nowhere()) == bare);
}
