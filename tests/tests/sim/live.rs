//! `tui --follow`: recordings that grow block by block, and files of a rotation. Every number is known.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use icecore_format::read::Recording;
use icecore_format::read::growing::Growing;
use icecore_format::records::{
    Basis, Change, EndReason, Image, ImageKind, ImagesV1, JitCode, JitV1, KernelSymbol, KernelSymbolsV1,
    Language, Lifecycle, LifecycleV1, Location, Mapping, MappingsV1, Node, Origin, ReceiptV1, Sample,
    SamplesV1, SessionV1, StackRepair, StacksV1, StringsV1, Task, TasksV1, WalkEnd,
};
use icecore_format::write::Writer;
use icecore_profile::live::{Follower, Now};
use icecore_profile::recording::filter::Filter;
use icecore_symbolize::Reason;
use icecore_symbolize::image::{Finder, Search};
use icecore_tests::inside::{answer, typed};
use icecore_tests::synthetic::{KERNEL, MOUNT_NS, PERIOD_NS, START_NS, session};
use serde_json::Value;

const S: u64 = 1_000_000_000;
/// The window of the followers.
const WINDOW_NS: u64 = 10 * S;

/// The stacks of [`Growth`]: a kernel function, code of an image that is on no disk, a function of Python, an address in no mapping.
const IN_KERNEL: u32 = 1;
const IN_IMAGE: u32 = 2;
const IN_PYTHON: u32 = 4;
const NOWHERE: u32 = 5;

/// A recording that grows.
struct Growth {
    writer: Writer,
    samples: u64,
}

impl Growth {
    fn begin(path: &Path, start_ns: u64) -> Self {
        let mut writer = Writer::create(File::create(path).expect("room"), [9; 16]).expect("room");
        let session =
            SessionV1 { start_ns, start_unix_ns: session().start_unix_ns + start_ns - START_NS, ..session() };
        let append = "it is written";
        writer.append(&session).expect(append);
        writer.append(&StringsV1::from_rows(1, &["tool", "/no/such/bin/tool", "vfs_read"])).expect(append);
        writer.append(&TasksV1::from_rows(0, &[Task { tgid: 7, tid: 7, comm: 1 }])).expect(append);
        let found =
            Lifecycle { time_ns: start_ns, change: Change::FOUND, tgid: 7, tid: 7, parent_tgid: 1, comm: 1 };
        writer.append(&LifecycleV1::from_rows(&[found])).expect(append);
        let (kind, build_id, dev, inode, size_bytes, modified_unix_ns) =
            (ImageKind::FILE, vec![1; 20], 0, 0, 0, 0);
        let image = Image { kind, path: 2, build_id, dev, inode, size_bytes, modified_unix_ns };
        writer.append(&ImagesV1::from_rows(0, &[image])).expect(append);
        let node = |location| Node { parent: 0, location };
        let nodes = [
            node(Location::Address(KERNEL + 0x10)),
            node(Location::Image { image: 0, file_off: 0x1234 }),
            node(Location::Image { image: 0, file_off: 0x2000 }),
            Node { parent: 3, location: Location::Address(Location::INTERPRETED | 0x5000) },
            node(Location::Address(0x6666)),
        ];
        writer.append(&StacksV1::from_rows(1, &nodes).expect("in order")).expect(append);
        let symbol = KernelSymbol { start: KERNEL, end: KERNEL + 0x100, name: 3, module: 0 };
        writer.append(&KernelSymbolsV1::from_rows(&[symbol])).expect(append);
        let (start, end, since_ns, until_ns) = (0x5000, 0x5100, 0, 0);
        let (rules, lines, language) = (Vec::new(), Vec::new(), Language::PYTHON);
        let python = JitCode {
            tgid: 7,
            start,
            end,
            since_ns,
            until_ns,
            name: b"compute".to_vec(),
            rules,
            lines,
            language,
        };
        writer.append(&JitV1::from_rows(&[python])).expect(append);
        Self { writer, samples: 0 }
    }

