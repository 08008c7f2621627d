use super::*;
use crate::fixture::assembled;

fn rows_of(elf: &[u8]) -> WalkRows {
    WalkRows::of_file(elf, &Layout::read(elf).expect("ELF"), &mut || true).expect("unwind tables")
}

/// Returns the row that holds at a distance from the begin of the code.
fn row(rows: &WalkRows, at: u32) -> Row {
    let after = rows.rows.partition_point(|row| row.at <= at);
    rows.rows[after.checked_sub(1).expect("a row before it")]
}

/// Returns kind, CFA and frame pointer at each of so many bytes of the only function of a source, and after it.
fn told(directives: &str, len: u32) -> Vec<(RowKind, u32, u8)> {
    let source = format!(".globl _start; _start: .cfi_startproc; {directives}; .cfi_endproc");
    let elf = assembled(&source);
    let rows = rows_of(&elf);
    let layout = Layout::read(&elf[..]).expect("ELF");
    let (off, _) = layout.rest_of_segment(layout.entry).expect("code");
    let first = (off.0 - rows.begin) as u32;
    assert!(row(&rows, first).is_start);
    let told = |at| {
        let Row { kind, cfa, fp, .. } = row(&rows, first + at);
        (kind, cfa, fp)
    };
    (0..=len).map(told).collect()
}

const UNKNOWN: (RowKind, u32, u8) = (RowKind::Unknown, 0, FP_LOST);

#[test]
fn rows_say_what_the_directives_say() {
    let frame = "push %rbp; .cfi_def_cfa_offset 16; .cfi_offset %rbp, -16
        nop; .cfi_def_cfa_register %rbp; nop; .cfi_def_cfa %rsp, 8; nop";
    let expected =
        [(RowKind::Sp, 1, FP_SAME), (RowKind::Sp, 2, 2), (RowKind::Fp, 2, 2), (RowKind::Sp, 1, 2), UNKNOWN];
    assert_eq!(told(frame, 4), expected);
    let root = ".cfi_undefined %rip; nop";
    assert_eq!(told(root, 1), [(RowKind::Root, 0, FP_LOST), UNKNOWN]);
    // The frame pointer lies too far from the CFA, and is somewhere else.
    for lost in [".cfi_offset %rbp, -2040", ".cfi_register %rbp, %rax", ".cfi_undefined %rbp"] {
        assert_eq!(told(&format!("{lost}; nop"), 1)[0], (RowKind::Sp, 1, FP_LOST), "{lost}");
    }
    assert_eq!(told(".cfi_def_cfa_offset 4194296; nop", 1)[0], (RowKind::Sp, 524_287, FP_SAME));
    assert_eq!(told(".cfi_offset %rbp, -2032; nop", 1)[0], (RowKind::Sp, 1, 254));
    // No unwinder: it keeps the arguments of its caller.
    assert_eq!(told(".cfi_offset %rax, -24; .cfi_offset %rcx, -32; nop", 1)[0], (RowKind::Sp, 1, FP_SAME));
}

#[test]
fn expressions_that_every_program_has_are_known() {
    let stub = ".cfi_escape 0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22; nop";
    assert_eq!(told(stub, 1)[0], (RowKind::Stub, 11, FP_SAME));
    let aligned = ".cfi_escape 0x0f, 3, 0x76, 0x78, 6; .cfi_escape 0x10, 6, 2, 0x76, 0; nop";
    assert_eq!(told(aligned, 1)[0], (RowKind::Aligned, 8, FP_LOST));
    let signal = ".cfi_signal_frame
        .cfi_escape 0x0f, 4, 0x77, 0xa0, 1, 6; .cfi_escape 0x10, 6, 3, 0x77, 0xf8, 0
        .cfi_escape 0x10, 16, 3, 0x77, 0xa8, 1; nop";
    assert_eq!(told(signal, 1)[0], (RowKind::Signal, 0, FP_LOST));
}

