use super::*;
use crate::Svma;

/// `DW_CFA_def_cfa rbp, 16`, `DW_CFA_def_cfa_offset 16`, `DW_CFA_offset rbp, 2`, `DW_CFA_undefined rip`.
const BY_RBP: &[u8] = &[0x0c, 6, 16];
const OFFSET_16: &[u8] = &[0x0e, 16];
const SAVES_RBP: &[u8] = &[0x86, 2];
const OUTERMOST: &[u8] = &[0x07, 16];
/// `DW_CFA_def_cfa_expression`.
const EXPRESSION: u8 = 0x0f;

const X86_64: Machine = Machine::X86_64;
const AARCH64: Machine = Machine::Aarch64;

/// Judges a function by its own entry and by the entry that it shares with others.
fn told(machine: Machine, fde: &[u8], cie: &[u8]) -> Option<Function> {
    function(machine, &Entries { fde, cie, cie_at: Svma(0) }, &mut UnwindContext::new())
}

/// An entry, after its length.
fn entry(parts: &[&[u8]]) -> Vec<u8> {
    let bytes = parts.concat();
    [&(bytes.len() as u32).to_le_bytes()[..], &bytes].concat()
}

/// What a function of 64 bytes does, by its instructions.
fn keeping(machine: Machine, instructions: &[&[u8]]) -> Option<Keeping> {
    let (link, initial): (u8, &[u8]) =
        if machine == X86_64 { (16, &[0x0c, 7, 8, 0x90, 1]) } else { (30, &[0x0c, 31, 0]) };
    let shared = entry(&[&[0; 4], &[1], b"zR\0", &[1, 0x78, link, 1, 0x1b], initial]);
    // The distance to what is shared, address, length, no augmentation.
    let function = entry(&[&[9; 4], &[0, 0, 1, 0], &64_u32.to_le_bytes(), &[0], &instructions.concat()]);
    let function = told(machine, &function, &shared)?;
    assert_eq!(function.len, 64);
    Some(function.keeping)
}

#[test]
fn on_x86_64_a_frame_pointer_is_what_the_cfa_is_computed_from() {
    let expression = |bytes: &[u8]| [&[EXPRESSION, bytes.len() as u8], bytes].concat();
    let (aligned, stub) = (expression(&[BREG6, 0x78, 6]), expression(&STUB));
    for (instructions, expected) in [
        (&[OFFSET_16, SAVES_RBP, BY_RBP][..], Keeping::Keeps),
        (&[OFFSET_16, SAVES_RBP], Keeping::Lacks),
        (&[SAVES_RBP], Keeping::Frameless),
        (&[OFFSET_16, &aligned], Keeping::Keeps),
        (&[OFFSET_16, &stub], Keeping::Frameless),
        (&[&expression(&[0x70, 0])], Keeping::Lacks),
        (&[OUTERMOST, OFFSET_16], Keeping::Frameless),
        (&[OFFSET_16, OUTERMOST], Keeping::Frameless),
        (&[&[0x0c, 7, 8]], Keeping::Frameless),
    ] {
        assert_eq!(keeping(X86_64, instructions), Some(expected), "{instructions:?}");
    }
}

#[test]
fn on_aarch64_a_frame_is_a_pair_of_registers() {
    let (fp, link, far): (&[u8], &[u8], &[u8]) = (&[0x9d, 4], &[0x9e, 3], &[0x9e, 1]);
    for (instructions, expected) in [
        (&[&[0x0e, 32], fp, link][..], Keeping::Keeps),
        (&[&[0x0e, 32], fp, far], Keeping::Lacks),
        (&[&[0x0c, 29, 16]], Keeping::Keeps),
        (&[&[0x0e, 16], link], Keeping::Lacks),
        (&[], Keeping::Frameless),
    ] {
        assert_eq!(keeping(AARCH64, instructions), Some(expected), "{instructions:?}");
    }
}

#[test]
fn rules_that_make_no_sense_are_none() {
    // A reserved instruction, an address that is cut off, a reference that leads nowhere.
    assert_eq!(keeping(X86_64, &[&[0x3f]]), None);
    assert_eq!(keeping(X86_64, &[&[EXPRESSION, 0xff, 0xff, 0xff, 0xff, 0x7f]]), None);
    for bytes in [&[][..], &[1], &[0; 12], &[0xff; 40]] {
        assert!(told(X86_64, bytes, bytes).is_none(), "{bytes:?}");
    }
}

#[test]
fn code_without_rules_counts_against_an_image_and_padding_does_not() {
    let frames = Frames { keeping: 1000, ..Frames::default() };
    let mut counter = Counter { machine: X86_64, frames, context: UnwindContext::new() };
    counter.undescribed(0..PADDING_BYTES, &(0..0), 1);
    assert_eq!((counter.frames.unknown, counter.frames.share()), (0, 1.0));
    counter.undescribed(100..900, &(0..400), 2);
    assert_eq!((counter.frames.unknown, counter.frames.share()), (1000, 0.5));
    assert_eq!(Frames::default().share(), 0.0);
}

fn of(elf: &[u8], most: usize) -> Option<Frames> {
    frames(elf, &Layout::read(elf)?, most, &(0..0))
}

#[test]
fn a_part_of_the_functions_tells_the_share_of_all() {
    let elf = std::fs::read("/proc/self/exe").expect("we are running");
    let [all, some] = [usize::MAX, 256].map(|most| of(&elf, most).expect("it has unwind tables"));
    let counted = all.keeping + all.lacking + all.unknown;
    assert!(counted > 100_000 && counted < elf.len() as u64, "{all:?}");
    assert!((all.share() - some.share()).abs() < 0.1, "{all:?} {some:?}");
}

#[test]
fn what_is_no_program_of_this_machine_has_none() {
    let elf = std::fs::read("/proc/self/exe").expect("we are running");
    for cut in [0, 16, 64, 4096] {
        assert_eq!(of(&elf[..cut], 64), None);
    }
}

proptest::proptest! {
    #[test]
    fn no_rules_make_it_panic(entry: Vec<u8>, bytes: Vec<u8>) {
        let _ = told(X86_64, &entry, &bytes);
        let _ = keeping(AARCH64, &[&bytes]);
    }
}
