use super::*;

fn change(time_ns: u64, change: Change, tgid: u32, parent_tgid: u32) -> Lifecycle {
    Lifecycle { time_ns, change, tgid, tid: tgid, parent_tgid, comm: tgid * 10 }
}

/// A mapping of 0x100 bytes.
fn mapping(time_ns: u64, tgid: u32, start: u64, image: u32, origin: Origin) -> Mapping {
    Mapping { time_ns, tgid, start, len: 0x100, file_off: 0, image, origin, mount_ns: 0 }
}

fn event(time_ns: u64, tgid: u32, start: u64, image: u32) -> Mapping {
    mapping(time_ns, tgid, start, image, Origin::EVENT)
}

fn scan(time_ns: u64, tgid: u32, start: u64, image: u32) -> Mapping {
    mapping(time_ns, tgid, start, image, Origin::SCAN)
}

fn image(spaces: &Spaces, tgid: u32, time_ns: u64, address: u64) -> Option<u32> {
    spaces.find(spaces.space(tgid, time_ns)?, Avma(address)).map(|m| m.image)
}

#[test]
fn what_a_scan_found_was_there_from_the_beginning() {
    let spaces = Spaces::replay(&[change(50, Change::FOUND, 7, 1)], &[scan(60, 7, 0x1000, 3)]);
    assert_eq!(image(&spaces, 7, 5, 0x1080), Some(3));
    assert_eq!(image(&spaces, 7, 5, 0x1100), None);
    assert_eq!(image(&spaces, 8, 5, 0x1080), None);
}

#[test]
fn what_a_scan_found_after_an_exec_belongs_to_the_new_program() {
    let changes = [change(10, Change::EXEC, 7, 0), change(50, Change::FOUND, 7, 1)];
    let spaces = Spaces::replay(&changes, &[scan(60, 7, 0x1000, 3)]);
    assert_eq!(image(&spaces, 7, 9, 0x1080), None);
    assert_eq!(image(&spaces, 7, 10, 0x1080), Some(3));
}

#[test]
fn a_stale_scan_neither_renames_nor_covers_what_the_kernel_reported() {
    // The scan looked before the exec, and was written behind it.
    let exec = Lifecycle { comm: 99, ..change(10, Change::EXEC, 7, 0) };
    let changes = [exec, change(50, Change::FOUND, 7, 1)];
    let spaces = Spaces::replay(&changes, &[event(10, 7, 0x1000, 4), scan(60, 7, 0x1000, 3)]);
    assert_eq!(image(&spaces, 7, 70, 0x1080), Some(4));
    assert_eq!(spaces.process_name(7, spaces.space(7, 70).expect("found")), 99);
}

#[test]
fn an_event_seen_before_the_scan_stays_on_top_of_it() {
    let changes = [change(50, Change::FOUND, 7, 1)];
    let spaces = Spaces::replay(&changes, &[event(40, 7, 0x1000, 9), scan(60, 7, 0x1000, 3)]);
    assert_eq!(image(&spaces, 7, 30, 0x1080), Some(3));
    assert_eq!(image(&spaces, 7, 70, 0x1080), Some(9));
}

#[test]
fn dlopen_is_not_there_before_it_happened() {
    let changes = [change(0, Change::FOUND, 7, 1)];
    let spaces = Spaces::replay(&changes, &[scan(1, 7, 0x1000, 3), event(100, 7, 0x5000, 4)]);
    assert_eq!(image(&spaces, 7, 99, 0x5000), None);
    assert_eq!(image(&spaces, 7, 100, 0x5000), Some(4));
}

#[test]
fn fork_copies_the_mappings_of_that_moment_only() {
    let changes = [change(0, Change::FOUND, 7, 1), change(100, Change::FORK, 8, 7)];
    let mappings = [scan(1, 7, 0x1000, 3), event(150, 7, 0x5000, 4), event(160, 8, 0x1000, 5)];
    let spaces = Spaces::replay(&changes, &mappings);
    assert_eq!(image(&spaces, 8, 99, 0x1000), None);
    assert_eq!(image(&spaces, 8, 100, 0x1000), Some(3));
    assert_eq!(image(&spaces, 8, 155, 0x5000), None);
    assert_eq!(image(&spaces, 8, 160, 0x1000), Some(5));
    assert_eq!(image(&spaces, 7, 170, 0x1000), Some(3));
}