#[test]
fn rules_that_do_not_fit_are_unknown() {
    for unknown in [
        // A CFA from another register, of no whole words, behind the stack pointer, and too large.
        ".cfi_def_cfa %rbx, 16",
        ".cfi_def_cfa_offset 12",
        ".cfi_def_cfa_offset -8",
        ".cfi_def_cfa_offset 4194304",
        // A return address elsewhere.
        ".cfi_offset %rip, -16",
        ".cfi_register %rip, %rcx",
        // An unwinder that goes to the handler of an exception.
        ".cfi_offset %rax, -24",
        // The caller's stack pointer is not the CFA.
        ".cfi_offset %rsp, -24",
        // An aligned stack whose frame pointer is elsewhere, and an expression of another form.
        ".cfi_escape 0x0f, 3, 0x76, 0x78, 6",
        ".cfi_escape 0x0f, 3, 0x77, 0x78, 6; .cfi_escape 0x10, 6, 2, 0x76, 0",
        // A signal frame of another form.
        ".cfi_signal_frame",
    ] {
        assert_eq!(told(&format!("{unknown}; nop"), 1)[0], UNKNOWN, "{unknown}");
    }
}

#[test]
fn nobody_calls_the_entry_point_of_a_loader() {
    let source = |begin: &str, end: &str| {
        format!(
            ".globl _start; _start: {begin} call 1f; mov %rax, %r12; {end}
            .cfi_startproc; 1: ret; .cfi_endproc"
        )
    };
    let at_entry = |source: String| {
        let elf = assembled(&source);
        let (rows, layout) = (rows_of(&elf), Layout::read(&elf[..]).expect("ELF"));
        let (off, _) = layout.rest_of_segment(layout.entry).expect("code");
        // Rows begin with the first function.
        let first = (off.0 - rows.begin) as u32;
        (0..17)
            .map(move |at| rows.rows.iter().rfind(|row| row.at <= first + at).map(|row| row.kind))
            .collect()
    };
    let root = Some(RowKind::Root);
    let told: Vec<_> = at_entry(source("mov %rsp, %rdi;", "jmp *%r12"));
    assert_eq!((told[0], told[7], told[13], told[14]), (root, root, root, Some(RowKind::Sp)), "{told:?}");
    let told: Vec<_> = at_entry(source("endbr64; mov %rsp, %rdi;", "jmp *%r12"));
    assert_eq!(told[16], root, "{told:?}");
    // Any other code.
    for (begin, end) in [("mov %rsp, %rsi;", "jmp *%r12"), ("mov %rsp, %rdi;", "jmp *%r13")] {
        let told: Vec<_> = at_entry(source(begin, end));
        assert!(!told.contains(&root), "{told:?}");
    }
}

#[test]
fn functions_that_overlap_and_gaps_between_them_are_cut() {
    let source = ".globl _start; _start: .cfi_startproc; nop; nop
        .cfi_endproc; nop; nop
        second: .cfi_startproc; nop; .cfi_def_cfa_offset 16; nop; .cfi_endproc";
    let rows = rows_of(&assembled(source));
    let last = &rows.rows[rows.rows.len() - 5..];
    let first = last[0].at;
    let told: Vec<_> = last.iter().map(|row| (row.at - first, row.kind, row.cfa, row.is_start)).collect();
    let expected = [
        (0, RowKind::Sp, 1, true),
        (2, RowKind::Unknown, 0, false),
        (4, RowKind::Sp, 1, true),
        (5, RowKind::Sp, 2, false),
        (6, RowKind::Unknown, 0, false),
    ];
    assert_eq!(told, expected);
}

#[test]
fn of_several_rules_for_a_place_the_last_one_holds() {
    // DW_CFA_advance_loc by no byte.
    let source = ".globl _start; _start: .cfi_startproc; .cfi_def_cfa_offset 16; .cfi_escape 0x40; .cfi_def_cfa_offset 24; nop
        .cfi_def_cfa_offset 32; .cfi_escape 0x40; .cfi_def_cfa_offset 24; nop; .cfi_def_cfa_offset 40; nop; .cfi_endproc";
    let rows = rows_of(&assembled(source)).rows;
    let first = rows.iter().rposition(|row| row.is_start).expect("a function");
    let told = rows[first..].iter().map(|row| (row.at - rows[first].at, row.kind, row.cfa, row.is_start));
    let expected = [(0, RowKind::Sp, 3, true), (2, RowKind::Sp, 5, false), (3, RowKind::Unknown, 0, false)];
    assert_eq!(told.collect::<Vec<_>>(), expected);
}

