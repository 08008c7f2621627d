//! What the chosen samples need of a session, and the ids that this gets.

use std::collections::{BTreeMap, BTreeSet};

use icecore_format::records::{
    CallSite, Change, JitCode, KernelSymbol, Location, NamedPlace, Sample, Snapshot, Symbol, Word,
};

use super::rows::Rows;

/// Ids that samples name; then, settled, all ids that are needed.
#[derive(Debug, Default)]
pub(super) struct Need {
    tasks: BTreeSet<u32>,
    stacks: BTreeSet<u32>,
    user_stacks: BTreeSet<u32>,
    kernel_stacks: BTreeSet<u32>,
    snapshots: BTreeSet<u32>,
}

/// How much is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// What samples need.
    Needed,
    /// That, and every task, process and image of the machine.
    Machine,
}

/// What is written of a session, under new ids.
#[derive(Debug, Default)]
pub(super) struct Needed {
    pub(super) strings: Ids,
    pub(super) tasks: Ids,
    pub(super) images: Ids,
    pub(super) nodes: Ids,
    pub(super) held: HeldIds,
    /// Processes of the samples, and those from which they were forked.
    pub(super) processes: BTreeSet<u32>,
    /// Positions in the kernel symbols.
    pub(super) kernel_symbols: Vec<usize>,
    /// Positions in the symbols of images.
    pub(super) symbols: Vec<usize>,
    /// Positions in the JIT code.
    pub(super) jit: Vec<usize>,
    /// Positions in the call sites.
    pub(super) call_sites: Vec<usize>,
    /// Named places: positions of tables, and of places in them.
    pub(super) names: Vec<(usize, usize)>,
}

/// Ids of what registers and stacks held.
#[derive(Debug, Default)]
pub(super) struct HeldIds {
    pub(super) code: Ids,
    pub(super) pieces: Ids,
    pub(super) nodes: Ids,
    pub(super) snapshots: Ids,
}

/// New ids of what there is, in the old order. One id in front of them is never given to a row: it stands for all that
/// is lost.
#[derive(Debug, Default)]
pub(super) struct Ids {
    /// Old ids, ascending.
    pub(super) old: Vec<u32>,
    lost: u32,
}

impl Ids {
    /// `lost` is the first id that the format has for rows.
    pub(super) fn new(old: impl IntoIterator<Item = u32>, lost: u32) -> Self {
        Self { old: old.into_iter().collect(), lost }
    }

    /// The id of the first row.
    pub(super) fn first(&self) -> u32 {
        self.lost + 1
    }

    /// The new id of an old one. The empty string and the empty stack, both 0, stay where they are.
    pub(super) fn new_id(&self, old: u32) -> u32 {
        if old == 0 && self.lost == 1 {
            return 0;
        }
        self.old
            .binary_search(&old)
            .map_or(self.lost, |position| self.first().saturating_add(position as u32))
    }
}

impl Need {
    /// Notes what samples name.
    pub(super) fn add(&mut self, samples: &[Sample]) {
        for sample in samples {
            self.tasks.insert(sample.task);
            self.stacks.extend([sample.user_stack, sample.kernel_stack]);
            self.user_stacks.insert(sample.user_stack);
            self.kernel_stacks.insert(sample.kernel_stack);
            self.snapshots.insert(sample.snapshot);
        }
    }

