use super::*;
use crate::settings::WaitEvents;
use crate::track::batch::Batch;
use crate::track::jit::Made;
use crate::track::spaces::Shown;
use icecore_format::records::{Location, Origin, Payload};
use icecore_jit::{Line, Piece};

fn tracker() -> Tracker {
    Tracker::new(Pace {
        flush_ns: 1_000,
        flush_bytes: 1 << 20,
        period_ns: 1_000_000,
        events: WaitEvents { off_cpu: 1, run_delay: 2 },
        fields: Vec::new(),
    })
}

fn rows<P: Payload, T>(payload: &P, rows: impl Fn(&P::View) -> T) -> T {
    let bytes = payload.to_bytes().expect("fits");
    rows(P::view(&bytes).expect("own bytes"))
}

fn head(time_ns: u64) -> Head<'static> {
    Head { time_ns, cpu: 1, tgid: 10, tid: 11, comm: b"worker", cgroup_id: 0 }
}

fn sampled(tracker: &mut Tracker, time_ns: u64) {
    sampled_with(tracker, time_ns, 0);
}

fn sampled_with(tracker: &mut Tracker, time_ns: u64, snapshot: u64) {
    let frames = [0x10_u64, 0x20].map(u64::to_ne_bytes).concat();
    let kernel = [0xffff_ffff_8100_0010_u64].map(u64::to_ne_bytes).concat();
    tracker.event(&Event::Sample(wire::Sample {
        head: head(time_ns),
        weight: 5,
        kernel_end: 1,
        user_end: 1,
        kernel: wire::Frames::from_bytes(&kernel),
        user: wire::Frames::from_bytes(&frames),
        snapshot,
        interpreted: 0,
        event: 0,
        field: &[],
    }));
}

fn file() -> Image {
    let (path, build_id, inode, size_bytes, modified_unix_ns) = Default::default();
    Image { kind: ImageKind::FILE, path, build_id, dev: 0, inode, size_bytes, modified_unix_ns }
}

fn mapped(tracker: &mut Tracker, time_ns: u64, start: u64, path: &[u8]) {
    let (len, file_off, mount_ns) = (0x1000, 0x4000, 4_026_531_841);
    let origin = Origin::EVENT;
    let row = Mapping { time_ns, tgid: 10, start, len, file_off, image: 0, origin, mount_ns };
    tracker.mapping(row, file(), path);
}

#[test]
fn a_batch_names_everything_that_its_samples_need_once() {
    let mut tracker = tracker();
    sampled(&mut tracker, 100_000);
    sampled(&mut tracker, 90_000);
    assert_eq!(tracker.settle(u64::MAX), 0);
    assert_eq!(tracker.take_kernel_addresses(), [Avma(0xffff_ffff_8100_0010)]);
    for _ in 0..2 {
        tracker.kernel_function(Avma(0xffff_ffff_8100_0000)..Avma(0xffff_ffff_8100_1000), b"do_work", b"");
    }
    let batch = tracker.take_batch();
    assert_eq!((batch.samples.items(), batch.samples.span_ns()), (2, (90_000, 100_000)));
    assert_eq!((batch.stacks.items(), batch.tasks.items()), (3, 1));
    assert_eq!(batch.strings.bytes, b"workerdo_work");
    let symbols = rows(&batch.kernel_symbols, |view| view.rows().collect::<Vec<_>>());
    assert_eq!((symbols[0].start, symbols[0].name), (0xffff_ffff_8100_0000, 2));

    sampled(&mut tracker, 200_000);
    tracker.settle(u64::MAX);
    let batch = tracker.take_batch();
    let new =
        [batch.strings.items(), batch.tasks.items(), batch.stacks.items(), batch.kernel_symbols.items()];
    assert_eq!((batch.samples.items(), new), (1, [0; 4]));
    assert_eq!(tracker.file().totals(), Totals { samples: 3 });
    let concerned = batch.samples.processes();
    assert!(concerned.may_hold(10) && !concerned.may_hold(11));
}

#[test]
fn a_batch_is_due_when_its_first_row_is_old() {
    let mut tracker = tracker();
    assert!(!tracker.is_due(u64::MAX));
    sampled(&mut tracker, 100);
    assert!(!tracker.is_due(1_099));
    assert!(tracker.is_due(1_100));
}

#[test]
fn what_is_not_settled_stays_for_the_next_batch() {
    let mut tracker = tracker();
    sampled(&mut tracker, 5_000);
    sampled(&mut tracker, 7_000);
    tracker.settle(6_000);
    assert_eq!(tracker.take_batch().samples.span_ns(), (5_000, 5_000));
    assert!(!tracker.is_due(7_999) && tracker.is_due(8_000));
    tracker.settle(u64::MAX);
    let batch = tracker.take_batch();
    assert_eq!((batch.samples.span_ns(), batch.stacks.items()), ((7_000, 7_000), 0));
}

