use std::os::unix::fs::FileExt as _;

use icecore_elf::Avma;
use icecore_format::limits::MAX_FRAMES;
use icecore_format::read::Recording;
use icecore_format::records::{Location, Sample, TargetKind, WalkEnd, Word};

use super::perf_data::fixture::{File as PerfFile, sample};
use icecore_profile::watch::Unwatched;

use super::*;
use icecore_profile::recording::load::{Tables, load, samples};
use icecore_profile::recording::spaces::Spaces;
use icecore_profile::recording::verify::verify;

/// The address of the code of `/bin/prog`, from 0x2000 on in the file.
const CODE: u64 = 0x40_0000;
const SP: u64 = 0x7fff_ffff_0008;
const CONTEXT_KERNEL: u64 = -128_i64 as u64;
const CONTEXT_USER: u64 = -512_i64 as u64;

/// Imports a file; returns the recording, and what was imported.
fn imported(file: &PerfFile) -> (Tables, Vec<Sample>, Imported) {
    let (from, to) = (tempfile::tempfile().expect("room"), tempfile::tempfile().expect("room"));
    from.write_all_at(&file.bytes(), 0).expect("room");
    let mut writer = Writer::create(to.try_clone().expect("ours"), [1; 16]).expect("room");
    let said = import(
        Input { file: from, parts: Vec::new(), kallsyms: None },
        &mut writer,
        &Door::default(),
        &Unwatched,
    )
    .expect("sound");
    writer.finish().expect("room");
    let recording = Recording::from_file(&to).expect("whole");
    assert!(verify(&recording).is_ok());
    let tables = load(&recording);
    let rows =
        tables.sample_blocks.iter().flat_map(|entry| samples(&recording, &tables, entry).expect("whole"));
    let rows = rows.collect();
    (tables, rows, said)
}

/// Registers as the kernel orders them: rbp, the stack pointer and the program counter have these values.
fn registers(bp: u64, pc: u64) -> [u64; 20] {
    let mut registers = [0; 20];
    (registers[6], registers[7], registers[8]) = (bp, SP, pc);
    registers
}

fn begun() -> PerfFile {
    let mut file = PerfFile::default();
    file.event(3, 1 << 13, &[7, 7], b"prog\0", 100).mapping(CODE, b"/bin/prog", 110);
    file
}

fn in_file(file_off: u64) -> Location {
    Location::Image { image: 0, file_off }
}

/// Frames of a stack, leaf first.
fn frames(tables: &Tables, mut stack: u32) -> Vec<Location> {
    let mut frames = Vec::new();
    while let Some(node) = tables.nodes.find(stack) {
        frames.push(node.location);
        stack = node.parent;
    }
    frames
}

#[test]
fn a_copied_stack_is_reduced_to_its_addresses() {
    let mut file = begun();
    let stack = [0x1111, CODE + 0x300, SP + 0x40, 0x7000_0000_0000, CODE + 0x1000];
    file.record(9, 2, &sample(200, CODE + 0x10, &[], &registers(SP + 0x20, CODE + 0x10), &stack));
    let (tables, rows, said) = imported(&file);
    assert_eq!((said.samples, said.snapshots, said.lost), (1, 1, 0));
    let row = rows[0];
    assert_eq!((row.time_ns, row.cpu, row.weight), (200, 1, 2_000_000));
    assert_eq!((frames(&tables, row.user_stack), row.user_end), (vec![in_file(0x2010)], WalkEnd::UNSAID));
    let snapshot = tables.held.snapshots.find(row.snapshot).expect("it has one");
    assert_eq!((snapshot.anchor - u64::from(snapshot.depth), snapshot.copied), (SP, 40));
    assert_eq!((snapshot.mask, &snapshot.registers[..]), (1 << 6, &[Word::Stack(0x20)][..]));
    // The copy has the full length, so the stack may continue after it.
    assert!(snapshot.depth > 4 << 20);
    let node = tables.held.nodes.find(snapshot.memory).expect("it holds addresses");
    let piece = tables.held.pieces.find(node.piece).expect("there");
    // Words 1, 2 and 4: a return address, an address of the stack, and one after the last instruction of the code.
    let code = |word: &Word| match word {
        Word::Code(id) => tables.held.code.find(*id).copied(),
        Word::Stack(_) => None,
    };
    assert_eq!(piece.mask >> piece.mask.trailing_zeros(), 0b1011);
    assert_eq!(code(&piece.words[0]), Some(in_file(0x2300)));
    assert_eq!(piece.words[1], Word::Stack(0x40 - 16));
    assert_eq!(code(&piece.words[2]), Some(in_file(0x3000)));
}

#[test]
fn a_call_chain_is_divided_where_the_kernel_ends() {
    let mut file = begun();
    let chain =
        [CONTEXT_KERNEL, u64::MAX << 20, CONTEXT_USER, CODE + 0x10, CODE + 0x400, 0x6666, CODE + 0x500];
    file.record(9, 1, &sample(200, u64::MAX << 20, &chain, &registers(0, CODE + 0x10), &[]));
    let (tables, rows, said) = imported(&file);
    assert_eq!((said.samples, said.snapshots), (1, 0));
    assert_eq!(frames(&tables, rows[0].kernel_stack), [Location::Address(u64::MAX << 20)]);
    assert_eq!(rows[0].kernel_end, WalkEnd::UNSAID);
    // No mapping holds 0x6666, but perf shows it.
    let user = (frames(&tables, rows[0].user_stack), rows[0].user_end);
    let expected = [in_file(0x2010), in_file(0x2400), Location::Address(0x6666), in_file(0x2500)];
    assert_eq!(user, (expected.to_vec(), WalkEnd::UNSAID));
}