    /// Follows what is named to what that names.
    pub(super) fn settle(mut self, rows: &Rows, extent: Extent) -> Needed {
        if extent == Extent::Machine {
            self.tasks.extend(rows.tasks.iter().map(|(id, _)| id));
        }
        let nodes = closed(rows, &self.stacks);
        let held = held(rows, &self.snapshots);
        let tasks: Vec<u32> = self.tasks.into_iter().filter(|id| rows.tasks.find(*id).is_some()).collect();
        let tgids = tasks.iter().filter_map(|id| Some(rows.tasks.find(*id)?.tgid));
        let mut processes = with_ancestors(rows, tgids.collect());
        if extent == Extent::Machine {
            processes.extend(rows.lifecycle.iter().map(|row| row.tgid));
            processes.extend(rows.mappings.iter().map(|row| row.tgid));
            processes.extend(rows.cgroups.iter().map(|row| row.tgid));
        }
        let mapped = rows.mappings.iter().filter(|row| processes.contains(&row.tgid)).map(|row| row.image);
        let on_stacks = nodes.iter().filter_map(|id| match rows.nodes.find(*id)?.location {
            Location::Image { image, .. } => Some(image),
            Location::Address(_) => None,
        });
        let on_held = held.code.old.iter().filter_map(|id| match rows.held.code.find(*id)? {
            Location::Image { image, .. } => Some(*image),
            Location::Address(_) => None,
        });
        let mut images: BTreeSet<u32> = mapped.chain(on_stacks).chain(on_held).collect();
        if extent == Extent::Machine {
            images.extend(rows.images.iter().map(|(id, _)| id));
        }
        images.retain(|id| rows.images.find(*id).is_some());
        let kernel_symbols = symbols(&rows.kernel_symbols, &addresses(rows, &self.kernel_stacks));
        let locations = || {
            let on_stacks = nodes.iter().filter_map(|id| Some(rows.nodes.find(*id)?.location));
            on_stacks.chain(held.code.old.iter().filter_map(|id| rows.held.code.find(*id).copied()))
        };
        let mut at_run_time = addresses(rows, &self.user_stacks);
        at_run_time.extend(locations().filter_map(|location| match location {
            Location::Address(address) => Some(address),
            Location::Image { .. } => None,
        }));
        at_run_time.sort_unstable();
        let jit = jit(&rows.jit, &processes, &at_run_time);
        let call_sites = call_sites(&rows.call_sites, &processes, &at_run_time);
        let code: BTreeSet<(u32, u64)> = locations()
            .filter_map(|location| match location {
                Location::Image { image, file_off } => Some((image, file_off)),
                Location::Address(_) => None,
            })
            .collect();
        let mut strings = BTreeSet::new();
        strings.extend(tasks.iter().filter_map(|id| Some(rows.tasks.find(*id)?.comm)));
        strings.extend(images.iter().filter_map(|id| Some(rows.images.find(*id)?.path)));
        strings.extend(rows.lifecycle.iter().filter(|row| processes.contains(&row.tgid)).map(|row| row.comm));
        strings.extend(rows.cgroups.iter().filter(|row| processes.contains(&row.tgid)).map(|row| row.path));
        let named = kernel_symbols.iter().map(|position| &rows.kernel_symbols[*position]);
        strings.extend(named.flat_map(|symbol| [symbol.name, symbol.module]));
        let lines = jit.iter().flat_map(|position| &rows.jit[*position].lines);
        strings.extend(lines.map(|line| line.file));
        strings.retain(|id| *id != 0 && rows.strings.find(*id).is_some());
        Needed {
            strings: Ids::new(strings, 1),
            tasks: Ids::new(tasks, 0),
            images: Ids::new(images, 0),
            symbols: image_symbols(rows, &code),
            names: names(rows, &code),
            nodes: Ids::new(nodes, 1),
            held,
            processes,
            kernel_symbols,
            jit,
            call_sites,
        }
    }
}

/// The nodes of stacks down to their outermost frames.
fn closed(rows: &Rows, stacks: &BTreeSet<u32>) -> BTreeSet<u32> {
    let mut nodes = BTreeSet::new();
    for stack in stacks {
        let mut next = *stack;
        while next != 0 {
            match rows.nodes.find(next) {
                Some(node) if nodes.insert(next) => next = node.parent,
                _ => break,
            }
        }
    }
    nodes
}

/// Processes and those from which they were forked, whoever had a number at what time: their mappings are inherited.
fn with_ancestors(rows: &Rows, mut processes: BTreeSet<u32>) -> BTreeSet<u32> {
    let forks = rows.lifecycle.iter().filter(|row| row.change == Change::FORK);
    let forks: BTreeSet<(u32, u32)> = forks.map(|row| (row.tgid, row.parent_tgid)).collect();
    let mut fresh: Vec<u32> = processes.iter().copied().collect();
    while let Some(process) = fresh.pop() {
        for (_, parent) in forks.range((process, 0)..=(process, u32::MAX)) {
            if processes.insert(*parent) {
                fresh.push(*parent);
            }
        }
    }
    processes
}

