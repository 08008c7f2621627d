use icecore_format::records::{Change, Image, ImageKind, Lifecycle, Mapping, Node, Origin, WalkEnd};

use super::*;
use crate::load::by_id::ById;

/// Process 7 maps image 0 at 0x1000; the trie holds `nodes` from id 1 on.
fn tables(nodes: &[(u32, u64)]) -> Tables {
    let image = |dev| Image {
        kind: ImageKind::FILE,
        path: 0,
        build_id: vec![],
        dev,
        inode: 0,
        size_bytes: 0,
        modified_unix_ns: 0,
    };
    let nodes = nodes.iter().map(|(parent, address)| Node { parent: *parent, address: *address }).collect();
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
            })
            .into(),
        ..Tables::default()
    }
}

/// Places of the stack of a hit, leaf first.
fn places(tables: &Tables, user: u32, kernel: u32) -> Vec<Place> {
    let timeline = Timeline::replay(&tables.lifecycle, &tables.mappings);
    let space = timeline.space(7, 5);
    let key = Key { task: 0, space, user, kernel, end: WalkEnd::ROOT, in_kernel: kernel != 0 };
    let hit = Hit { key, samples: 1, weight: 1, span_ns: (5, 5) };
    let located = locate(&Locator::new(tables, &timeline), &[hit, hit]);
    assert_eq!(located.leaves[0], located.leaves[1]);
    let mut spot = located.leaves[0];
    std::iter::from_fn(|| {
        let Spot { caller, place } = *located.spots.get(spot as usize).filter(|_| spot != 0)?;
        spot = caller;
        Some(located.places[place as usize])
    })
    .collect()
}

#[test]
fn a_leaf_is_exact_and_a_return_address_is_the_call() {
    let tables = tables(&[(0, 0x1101), (1, 0x1200)]);
    let image = |off| Place::Image(0, FileOff(off));
    assert_eq!(places(&tables, 2, 0), [image(0x240), image(0x140)]);
    assert_eq!(places(&tables, 1, 0), [image(0x141)]);
}

#[test]
fn a_return_address_behind_the_mapping_still_belongs_to_it() {
    let tables = tables(&[(0, 0x3000), (1, 0x3000)]);
    assert_eq!(places(&tables, 2, 0), [Place::Unmapped, Place::Image(0, FileOff(0x103f))]);
}

#[test]
fn kernel_frames_stand_on_the_user_frames() {
    let tables = tables(&[(0, 0x1100), (0, 0xffff_0010), (2, 0xffff_0020)]);
    let expected = [Place::Kernel(0xffff_0020), Place::Kernel(0xffff_000f), Place::Image(0, FileOff(0x140))];
    assert_eq!(places(&tables, 1, 3), expected);
}

#[test]
fn what_is_known_of_a_stack_stays_when_its_rest_is_lost() {
    // Node 2's caller is node 9, which no block has.
    let tables = tables(&[(0, 0x1100), (9, 0x1200)]);
    assert_eq!(places(&tables, 2, 0), [Place::Image(0, FileOff(0x240)), Place::Lost]);
    assert_eq!(places(&tables, 77, 0), [Place::Lost]);
    assert_eq!(places(&tables, 0, 0), []);
}

#[test]
fn images_of_one_identity_are_one() {
    // They differ in their device numbers only, which do not matter to names.
    let tables = tables(&[(0, 0x2100)]);
    assert_eq!(places(&tables, 1, 0), [Place::Image(0, FileOff(0x140))]);
}
