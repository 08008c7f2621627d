use std::collections::{BTreeMap, BTreeSet};

use super::space::OFTEN;
use super::*;
use icecore_elf::FileOff;
use icecore_format::records::Location;

fn region(end: u64, image: u32, file_off: u64) -> Region {
    Region {
        end: Avma(end),
        image: Some(image),
        file_off: FileOff(file_off),
        since_ns: 5,
        is_twice: false,
        ..Region::default()
    }
}

fn at(spaces: &Spaces, tgid: u32, address: u64) -> Option<(u32, u64)> {
    match spaces.of(tgid)?.locate(Avma(address))? {
        Location::Image { image, file_off } => Some((image, file_off)),
        Location::Address(_) => panic!("these mappings show files"),
    }
}

#[test]
fn a_later_mapping_covers_and_leaves_the_rest() {
    let mut spaces = Spaces::default();
    spaces.map(1, Avma(0x1000), region(0x5000, 7, 0));
    spaces.map(1, Avma(0x2000), region(0x3000, 8, 0x100));
    let seen = [0xfff, 0x1000, 0x1fff, 0x2000, 0x2fff, 0x3000, 0x4fff, 0x5000].map(|a| at(&spaces, 1, a));
    let expected = [
        None,
        Some((7, 0)),
        Some((7, 0xfff)),
        Some((8, 0x100)),
        Some((8, 0x10ff)),
        Some((7, 0x2000)),
        Some((7, 0x3fff)),
        None,
    ];
    assert_eq!(seen, expected);
}

#[test]
fn a_fork_copies_and_an_exec_empties() {
    let mut spaces = Spaces::default();
    spaces.map(1, Avma(0x1000), region(0x2000, 7, 0));
    spaces.fork(1, 2, 5);
    let version = |tgid| spaces.of(tgid).map(Space::version);
    assert_eq!(version(1), version(2));
    spaces.map(2, Avma(0x8000), region(0x9000, 9, 0));
    spaces.exec(1, 6);
    assert_eq!((at(&spaces, 1, 0x1000), at(&spaces, 2, 0x1000)), (None, Some((7, 0))));
    assert_eq!((at(&spaces, 1, 0x8000), at(&spaces, 2, 0x8000)), (None, Some((9, 0))));
    spaces.fork(77, 2, 5);
    assert_eq!(at(&spaces, 2, 0x8000), None);
}

#[test]
fn whoever_has_other_code_than_before_is_told() {
    let mut spaces = Spaces::default();
    spaces.map(1, Avma(0x1000), region(0x2000, 7, 0));
    spaces.fork(1, 2, 5);
    spaces.exec(3, 6);
    spaces.complete(4);
    spaces.exit(5);
    let mut changed: Vec<u32> = spaces.take_changed().into_iter().collect();
    changed.sort_unstable();
    assert_eq!(changed, [1, 2, 3, 4]);
    assert!(spaces.take_changed().is_empty());
}

#[test]
fn an_exec_that_is_told_late_keeps_the_new_program() {
    let mut spaces = Spaces::default();
    spaces.map(1, Avma(0x1000), region(0x2000, 7, 0));
    spaces.map(1, Avma(0x8000), Region { since_ns: 9, ..region(0x9000, 8, 0) });
    spaces.exec(1, 9);
    assert_eq!((at(&spaces, 1, 0x1000), at(&spaces, 1, 0x8000)), (None, Some((8, 0))));
}

#[test]
fn an_ended_process_is_kept_for_its_last_samples() {
    let mut spaces = Spaces::default();
    spaces.map(1, Avma(0x1000), region(0x2000, 7, 0));
    spaces.exit(1);
    assert!(spaces.of(1).is_some());
    spaces.fork(1, 1, 5);
    spaces.forget_ended();
    assert!(spaces.of(1).is_some(), "its number was used again");
    spaces.exit(1);
    spaces.forget_ended();
    assert!(spaces.of(1).is_none());
}