#[test]
fn a_sample_meets_the_address_space_of_its_moment() {
    let mut tracker = tracker();
    // The sources report in this order: samples first.
    sampled(&mut tracker, 2_000);
    sampled(&mut tracker, 4_000);
    mapped(&mut tracker, 1_000, 0, b"/old");
    tracker.event(&Event::Exec { head: head(3_000) });
    mapped(&mut tracker, 3_000, 0, b"/new");
    tracker.settle(u64::MAX);
    let batch = tracker.take_batch();
    let nodes = rows(&batch.stacks, |view| view.rows().expect("own bytes"));
    let of = |image| {
        let location = |file_off| Location::Image { image, file_off };
        [location(0x4020), location(0x4010)]
    };
    let users: Vec<Location> =
        nodes.iter().map(|node| node.location).filter(|l| matches!(l, Location::Image { .. })).collect();
    assert_eq!(users, [of(0), of(1)].concat());
}

/// Returns the locations of the frames of user stacks, and the ends of their walks.
fn users(tracker: &mut Tracker) -> (Vec<Location>, Vec<WalkEnd>) {
    tracker.settle(u64::MAX);
    let batch = tracker.take_batch();
    let nodes = rows(&batch.stacks, |view| view.rows().expect("own bytes"));
    let of_user = |location: &Location| !matches!(location, Location::Address(a) if *a > 1 << 63);
    let samples = rows(&batch.samples, |view| view.rows().expect("own bytes"));
    let ends = samples.iter().map(|sample| sample.user_end).collect();
    (nodes.iter().map(|node| node.location).filter(of_user).collect(), ends)
}

#[test]
fn lost_mappings_leave_addresses_as_they_are() {
    let mut tracker = tracker();
    mapped(&mut tracker, 1_000, 0, b"/lib");
    tracker.lack_reports(3_000);
    sampled(&mut tracker, 2_000);
    assert_eq!(tracker.unsure(), [10]);
    let (locations, ends) = users(&mut tracker);
    assert_eq!(locations, [Location::Address(0x20), Location::Address(0x10)]);
    assert_eq!(ends, [WalkEnd::MAPPINGS_LOST]);
}

#[test]
fn whatever_was_lost_a_space_is_sure_that_was_proven() {
    let image = |file_off| Location::Image { image: 0, file_off };
    let known = [image(0x4020), image(0x4010)];
    let mut tracker = tracker();
    mapped(&mut tracker, 1_000, 0, b"/lib");
    tracker.lack_reports(3_000);
    sampled(&mut tracker, 2_000);
    tracker.prove(10, 3_500, true);
    sampled(&mut tracker, 4_000);
    assert_eq!(tracker.unsure(), [0; 0]);
    assert_eq!(users(&mut tracker), (known.to_vec(), vec![WalkEnd::ROOT; 2]));
    // The next loss needs another proof; one that fails holds for what comes after it.
    tracker.lack_reports(6_000);
    sampled(&mut tracker, 5_000);
    assert_eq!(tracker.unsure(), [10]);
    tracker.prove(10, 7_000, false);
    sampled(&mut tracker, 8_000);
    assert_eq!(users(&mut tracker).1, [WalkEnd::MAPPINGS_LOST, WalkEnd::ROOT]);
    // The proof of a parent holds for its child, too.
    let child = Head { tgid: 20, tid: 20, ..head(9_000) };
    tracker.event(&Event::Fork { head: child, parent_tgid: 10, shares_memory: false });
    tracker.settle(u64::MAX);
    assert!(tracker.spaces.is_sure(20, 9_500) && !tracker.spaces.is_sure(30, 9_500));
}

