use super::*;
use crate::track::spaces::{Region, Spaces};
use icecore_elf::FileOff;

/// Image 3 at 0x1000, image 4 at 0x8000, code in no file at 0xa000.
fn space(spaces: &mut Spaces) -> &Space {
    let region = |end, image| Region {
        end: Avma(end),
        image,
        file_off: FileOff(0),
        since_ns: 0,
        is_twice: false,
        ..Region::default()
    };
    spaces.map(1, Avma(0x1000), region(0x3000, Some(3)));
    spaces.map(1, Avma(0x8000), region(0x9000, Some(4)));
    spaces.map(1, Avma(0xa000), region(0xb000, None));
    spaces.of(1).expect("just mapped")
}

/// Returns the verdict on a process with these mappings, if image 3 keeps frame pointers and image 4 does not.
fn verdict(maps: &str) -> Verdict {
    let keeps = |image| match image {
        3 => Some(true),
        4 => Some(false),
        _ => None,
    };
    look(space(&mut Spaces::default()), maps.as_bytes(), 0x1000, keeps)
}

const KEEPING: &str = "1000-3000 r-xp 00000000 fe:00 131 /a\n";

#[test]
fn pages_of_code_that_keeps_frame_pointers_are_counted() {
    assert_eq!(verdict(KEEPING), Verdict::Keeps(2));
    let data = "5000-6000 rw-p 00000000 fe:00 131 /a\n";
    assert_eq!(verdict(&[KEEPING, data].concat()), Verdict::Keeps(2));
}

#[test]
fn what_the_kernel_has_mapped_breaks_no_chain_and_is_counted_if_it_is_the_process_s() {
    let vdso = "7ffd00001000-7ffd00003000 r-xp 00000000 00:00 0 [vdso]";
    let uprobes = "7ffd00005000-7ffd00006000 --xp 00000000 00:00 0 [uprobes]";
    let vsyscall = "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]";
    assert_eq!(verdict(&[KEEPING, vdso, "\n", uprobes, "\n", vsyscall].concat()), Verdict::Keeps(5));
    // A file can have any name.
    let forged = "7ffd00001000-7ffd00003000 r-xp 00000000 fe:00 9 [vdso]";
    assert_eq!(verdict(&[KEEPING, forged].concat()), Verdict::Lacks);
}

#[test]
fn code_that_does_not_keep_them_or_that_nobody_has_judged_is_not_trusted() {
    for (line, what) in [
        ("8000-9000 r-xp 00000000 fe:00 132 /b", "an image without"),
        ("a000-b000 r-xp 00000000 00:00 0 ", "JIT code"),
        ("c000-d000 r-xp 00000000 fe:00 131 /a", "a mapping that has not been told"),
        ("1000-3000 rwxp 00000000 fe:00 131 /a", "code that can be written"),
        ("1000-3000 r-xp 00001000 fe:00 131 /a", "another part of the file than was told"),
    ] {
        assert_eq!(verdict(&[KEEPING, line].concat()), Verdict::Lacks, "{what}");
        assert_eq!(verdict(line), Verdict::Lacks, "{what}");
    }
    assert_eq!(verdict(""), Verdict::Lacks, "a process that has ended");
}