#[test]
fn an_image_that_is_mapped_twice_keeps_its_addresses() {
    let mut spaces = Spaces::default();
    spaces.map(1, Avma(0x1000), region(0x2000, 7, 0));
    spaces.map(1, Avma(0x8000), region(0x9000, 7, 0x800));
    spaces.map(1, Avma(0xa000), region(0xb000, 7, 0x2000));
    let located = [0x1000, 0x8000, 0xa000].map(|a| spaces.of(1).and_then(|space| space.locate(Avma(a))));
    let image = Location::Image { image: 7, file_off: 0x2000 };
    assert_eq!(located, [Some(Location::Address(0x1000)), Some(Location::Address(0x8000)), Some(image)]);
    let code = [0x1004, 0x8004, 0x9000].map(|a| spaces.of(1).and_then(|space| space.code(Avma(a))));
    assert_eq!(code, [Some((7, FileOff(4))), Some((7, FileOff(0x804))), None]);
}

#[test]
fn a_space_is_complete_behind_a_scan_or_an_exec() {
    let mut spaces = Spaces::default();
    spaces.map(1, Avma(0x1000), region(0x2000, 7, 0));
    let is_complete = |spaces: &Spaces, tgid| spaces.of(tgid).is_some_and(Space::is_complete);
    assert!(!is_complete(&spaces, 1));
    spaces.complete(1);
    spaces.fork(1, 2, 5);
    spaces.exec(3, 0);
    assert!([1, 2, 3].iter().all(|tgid| is_complete(&spaces, *tgid)));
}

#[test]
fn a_place_of_an_image_is_found_if_it_is_mapped_once() {
    let mut spaces = Spaces::default();
    spaces.map(1, Avma(0x1_0000), region(0x1_5000, 7, 0));
    // A part of it is there a second time.
    spaces.map(1, Avma(0x9_0000), region(0x9_1000, 7, 0x3000));
    let of = |off: u64| spaces.of(1).and_then(|space| space.address(7, FileOff(off)));
    assert_eq!(
        [0, 0x2fff, 0x3000, 0x4000].map(of),
        [Some(Avma(0x1_0000)), Some(Avma(0x1_2fff)), None, Some(Avma(0x1_4000))]
    );
}

#[test]
fn code_without_a_file_keeps_its_address() {
    let mut spaces = Spaces::default();
    spaces.map(
        1,
        Avma(0x1000),
        Region {
            end: Avma(0x2000),
            image: None,
            file_off: FileOff(0),
            since_ns: 0,
            is_twice: false,
            ..Region::default()
        },
    );
    let space = spaces.of(1).expect("just mapped");
    assert_eq!(space.locate(Avma(0x1234)), Some(Location::Address(0x1234)));
}

#[test]
fn an_image_that_is_mapped_often_is_told_by_addresses() {
    let mut spaces = Spaces::default();
    let at = |n: u64| 0x10_0000 + n * 0x2000;
    // Each maps another part of the image.
    let map = |spaces: &mut Spaces, n: u64| spaces.map(1, Avma(at(n)), region(at(n) + 0x1000, 7, n * 0x1000));
    let by_address = |spaces: &Spaces, numbers: Range<u64>| {
        let located = numbers.filter_map(|n| spaces.of(1)?.locate(Avma(at(n))));
        located.filter(|location| matches!(location, Location::Address(_))).count()
    };
    let often = OFTEN as u64;
    (0..often).for_each(|n| map(&mut spaces, n));
    assert_eq!(by_address(&spaces, 0..often), 0);
    (often..1000).for_each(|n| map(&mut spaces, n));
    assert_eq!(by_address(&spaces, 0..1000), 1000);
    assert_eq!(spaces.of(1).expect("mapped").images().collect::<Vec<_>>(), [Some(7)]);
}