    /// Writes a block of samples: times and stacks.
    fn samples(&mut self, samples: &[(u64, u32)]) {
        let sample = |(time_ns, stack): &(u64, u32)| {
            let is_kernel = *stack == IN_KERNEL;
            Sample {
                time_ns: *time_ns,
                cpu: 0,
                event: 0,
                user_end: if is_kernel { WalkEnd::NONE } else { WalkEnd::ROOT },
                kernel_end: if is_kernel { WalkEnd::UNSAID } else { WalkEnd::NONE },
                task: 0,
                user_stack: if is_kernel { 0 } else { *stack },
                kernel_stack: if is_kernel { *stack } else { 0 },
                weight: PERIOD_NS,
                snapshot: 0,
                repair: StackRepair::NONE,
            }
        };
        self.samples += samples.len() as u64;
        let rows: Vec<Sample> = samples.iter().map(sample).collect();
        let block = SamplesV1::from_rows(&rows, &Basis::default()).expect("in order");
        self.writer.append(&block).expect("it is written");
    }

    fn end(mut self, end_ns: u64, end_reason: EndReason) {
        let receipt = ReceiptV1 { end_ns, end_reason, samples: self.samples, ..ReceiptV1::default() };
        self.writer.append(&receipt).expect("it is written");
        self.writer.finish().expect("it is written");
    }
}

fn follower(path: &Path) -> Follower {
    Follower::new(Growing::open(path).expect("a recording"), Filter::default(), WINDOW_NS)
}

/// Returns the samples of a table by function.
fn by_function(now: &Now) -> Vec<(&str, u64)> {
    let mut rows: Vec<(&str, u64)> =
        now.rows.iter().map(|row| (&*row.function.name, row.amount.samples)).collect();
    rows.sort_unstable();
    rows
}

#[test]
fn each_table_has_exactly_the_samples_of_its_window() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("x.icecore");
    let mut growth = Growth::begin(&path, START_NS);
    let search = Search::nowhere();
    let finder = Finder { search: &search, embedded: None };
    let mut follower = follower(&path);
    let mut all: Vec<(u64, u32)> = Vec::new();
    for second in 0..30 {
        // In second n there are n samples of the kernel, 3 in the image, 2 of Python, and in each tenth one nowhere.
        let kernel = (0..second).map(|n| (n, IN_KERNEL));
        let user = [(40, IN_IMAGE), (41, IN_IMAGE), (42, IN_IMAGE), (43, IN_PYTHON), (44, IN_PYTHON)];
        let nowhere = (second % 10 == 0).then_some((45, NOWHERE));
        let samples = kernel
            .chain(user)
            .chain(nowhere)
            .map(|(n, stack)| (START_NS + second * S + n * 1_000_000, stack));
        let samples: Vec<(u64, u32)> = samples.collect();
        growth.samples(&samples);
        all.extend(&samples);
        assert_eq!(follower.read(&finder).expect("it is whole"), None);
        let newest = samples.last().expect("some").0;
        for is_whole in [false, true] {
            let from = if is_whole { 0 } else { newest.saturating_sub(WINDOW_NS) };
            let number = |stack| all.iter().filter(|one| one.0 > from && one.1 == stack).count() as u64;
            let wanted = [
                ("[unmapped]", number(NOWHERE)),
                ("compute", number(IN_PYTHON)),
                ("tool+0x1234", number(IN_IMAGE)),
                ("vfs_read", number(IN_KERNEL)),
            ];
            let wanted: Vec<(&str, u64)> = wanted.into_iter().filter(|(_, samples)| *samples > 0).collect();
            let now = follower.now(is_whole, 100, &finder);
            assert_eq!(by_function(&now), wanted, "second {second}");
            let samples: u64 = wanted.iter().map(|(_, samples)| samples).sum();
            assert_eq!(
                (now.whole.samples, now.whole.weight, &*now.unit),
                (samples, samples * PERIOD_NS, "ns")
            );
        }
    }
    let now = follower.now(true, 100, &finder);
    let reason =
        |name: &str| now.rows.iter().find(|row| &*row.function.name == name).map(|row| row.function.reason);
    assert_eq!(reason("vfs_read"), Some(None));
    assert_eq!(reason("compute"), Some(None));
    assert_eq!(reason("[unmapped]"), Some(Some(Reason::Unmapped)), "what is not proven is marked");
    assert_eq!(reason("tool+0x1234"), Some(Some(Reason::ImageMissing)));
    assert_eq!(now.rows[0].process, "tool".into());
    let heaviest = follower.now(true, 1, &finder);
    assert_eq!((heaviest.rows.len(), heaviest.row_count), (1, 4));
    growth.end(START_NS + 30 * S, EndReason::SIGNAL);
    let end = follower.read(&finder).expect("it is whole").expect("it has ended");
    assert_eq!((end.reason, end.end_ns), (EndReason::SIGNAL, START_NS + 30 * S));
}

