mod audit;

use icecore_format::records::{
    Image, ImageKind, Location, Mapping, Mark, Origin, PIECE_BYTES, Sample, SessionV1, Snapshot, StackNode,
    StackPiece, Task, WalkEnd, Word,
};

use super::batch::Stack;
use super::code::SpaceCode;
use super::grown::Grown;
use super::memory::Memory;
use super::*;
use crate::recording::cgroups::Cgroups;
use crate::recording::events::ChosenEvents;
use crate::recording::filter::Filter;
use crate::recording::load::Tables;
use crate::recording::load::by_id::ById;
use crate::recording::load::held::Held;
use crate::recording::spaces::{SpaceId, Spaces};
use icecore_elf::Avma;
use icecore_symbolize::image::Search;
use icecore_unwind::{Machine, Miss, StackMemory as _};

/// Where code of image 0 lies in process 7; it is in no file, and keeps frame pointers.
const CODE: u64 = 0x5555_0000_0000;
/// Where the stack of its threads ends.
const ANCHOR: u64 = 0x7ffd_0000_1000;

/// A repaired stack: its snapshot, its addresses, and how it ended.
type Believed = (u32, Vec<u64>, WalkEnd);

/// A recording without a file.
struct Recorded {
    tables: Tables,
    spaces: Spaces,
}

impl Recorded {
    /// Process 7 has threads 7 and 8, as tasks 0 and 1. Stack id n is the leaf at offset n, called from nowhere.
    fn new(held: Held) -> Self {
        let image = Image {
            kind: ImageKind::FILE,
            path: 0,
            build_id: vec![],
            dev: 1,
            inode: 1,
            size_bytes: 0,
            modified_unix_ns: 0,
        };
        let (len, file_off, origin) = (0x1_0000, 0, Origin::SCAN);
        let mapping =
            Mapping { time_ns: 1, tgid: 7, start: CODE, len, file_off, image: 0, origin, mount_ns: 0 };
        let node = |file_off| Node { parent: 0, location: at(file_off) };
        let task = |tid| Task { tgid: 7, tid, comm: 0 };
        let tables = Tables {
            session: SessionV1 { arch: "x86_64".to_owned(), ..SessionV1::default() },
            images: ById::from_blocks(vec![(0, vec![image])]),
            nodes: ById::from_blocks(vec![(1, (1..0x1000).map(node).collect())]),
            tasks: ById::from_blocks(vec![(0, vec![task(7), task(8)])]),
            mappings: vec![mapping],
            held,
            ..Tables::default()
        };
        let spaces = Spaces::replay(&tables.lifecycle, &tables.mappings);
        Self { tables, spaces }
    }

    fn space(&self) -> SpaceId {
        self.spaces.space(7, 5).expect("it has mappings")
    }

    /// Unwinds samples one after the other in one batch.
    fn done(&self, samples: &[Sample]) -> batch::Done {
        let locator = Locator::new(&self.tables, &self.spaces);
        let search = Search::nowhere();
        let files = TableSources::find(&locator, &Finder { search: &search, embedded: None })
            .expect("the machine is known");
        let tables = files.tables();
        let (cgroups, filter, events) =
            (Cgroups::replay(&self.tables), Filter::default(), ChosenEvents::default());
        let selection = Selection {
            tables: &self.tables,
            spaces: &self.spaces,
            cgroups: &cgroups,
            filter: &filter,
            events: &events,
            idle: None,
            tracing: None,
        };
        let mut unwinder = Unwinder::new(Limits::new(Machine::X86_64));
        let work = Work::of(0, 1, 1);
        let mut batch = Batch::new(selection, &locator, &tables, (&mut unwinder, &work));
        samples.iter().for_each(|sample| batch.sample(sample));
        batch.done()
    }

    /// Unwinds samples likewise. Returns each repaired stack by its snapshot, with its addresses, leaf
    /// first, as offsets, and its end; and what became of every walk, by snapshot.
    fn repaired(&self, samples: &[Sample]) -> (Vec<Believed>, Vec<StackRepair>) {
        let done = self.done(samples);
        let mut trie = Trie::new(1);
        let ids = trie.add(&done.grown);
        let nodes = ById::from_blocks(vec![(1, trie.into_nodes().0)]);
        let frames = |leaf: u32| chain(&nodes, ids[leaf as usize - 1]);
        let mut stacks = done.stacks;
        stacks.sort_by_key(|stack| stack.snapshot);
        let repairs = stacks.iter().map(|stack| stack.repair).collect();
        let other = |stack: &Stack| stack.other.map(|(node, end)| (stack.snapshot, frames(node), end));
        (stacks.iter().filter_map(other).collect(), repairs)
    }
}