#[test]
fn who_maps_too_much_is_not_sure_until_looked_at() {
    let mut spaces = Spaces::default();
    let at = |n: u64| 0x10_0000 + n * 0x2000;
    let one = |n: u64, time_ns| Region { since_ns: time_ns, ..region(at(n) + 0x1000, n as u32, 0) };
    (0..MAX_REGIONS as u64).for_each(|n| spaces.map(1, Avma(at(n)), one(n, 10)));
    spaces.fork(1, 2, 11);
    assert!(spaces.is_sure(1, 20) && spaces.is_sure(2, 20));
    let over = MAX_REGIONS as u64 + 1;
    spaces.map(1, Avma(at(over)), one(over, 30));
    assert!(!spaces.is_sure(1, 31) && spaces.is_sure(2, 31));
    // Most of it was unmapped.
    spaces.prove(1, 40, false);
    spaces.keep_only(1, &[Avma(at(3))..Avma(at(4)), Avma(at(7) + 0x800)..Avma(at(7) + 0x1800)]);
    spaces.map(1, Avma(at(over)), one(over, 40));
    assert!(!spaces.is_sure(1, 35) && spaces.is_sure(1, 41) && spaces.is_sure(1, 99));
    let space = spaces.of(1).expect("mapped");
    let images: Vec<_> = space.images().flatten().map(u64::from).collect();
    assert_eq!(images, [3, 7, over]);
    assert_eq!(spaces.of(2).map(|space| space.regions.len()), Some(MAX_REGIONS));
    assert_eq!(spaces.regions.total(), MAX_REGIONS + 3);
}

#[test]
fn what_is_refused_is_not_proven_by_a_look_that_told_it() {
    let mut spaces = Spaces::default();
    let at = |n: u64| 0x10_0000 + n * 0x2000;
    (0..MAX_REGIONS as u64).for_each(|n| spaces.map(1, Avma(at(n)), region(at(n) + 0x1000, 1, 0)));
    spaces.prove(1, 50, true);
    spaces.map(1, Avma(0x1000), Region { since_ns: 40, ..region(0x2000, 2, 0) });
    assert!(!spaces.is_sure(1, 45) && !spaces.is_sure(1, 60));
}

#[test]
fn what_is_missing_of_a_new_process_or_program_is_told_before_its_beginning() {
    let mut spaces = Spaces::default();
    spaces.map(1, Avma(0x1000), region(0x2000, 7, 0));
    // Fork and exec are replayed after the reports were refused.
    spaces.lack_of(2, 30);
    spaces.fork(1, 2, 20);
    assert!(!spaces.is_sure(2, 31));
    spaces.exec(2, 25);
    assert!(!spaces.is_sure(2, 31), "refused behind the exec");
    spaces.exec(2, 40);
    assert!(spaces.is_sure(2, 41));
    spaces.give_up(3, 30);
    spaces.fork(1, 3, 20);
    spaces.exec(3, 25);
    assert!(spaces.is_given_up(3));
    // These reports were of an older process with this id.
    spaces.lack_of(4, 10);
    spaces.fork(1, 4, 20);
    assert!(spaces.is_sure(4, 21));
}

#[test]
fn who_is_given_up_is_known_again_when_it_runs_a_program() {
    let mut spaces = Spaces::default();
    spaces.map(1, Avma(0x1000), region(0x2000, 7, 0));
    spaces.give_up(1, 8);
    spaces.map(1, Avma(0x1000), region(0x2000, 7, 0));
    spaces.prove(1, 9, true);
    spaces.fork(1, 2, 10);
    for tgid in [1, 2] {
        assert!(spaces.is_given_up(tgid) && !spaces.is_sure(tgid, 8) && spaces.of(tgid).is_none());
    }
    assert_eq!(spaces.regions.total(), 0);
    spaces.exec(2, 12);
    spaces.map(2, Avma(0x1000), Region { since_ns: 13, ..region(0x2000, 8, 0) });
    assert!(spaces.is_sure(2, 14) && !spaces.is_given_up(2));
    assert_eq!(at(&spaces, 2, 0x1000), Some((8, 0)));
}