/// Addresses whose names are looked up, and those behind them.
fn addresses(rows: &Rows, stacks: &BTreeSet<u32>) -> Vec<u64> {
    let of_node = |id: &u32| match rows.nodes.find(*id)?.location {
        Location::Address(address) => Some(address),
        Location::Image { .. } => None,
    };
    let mut addresses: Vec<u64> = closed(rows, stacks).iter().filter_map(of_node).collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

/// Positions of the symbols in or right behind which one of the addresses lies: a return address behind a call that
/// never returns is the next function's.
fn symbols(symbols: &[KernelSymbol], addresses: &[u64]) -> Vec<usize> {
    let is_hit = |symbol: &KernelSymbol| {
        let first = addresses.partition_point(|address| *address < symbol.start);
        addresses.get(first).is_some_and(|address| *address <= symbol.end)
    };
    (0..symbols.len()).filter(|position| is_hit(&symbols[*position])).collect()
}

/// Positions of the code of these processes in or right behind which one of the addresses lies.
fn jit(code: &[JitCode], processes: &BTreeSet<u32>, addresses: &[u64]) -> Vec<usize> {
    let is_hit = |code: &JitCode| {
        let first = addresses.partition_point(|address| *address < code.start);
        let is_there = addresses.get(first).is_some_and(|address| *address <= code.end);
        is_there && processes.contains(&code.tgid)
    };
    (0..code.len()).filter(|position| is_hit(&code[*position])).collect()
}

/// Positions of the call sites of these processes in front of one of the addresses.
fn call_sites(sites: &[CallSite], processes: &BTreeSet<u32>, addresses: &[u64]) -> Vec<usize> {
    let is_hit =
        |site: &CallSite| processes.contains(&site.tgid) && addresses.binary_search(&site.address).is_ok();
    (0..sites.len()).filter(|position| is_hit(&sites[*position])).collect()
}

/// What these snapshots are made of.
fn held(rows: &Rows, snapshots: &BTreeSet<u32>) -> HeldIds {
    let held = &rows.held;
    let there = |id: &u32| Some((*id, held.snapshots.find(*id)?));
    // What a signal interrupted, and the stacks of C that have called Go, are the rows behind that of the sample, and stay so.
    let outer = snapshots.iter().flat_map(|id| {
        let behind = (1_u32..).map_while(|further| there(&id.checked_add(further)?));
        behind.take_while(|(_, row)| row.is_outer())
    });
    let snapshots: BTreeMap<u32, &Snapshot> = snapshots.iter().filter_map(there).chain(outer).collect();
    let mut nodes = BTreeSet::new();
    for snapshot in snapshots.values() {
        let mut next = snapshot.memory;
        while next != 0 {
            match held.nodes.find(next) {
                Some(node) if nodes.insert(next) => next = node.outer,
                _ => break,
            }
        }
    }
    let pieces = nodes.iter().filter_map(|id| held.nodes.find(*id)).map(|node| node.piece);
    let pieces: BTreeSet<u32> = pieces.filter(|id| held.pieces.find(*id).is_some()).collect();
    let words = pieces.iter().filter_map(|id| held.pieces.find(*id)).flat_map(|piece| &piece.words);
    let words = words.chain(snapshots.values().flat_map(|snapshot| &snapshot.registers));
    let code = words.filter_map(|word| match word {
        Word::Code(id) => Some(*id),
        Word::Stack(_) => None,
    });
    let code: BTreeSet<u32> = code.filter(|id| held.code.find(*id).is_some()).collect();
    HeldIds {
        code: Ids::new(code, 0),
        pieces: Ids::new(pieces, 0),
        nodes: Ids::new(nodes, 1),
        snapshots: Ids::new(snapshots.into_keys(), 1),
    }
}

/// Positions of the symbols of images in or right behind which a piece of code lies.
fn image_symbols(rows: &Rows, code: &BTreeSet<(u32, u64)>) -> Vec<usize> {
    let is_hit = |symbol: &Symbol| {
        let (first, last) = ((symbol.image, symbol.start), (symbol.image, symbol.end));
        first <= last && code.range(first..=last).next().is_some()
    };
    (0..rows.symbols.len()).filter(|position| is_hit(&rows.symbols[*position])).collect()
}

/// Positions of the named places that code is looked up at: its own, or one byte in front of it.
fn names(rows: &Rows, code: &BTreeSet<(u32, u64)>) -> Vec<(usize, usize)> {
    let is_hit = |place: &NamedPlace| {
        let behind = place.file_off.saturating_add(1);
        [place.file_off, behind].iter().any(|off| code.contains(&(place.image, *off)))
    };
    let all = rows.names.iter().enumerate();
    let all = all.flat_map(|(table, names)| (0..names.places.len()).map(move |place| (table, place)));
    all.filter(|(table, place)| is_hit(&rows.names[*table].places[*place])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_ids_keep_the_order_and_what_is_lost_has_one_of_its_own() {
        let strings = Ids::new([3, 9], 1);
        assert_eq!([0, 3, 9, 4, u32::MAX].map(|id| strings.new_id(id)), [0, 2, 3, 1, 1]);
        let tasks = Ids::new([0, 7], 0);
        assert_eq!([0, 7, 1].map(|id| tasks.new_id(id)), [1, 2, 0]);
    }

    #[test]
    fn a_return_address_keeps_the_symbol_in_front_of_it() {
        let symbol = |start, end| KernelSymbol { start, end, name: 1, module: 0 };
        let all = [symbol(10, 20), symbol(20, 30), symbol(30, 40)];
        assert_eq!(symbols(&all, &[20]), [0, 1]);
        assert_eq!(symbols(&all, &[31]), [2]);
        assert!(symbols(&all, &[]).is_empty() && symbols(&[], &[1]).is_empty());
    }
}