#[test]
fn user_sides_that_came_later_are_those_of_their_samples() {
    const DEFERRED: u64 = -640_i64 as u64;
    let mut file = begun();
    let kernel = u64::MAX << 20;
    let mut of = |time_ns, cookie: u64| {
        let chain = [CONTEXT_KERNEL, kernel, DEFERRED, cookie];
        file.record(9, 1, &sample(time_ns, kernel, &chain, &registers(0, CODE + 0x10), &[]));
    };
    // Two samples of one entry into the kernel, and one whose record was lost.
    of(200, 77);
    of(201, 77);
    of(203, 78);
    let later = [77, 3, CONTEXT_USER, CODE + 0x10, CODE + 0x400];
    let later: Vec<u8> = later.iter().flat_map(|word| word.to_le_bytes()).collect();
    file.event(22, 0, &[], &later, 202);
    let (tables, rows, said) = imported(&file);
    let taken = |row: &Sample| (frames(&tables, row.user_stack), row.user_end);
    let whole = (vec![in_file(0x2010), in_file(0x2400)], WalkEnd::UNSAID);
    assert_eq!(
        rows.iter().map(taken).collect::<Vec<_>>(),
        [whole.clone(), whole, (vec![in_file(0x2010)], WalkEnd::UNREADABLE)]
    );
    assert!(rows.iter().all(|row| frames(&tables, row.kernel_stack) == [Location::Address(kernel)]));
    let not_imported = said.not_imported.iter().map(|row| (row.what, row.count));
    assert_eq!(not_imported.collect::<Vec<_>>(), [("user_stack_of_sample", 1)]);
}

#[test]
fn a_call_chain_that_is_longer_than_stacks_of_recordings_is_marked() {
    let mut file = begun();
    let longest = MAX_FRAMES as usize;
    for frames in [longest, longest + 1] {
        let chain = [&[CONTEXT_USER][..], &vec![CODE + 0x10; frames]].concat();
        file.record(9, 2, &sample(200, CODE + 0x10, &chain, &registers(0, CODE + 0x10), &[]));
    }
    let (tables, rows, _) = imported(&file);
    let taken = |row: &Sample| (frames(&tables, row.user_stack).len(), row.user_end);
    assert_eq!(
        rows.iter().map(taken).collect::<Vec<_>>(),
        [(longest, WalkEnd::UNSAID), (longest, WalkEnd::DEPTH)]
    );
}

#[test]
fn lost_records_are_losses_of_samples() {
    let mut file = begun();
    file.record(9, 2, &sample(200, CODE, &[], &registers(0, CODE), &[]));
    file.event(2, 0, &[1, 0, 3, 0], b"", 250);
    let (tables, _, said) = imported(&file);
    assert_eq!((said.lost, tables.losses.len(), tables.losses[0].count), (3, 1, 3));
    assert!(tables.losses[0].cause.is_sample());
}

#[test]
fn names_of_threads_and_mappings_are_those_of_the_moment() {
    let mut file = begun();
    let leaf = |time_ns, file: &mut PerfFile| {
        file.record(9, 2, &sample(time_ns, CODE + 0x10, &[], &registers(0, CODE + 0x10), &[]));
    };
    leaf(200, &mut file);
    file.event(3, 0, &[7, 7], b"renamed\0", 250);
    leaf(300, &mut file);
    file.event(3, 1 << 13, &[7, 7], b"other\0", 350).mapping(CODE, b"/bin/other", 360);
    leaf(400, &mut file);
    let (tables, rows, _) = imported(&file);
    let name = |row: &icecore_format::records::Sample| tables.text(tables.task(row.task).comm).to_owned();
    assert_eq!(rows.iter().map(name).collect::<Vec<_>>(), ["prog", "renamed", "other"]);
    let image = |row: &icecore_format::records::Sample| frames(&tables, row.user_stack)[0];
    assert_eq!(image(&rows[1]), in_file(0x2010));
    assert_eq!(image(&rows[2]), Location::Image { image: 1, file_off: 0x2010 });
    let spaces = Spaces::replay(&tables.lifecycle, &tables.mappings);
    let space = |time_ns| spaces.space(7, time_ns).and_then(|space| spaces.find(space, Avma(CODE)));
    assert_eq!((space(300).map(|m| m.image), space(400).map(|m| m.image)), (Some(0), Some(1)));
}

#[test]
fn the_session_says_what_perf_told() {
    let mut file = begun();
    file.feature(3, &PerfFile::text("web1"))
        .feature(4, &PerfFile::text("6.1.0"))
        .feature(5, &PerfFile::text("6.2"));
    file.record(9, 2, &sample(200, CODE, &[], &registers(0, CODE), &[])).event(19, 0, &[1, 0], b"/x\0", 220);
    let (tables, _, said) = imported(&file);
    let session = &tables.session;
    assert_eq!(
        (&session.host[..], &session.kernel_release[..], &session.recorder[..]),
        ("web1", "6.1.0", "perf 6.2")
    );
    assert_eq!((session.target, session.start_ns, &session.cpus[..]), (TargetKind::COMMAND, 100, &[1][..]));
    assert_eq!((session.events[0].frequency_hz, &session.events[0].unit[..]), (500, "ns"));
    assert_eq!((said.not_imported[0].what, said.not_imported[0].count), ("cgroup", 1));
}
