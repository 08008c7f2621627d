use icecore_format::block::{BlockHeader, Codec, Processes};
use icecore_format::records::{EventMeaning, Numbered, Sample, StackRepair, Task, WalkEnd};

use super::*;

fn entry(kind: Kind, sequence: u64) -> Entry {
    let header = BlockHeader {
        kind,
        version: 1,
        codec: Codec::Raw,
        items: 1,
        sequence,
        first_ns: 0,
        last_ns: 0,
        stored_len: 0,
        raw_len: 0,
        payload_crc: 0,
        processes: Processes::ANY,
    };
    Entry { off: 64 + sequence * 64, header }
}

fn session(host: &str, start_ns: u64, start_unix_ns: u64) -> (Kind, CleanBlock) {
    let event = |name: &str| EventV1 {
        name: name.into(),
        unit: "ns".into(),
        meaning: if name == "cpu-clock" { EventMeaning::CPU_TIME } else { EventMeaning::UNKNOWN },
        ..EventV1::default()
    };
    let events = vec![event("cpu-clock"), event(host)];
    let session = SessionV1 { host: host.into(), start_ns, start_unix_ns, events, ..SessionV1::default() };
    (Kind::SESSION, Block::Session(Box::new(session)))
}

fn tasks(first: u32, tgids: &[u32]) -> (Kind, CleanBlock) {
    let rows = tgids.iter().map(|tgid| Task { tgid: *tgid, tid: *tgid, comm: 1 }).collect();
    (Kind::TASKS, Block::Tasks(Numbered { table: IdTable::Tasks, first, rows }))
}

fn strings(first: u32, len: usize) -> (Kind, CleanBlock) {
    let rows = vec!["x".into(); len];
    (Kind::STRINGS, Block::Strings(Numbered { table: IdTable::Strings, first, rows }))
}

/// Divides and shifts blocks; `gaps` are sequence numbers that are missing.
fn divided(blocks: Vec<(Kind, CleanBlock)>, gaps: &[u64]) -> (Parts, Vec<u32>, Vec<CleanBlock>) {
    let sequences = (0..).filter(|sequence| !gaps.contains(sequence));
    let entries: Vec<Entry> =
        sequences.zip(&blocks).map(|(sequence, (kind, _))| entry(*kind, sequence)).collect();
    let mut blocks: Vec<CleanBlock> = blocks.into_iter().map(|(_, block)| block).collect();
    let (parts, part_of) = Parts::divide(&entries, blocks.iter().map(Some));
    for (block, part) in blocks.iter_mut().zip(&part_of) {
        parts.part(*part).shift(block).expect("room");
    }
    for (entry, part) in entries.iter().zip(&part_of) {
        assert_eq!(parts.of(entry).number(), *part);
    }
    (parts, part_of, blocks)
}

fn sample(time_ns: u64, task: u32, event: u8, user_stack: u32) -> Sample {
    let (user_end, kernel_end) = (WalkEnd::NONE, WalkEnd::NONE);
    Sample {
        time_ns,
        cpu: 0,
        event,
        user_end,
        kernel_end,
        task,
        user_stack,
        kernel_stack: 0,
        weight: 1,
        snapshot: 0,
        repair: StackRepair::NONE,
    }
}

#[test]
fn one_session_keeps_all_its_numbers() {
    let (parts, _, blocks) = divided(vec![session("a", 500, 9_000), tasks(0, &[u32::MAX])], &[]);
    let Block::Tasks(Numbered { first: 0, rows, .. }) = &blocks[1] else { panic!("tasks") };
    assert_eq!(rows[..], [Task { tgid: u32::MAX, tid: u32::MAX, comm: 1 }]);
    let sample = sample(1, 77, 200, u32::MAX);
    assert_eq!(parts.part(0).row(sample), sample);
    assert_eq!((parts.zero_ns(), parts.start_unix_ns(), parts.pid(u32::MAX)), (500, 9_000, u32::MAX));
}