#[test]
fn rows_of_a_real_program_ascend_and_nearly_all_are_known() {
    let elf = std::fs::read("/proc/self/exe").expect("we are running");
    let rows = rows_of(&elf).rows;
    assert!(rows.is_sorted_by(|a, b| a.at < b.at) && rows.len() > 10_000);
    let unknown = rows
        .iter()
        .zip(&rows[1..])
        .filter(|(row, next)| row.kind == RowKind::Unknown && next.at - row.at >= 16);
    assert!(unknown.count() * 1000 < rows.len());
    assert_eq!(WalkRows::of_file(&b"no ELF"[..], &Layout::read(&elf[..]).expect("ELF"), &mut || true), None);
}

#[test]
fn the_bits_of_a_row_are_those_of_the_walk() {
    let row = Row { at: 0x1234_5678, cfa: 0x7_9abc, fp: 0xde, kind: RowKind::Mark, is_start: true };
    assert_eq!(row.bits(), 0xc6f7_9abc_1234_5678);
}

#[test]
fn of_two_descriptions_of_a_function_the_listed_one_counts() {
    let function = |directive: &str| format!(".cfi_startproc; {directive}; nop; .cfi_endproc;");
    let [one, two] = [".cfi_def_cfa_offset 16", ".cfi_def_cfa_offset 32"].map(function);
    let mut elf = assembled(&format!(".globl _start; _start: {one} {two}"));
    let layout = Layout::read(&elf[..]).expect("ELF");
    let [(first, _), (second, fde_at)] = [0, 1].map(|number| {
        EhFrameHdr::of_file(&elf[..], &layout).and_then(|table| table.row(number)).expect("two functions")
    });
    let begin = |rows: &WalkRows| (layout.rest_of_segment(first).expect("code").0.0 - rows.begin) as u32;
    let cfa = |elf: &[u8]| {
        let rows = rows_of(elf);
        [0, 1].map(|at| row(&rows, begin(&rows) + at)).map(|row| (row.kind, row.cfa))
    };
    assert_eq!(cfa(&elf), [(RowKind::Sp, 2), (RowKind::Sp, 4)]);
    // Now the second description is another one of the first function, which is not listed.
    let at = layout.rest_of_segment(fde_at).expect("unwind tables").0.0 as usize + 8;
    let distance = i32::from_le_bytes(*elf[at..].first_chunk().expect("a description"));
    let moved = distance - (second.0 - first.0) as i32;
    elf[at..at + 4].copy_from_slice(&moved.to_le_bytes());
    assert_eq!(cfa(&elf), [(RowKind::Sp, 2), (RowKind::Unknown, 0)]);
}

#[test]
fn descriptions_behind_a_terminator_are_read_with_section_headers_and_without() {
    let source = ".globl _start; _start: .cfi_startproc; .cfi_def_cfa_offset 16; nop; .cfi_endproc
        .cfi_startproc; .cfi_def_cfa_offset 32; nop; .cfi_endproc";
    let elf = assembled(source);
    let whole = rows_of(&elf);
    assert_eq!(whole.rows.iter().filter(|row| row.kind == RowKind::Sp).count(), 2);
    let mut headless = elf.clone();
    // e_shoff, e_shnum, e_shstrndx
    headless[40..48].fill(0);
    headless[60..64].fill(0);
    assert_eq!(rows_of(&headless), whole);
    // The first description becomes a terminator and padding.
    let layout = Layout::read(&elf[..]).expect("ELF");
    let (_, fde_at) =
        EhFrameHdr::of_file(&elf[..], &layout).and_then(|table| table.row(0)).expect("a function");
    let at = layout.rest_of_segment(fde_at).expect("unwind tables").0.0 as usize;
    let len = u32::from_le_bytes(*elf[at..].first_chunk().expect("a description")) as usize;
    for mut elf in [elf, headless] {
        elf[at..at + 4 + len].fill(0);
        let rows = rows_of(&elf);
        let told: Vec<u32> =
            rows.rows.iter().filter(|row| row.kind == RowKind::Sp).map(|row| row.cfa).collect();
        assert_eq!(told, [4]);
    }
}