#[test]
fn of_a_torn_file_every_whole_block_counts_once() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("x.icecore");
    let mut growth = Growth::begin(&path, START_NS);
    for second in 0..6 {
        growth.samples(&[(START_NS + second * S, IN_KERNEL), (START_NS + second * S + 1_000_000, IN_IMAGE)]);
    }
    growth.end(START_NS + 6 * S, EndReason::DURATION);
    let bytes = fs::read(&path).expect("just written");
    let (torn, search) = (dir.path().join("torn.icecore"), Search::nowhere());
    let finder = Finder { search: &search, embedded: None };
    fs::write(&torn, &bytes[..64]).expect("room");
    let mut follower = follower(&torn);
    let mut ended = None;
    let lengths = (64..bytes.len()).step_by(13).chain([bytes.len()]);
    for len in lengths {
        // The same file grows, as if its writer were slow.
        let mut file = File::options().append(true).open(&torn).expect("ours");
        let known = file.metadata().expect("ours").len() as usize;
        std::io::Write::write_all(&mut file, &bytes[known..len]).expect("room");
        ended = follower.read(&finder).expect("a torn block is not there yet");
        let recording = Recording::from_bytes(&bytes[..len]).expect("a header");
        let blocks = recording.entries().iter();
        let samples =
            blocks.filter(|entry| entry.header.kind.name() == "samples").map(|entry| entry.header.items);
        let samples: u32 = samples.sum();
        assert_eq!(follower.now(true, 9, &finder).whole.samples, u64::from(samples), "{len} bytes");
    }
    assert_eq!(ended.map(|end| end.reason), Some(EndReason::DURATION));
}

/// Writes three files of a rotation, with 3, 5 and 7 samples; returns their paths.
fn rotation(dir: &Path) -> Vec<PathBuf> {
    let mut start_ns = START_NS;
    let file = |(at, samples): (u64, u64)| {
        let path = dir.join(format!("r-20261130T10000{at}.000Z.icecore"));
        let mut growth = Growth::begin(&path, start_ns);
        let times: Vec<(u64, u32)> =
            (0..samples).map(|n| (start_ns + (n + 1) * 100_000_000, IN_KERNEL)).collect();
        growth.samples(&times);
        start_ns += S;
        growth.end(start_ns, if at == 2 { EndReason::DURATION } else { EndReason::ROTATED });
        path
    };
    (0..).zip([3, 5, 7]).map(file).collect()
}

