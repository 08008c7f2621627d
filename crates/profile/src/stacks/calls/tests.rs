//! Judges assembled code, and the code of this test program itself.

use std::collections::BTreeMap;
use std::process::Command;

use icecore_elf::Avma;
use icecore_elf::calls::x86_64;
use iced_x86::{Decoder, DecoderOptions, FlowControl, OpKind};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};

use super::code::Opened;
use super::judged::JudgedCode;
use crate::stacks::unwind_tables::Opened as OpenedTables;
use icecore_symbolize::image::{ElfFile, FileSource, FoundFile, Svma};
use icecore_unwind::UnwindTables;
use icecore_unwind::{CallersFp, Edge, Shape};

/// Functions without unwind tables, except for `described`.
const CODE: &str = r#"
    .text
    .type caller, @function
caller:
    push %rbp
    mov %rsp, %rbp
    push %rbx
    call leaf
after_leaf:
    call jumps
after_jumps:
    call open
after_open:
    call *%rax
after_register:
    call other
after_other:
    call handler@PLT
after_stub:
    call thunk
after_thunk:
    call getter
after_getter:
    mov -8(%rbp), %rbx
    leave
in_return:
    ret
    .size caller, . - caller
    .type leaf, @function
leaf:
    sub $200, %rsp
    push %r12
in_leaf:
    cmp $5, %edi
    je 1f
    pop %r12
    add $200, %rsp
near_return:
    ret
1:  lea 208(%rsp), %rsp
after_lea:
    ret
    .size leaf, . - leaf
    .type jumps, @function
jumps:
    test %edi, %edi
    je far
    ret
    .size jumps, . - jumps
    .type far, @function
far:
    nop
    jmp last
    .size far, . - far
    .type last, @function
last:
    nop
in_last:
    ret
    .size last, . - last
    .type open, @function
open:
    jmp *%rdi
    .size open, . - open
    .type thunk, @function
thunk:
    call 1f
2:  pause
    lfence
    jmp 2b
1:  mov %rax, (%rsp)
    ret
    .size thunk, . - thunk
    .type getter, @function
getter:
    call reads
    ret
    .size getter, . - getter
    .type reads, @function
reads:
    mov (%rsp), %rax
    push %rbx
    pop %rbx
    ret
    .size reads, . - reads
    .type pushing, @function
pushing:
    push $1
    push $2
    call popping
after_popping:
    ret
    .size pushing, . - pushing
    .type popping, @function
popping:
    ret $16
    .size popping, . - popping
    .type other, @function
other:
    and $-32, %rsp
in_other:
    ud2
    .size other, . - other
    .type aligning, @function
aligning:
    push %rbp
    mov %rsp, %rbp
    and $-32, %rsp
    sub $64, %rsp
aligned:
    leave
    ret
    .size aligning, . - aligning
    .type put, @function
put:
    push %rbp
    pushf
in_put:
    ret
    .size put, . - put
signal_return:
    mov $15, %rax
    syscall
    .section .note.GNU-stack
"#;

struct Assembled {
    opened: Opened,
    symbols: BTreeMap<String, u64>,
}

impl Assembled {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let (source, library) = (dir.path().join("code.s"), dir.path().join("libcode.so"));
        std::fs::write(&source, CODE).expect("written");
        let status = Command::new("cc").args(["-shared", "-o"]).arg(&library).arg(&source).status();
        assert!(status.expect("an assembler").success());
        let bytes = std::fs::read(&library).expect("read");
        let elf = object::File::parse(&*bytes).expect("sound");
        let symbols = elf.symbols().filter(|symbol| symbol.is_definition() || symbol.address() > 0);
        let symbols = symbols.filter_map(|it| Some((it.name().ok()?.to_owned(), it.address()))).collect();
        let file = ElfFile::open(&library).expect("opens");
        let layout = file.layout().expect("sound");
        let files = FoundFile { file, layout, source: FileSource::Path }.alone();
        Self { opened: Opened::of(files).expect("of this machine"), symbols }
    }

    fn code(&self) -> JudgedCode<'_> {
        let tables = self.opened.tables.as_ref();
        let tables =
            tables.map(|opened: &OpenedTables| UnwindTables::new(opened.sections(self.opened.machine)));
        JudgedCode::new(&self.opened, tables)
    }

    fn at(&self, name: &str) -> Svma {
        Svma(self.symbols[name])
    }
}