#[test]
fn a_copy_of_a_copy_is_a_copy() {
    let mut changes = vec![change(0, Change::FOUND, 1, 0)];
    changes.extend((2..50).map(|tgid| change(u64::from(tgid), Change::FORK, tgid, tgid - 1)));
    let spaces = Spaces::replay(&changes, &[scan(1, 1, 0x1000, 3)]);
    assert_eq!(image(&spaces, 49, 60, 0x1000), Some(3));
}

#[test]
fn creating_a_thread_copies_nothing() {
    let thread = Lifecycle { tid: 9, ..change(50, Change::FORK, 7, 7) };
    let spaces = Spaces::replay(&[change(0, Change::FOUND, 7, 1), thread], &[scan(1, 7, 0x1000, 3)]);
    assert_eq!(spaces.lives.len(), 1);
    assert_eq!(image(&spaces, 7, 60, 0x1000), Some(3));
}

#[test]
fn exec_empties_and_comes_before_mappings_of_the_same_moment() {
    let changes = [change(0, Change::FOUND, 7, 1), change(100, Change::EXEC, 7, 0)];
    let mappings = [scan(1, 7, 0x1000, 3), event(100, 7, 0x2000, 4)];
    let spaces = Spaces::replay(&changes, &mappings);
    assert_eq!(image(&spaces, 7, 99, 0x1000), Some(3));
    assert_eq!(image(&spaces, 7, 100, 0x1000), None);
    assert_eq!(image(&spaces, 7, 100, 0x2000), Some(4));
}

#[test]
fn a_later_mapping_shadows_what_it_covers() {
    let changes = [change(0, Change::FOUND, 7, 1)];
    let spaces = Spaces::replay(&changes, &[scan(1, 7, 0x1000, 3), event(100, 7, 0x1080, 4)]);
    assert_eq!(image(&spaces, 7, 100, 0x107f), Some(3));
    assert_eq!(image(&spaces, 7, 100, 0x1080), Some(4));
    assert_eq!(image(&spaces, 7, 100, 0x117f), Some(4));
    assert_eq!(image(&spaces, 7, 99, 0x1080), Some(3));
}

#[test]
fn a_process_number_used_again_is_another_process() {
    let changes = [
        change(0, Change::FOUND, 1, 0),
        change(10, Change::FORK, 7, 1),
        change(11, Change::EXEC, 7, 0),
        change(50, Change::EXIT, 7, 0),
        change(80, Change::FORK, 7, 1),
    ];
    let spaces = Spaces::replay(&changes, &[scan(1, 1, 0x9000, 1), event(12, 7, 0x1000, 3)]);
    assert_eq!(image(&spaces, 7, 40, 0x1000), Some(3));
    assert_eq!(image(&spaces, 7, 90, 0x1000), None);
    assert_eq!(image(&spaces, 7, 90, 0x9000), Some(1));
}

#[test]
fn threads_that_outlive_the_leader_keep_their_addresses_but_a_new_mapping_begins_anew() {
    let changes = [change(0, Change::FOUND, 7, 1), change(50, Change::EXIT, 7, 0)];
    let spaces = Spaces::replay(&changes, &[scan(1, 7, 0x1000, 3), event(90, 7, 0x2000, 4)]);
    assert_eq!(image(&spaces, 7, 60, 0x1000), Some(3));
    assert_eq!(image(&spaces, 7, 90, 0x1000), None);
    assert_eq!(image(&spaces, 7, 90, 0x2000), Some(4));
}