#[test]
fn the_latest_space_has_what_waits() {
    let mut tracker = tracker();
    let of_lib = |tracker: &Tracker, path: &[u8]| tracker.images_of(path, file());
    mapped(&mut tracker, 1_000, 0x1000, b"/old");
    tracker.settle(2_000);
    tracker.event(&Event::Exec { head: head(3_000) });
    mapped(&mut tracker, 3_500, 0x8000, b"/new");
    let (space, since_ns) = tracker.latest(10);
    let (old, new) = (of_lib(&tracker, b"/old"), of_lib(&tracker, b"/new"));
    assert_eq!((since_ns, old, &new[..]), (3_000, vec![Some(0); 2], &[Some(1); 2][..]));
    assert_eq!(space.shows(Avma(0x8000)..Avma(0x9000), &new, FileOff(0x4000)), Shown::Whole);
    assert_eq!(space.shows(Avma(0x8800)..Avma(0x9800), &new, FileOff(0x4800)), Shown::Part);
    assert_eq!(space.shows(Avma(0x8000)..Avma(0x9000), &new, FileOff(0x5000)), Shown::Other);
    assert_eq!(space.shows(Avma(0x8000)..Avma(0x9000), &[None], FileOff(0)), Shown::Other);
    assert_eq!(
        space.shows(Avma(0x1000)..Avma(0x2000), &[Some(0)], FileOff(0x4000)),
        Shown::Part,
        "the exec left nothing"
    );
    // A child that is not settled yet has what its parent has.
    let child = Head { tgid: 20, tid: 20, ..head(4_000) };
    tracker.settle(3_900);
    tracker.event(&Event::Fork { head: child, parent_tgid: 10, shares_memory: false });
    let (space, since_ns) = tracker.latest(20);
    assert_eq!(
        (space.shows(Avma(0x8000)..Avma(0x9000), &new, FileOff(0x4000)), since_ns),
        (Shown::Whole, 4_000)
    );
    assert_eq!(of_lib(&tracker, b"/unknown"), []);
}

#[test]
fn a_renamed_thread_is_a_second_task() {
    let mut tracker = tracker();
    sampled(&mut tracker, 1);
    tracker.event(&Event::Comm { head: Head { comm: b"other", ..head(2) } });
    tracker.event(&Event::Exit { head: head(3), whole_group: true, status: 0 });
    tracker.settle(u64::MAX);
    let batch = tracker.take_batch();
    let changes = rows(&batch.lifecycle, |view| view.rows().map(|row| row.change).collect::<Vec<_>>());
    assert_eq!(changes, [Change::COMM, Change::EXIT]);
    assert_eq!(batch.strings.bytes, b"workerother");
}

#[test]
fn cgroups_are_told_by_their_path_in_the_order_of_time() {
    let mut tracker = tracker();
    tracker.cgroup(9, 10, 11, None);
    tracker.cgroup(7, 10, 10, Some(b"/a"));
    assert!(tracker.is_due(7 + 1_000));
    tracker.settle(u64::MAX);
    let batch = tracker.take_batch();
    assert_eq!(batch.strings.bytes, b"/a");
    let row = |time_ns, tid, path| icecore_format::records::Cgroup { time_ns, tgid: 10, tid, path };
    assert_eq!(rows(&batch.cgroups, |view| view.rows().collect::<Vec<_>>()), [row(7, 10, 1), row(9, 11, 0)]);
}

#[test]
fn what_a_sample_tells_holds_for_the_sample_itself() {
    let mut tracker = tracker();
    sampled(&mut tracker, 5_999);
    tracker.settle(u64::MAX);
    let kept = tracker.take_batch().samples.span_ns().0;
    assert_eq!((kept_ns(5_999), kept_ns(6_000)), (kept, 6_000));
}

#[test]
fn source_files_of_made_code_are_written_once_and_in_front_of_it() {
    let mut tracker = tracker();
    let line = |off, line| Line { off, file: (*b"/a.py").into(), line, ..Line::default() };
    let piece =
        Piece { start: Avma(0x10), end: Avma(0x20), lines: vec![line(0, 7), line(4, 8)], ..Piece::default() };
    let made = [Made { tgid: 10, piece }];
    let batch = tracker.file_mut().jit(&made);
    assert_eq!(batch.strings.bytes, b"/a.py");
    let lines = rows(&batch.jit, |view| view.rows().expect("own bytes")[0].lines.clone());
    let file = batch.strings.first_id;
    assert_eq!(
        lines.iter().map(|line| (line.off, line.file, line.line)).collect::<Vec<_>>(),
        [(0, file, 7), (4, file, 8)]
    );
    let again = tracker.file_mut().jit(&made);
    assert_eq!((again.strings.items(), again.jit.items()), (0, 1));
}