proptest::proptest! {
    /// Against what is known of each page: the image and offset that it was mapped with last.
    #[test]
    fn every_page_shows_what_was_mapped_there_last(
        maps in proptest::collection::vec((0..40_u64, 1..12_u64, 0..4_u32, 0..30_u64, proptest::bool::ANY), 1..60)
    ) {
        let mut spaces = Spaces::default();
        let mut pages = BTreeMap::new();
        for (first, len, image, off, is_look) in maps {
            if is_look {
                spaces.keep_only(1, std::slice::from_ref(&(Avma(first)..Avma(first + len))));
                let kept = spaces.of(1).map(|space| space.regions.clone()).unwrap_or_default();
                let is_kept = |page: &u64| kept.iter().any(|(at, region)| (*at..region.end).contains(&Avma(*page)));
                proptest::prop_assert!(pages.keys().filter(|page| (first..first + len).contains(*page)).all(is_kept));
                pages.retain(|page, _| is_kept(page));
            } else {
                let region = region(first + len, image, off);
                spaces.map(1, Avma(first), region);
                pages.extend((0..len).map(|n| (first + n, (image, off + n))));
            }
            let Some(space) = spaces.of(1) else { continue };
            for page in 0..60 {
                proptest::prop_assert_eq!(space.code(Avma(page)).map(|(image, off)| (image, off.0)), pages.get(&page).copied());
                // An offset tells the address only if no other page shows it.
                if let Some(Location::Image { image, file_off }) = space.locate(Avma(page)) {
                    let same = pages.values().filter(|shown| **shown == (image, file_off)).count();
                    proptest::prop_assert_eq!(same, 1);
                }
            }
            let indexed: BTreeSet<_> = space.regions.iter().filter_map(|(at, r)| Some((r.image?, *at))).collect();
            proptest::prop_assert_eq!(&space.by_image, &indexed);
            proptest::prop_assert_eq!(spaces.regions.total(), space.regions.len());
        }
    }
}

#[test]
fn a_shared_address_space_outlives_whoever_leaves_it() {
    let mut spaces = Spaces::default();
    spaces.map(1, Avma(0x1000), region(0x2000, 7, 0));
    for child in [2, 3] {
        spaces.fork(1, child, 5);
        spaces.share(1, child);
    }
    spaces.take_changed();
    spaces.map(2, Avma(0x8000), region(0x9000, 9, 0));
    assert_eq!(spaces.take_changed(), FxHashSet::from_iter([1, 2, 3]), "all have new code");
    assert_eq!([1, 2, 3].map(|tgid| at(&spaces, tgid, 0x8000)), [Some((9, 0)); 3]);
    // What held it runs another program.
    spaces.exec(1, 6);
    spaces.map(1, Avma(0x8000), region(0x9000, 4, 0));
    spaces.map(3, Avma(0x5000), region(0x6000, 5, 0));
    assert_eq!([1, 2, 3].map(|tgid| at(&spaces, tgid, 0x5000)), [None, Some((5, 0)), Some((5, 0))]);
    assert_eq!(at(&spaces, 1, 0x8000), Some((4, 0)));
    // The heir ends, and its number is used again.
    spaces.exit(2);
    spaces.forget_ended();
    assert_eq!([2, 3].map(|tgid| at(&spaces, tgid, 0x5000)), [None, Some((5, 0))]);
    spaces.fork(3, 2, 9);
    spaces.map(2, Avma(0x5000), region(0x6000, 6, 0));
    assert_eq!([2, 3].map(|tgid| at(&spaces, tgid, 0x5000)), [Some((6, 0)), Some((5, 0))], "a copy");
    spaces.give_up(3, 10);
    assert!(spaces.is_given_up(3) && !spaces.is_given_up(2));
}