#[test]
fn no_number_of_one_session_is_one_of_another() {
    let (parts, part_of, blocks) = divided(
        vec![
            session("a", 500, 9_000),
            strings(1, 3),
            tasks(0, &[100, 101]),
            session("b", 700, 9_050),
            strings(1, 2),
            tasks(0, &[100]),
            (Kind::SAMPLES, Block::Samples),
        ],
        &[],
    );
    assert_eq!(part_of, [0, 0, 0, 1, 1, 1, 1]);
    let Block::Tasks(Numbered { first, rows, .. }) = &blocks[5] else { panic!("tasks") };
    assert_eq!(
        (*first, rows[0].comm),
        (3, 6),
        "behind the two tasks and a hole; behind ids 0 to 3, and a hole"
    );
    assert_ne!(rows[0].tgid, 100);
    assert_eq!((parts.pid(rows[0].tgid), parts.of_task(3), parts.of_task(2)), (100, 1, 0));
    // A task that no block of part 0 has is none of part 1, and still one of part 0.
    let lost = parts.part(0).row(sample(1, 9, 0, 0));
    assert_eq!((lost.task, parts.of_task(lost.task)), (2, 0));
    assert_eq!(parts.hosts(), ["a", "b"]);
    // Events of one name and unit are one; those of nobody are nobody's.
    let names: Vec<&str> = parts.events().iter().map(|event| &*event.name).collect();
    assert_eq!(names, ["cpu-clock", "a", "b"]);
    assert_eq!([0, 1, 2].map(|event| parts.part(1).row(sample(1, 0, event, 0)).event), [0, 2, u8::MAX]);
}

#[test]
fn times_count_from_the_earliest_start_and_are_never_negative() {
    // b has been up for longer, and began 50 ns earlier.
    let (parts, ..) = divided(vec![session("a", 500, 9_050), session("b", 70_000, 9_000)], &[]);
    let after = |part: u32, own_ns| parts.part(part).time_ns(own_ns) as i64 - parts.zero_ns() as i64;
    assert_eq!([after(0, 500), after(1, 70_000), after(1, 70_010), after(0, 490)], [50, 0, 10, 40]);
    assert_eq!(parts.start_unix_ns(), 9_000);
    assert!(parts.part(1).time_ns(1) > 0 && parts.part(0).time_ns(u64::MAX) == u64::MAX);
}

#[test]
fn a_session_whose_first_block_is_gone_is_not_taken_for_the_one_in_front_of_it() {
    let receipt = || (Kind::RECEIPT, Block::Receipt(Box::default()));
    let (_, part_of, _) = divided(vec![session("a", 1, 1), tasks(0, &[1]), receipt(), tasks(0, &[2])], &[3]);
    assert_eq!(part_of, [0, 0, 0, 1], "behind a receipt");
    let (_, part_of, _) = divided(vec![session("a", 1, 1), tasks(0, &[1]), tasks(0, &[2])], &[2]);
    assert_eq!(part_of, [0, 0, 1], "ids begin anew where blocks are missing");
    let (_, part_of, _) = divided(vec![session("a", 1, 1), tasks(0, &[1]), tasks(5, &[2])], &[2]);
    assert_eq!(part_of, [0, 0, 0], "ids go on where blocks are missing");
}

#[test]
fn hostile_numbers_of_sessions_and_of_ids_are_bounded() {
    let many: Vec<_> = (0..MAX_PARTS + 5).map(|_| session("a", u64::MAX, u64::MAX)).collect();
    let (parts, part_of, _) = divided(many, &[]);
    assert_eq!((parts.len(), part_of.len()), (MAX_PARTS, MAX_PARTS));
    assert!(parts.holds(&entry(Kind::TASKS, 5)) && !parts.holds(&entry(Kind::TASKS, MAX_PARTS as u64)));
    let blocks = vec![
        session("a", 1, 1),
        tasks(u32::MAX - 1, &[1]),
        session("b", u64::MAX, 0),
        tasks(0, &[2]),
        session("c", 0, u64::MAX),
    ];
    let entries: Vec<Entry> =
        (0..).zip(&blocks).map(|(sequence, (kind, _))| entry(*kind, sequence)).collect();
    let mut blocks: Vec<CleanBlock> = blocks.into_iter().map(|(_, block)| block).collect();
    let (parts, _) = Parts::divide(&entries, blocks.iter().map(Some));
    let refused = parts.part(1).shift(&mut blocks[3]).expect_err("no more numbers");
    assert_eq!(refused, "id 4294967296 of all sessions together is too large");
    let strange = sample(u64::MAX, u32::MAX, 255, u32::MAX);
    assert!(parts.iter().all(|part| part.row(strange).time_ns == u64::MAX));
}