#[test]
fn a_process_goes_on_while_one_of_its_threads_runs() {
    let thread = |time_ns, change| Lifecycle { time_ns, change, tgid: 7, tid: 8, parent_tgid: 7, comm: 0 };
    let changes = [
        change(0, Change::FORK, 7, 1),
        thread(10, Change::FORK),
        change(50, Change::EXIT, 7, 0),
        thread(100, Change::EXIT),
    ];
    let mappings = [event(1, 7, 0x1000, 3), event(90, 7, 0x2000, 4), event(110, 7, 0x3000, 5)];
    let spaces = Spaces::replay(&changes, &mappings);
    assert_eq!([image(&spaces, 7, 90, 0x1000), image(&spaces, 7, 90, 0x2000)], [Some(3), Some(4)]);
    assert_eq!([image(&spaces, 7, 110, 0x1000), image(&spaces, 7, 110, 0x3000)], [None, Some(5)]);
}

#[test]
fn a_process_that_was_never_announced_still_has_its_mappings() {
    let spaces = Spaces::replay(&[], &[event(90, 7, 0x2000, 4)]);
    assert_eq!(image(&spaces, 7, 90, 0x2000), Some(4));
    assert_eq!(image(&spaces, 7, 89, 0x2000), None);
}

#[test]
fn the_process_is_called_as_its_leader_was_last() {
    let renamed = Lifecycle { comm: 99, ..change(20, Change::COMM, 7, 0) };
    let thread = Lifecycle { tid: 8, comm: 55, ..renamed };
    let spaces = Spaces::replay(&[change(0, Change::FOUND, 7, 1), renamed, thread], &[]);
    assert_eq!(spaces.process_name(7, spaces.space(7, 5).expect("found")), 99);
}

#[test]
fn a_fork_before_the_scan_copies_what_the_scan_finds_later() {
    let changes = [change(5, Change::FOUND, 7, 1), change(10, Change::FORK, 8, 7)];
    let mappings = [event(8, 7, 0x5000, 4), scan(20, 7, 0x1000, 3), event(30, 7, 0x6000, 6)];
    let spaces = Spaces::replay(&changes, &mappings);
    assert_eq!(image(&spaces, 8, 40, 0x1000), Some(3));
    assert_eq!(image(&spaces, 8, 40, 0x5000), Some(4));
    assert_eq!(image(&spaces, 8, 40, 0x6000), None);
}

#[test]
fn the_name_that_an_exec_gives_is_not_the_old_programs() {
    let found = change(0, Change::FOUND, 7, 1);
    let exec = Lifecycle { comm: 99, ..change(20, Change::EXEC, 7, 0) };
    let renamed = Lifecycle { change: Change::COMM, ..exec };
    let spaces = Spaces::replay(&[found, renamed, exec], &[]);
    let name = |time_ns| spaces.process_name(7, spaces.space(7, time_ns).expect("found"));
    assert_eq!((name(19), name(20)), (70, 99));
}

#[test]
fn an_image_has_the_newest_address_at_which_nothing_lies_over_it() {
    let mut mappings = vec![event(1, 7, 0x1000, 3), event(2, 7, 0x3000, 3), event(3, 7, 0x3000, 5)];
    mappings.extend((0..5000).map(|n| event(10 + n, 7, 0x10_0000 + n * 0x100, 6)));
    mappings.push(event(9000, 7, 0x2000, 3));
    let spaces = Spaces::replay(&[change(0, Change::FOUND, 7, 1)], &mappings);
    let at = |time_ns| spaces.address(spaces.space(7, time_ns).expect("found"), 3, FileOff(0x40));
    assert_eq!(
        [0, 1, 2, 3, 8999, 9000].map(at),
        [None, Some(0x1040), Some(0x3040), Some(0x1040), Some(0x1040), Some(0x2040)].map(|at| at.map(Avma))
    );
    assert_eq!(spaces.address(spaces.space(7, 9000).expect("found"), 3, FileOff(0x100)), None);
}

fn code(tgid: u32, start: u64, since_ns: u64) -> JitCode {
    JitCode { tgid, start, end: start + 0x10, since_ns, name: b"f".to_vec(), ..JitCode::default() }
}

