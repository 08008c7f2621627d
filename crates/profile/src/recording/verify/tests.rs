use std::fs::File;

use icecore_format::block::BlockHeader;
use icecore_format::records::{
    Basis, EndReason, EventV1, Image, ImageKind, ImagesV1, KernelSymbol, KernelSymbolsV1, Location, Mapping,
    MappingsV1, Node, Origin, ReceiptV1, Sample, SamplesV1, SessionV1, Snapshot, SnapshotsV1, StackCodeV1,
    StackNode, StackNodesV1, StackPiece, StackPiecesV1, StackRepair, StacksV1, StringsV1, Task, TasksV1,
    WalkEnd, Word,
};
use icecore_format::write::Writer;

use super::*;

fn session() -> SessionV1 {
    SessionV1 { events: vec![EventV1::default()], ..SessionV1::default() }
}

fn strings(first: u32, texts: &[&str]) -> StringsV1 {
    StringsV1::from_rows(first, texts)
}

fn tasks() -> TasksV1 {
    TasksV1::from_rows(0, &[Task { tgid: 7, tid: 7, comm: 1 }])
}

fn images() -> ImagesV1 {
    let kind = ImageKind::FILE;
    let (dev, inode, size_bytes, modified_unix_ns) = (0, 0, 0, 0);
    ImagesV1::from_rows(
        0,
        &[Image { kind, path: 2, build_id: vec![1], dev, inode, size_bytes, modified_unix_ns }],
    )
}

fn mappings(image: u32) -> MappingsV1 {
    let (start, len, file_off) = (0x1000, 0x1000, 0);
    MappingsV1::from_rows(&[Mapping {
        time_ns: 5,
        tgid: 7,
        start,
        len,
        file_off,
        image,
        origin: Origin::SCAN,
        mount_ns: 0,
    }])
}

fn stacks(first: u32, parents: &[u32]) -> StacksV1 {
    let node = |parent: &u32| Node { parent: *parent, location: Location::Address(u64::from(*parent) + 64) };
    StacksV1::from_rows(first, &parents.iter().map(node).collect::<Vec<_>>()).expect("parents in front")
}

fn samples_row(time_ns: u64, user_stack: u32, event: u8) -> Sample {
    Sample {
        time_ns,
        cpu: 0,
        event,
        user_end: WalkEnd::ROOT,
        kernel_end: WalkEnd::NONE,
        task: 0,
        user_stack,
        kernel_stack: 0,
        weight: 1,
        snapshot: 0,
        repair: StackRepair::NONE,
    }
}

fn samples(user_stack: u32, event: u8) -> SamplesV1 {
    let rows = [10, 20].map(|time_ns| samples_row(time_ns, user_stack, event));
    SamplesV1::from_rows(&rows, &Basis::default()).expect("ordered")
}

/// What is found in a recording that is written so, without offsets.
fn found(write: impl FnOnce(&mut Writer) -> Result<u64, icecore_format::Error>) -> Vec<String> {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("x.icecore");
    let mut writer = Writer::create(File::create_new(&path).expect("new"), [1; 16]).expect("writes");
    write(&mut writer).expect("fits");
    writer.finish().expect("writes");
    let found = verify(&Recording::open(&path).expect("opens"));
    assert!(!found.is_repairable, "a repair would not help");
    found
        .problems
        .into_iter()
        .map(|problem| format!("{}: {}", problem.block.expect("a block").0, problem.cause))
        .collect()
}

fn all(writer: &mut Writer) -> Result<u64, icecore_format::Error> {
    writer.append(&session())?;
    writer.append(&strings(1, &["a", "b"]))?;
    writer.append(&tasks())?;
    writer.append(&images())?;
    writer.append(&mappings(0))?;
    writer.append(&stacks(1, &[0, 1]))?;
    writer.append(&stacks(3, &[2, 3]))?;
    writer.append(&KernelSymbolsV1::from_rows(&[KernelSymbol { start: 1, end: 2, name: 1, module: 0 }]))?;
    writer.append(&samples(4, 0))?;
    writer.append(&ReceiptV1 { end_reason: EndReason::SIGNAL, samples: 2, ..ReceiptV1::default() })
}