/// Offsets of a stack, leaf first.
fn chain(nodes: &ById<Node>, id: u32) -> Vec<u64> {
    let (mut offsets, mut next) = (Vec::new(), id);
    while next != 0 {
        let Node { parent, location } = *nodes.find(next).expect("it was added");
        offsets.push(match location {
            Location::Image { file_off, .. } => file_off,
            Location::Address(address) => address - CODE,
        });
        next = parent;
    }
    offsets
}

fn at(file_off: u64) -> Location {
    Location::Image { image: 0, file_off }
}

fn sample(task: u32, leaf: u32, snapshot: u32) -> Sample {
    Sample {
        time_ns: 5,
        cpu: 0,
        event: 0,
        user_end: WalkEnd::UNREADABLE,
        kernel_end: WalkEnd::NONE,
        task,
        user_stack: leaf,
        kernel_stack: 0,
        weight: 1,
        snapshot,
        repair: StackRepair::NONE,
    }
}

/// Collects what registers and stacks held; ids of code are offsets in image 0.
#[derive(Default)]
struct Builder {
    pieces: Vec<StackPiece>,
    nodes: Vec<StackNode>,
    snapshots: Vec<Snapshot>,
}

impl Builder {
    /// Adds a piece: words by their positions, below the node `outer`.
    fn node(&mut self, outer: u32, gap: u32, words: &[(u32, Word)]) -> u32 {
        let mask = words.iter().fold(0, |mask, (bit, _)| mask | 1 << bit);
        self.pieces.push(StackPiece { mask, words: words.iter().map(|(_, word)| *word).collect() });
        self.nodes.push(StackNode { outer, gap, piece: self.pieces.len() as u32 - 1 });
        self.nodes.len() as u32
    }

    /// Adds a stack of `depth` bytes with frames at these distances from the anchor, innermost first. Each holds its return
    /// address; 0 at the root. Returns the id of the snapshot.
    fn frames(&mut self, depth: u32, copied: u32, frames: &[(u64, u32)]) -> u32 {
        let mut memory = 0;
        let mut number = 0;
        for (position, (distance, caller)) in frames.iter().enumerate().rev() {
            // Each piece holds one frame.
            let part = ((distance - 16) / PIECE_BYTES) as u32;
            let bit = 63 - (distance - 8) / 8 % 64;
            let outer = frames.get(position + 1).map_or(*distance, |(outer, _)| *outer);
            let caller = match caller {
                0 => Word::Stack(-((ANCHOR - distance + 8) as i64)),
                caller => Word::Code(*caller),
            };
            let words = [(bit as u32, Word::Stack((distance - outer) as i64)), (bit as u32 + 1, caller)];
            if distance - 16 >= u64::from(depth - copied) {
                memory = self.node(memory, part - number, &words);
                number = part + 1;
            }
        }
        let fp = Word::Stack(i64::from(depth) - frames[0].0 as i64);
        self.snapshots.push(Snapshot {
            anchor: ANCHOR,
            depth,
            copied,
            memory,
            mask: 1 << 6,
            registers: vec![fp],
        });
        self.snapshots.len() as u32
    }

    fn recorded(self) -> Recorded {
        Recorded::new(Held {
            code: ById::from_blocks(vec![(0, (0..0x1000).map(at).collect())]),
            pieces: ById::from_blocks(vec![(0, self.pieces)]),
            nodes: ById::from_blocks(vec![(1, self.nodes)]),
            snapshots: ById::from_blocks(vec![(1, self.snapshots)]),
        })
    }
}