/// Runs `tui --follow` with JSON; returns all lines.
fn followed(dir: &Path, line: &str) -> Vec<Value> {
    let (code, out, err) = typed(dir, line);
    assert_eq!((code, &*err), (0, ""), "{line}");
    out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn a_rotation_is_one_recording_and_no_sample_is_in_two_files() {
    let dir = tempfile::tempdir().expect("a folder");
    let files = rotation(dir.path());
    // Another recording of the same folder, which begins later.
    Growth::begin(&dir.path().join("other-20261130T100009.000Z.icecore"), START_NS + 20 * S)
        .end(START_NS + 21 * S, EndReason::SIGNAL);
    let line = "tui --follow DIR/r-20261130T100000.000Z.icecore --json --last all --interval 100ms";
    let last = followed(dir.path(), line).pop().expect("a line");
    assert_eq!(last["schema"], "icecore.live/1");
    assert_eq!(
        (&last["total_samples"], &last["rows"][0]["name"]),
        (&15.into(), &"vfs_read".into()),
        "{last}"
    );
    assert_eq!(last["ended"], "the recording has ended: duration");
    assert_eq!(
        (&last["from_s"], &last["to_s"], &last["gaps_s"]),
        (&0.0.into(), &2.7.into(), &0.0.into()),
        "{last}"
    );
    fs::remove_file(&files[1]).expect("ours");
    let last = followed(dir.path(), line).pop().expect("a line");
    assert_eq!((&last["total_samples"], &last["gaps_s"]), (&10.into(), &1.0.into()), "{last}");
    let (code, out, err) = typed(dir.path(), "tui --follow DIR/r-20261130T100002.000Z.icecore");
    assert_eq!((code, &*err), (0, ""));
    assert!(
        out.starts_with("100% is 7.0 ms in 7 samples of 700.0 ms, until 700.0 ms after the start"),
        "{out}"
    );
    assert!(out.contains("vfs_read") && out.ends_with("the recording has ended: duration\n"), "{out}");
    let none = followed(dir.path(), &line.replace(" --last", " --comm nobody --last")).pop().expect("a line");
    assert_eq!(none["total_samples"], 0, "filters hold: {none}");
}

#[test]
fn a_folder_is_followed_into_the_file_that_comes_next() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = dir.path().to_owned();
    let mut growth = Growth::begin(&folder.join("r-1.icecore"), START_NS);
    growth.samples(&[(START_NS + S, IN_KERNEL)]);
    let writer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(500));
        growth.samples(&[(START_NS + 2 * S, IN_KERNEL)]);
        growth.end(START_NS + 3 * S, EndReason::ROTATED);
        std::thread::sleep(Duration::from_millis(500));
        let mut growth = Growth::begin(&folder.join("r-2.icecore"), START_NS + 3 * S);
        growth.samples(&[(START_NS + 4 * S, IN_KERNEL)]);
        std::thread::sleep(Duration::from_millis(500));
        growth.samples(&[(START_NS + 5 * S, IN_KERNEL)]);
        growth.end(START_NS + 6 * S, EndReason::SIGNAL);
    });
    let lines = followed(dir.path(), "tui --follow DIR --quiet --json --last all --interval 100ms");
    writer.join().expect("it writes");
    let totals: Vec<u64> =
        lines.iter().map(|line| line["total_samples"].as_u64().expect("a number")).collect();
    assert!(totals.is_sorted() && totals.first() == Some(&1) && totals.last() == Some(&4), "{totals:?}");
    assert!(totals.len() > 5, "{totals:?}");
}

#[test]
fn who_follows_a_file_that_goes_away_is_told() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("x.icecore");
    let mut growth = Growth::begin(&path, START_NS);
    growth.samples(&[(START_NS + S, IN_KERNEL)]);
    let there = path.clone();
    let remover = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        fs::remove_file(there).expect("ours");
    });
    let (code, err) = answer(dir.path(), "tui --follow DIR/x.icecore --json --interval 100ms");
    remover.join().expect("it removes");
    assert_eq!(code, 2);
    assert!(
        err.contains("cannot follow `x.icecore` any longer: somebody has removed, renamed or replaced it"),
        "{err}"
    );
    for (line, why) in [
        ("tui --follow DIR/none.icecore", "No such file"),
        ("tui --follow DIR/x DIR/y", "cannot follow several recordings"),
        ("tui --follow DIR --focus x", "cannot follow with --focus"),
        ("tui --follow /dev/null", "a pipe cannot be followed"),
        ("tui DIR/x --interval 1s", "--follow"),
        ("tui --follow DIR/x --interval 1ms", "must be between 100ms and 24h"),
    ] {
        let (code, err) = answer(dir.path(), line);
        assert!(code == 2 && err.contains(why), "{line}: {err}");
    }
}