/// Appends a payload under a header that is not its own.
fn mislabelled(
    writer: &mut Writer,
    change: impl FnOnce(&mut BlockHeader),
) -> Result<u64, icecore_format::Error> {
    let mut file = tempfile::tempfile().expect("room");
    let mut other = Writer::create(file.try_clone().expect("a file"), [2; 16])?;
    other.append(&samples(0, 0))?;
    other.finish()?;
    let mut bytes = Vec::new();
    std::io::Seek::rewind(&mut file)
        .and_then(|()| std::io::Read::read_to_end(&mut file, &mut bytes))
        .expect("ours");
    let other = Recording::from_bytes(&bytes).expect("opens");
    let entry = &other.entries()[0];
    let mut header = entry.header;
    change(&mut header);
    writer.append_stored(&header, other.stored(entry)?)
}

#[test]
fn a_recording_in_order_is_well_and_so_are_two_in_one() {
    assert_eq!(found(all), [""; 0]);
    assert_eq!(found(|writer| all(writer).and_then(|_| all(writer))), [""; 0]);
}

#[test]
fn what_is_referred_to_lies_in_front() {
    let wrong = found(|writer| {
        writer.append(&session())?;
        writer.append(&tasks())?;
        writer.append(&strings(2, &["b", "c"]))?;
        writer.append(&mappings(3))?;
        writer.append(&stacks(3, &[0, 2]))?;
        writer.append(&samples(9, 1))
    });
    let of = |what: &str| format!("{what} that no block in front of it has, the first is");
    assert_eq!(
        wrong,
        [
            format!("1: {} 1", of("refers to 1 strings")),
            format!("3: {} 3", of("refers to 1 images")),
            format!("4: {} 2", of("refers to 1 stacks")),
            "5: refers to event 1, and the session has 1".to_owned(),
            format!("5: {} 9", of("refers to 1 stacks")),
        ]
    );
}

/// Pieces, nodes and a snapshot; whatever they refer to is told by these ids.
fn held(
    writer: &mut Writer,
    code: u32,
    piece: u32,
    outer: u32,
    memory: u32,
) -> Result<u64, icecore_format::Error> {
    let words = vec![Word::Code(code), Word::Stack(-8)];
    writer.append(&StackPiecesV1::from_rows(1, &[StackPiece { mask: 3, words: words.clone() }])?)?;
    writer.append(&StackNodesV1::from_rows(5, &[StackNode { outer, gap: 2, piece }])?)?;
    let snapshot = Snapshot { memory, mask: 0x41, registers: words, ..Snapshot::default() };
    writer.append(&SnapshotsV1::from_rows(3, &[snapshot])?)
}

fn sampled(snapshot: u32) -> SamplesV1 {
    let row = samples_row(10, 0, 0);
    SamplesV1::from_rows(&[Sample { snapshot, ..row }], &Basis::default()).expect("ordered")
}

#[test]
fn what_registers_and_stacks_refer_to_must_stand_in_front_of_it() {
    let recording = |image, [code, piece, outer, memory, snapshot]: [u32; 5]| {
        found(|writer| {
            writer.append(&session())?;
            writer.append(&strings(1, &["a", "b"]))?;
            writer.append(&tasks())?;
            writer.append(&images())?;
            let code_of = [Location::Address(8), Location::Image { image, file_off: 8 }];
            writer.append(&StackCodeV1::from_rows(6, &code_of))?;
            held(writer, code, piece, outer, memory)?;
            writer.append(&sampled(snapshot))
        })
    };
    assert_eq!(recording(0, [7, 1, 0, 5, 3]), [""; 0]);
    assert_eq!(recording(0, [6, 1, 0, 0, 0]), [""; 0]);
    let of = |block: u32, what: &str, first: u32| {
        format!("{block}: refers to 1 {what} that no block in front of it has, the first is {first}")
    };
    assert_eq!(recording(1, [6, 1, 0, 5, 3]), [of(4, "images", 1)]);
    assert_eq!(recording(0, [8, 1, 0, 5, 3]), [of(5, "stack code", 8), of(7, "stack code", 8)]);
    assert_eq!(recording(0, [6, 2, 0, 5, 3]), [of(6, "stack pieces", 2)]);
    assert_eq!(recording(0, [6, 1, 4, 5, 3]), [of(6, "stack nodes", 4)]);
    assert_eq!(recording(0, [6, 1, 0, 6, 3]), [of(7, "stack nodes", 6)]);
    assert_eq!(recording(0, [6, 1, 0, 5, 4]), [of(8, "snapshots", 4)]);
}