/// Passes the memory of snapshot 1 to `ask`.
fn with_memory<T>(recorded: &Recorded, ask: impl FnOnce(Option<Memory<'_>>) -> T) -> T {
    let locator = Locator::new(&recorded.tables, &recorded.spaces);
    let search = Search::nowhere();
    let files = TableSources::find(&locator, &Finder { search: &search, embedded: None })
        .expect("the machine is known");
    let tables = files.tables();
    let work = Work::of(0, 1, 1);
    let code = SpaceCode::new(&locator, recorded.space(), &tables, &work);
    let held = &recorded.tables.held;
    ask(Memory::new(held, held.snapshots.find(1).expect("it has one"), &code))
}

#[test]
fn a_word_is_found_by_its_address() {
    let mut b = Builder::default();
    let outer = b.node(0, 1, &[(0, Word::Code(0x10)), (63, Word::Stack(-16))]);
    let inner = b.node(outer, 2, &[(5, Word::Stack(24)), (6, Word::Code(0x20)), (60, Word::Code(0x30))]);
    let registers = vec![Word::Code(0x40), Word::Stack(32)];
    let (depth, copied) = (5 * 512 - 32, 5 * 512 - 512 - 64);
    b.snapshots.push(Snapshot {
        anchor: ANCHOR,
        depth,
        copied,
        memory: inner,
        mask: 1 << 3 | 1 << 12,
        registers,
    });
    let sp = ANCHOR - u64::from(depth);
    let (second, fifth) = (ANCHOR - 2 * 512, ANCHOR - 5 * 512);
    with_memory(&b.recorded(), |memory| {
        let memory = memory.expect("it is whole");
        for (address, found) in [
            (fifth + 40, Ok(fifth + 40 + 24)),
            (fifth + 48, Ok(CODE + 0x20)),
            (fifth + 480, Ok(CODE + 0x30)),
            (second, Ok(CODE + 0x10)),
            // An address that was not recorded, between the two, misaligned, below the stack pointer.
            (fifth + 56, Err(Miss::NoAddress)),
            (ANCHOR - 3 * 512, Err(Miss::NoAddress)),
            (fifth + 44, Err(Miss::Elsewhere)),
            (sp - 8, Err(Miss::Elsewhere)),
            // The last words of the copy held no address; after the copy the stack is unknown, and after the stack there is
            // nothing.
            (second + 472, Err(Miss::NoAddress)),
            (second + 480, Err(Miss::Beyond)),
            (second + 504, Err(Miss::Beyond)),
            (ANCHOR - 8, Err(Miss::Beyond)),
            (ANCHOR, Err(Miss::Elsewhere)),
            (u64::MAX - 7, Err(Miss::Elsewhere)),
        ] {
            assert_eq!(memory.read_u64(Avma(address)), found, "{address:#x}");
        }
        let registers = memory.registers(Machine::X86_64, Avma(CODE + 1), false);
        let of = |number| registers.value(number);
        assert_eq!(
            (of(3), of(12), of(7), of(16)),
            (Some(CODE + 0x40), Some(sp + 32), Some(sp), Some(CODE + 1))
        );
        assert_eq!((of(0), of(6)), (None, None));
    });
}

#[test]
fn code_that_nothing_maps_any_more_is_no_word() {
    let mut b = Builder::default();
    let memory = b.node(0, 0, &[(62, Word::Code(0x10)), (63, Word::Code(0x9999))]);
    let registers = vec![Word::Code(0x9999)];
    b.snapshots.push(Snapshot { anchor: ANCHOR, depth: 512, copied: 512, memory, mask: 1, registers });
    let mut recorded = b.recorded();
    recorded.tables.held.code =
        ById::from_blocks(vec![(0x10, vec![Location::Image { image: 3, file_off: 8 }])]);
    with_memory(&recorded, |memory| {
        let memory = memory.expect("it is whole");
        assert_eq!(memory.read_u64(Avma(ANCHOR - 16)), Err(Miss::Elsewhere), "its image is not mapped");
        assert_eq!(memory.read_u64(Avma(ANCHOR - 8)), Err(Miss::Elsewhere), "its block is missing");
        assert_eq!(memory.registers(Machine::X86_64, Avma(CODE), false).value(0), None);
    });
}

#[test]
fn a_stack_of_which_a_block_is_missing_is_none() {
    let stack = |memory, nodes: Vec<StackNode>| {
        let mut b = Builder::default();
        b.node(0, 0, &[(63, Word::Code(1))]);
        b.nodes = nodes;
        b.snapshots.push(Snapshot {
            anchor: ANCHOR,
            depth: 4096,
            copied: 4096,
            memory,
            ..Snapshot::default()
        });
        with_memory(&b.recorded(), |memory| memory.is_some())
    };
    let node = |outer, piece| StackNode { outer, gap: 0, piece };
    assert!(stack(2, vec![node(0, 0), node(1, 0)]));
    assert!(!stack(3, vec![node(0, 0), node(1, 0)]), "no such node");
    assert!(!stack(2, vec![node(0, 0), node(1, 7)]), "no such piece");
    assert!(!stack(2, vec![node(0, 0), node(2, 0)]), "a node that is its own outer one");
    assert!(!stack(1, vec![node(2, 0), node(1, 0)]), "nodes that go round");
    let long: Vec<StackNode> = (0..5000).map(|id| node(id, 0)).collect();
    assert!(stack(4096, long.clone()));
    assert!(!stack(4097, long), "no stack is that deep");
}

#[test]
fn a_stack_that_claims_the_end_of_memory_is_read_as_nothing() {
    for (anchor, depth) in
        [(0, 0), (0, u32::MAX), (5, 4096), (u64::MAX, u32::MAX), (u64::MAX, 0), (7, 7), (ANCHOR + 3, 4096)]
    {
        let mut b = Builder::default();
        let memory = b.node(0, u32::MAX, &[(63, Word::Stack(i64::MAX))]);
        let snapshot = Snapshot {
            anchor,
            depth,
            copied: depth,
            memory,
            mask: u64::MAX,
            registers: vec![Word::Stack(i64::MIN); 64],
        };
        b.snapshots.push(snapshot);
        let recorded = b.recorded();
        with_memory(&recorded, |memory| {
            let memory = memory.expect("it is whole");
            for around in [0, anchor, anchor.wrapping_sub(depth.into()), u64::MAX] {
                for address in (0..64).map(|n| around.wrapping_sub(32).wrapping_add(n)) {
                    assert!(memory.read_u64(Avma(address)).is_err(), "{anchor:#x} {address:#x}");
                }
            }
        });
        // The sample keeps its walk, and nothing panics.
        recorded.repaired(&[sample(0, 0x100, 1)]);
    }
}

#[test]
fn nodes_that_differ_in_their_marks_are_different_nodes() {
    let (mut path, mut grown) = (Vec::new(), Grown::default());
    for mark in [Mark::NONE, Mark::INTERRUPTED, Mark::GUESSED, Mark::INTERRUPTED] {
        grown.add(0, [(at(1), Mark::NONE), (at(2), mark), (at(3), Mark::NONE)].into_iter(), &mut path);
    }
    let mut trie = Trie::new(10);
    trie.add(&grown);
    let (nodes, marks) = trie.into_nodes();
    assert_eq!((nodes.len(), marks), (7, vec![(13, Mark::INTERRUPTED), (15, Mark::GUESSED)]));
}

#[test]
fn equal_stacks_of_two_batches_are_one() {
    let mut path = Vec::new();
    let stack = |offsets: &[u64], grown: &mut Grown, path: &mut Vec<u32>| {
        grown.add(0, offsets.iter().map(|off| (at(*off), Mark::NONE)), path);
        *path.last().expect("it has frames") as usize - 1
    };
    let (mut first, mut second) = (Grown::default(), Grown::default());
    let long = stack(&[1, 2, 3], &mut first, &mut path);
    assert_eq!(path, [1, 2, 3], "the node of each frame, the outermost first");
    let other = stack(&[1, 5], &mut second, &mut path);
    let again = stack(&[1, 2, 3, 4], &mut second, &mut path);
    let mut trie = Trie::new(100);
    let (first, second) = (trie.add(&first), trie.add(&second));
    let nodes = ById::from_blocks(vec![(100, trie.into_nodes().0)]);
    assert_eq!(nodes.len(), 5);
    assert_eq!(chain(&nodes, first[long]), [3, 2, 1]);
    assert_eq!(chain(&nodes, second[other]), [5, 1]);
    assert_eq!(chain(&nodes, second[again]), [4, 3, 2, 1]);
    assert!(nodes.iter().all(|(id, node)| node.parent < id), "callers lie in front");
}

/// Frames of a stack: their distances from the anchor, and the return address that each holds.
const FRAMES: [(u64, u32); 3] = [(0xd00, 0x30), (0x900, 0x20), (0x300, 0x10)];

#[test]
fn what_a_walk_has_skipped_is_there_again() {
    let mut b = Builder::default();
    let id = b.frames(0xe00, 0xe00, &FRAMES);
    let (stacks, repairs) = b.recorded().repaired(&[sample(0, 0x100, id)]);
    assert_eq!(stacks, [(id, vec![0x100, 0x30, 0x20, 0x10], WalkEnd::NO_RULES)]);
    assert_eq!(repairs, [StackRepair::REPLACED.judged(Some(false))]);
}

#[test]
fn without_registers_or_tables_the_walk_stays() {
    let mut b = Builder::default();
    let id = b.frames(0xe00, 0xe00, &FRAMES);
    b.snapshots[0].mask = 0;
    b.snapshots[0].registers.clear();
    let recorded = b.recorded();
    assert_eq!(
        recorded.repaired(&[sample(0, 0x100, id)]),
        (vec![], vec![StackRepair::KEPT.judged(Some(false))])
    );
    // No such snapshot, no stack, no such thread.
    for sample in [sample(0, 0x100, 9), sample(0, 0, id), sample(9, 0x100, id)] {
        assert_eq!(recorded.repaired(&[sample]), (vec![], vec![]));
    }
}

/// Frames up to the root.
const ROOTED: [(u64, u32); 4] = [FRAMES[0], FRAMES[1], FRAMES[2], (0x180, 0)];
/// A copy this short of a stack of 0xe00 bytes contains two frames.
const LITTLE: u32 = 0x600;

#[test]
fn a_stack_that_was_not_copied_whole_ends_there_whatever_other_samples_of_the_thread_show() {
    let mut b = Builder::default();
    let (whole, cut) = (b.frames(0xe00, 0xe00, &ROOTED), b.frames(0xe00, LITTLE, &ROOTED));
    let recorded = b.recorded();
    // Both have the same frame in the same slot. That proves nothing about its callers: the thread may have returned and come back
    // through other callers.
    let (stacks, repairs) = recorded.repaired(&[sample(0, 0x100, whole), sample(0, 0x200, cut)]);
    assert_eq!(
        stacks,
        [
            (whole, vec![0x100, 0x30, 0x20, 0x10], WalkEnd::UNWOUND),
            (cut, vec![0x200, 0x30, 0x20], WalkEnd::NOT_COPIED),
        ]
    );
    assert_eq!(repairs, [StackRepair::REPLACED, StackRepair::REPLACED.judged(Some(false))]);
}

/// Turns stack id 1 into the walk `root_first`: offsets, the outermost first.
fn with_walk(mut recorded: Recorded, root_first: &[u64]) -> (Recorded, u32) {
    let node = |(parent, off): (u32, &u64)| Node { parent, location: at(*off) };
    let nodes: Vec<Node> = (0..).zip(root_first).map(node).collect();
    let leaf = nodes.len() as u32;
    recorded.tables.nodes = ById::from_blocks(vec![(1, nodes)]);
    (recorded, leaf)
}

#[test]
fn a_walk_goes_on_behind_a_caller_that_it_has_skipped() {
    let (depth, copied, fp) = (4096, 128, 1024);
    let mut b = Builder::default();
    // The leaf has no frame: its return address is on top, and the frame pointer is its caller's.
    let memory = b.node(0, depth / 512 - 1, &[(0, Word::Code(0x20))]);
    let registers = vec![Word::Stack(fp)];
    b.snapshots.push(Snapshot { anchor: ANCHOR, depth, copied, memory, mask: 1 << 6, registers });
    let (recorded, leaf) = with_walk(b.recorded(), &[0x50, 0x40, 0x30, 0x10]);
    let walked = |user_end| recorded.repaired(&[Sample { user_end, ..sample(0, leaf, 1) }]).0;
    assert_eq!(walked(WalkEnd::ROOT), [(1, vec![0x10, 0x20, 0x30, 0x40, 0x50], WalkEnd::ROOT)]);
    assert_eq!(walked(WalkEnd::DEPTH), [(1, vec![0x10, 0x20, 0x30, 0x40, 0x50], WalkEnd::DEPTH)]);
}
