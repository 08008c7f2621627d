use icecore_format::records::{
    Change, Image, ImageKind, Lifecycle, Location, Mapping, Node, Origin, StackRepair, WalkEnd,
};

use super::*;
use crate::recording::load::by_id::ById;
use crate::stacks::hits::{Hit, Key};

/// Returns the tables of [`tables_of`] with nodes that are addresses.
fn tables(nodes: &[(u32, u64)]) -> Tables {
    let node =
        |(parent, address): &(u32, u64)| Node { parent: *parent, location: Location::Address(*address) };
    tables_of(nodes.iter().map(node).collect())
}

/// Process 7 maps image 0 at 0x1000; the trie holds `nodes` from id 1 on.
fn tables_of(nodes: Vec<Node>) -> Tables {
    let image = |dev| Image {
        kind: ImageKind::FILE,
        path: 0,
        build_id: vec![],
        dev,
        inode: 0,
        size_bytes: 0,
        modified_unix_ns: 0,
    };
    let (tgid, tid, parent_tgid, comm) = (7, 7, 1, 0);
    let origin = Origin::SCAN;
    Tables {
        images: ById::from_blocks(vec![(0, vec![image(1), image(2)])]),
        nodes: ById::from_blocks(vec![(1, nodes)]),
        lifecycle: vec![Lifecycle { time_ns: 0, change: Change::FOUND, tgid, tid, parent_tgid, comm }],
        mappings: [(0x1000, 0), (0x2000, 1)]
            .map(|(start, image)| Mapping {
                time_ns: 1,
                tgid,
                start,
                len: 0x1000,
                file_off: 0x40,
                image,
                origin,
                mount_ns: 0,
            })
            .into(),
        ..Tables::default()
    }
}

/// Returns the places of the stack of a hit, leaf first.
fn places(tables: &Tables, user: u32, kernel: u32) -> Vec<CodeLocation> {
    let spaces = Spaces::replay(&tables.lifecycle, &tables.mappings);
    let space = spaces.space(7, 5);
    let key = Key {
        task: 0,
        space,
        user,
        kernel,
        end: WalkEnd::ROOT,
        repair: StackRepair::NONE,
        in_kernel: kernel != 0,
        cgroup: 0,
        event: 0,
        cpu: 0,
        field: 0,
        wait: 0,
    };
    let hit = Hit { key, samples: 1, weight: 1, span_ns: (5, 5) };
    let located = locate(&Locator::new(tables, &spaces), &[hit, hit]);
    assert_eq!(located.leaves[0], located.leaves[1]);
    let mut spot = located.leaves[0];
    std::iter::from_fn(|| {
        let Spot { caller, place } = *located.spots.get(spot as usize).filter(|_| spot != 0)?;
        spot = caller;
        Some(located.places[place as usize])
    })
    .collect()
}

/// Returns the innermost spots of stacks (space, user, kernel), and how many spots there are.
fn spots(tables: &Tables, stacks: &[(u32, u32, u32)]) -> (Vec<u32>, usize) {
    let spaces = Spaces::replay(&tables.lifecycle, &tables.mappings);
    let hit = |(space, user, kernel): &(u32, u32, u32)| {
        let (space, end) = (Some(SpaceId(*space)), WalkEnd::ROOT);
        let in_kernel = *kernel != 0;
        let key = Key {
            space,
            user: *user,
            kernel: *kernel,
            task: 0,
            end,
            repair: StackRepair::NONE,
            in_kernel,
            cgroup: 0,
            event: 0,
            cpu: 0,
            field: 0,
            wait: 0,
        };
        Hit { key, samples: 1, weight: 1, span_ns: (5, 5) }
    };
    let hits: Vec<Hit> = stacks.iter().map(hit).collect();
    let located = locate(&Locator::new(tables, &spaces), &hits);
    (located.leaves, located.spots.len())
}

#[test]
fn code_in_files_is_the_same_for_all_processes_and_an_address_is_not() {
    let file = |parent| Node { parent, location: Location::Image { image: 0, file_off: 0x100 } };
    let address = |parent| Node { parent, location: Location::Address(0x1200) };
    let tables = tables_of(vec![file(0), file(1), address(2), file(3)]);
    let (leaves, count) = spots(&tables, &[(0, 2, 0), (1, 2, 0)]);
    assert_eq!((leaves[0] == leaves[1], count), (true, 3));
    let (leaves, _) = spots(&tables, &[(0, 4, 0), (1, 4, 0)]);
    assert_ne!(leaves[0], leaves[1]);
}

#[test]
fn a_kernel_stack_hangs_below_each_user_stack_that_called_it() {
    let file = |file_off| Node { parent: 0, location: Location::Image { image: 0, file_off } };
    // A kernel frame that claims to be in a file has no place, and lies below its own user stack.
    let tables = tables_of(vec![file(0x100), file(0x200), file(0x300)]);
    let (leaves, count) = spots(&tables, &[(0, 0, 3), (0, 1, 3), (0, 2, 3)]);
    assert_eq!((count, leaves.iter().collect::<std::collections::BTreeSet<_>>().len()), (6, 3));
}

#[test]
fn a_leaf_is_exact_and_a_return_address_is_the_call() {
    let tables = tables(&[(0, 0x1101), (1, 0x1200)]);
    let image = |off| CodeLocation::Image(0, FileOff(off));
    assert_eq!(places(&tables, 2, 0), [image(0x240), image(0x140)]);
    assert_eq!(places(&tables, 1, 0), [image(0x141)]);
}