#[test]
fn stacks_of_samples_that_wait_take_a_bounded_room() {
    let mut tracker = tracker();
    tracker.arriving = Arriving::with_room(1 << 20);
    // Stacks of half a MiB with different contents.
    let stack = |tracker: &mut Tracker, snapshot: u64| {
        let mut values = [0; wire::REGISTER_COUNT];
        values[wire::STACK_POINTER] = 0x7000_0000;
        let registers =
            wire::Registers { snapshot, values, stack_end: Avma(0), top: &[0; 128], is_outer: false };
        tracker.event(&Event::Registers(registers));
        let pages = (0..128).map(|page| Avma(0x7000_0000 + page * wire::PAGE_BYTES));
        pages.for_each(|address| {
            tracker.event(&Event::StackPage(wire::StackPage {
                snapshot,
                tid: 1,
                address,
                hash: snapshot,
                bytes: &[7; 4096],
            }));
        });
        let hashes = snapshot.to_ne_bytes().repeat(128);
        let (low, high) = (Avma(0x7000_0000), Avma(0x7008_0000));
        tracker.event(&Event::Stack(wire::Stack { snapshot, low, high, tid: 1, hashes: &hashes }));
        sampled_with(tracker, 100_000 + snapshot, snapshot);
    };
    (1..=5).for_each(|snapshot| stack(&mut tracker, snapshot));
    assert_eq!(tracker.settle(100_001), 0);
    assert_eq!((tracker.take_refused_stacks(), tracker.take_refused_stacks()), (3, 0));
    // One of two still waits.
    (6..=8).for_each(|snapshot| stack(&mut tracker, snapshot));
    assert_eq!(tracker.take_refused_stacks(), 2);
    assert_eq!(tracker.settle(u64::MAX), 0);
    assert_eq!(tracker.file().totals().samples, 8, "samples are never refused");
}

#[test]
fn a_file_that_follows_stands_alone_and_no_sample_is_in_both() {
    let mut tracker = tracker();
    tracker.found(1_000, 10, 1, b"server");
    tracker.found(1_000, 12, 10, b"child");
    tracker.found_sharing(1_000, 12, 10, b"child");
    tracker.cgroup(1_500, 10, 10, Some(b"/a"));
    tracker.cgroup(1_500, 10, 11, Some(b"/b"));
    mapped(&mut tracker, 2_000, 0x10_0000, b"/lib/early");
    mapped(&mut tracker, 2_000, 0x20_0000, b"/lib/late");
    for time_ns in [10_000, 30_000] {
        sampled(&mut tracker, time_ns);
    }
    // It has come, and belongs into the next file.
    mapped(&mut tracker, 25_000, 0x20_0000, b"/lib/new");
    tracker.settle(20_000);
    let old = tracker.take_batch();
    let (file, live) = tracker.turn(|tgid| u64::from(tgid) * 100);
    assert_eq!((file.totals().samples, live.len()), (1, 3));
    tracker.settle(u64::MAX);
    let new = tracker.take_batch();
    for (batch, span) in [(&old, (10_000, 10_000)), (&new, (30_000, 30_000))] {
        assert_eq!((batch.samples.items(), batch.samples.span_ns()), (1, span));
        assert_eq!((batch.tasks.items(), batch.stacks.items(), batch.strings.items() > 3), (1, 3, true));
    }
    let paths = |batch: &Batch| {
        let names: Vec<(u32, Vec<u8>)> = rows(&batch.strings, |view| {
            view.rows().expect("own bytes").into_iter().map(|(id, name)| (id, name.to_vec())).collect()
        });
        let name = |id: u32| names.iter().find(|(of, _)| *of == id).expect("it is defined").1.clone();
        let images: Vec<Vec<u8>> = rows(&batch.images, |view| {
            view.rows().expect("own bytes").iter().map(|image| name(image.path)).collect()
        });
        let mappings = rows(&batch.mappings, |view| {
            view.rows()
                .map(|row| (row.time_ns, row.start, images[row.image as usize].clone()))
                .collect::<Vec<_>>()
        });
        let cgroups = rows(&batch.cgroups, |view| {
            view.rows().map(|row| (row.time_ns, row.tid, name(row.path))).collect::<Vec<_>>()
        });
        (mappings, cgroups)
    };
    let (early, late, newest) = (b"/lib/early".to_vec(), b"/lib/late".to_vec(), b"/lib/new".to_vec());
    let (mappings, cgroups) = paths(&new);
    assert_eq!(
        mappings,
        [(20_000, 0x10_0000, early), (20_000, 0x20_0000, late), (25_000, 0x20_0000, newest)]
    );
    assert_eq!(cgroups, [(20_000, 10, b"/a".to_vec()), (20_000, 11, b"/b".to_vec())]);
    let changes = rows(&new.lifecycle, |view| {
        view.rows().map(|row| (row.change, row.tgid, row.parent_tgid)).collect::<Vec<_>>()
    });
    assert_eq!(changes, [(Change::FOUND, 10, 1), (Change::FOUND, 12, 10), (Change::SHARES, 12, 10)]);
    let mounts = rows(&new.mappings, |view| view.rows().map(|row| row.mount_ns).collect::<Vec<_>>());
    assert_eq!(mounts, [1_000, 1_000, 4_026_531_841]);
}
