//! Checks that unwind tables show whether code keeps frame pointers.

use std::path::Path;
use std::process::Command;

use icecore_elf::frame_pointers::{Frames, frames};
use icecore_elf::{Avma, Layout};
use icecore_unwind::{Limits, Machine, Modules, Unwinder};

use crate::images::Images;
use crate::programs;
use crate::stopped::Memory;

/// Counts all functions of a file; `None` if it is of another machine.
fn of_bytes(file: &[u8]) -> Option<Frames> {
    frames(file, &Layout::read(file)?, usize::MAX, &(0..0))
}

fn of(path: &Path) -> Frames {
    of_bytes(&std::fs::read(path).expect("readable")).expect("unwind tables")
}

#[test]
fn what_a_compiler_was_told_about_frame_pointers_is_seen() {
    let dir = tempfile::tempdir().expect("a folder");
    for compiler in ["gcc", "clang"] {
        for (option, kept) in [("-fno-omit-frame-pointer", true), ("-fomit-frame-pointer", false)] {
            let path = programs::one(dir.path(), compiler, option);
            let share = of(&path).share();
            println!("{compiler} {option}: {share:.2}");
            // Start-up code is as the C library was made; functions with alloca keep frame pointers in any case.
            assert!(if kept { share > 0.9 } else { share < 0.35 }, "{compiler} {option}: {share}");
            let mut other = std::fs::read(&path).expect("readable");
            other[18] = 40; // e_machine: ARM
            assert_eq!(of_bytes(&other), None);
        }
    }
}

#[test]
fn libraries_of_this_machine_are_counted() {
    let output = Command::new("cc").arg("-print-file-name=libc.so.6").output().expect("a compiler");
    let path = String::from_utf8(output.stdout).expect("a path");
    let census = of(Path::new(path.trim()));
    println!("{}: {census:?}, {:?}", path.trim(), census.share());
    assert!(census.keeping + census.frameless + census.lacking > 500_000);
}

#[test]
fn a_return_address_in_a_function_without_frame_pointer_is_known() {
    let own =
        Images::of_process(nix::unistd::getpid(), &Memory::of(nix::unistd::getpid()).expect("our own").file);
    let mut unwinder = Unwinder::new(Limits::new(Machine::X86_64));
    // This very function, compiled with frame pointers (.cargo/config.toml).
    let here = a_return_address_in_a_function_without_frame_pointer_is_known as fn() as usize as u64;
    let mut at = |address| unwinder.keeps_frame_pointer(&own.find(Avma(address)).expect("code"));
    assert_eq!(at(here + 40), Some(true));
    assert_eq!(at(here), Some(false), "in the first instruction there is none yet");
}