#[test]
fn a_return_address_behind_the_mapping_still_belongs_to_it() {
    let tables = tables(&[(0, 0x3000), (1, 0x3000)]);
    assert_eq!(places(&tables, 2, 0), [CodeLocation::Unmapped, CodeLocation::Image(0, FileOff(0x103f))]);
}

#[test]
fn kernel_frames_stand_on_the_user_frames() {
    let tables = tables(&[(0, 0x1100), (0, 0xffff_0010), (2, 0xffff_0020)]);
    let expected = [
        CodeLocation::Kernel(0, Avma(0xffff_0020)),
        CodeLocation::Kernel(0, Avma(0xffff_000f)),
        CodeLocation::Image(0, FileOff(0x140)),
    ];
    assert_eq!(places(&tables, 1, 3), expected);
}

#[test]
fn what_is_known_of_a_stack_stays_when_its_rest_is_lost() {
    // Node 2's caller is node 9, which no block has.
    let tables = tables(&[(0, 0x1100), (9, 0x1200)]);
    assert_eq!(places(&tables, 2, 0), [CodeLocation::Image(0, FileOff(0x240)), CodeLocation::Lost]);
    assert_eq!(places(&tables, 77, 0), [CodeLocation::Lost]);
    assert_eq!(places(&tables, 0, 0), []);
}

#[test]
fn functions_of_interpreters_leave_room_for_all_machine_frames() {
    let nodes = |count: u32, begin: u32, address: u64| (0..count).map(move |at| (begin + at, address));
    let most = limits::MAX_FRAMES;
    let outer = nodes(most, 0, 0x1010);
    let functions = nodes(most, most, Location::INTERPRETED | 8);
    let tables = tables(&outer.chain(functions).collect::<Vec<_>>());
    let steps: Vec<Step> = steps(&tables, 2 * most).collect();
    assert_eq!(steps.iter().filter(|step| step.is_interpreted()).count(), most as usize);
    assert_eq!(steps.last().map(|step| step.node), Some(1), "the outermost frame");
}

#[test]
fn images_of_one_identity_are_one() {
    // The images differ only in their device numbers, which do not matter to names.
    let tables = tables(&[(0, 0x2100)]);
    assert_eq!(places(&tables, 1, 0), [CodeLocation::Image(0, FileOff(0x140))]);
}

#[test]
fn code_in_a_file_needs_no_mapping_to_be_found_and_one_to_have_an_address() {
    let node = |parent, image, file_off| Node { parent, location: Location::Image { image, file_off } };
    // The root's return address is the last byte of the mapping; image 9 is in no block.
    let tables = tables_of(vec![node(0, 0, 0x1040), node(1, 1, 0x140), node(0, 9, 0x10)]);
    let expected = [CodeLocation::Image(0, FileOff(0x140)), CodeLocation::Image(0, FileOff(0x103f))];
    assert_eq!(places(&tables, 2, 0), expected);
    assert_eq!(places(&tables, 3, 0), [CodeLocation::Lost]);
    let spaces = Spaces::replay(&tables.lifecycle, &tables.mappings);
    let locator = Locator::new(&tables, &spaces);
    let address = |stack| steps(&tables, stack).map(|step| locator.address(spaces.space(7, 5), step));
    assert_eq!(address(2).collect::<Vec<_>>(), [Some(0x2100), Some(0x2000)]);
    assert_eq!(address(3).collect::<Vec<_>>(), [None]);
}

#[test]
fn what_backs_a_mapping_is_no_file_if_this_build_does_not_know_it() {
    let kinds = [ImageKind::FILE, ImageKind::ANONYMOUS, ImageKind::VDSO, ImageKind::SPECIAL, ImageKind(200)];
    assert_eq!(kinds.map(kind), [Kind::File, Kind::Anonymous, Kind::Vdso, Kind::Special, Kind::Special]);
}

#[test]
fn files_are_one_only_if_their_inodes_are() {
    let image = |(dev, inode, id): (u64, u64, &[u8])| Image {
        kind: ImageKind::FILE,
        path: 0,
        build_id: id.to_vec(),
        dev,
        inode,
        size_bytes: 4096,
        modified_unix_ns: 7,
    };
    let rows = [
        (1, 10, &[][..]),
        (1, 11, &[]),
        (1, 10, &[]),
        (2, 12, &[]),
        (1, 13, &[9]),
        (1, 14, &[9]),
        (0, 0, &[9]),
        (0, 0, &[9]),
    ];
    let images = ById::from_blocks(vec![(0, rows.map(image).into())]);
    let tables = Tables { images, ..Tables::default() };
    let spaces = Spaces::replay(&[], &[]);
    let locator = Locator::new(&tables, &spaces);
    let places = [0, 1, 2, 3, 4, 5, 6, 7].map(|id| locator.image(id).expect("it is there"));
    assert_eq!(places, [0, 1, 0, 2, 3, 4, 5, 5], "a build-id alone serves where no inode is known");
    let doubles: Vec<bool> = locator.images.iter().map(|image| image.has_double).collect();
    assert_eq!(doubles, [true, true, false, true, true, false], "another device may have a copy");
}