#[test]
fn code_jit_names_belongs_to_the_address_space_in_which_it_was_made() {
    let changes = [
        change(0, Change::FOUND, 7, 1),
        change(100, Change::EXEC, 7, 0),
        change(150, Change::FORK, 8, 7),
        change(0, Change::FOUND, 9, 1),
    ];
    let rows = [code(7, 0x1000, 0), code(7, 0x1000, 100), code(9, 0x1000, 50), code(5, 0x1000, 0)];
    let spaces = Spaces::replay_with_code(&changes, &[event(200, 7, 0x5000, 4)], &rows);
    let at = |tgid, time_ns| spaces.code(spaces.space(tgid, time_ns)?, Avma(0x1008));
    assert_eq!([5, 99, 100, 250].map(|ns| at(7, ns)), [Some(0), Some(0), Some(1), Some(1)]);
    assert_eq!((at(8, 160), at(9, 10), at(9, 60)), (None, Some(2), Some(2)));
    assert_eq!(image(&spaces, 7, 250, 0x5000), Some(4));
}

#[test]
fn a_space_ends_where_code_is_made_over_other_code() {
    let rows = [code(7, 0x1000, 10), code(7, 0x1000, 50), code(7, 0x2000, 60), code(7, 0x1008, 50)];
    let nameless = JitCode { name: Vec::new(), ..code(7, 0x1000, 70) };
    let rows = [&rows[..], &[nameless]].concat();
    let changes = [change(0, Change::FOUND, 7, 1)];
    let spaces = Spaces::replay_with_code(&changes, &[scan(1, 7, 0x1000, 3)], &rows);
    let at = |time_ns, address| spaces.code(spaces.space(7, time_ns)?, Avma(address));
    assert_eq!([5, 49, 50, 80].map(|ns| at(ns, 0x1004)), [Some(0), Some(0), Some(1), Some(1)]);
    assert_eq!((at(49, 0x1008), at(50, 0x1008), at(5, 0x2000)), (Some(0), Some(3), Some(2)));
    assert_eq!([spaces.stay(7, 20).1, spaces.stay(7, 60).1], [0..50, 50..u64::MAX]);
    assert_eq!(image(&spaces, 7, 60, 0x1080), Some(3));
}

#[test]
fn processes_that_share_memory_see_what_each_of_them_maps_until_one_runs_another_program() {
    let changes = [
        change(10, Change::FOUND, 7, 1),
        change(20, Change::FORK, 8, 7),
        change(20, Change::SHARES, 8, 7),
        change(30, Change::FORK, 9, 8),
        Lifecycle { comm: 99, ..change(35, Change::COMM, 8, 0) },
        change(60, Change::EXEC, 8, 0),
        change(80, Change::EXIT, 7, 0),
        change(90, Change::FOUND, 21, 20),
        change(90, Change::SHARES, 21, 20),
        change(91, Change::FOUND, 20, 1),
    ];
    let mappings = [
        scan(15, 7, 0x1000, 1),
        event(40, 8, 0x2000, 2),
        event(50, 7, 0x3000, 3),
        event(61, 8, 0x4000, 4),
        event(70, 7, 0x5000, 5),
        event(95, 20, 0x6000, 6),
        scan(92, 21, 0x7000, 7),
    ];
    let spaces = Spaces::replay(&changes, &mappings);
    let all =
        |tgid, time_ns| [0x1000, 0x2000, 0x3000, 0x4000, 0x5000].map(|at| image(&spaces, tgid, time_ns, at));
    assert_eq!(all(7, 45), [Some(1), Some(2), None, None, None], "mapped by the other");
    assert_eq!(all(8, 55), [Some(1), Some(2), Some(3), None, None]);
    assert_eq!(all(9, 55), [Some(1), None, None, None, None], "a copy of what both had");
    assert_eq!(all(8, 65), [None, None, None, Some(4), None], "a program of its own");
    assert_eq!(all(7, 75), [Some(1), Some(2), Some(3), None, Some(5)]);
    let name = |tgid| spaces.process_name(tgid, spaces.space(tgid, 55).expect("found"));
    assert_eq!((name(7), name(8), name(20)), (70, 99, 200), "names belong to processes");
    for tgid in [20, 21] {
        assert_eq!([image(&spaces, tgid, 95, 0x6000), image(&spaces, tgid, 95, 0x7000)], [Some(6), Some(7)]);
    }
}