#[test]
fn what_stacks_held_is_never_two_things() {
    let again = |second: Word| {
        found(|writer| {
            writer.append(&session())?;
            writer.append(&StackCodeV1::from_rows(0, &[Location::Address(8), Location::Address(9)]))?;
            for word in [Word::Code(0), second] {
                let piece = StackPiece { mask: 1, words: vec![word] };
                writer.append(&StackPiecesV1::from_rows(0, &[piece])?)?;
            }
            writer.append(&StackNodesV1::from_rows(1, &[])?)
        })
    };
    assert_eq!(again(Word::Code(0)), [""; 0]);
    assert_eq!(again(Word::Code(1)), ["3: stack pieces 0 to 0 are something else in block 2"]);
}

#[test]
fn ids_of_one_session_are_not_those_of_another() {
    let wrong = found(|writer| {
        all(writer)?;
        writer.append(&session())?;
        writer.append(&samples(4, 0))
    });
    assert_eq!(wrong.len(), 2, "{wrong:?}");
    assert!(wrong.iter().all(|wrong| wrong.starts_with("11: refers to 1 ")), "{wrong:?}");
}

#[test]
fn an_id_may_be_told_twice_but_is_never_two_things() {
    let told = |again: &[&str]| {
        found(|writer| {
            writer.append(&session())?;
            writer.append(&strings(1, &["a", "b", "c"]))?;
            writer.append(&strings(2, again))
        })
    };
    assert_eq!(told(&["b", "c", "d"]), [""; 0]);
    assert_eq!(told(&["b", "x", "d"]), ["2: strings 2 to 3 are something else in block 1"]);
}

#[test]
fn a_header_that_lies_is_told() {
    let lie = |change: fn(&mut BlockHeader)| {
        let wrong = found(|writer| {
            writer.append(&session())?;
            writer.append(&strings(1, &["a"]))?;
            writer.append(&tasks())?;
            mislabelled(writer, change)
        });
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        wrong[0].clone()
    };
    assert_eq!(lie(|header| header.items = 3), "3: holds 2 items, and its header says 3");
    assert_eq!(lie(|header| header.first_ns = 11), "3: row 0 is of 10 ns, and its header says 11 to 20 ns");
    assert_eq!(lie(|header| header.last_ns = 19), "3: row 1 is of 20 ns, and its header says 10 to 19 ns");
    assert_eq!(
        lie(|header| header.processes.0 = 1),
        "3: the processes in its header are not those in its payload"
    );
    let text = lie(|header| header.kind = Kind::SESSION);
    assert!(text.starts_with("3: session payload: "), "{text}");
    let text = lie(|header| header.raw_len += 1);
    assert!(text.contains("its header says"), "{text}");
}

#[test]
fn what_a_newer_version_wrote_is_not_wrong() {
    for change in
        [|header: &mut BlockHeader| header.kind = Kind(900), |header: &mut BlockHeader| header.version = 2]
    {
        let wrong = found(|writer| {
            writer.append(&session())?;
            mislabelled(writer, change)
        });
        assert_eq!(wrong, [""; 0]);
    }
}

#[test]
fn a_session_comes_first_and_a_receipt_last() {
    let wrong =
        found(|writer| writer.append(&strings(1, &["a"])).and_then(|_| writer.append(&strings(2, &["b"]))));
    assert_eq!(wrong, ["0: no session begins in front of it"]);
    let wrong = found(|writer| all(writer).and_then(|_| writer.append(&strings(3, &["c"]))));
    assert_eq!(wrong, ["10: no session begins in front of it"]);
}

#[test]
fn the_list_of_problems_is_bounded_and_says_how_many_more_there_are() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("x.icecore");
    let mut writer = Writer::create(File::create_new(&path).expect("new"), [1; 16]).expect("writes");
    writer.append(&session()).expect("fits");
    for _ in 0..150 {
        writer.append(&mappings(0)).expect("fits");
    }
    writer.finish().expect("writes");
    let found = verify(&Recording::open(&path).expect("opens"));
    assert_eq!((found.problems.len(), found.more), (MAX_DAMAGE, 50));
}