#[test]
fn rows_of_ended_processes_go_and_those_of_their_living_children_stay() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("x.icecore");
    let mut growth = Growth::begin(&path, START_NS);
    let search = Search::nowhere();
    let finder = Finder { search: &search, embedded: None };
    let mut follower = follower(&path);
    let change = |time_ns, change, tgid, parent_tgid| Lifecycle {
        time_ns,
        change,
        tgid,
        tid: tgid,
        parent_tgid,
        comm: 1,
    };
    let map = |time_ns, tgid| {
        let (start, len, file_off, image, origin, mount_ns) =
            (0x6000, 0x1000, 0x6000, 0, Origin::EVENT, MOUNT_NS);
        Mapping { time_ns, tgid, start, len, file_off, image, origin, mount_ns }
    };
    // Process 100 maps the code, 200 is forked from it, and 100 ends. Process 7 shows nothing there.
    let at = START_NS + S;
    let first = [
        change(at, Change::FOUND, 100, 1),
        change(at + 2, Change::FORK, 200, 100),
        change(at + 3, Change::EXIT, 100, 0),
    ];
    growth.writer.append(&LifecycleV1::from_rows(&first)).expect("written");
    growth.writer.append(&MappingsV1::from_rows(&[map(at + 1, 100)])).expect("written");
    growth.writer.append(&TasksV1::from_rows(1, &[Task { tgid: 200, tid: 200, comm: 1 }])).expect("written");
    for round in 0..20u32 {
        let (time_ns, of) = (at + S + u64::from(round) * 1000, 1000 + round * 1000..1500 + round * 1000);
        let of_each =
            |tgid| [change(time_ns, Change::FORK, tgid, 100_000), change(time_ns + 9, Change::EXIT, tgid, 0)];
        let mut changes: Vec<Lifecycle> = of.clone().flat_map(of_each).collect();
        changes.sort_by_key(|row| row.time_ns);
        growth.writer.append(&LifecycleV1::from_rows(&changes)).expect("written");
        let maps: Vec<Mapping> = of.map(|tgid| map(time_ns + 1, tgid)).collect();
        growth.writer.append(&MappingsV1::from_rows(&maps)).expect("written");
        follower.read(&finder).expect("it is whole");
    }
    let sample = Sample {
        time_ns: at + 5 * S,
        cpu: 0,
        event: 0,
        user_end: WalkEnd::ROOT,
        kernel_end: WalkEnd::NONE,
        task: 1,
        user_stack: NOWHERE,
        kernel_stack: 0,
        weight: PERIOD_NS,
        snapshot: 0,
        repair: StackRepair::NONE,
    };
    growth
        .writer
        .append(&SamplesV1::from_rows(&[sample], &Basis::default()).expect("in order"))
        .expect("written");
    follower.read(&finder).expect("it is whole");
    assert_eq!(by_function(&follower.now(false, 9, &finder)), [("tool+0x6666", 1)]);
    assert!(follower.rows_of_processes() < 10_000, "of 30,000: {}", follower.rows_of_processes());
}

#[test]
fn many_places_are_counted_as_few_are_also_in_the_next_file() {
    const PLACES: u64 = 10_000;
    let dir = tempfile::tempdir().expect("a folder");
    let search = Search::nowhere();
    let finder = Finder { search: &search, embedded: None };
    let write = |name: &str, start_ns| {
        let path = dir.path().join(name);
        let mut growth = Growth::begin(&path, start_ns);
        let node = |n| Node { parent: 0, location: Location::Image { image: 0, file_off: 0x1_0000 + n } };
        let nodes: Vec<Node> = (0..PLACES).map(node).collect();
        for (first, rows) in (6..).step_by(1000).zip(nodes.chunks(1000)) {
            growth.writer.append(&StacksV1::from_rows(first, rows).expect("in order")).expect("written");
        }
        for at in 0..10 {
            let hits = (0..PLACES / 10).map(|n| (start_ns + n, 6 + (at * PLACES / 10 + n) as u32));
            // The code of Python is looked up anew each time.
            let hits: Vec<(u64, u32)> = hits.chain([(start_ns + PLACES, IN_PYTHON)]).collect();
            growth.samples(&hits);
        }
        path
    };
    let first = write("1.icecore", START_NS);
    let mut follower = follower(&first);
    for round in 1..=3 {
        follower.read(&finder).expect("it is whole");
        for is_whole in [false, true] {
            let now = follower.now(is_whole, 1, &finder);
            assert_eq!((now.whole.samples, now.row_count), (round * (PLACES + 10), PLACES as usize + 1));
            let heaviest = &now.rows[0];
            assert_eq!((&*heaviest.function.name, heaviest.amount.samples), ("compute", round * 10));
        }
        let next = write(&format!("{}.icecore", round + 1), START_NS + round * S);
        follower.go_on(Growing::open(&next).expect("a recording"), &finder);
    }
}
