//! Stubs have the names that objdump gives them.

use std::path::Path;
use std::process::Command;

use icecore_elf::demangled;
use icecore_symbolize::image::FileOff;

use crate::programs::{Workshop, file_off, nowhere, ours};

/// Address and name of every instruction in the sections of stubs; empty where objdump has a place, but no name for it.
fn objdump(program: &str, path: &Path) -> Vec<(u64, String)> {
    let sections = [".plt", ".plt.sec", ".plt.got"].iter().flat_map(|name| ["-j", name]);
    let out = Command::new(program).arg("-d").args(sections).arg(path).output().expect("installed");
    let out = String::from_utf8_lossy(&out.stdout).into_owned();
    let mut name = String::new();
    let mut places = Vec::new();
    for line in out.lines() {
        if let Some((_, label)) = line.strip_suffix(">:").and_then(|line| line.split_once(" <")) {
            // What belongs to all stubs is told as a distance from the first.
            let stub = label.strip_suffix("@plt").filter(|raw| !raw.is_empty());
            name = stub.map_or_else(String::new, |raw| format!("{}@plt", demangled(raw)));
        } else if let Some((at, _)) = line.trim_start().split_once(":\t") {
            places.push((u64::from_str_radix(at, 16).expect("an address"), name.clone()));
        }
    }
    places
}

fn agree(program: &str, path: &Path, least: usize) {
    let places = objdump(program, path);
    let bytes = std::fs::read(path).expect("readable");
    let off = |at| file_off(&bytes, at);
    let asked: Vec<(FileOff, u64)> = places.iter().map(|(at, _)| (off(*at), *at)).collect();
    let ours = ours(path, &nowhere(), &asked);
    let mut named = 0;
    for ((at, theirs), ours) in places.iter().zip(&ours) {
        let ours = ours.first().map_or("", |frame| frame.0.as_str());
        assert_eq!(ours, theirs, "{}: {at:#x}", path.display());
        named += usize::from(!theirs.is_empty());
    }
    println!("{}: {named} of {} instructions", path.display(), places.len());
    assert!(named >= least, "{}: {named}", path.display());
}

#[test]
fn stubs_have_the_names_that_objdump_gives_them() {
    let shop = Workshop::new();
    let tracked = "-O2 -fcf-protection -Wl,-z,ibtplt";
    for (i, (flags, least)) in
        [("-O2", 30), (tracked, 30), ("-O2 -Wl,-z,now", 30), ("-O2 -fno-plt", 1)].into_iter().enumerate()
    {
        let path = shop.compile("c++", flags, &format!("stubs{i}"));
        agree("objdump", &path, least);
        shop.run("strip", &format!("stubs{i}"));
        agree("objdump", &path, least);
    }
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    let libc =
        maps.lines().filter_map(|line| line.split_whitespace().nth(5)).find(|path| path.contains("/libc.so"));
    agree("objdump", Path::new(libc.expect("we are linked with it")), 30);
}

#[test]
fn stubs_of_aarch64_have_the_names_that_objdump_gives_them() {
    let shop = Workshop::new();
    let source = "void one(int); int two(void);\nvoid all(int x) { one(two() + x); one(x); }\n";
    std::fs::write(shop.path("calls.c"), source).expect("written");
    for (compiler, linker) in [("", ""), ("-mbranch-protection=standard", "-z force-bti -z pac-plt")] {
        shop.run("clang", &format!("--target=aarch64-linux-gnu {compiler} -O1 -fPIC -c calls.c -o calls.o"));
        shop.run("aarch64-linux-gnu-ld", &format!("-shared --build-id {linker} calls.o -o calls.so"));
        agree("aarch64-linux-gnu-objdump", &shop.path("calls.so"), 8);
    }
}