#[test]
fn an_edge_is_impossible_only_if_no_way_leads_to_the_callee() {
    let assembled = Assembled::new();
    let code = assembled.code();
    let edge = |after: &str, callee: &str| {
        code.edge(assembled.at(after), Some(assembled.at(callee)), || None, false)
    };
    assert_eq!(edge("after_leaf", "in_leaf"), Edge::Calls);
    assert_eq!(edge("after_leaf", "in_last"), Edge::Impossible);
    assert_eq!(edge("after_jumps", "in_last"), Edge::Calls, "by two jumps");
    assert_eq!(edge("after_jumps", "in_leaf"), Edge::Impossible);
    assert_eq!(edge("after_open", "in_leaf"), Edge::MayCall, "it jumps to where a register says");
    assert_eq!(edge("after_register", "in_leaf"), Edge::MayCall);
    assert_eq!(edge("after_other", "in_leaf"), Edge::Impossible);
    assert_eq!(edge("after_stub", "in_leaf"), Edge::MayCall, "a stub leads anywhere");
    assert_eq!(edge("after_thunk", "in_leaf"), Edge::MayCall, "it replaces the return address by a register");
    assert_eq!(edge("after_getter", "in_leaf"), Edge::Impossible, "what it calls comes back to it");
    assert_eq!(edge("in_leaf", "in_last"), Edge::Impossible, "no call");
    // The kernel puts signal frames there, and nobody called them.
    assert_eq!(edge("in_leaf", "in_put"), Edge::Unknown);
    assert_eq!(edge("signal_return", "in_leaf"), Edge::Unknown);
    // A stack may begin at an address that no call precedes, but not after the call of another function.
    let begins = |after: &str| code.edge(assembled.at(after), Some(assembled.at("in_leaf")), || None, true);
    assert_eq!(
        [begins("last"), begins("in_leaf"), begins("after_other")],
        [Edge::Unknown, Edge::Impossible, Edge::Impossible]
    );
    // A direct call does not reach code in another file, or in none.
    assert_eq!(code.edge(assembled.at("after_leaf"), None, || None, false), Edge::Impossible);
    assert_eq!(code.edge(assembled.at("after_stub"), None, || None, false), Edge::MayCall);
    assert_eq!(code.edge(Svma(0x10_0000), None, || None, false), Edge::Unknown, "no code is there");
}

#[test]
fn the_frame_of_a_function_is_read_from_its_instructions() {
    let assembled = Assembled::new();
    let code = assembled.code();
    let shape = |at: &str| code.shape(assembled.at(at), true).map(|shape| (shape.from_sp, shape.fp));
    assert_eq!(shape("leaf"), Some((Some(0), CallersFp::Kept)));
    assert_eq!(shape("in_leaf"), Some((Some(208), CallersFp::Kept)));
    assert_eq!(shape("near_return"), Some((Some(0), CallersFp::Kept)));
    assert_eq!(shape("after_lea"), Some((Some(0), CallersFp::Kept)));
    assert_eq!(shape("after_leaf"), Some((Some(16), CallersFp::Saved(8))));
    assert_eq!(shape("in_return"), Some((Some(0), CallersFp::Kept)), "as `leave` restores it");
    assert_eq!(shape("in_other"), None, "aligned to what nobody knows");
    assert_eq!(shape("after_popping"), None, "what it has called has popped its arguments");
    assert_eq!(code.shape(assembled.at("after_leaf"), true).and_then(|shape| shape.from_fp), Some(8));
    assert_eq!(
        code.shape(assembled.at("aligned"), true),
        Some(Shape { from_sp: None, from_fp: Some(8), fp: CallersFp::Saved(8) })
    );
    let leaf = Shape { from_sp: Some(208), from_fp: None, fp: CallersFp::Kept };
    assert_eq!(
        (leaf.slot(Avma(1000), None), leaf.slot(Avma(1000), Some(7))),
        (Some(Avma(1208)), Some(Avma(1208)))
    );
    let framed = Shape { from_fp: Some(8), ..leaf };
    assert_eq!(
        (framed.slot(Avma(1000), None), framed.slot(Avma(1000), Some(5000))),
        (Some(Avma(1208)), Some(Avma(5008)))
    );
    // The call determines where its callee begins: no symbol is needed.
    let behind = |after: &str, at: &str| code.shape_behind(assembled.at(after), assembled.at(at), true);
    assert_eq!(behind("after_leaf", "in_leaf"), Some(leaf));
    assert_eq!(behind("after_other", "in_leaf"), None);
    assert_eq!(behind("after_register", "in_leaf"), None);
}

/// Every call of this program is recognized, whatever bytes precede it; hardly any other instruction is taken for a call.
#[test]
fn calls_are_what_a_decoder_says() {
    let bytes = std::fs::read(std::env::current_exe().expect("we are running")).expect("read");
    let elf = object::File::parse(&*bytes).expect("sound");
    if elf.architecture() != object::Architecture::X86_64 {
        return;
    }
    let text = elf.section_by_name(".text").expect("code");
    let (begin, code) = (text.address(), text.data().expect("it is in the file"));
    let mut decoder = Decoder::with_ip(64, code, begin, DecoderOptions::NONE);
    let (mut calls, mut others, mut mistaken) = (0, 0, 0);
    while decoder.can_decode() {
        let instruction = decoder.decode();
        let end = decoder.position();
        let before = x86_64::before(&code[end.saturating_sub(8)..end], instruction.next_ip());
        match instruction.flow_control() {
            FlowControl::Call if instruction.op0_kind() == OpKind::NearBranch64 => {
                calls += 1;
                assert_eq!(before.direct, Some(instruction.near_branch_target()), "{:#x}", instruction.ip());
            }
            FlowControl::IndirectCall => {
                calls += 1;
                assert!(before.is_indirect, "{:#x}", instruction.ip());
            }
            _ => {
                others += 1;
                mistaken += u64::from(before.direct.is_some() || before.is_indirect);
            }
        }
    }
    println!("{calls} calls; {mistaken} of {others} other instructions look like one");
    assert!(calls > 10_000 && mistaken * 100 < others);
}
