//! Finds the rows of a session that the chosen samples need, and their new ids.

use std::collections::BTreeSet;

use icecore_format::records::{
    Change, IdTable, JitCode, KernelSymbol, Location, NamedPlace, Owner, Reference, References, Sample,
    Snapshot, Symbol,
};

use super::rows::SessionRows;

/// The ids in samples; once settled, all ids that are needed.
#[derive(Debug, Default)]
pub(super) struct Need {
    /// By table.
    ids: [BTreeSet<u32>; IdTable::ALL.len()],
    /// Those of which it was not yet looked at what they name.
    fresh: Vec<(IdTable, u32)>,
    user_stacks: BTreeSet<u32>,
    kernel_stacks: BTreeSet<u32>,
}

/// How many rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// The rows that samples need.
    Needed,
    /// The rows that samples need, and every task, process and image of the machine.
    Machine,
}

/// The rows of a session that are written, under new ids.
#[derive(Debug)]
pub(super) struct Needed {
    /// By table.
    ids: [Renumbered; IdTable::ALL.len()],
    /// Processes of the samples, and those from which they were forked.
    pub(super) processes: BTreeSet<u32>,
    /// Positions in the kernel symbols.
    pub(super) kernel_symbols: Vec<usize>,
    /// Positions in the symbols of images.
    pub(super) symbols: Vec<usize>,
    /// Positions in the JIT code.
    pub(super) jit: Vec<usize>,
    /// Named places: positions of tables, and of places in them.
    pub(super) names: Vec<(usize, usize)>,
    /// Images and offsets of the code on stacks, and in stack memory.
    pub(super) code: BTreeSet<(u32, u64)>,
}

/// Assigns new ids in the order of the old ones. One id before them is never assigned: it stands for all lost rows.
#[derive(Debug, Default)]
pub(super) struct Renumbered {
    /// Old ids, ascending.
    pub(super) old: Vec<u32>,
    lost: u32,
}

impl Renumbered {
    /// Assigns ids from the first that the format has for rows of the table.
    pub(super) fn new(old: impl IntoIterator<Item = u32>, table: IdTable) -> Self {
        Self { old: old.into_iter().collect(), lost: table.first_id() }
    }

    /// Returns the id of the first row.
    pub(super) fn first(&self) -> u32 {
        self.lost + 1
    }

    /// Returns true if an old id has a new one.
    pub(super) fn has(&self, old: u32) -> bool {
        self.old.binary_search(&old).is_ok()
    }

    /// Returns the new id of an old one. Ids that stand for no row, such as that of the empty stack, stay the same.
    pub(super) fn new_id(&self, old: u32) -> u32 {
        if old < self.lost {
            return old;
        }
        self.old
            .binary_search(&old)
            .map_or(self.lost, |position| self.first().saturating_add(position as u32))
    }
}

impl Needed {
    /// The ids of a table.
    pub(super) fn ids(&self, table: IdTable) -> &Renumbered {
        &self.ids[table as usize]
    }

    /// A row under new ids.
    pub(super) fn row<R: References>(&self, mut row: R) -> R {
        row.visit(&mut |reference| match reference {
            Reference::Id(table, id) => *id = self.ids(table).new_id(*id),
            Reference::Time(_) | Reference::Process(_) | Reference::Event(_) => {}
        });
        row
    }
}

impl Need {
    /// Adds the ids in samples.
    pub(super) fn add(&mut self, samples: &[Sample]) {
        for sample in samples {
            self.row(*sample);
            self.user_stacks.insert(sample.user_stack);
            self.kernel_stacks.insert(sample.kernel_stack);
        }
    }

    /// Adds the ids to which a row refers.
    fn row(&mut self, mut row: impl References) {
        row.visit(&mut |reference| self.see(&reference));
    }

    fn see(&mut self, reference: &Reference<'_>) {
        match reference {
            Reference::Id(table, id) => self.note(*table, **id),
            Reference::Time(_) | Reference::Process(_) | Reference::Event(_) => {}
        }
    }

    fn note(&mut self, table: IdTable, id: u32) {
        if self.ids[table as usize].insert(id) {
            self.fresh.push((table, id));
        }
    }

    fn ids(&self, table: IdTable) -> &BTreeSet<u32> {
        &self.ids[table as usize]
    }

    /// Adds the ids to which the needed rows refer.
    pub(super) fn settle(mut self, rows: &SessionRows, extent: Extent) -> Needed {
        if extent == Extent::Machine {
            rows.tasks.iter().for_each(|(id, _)| self.note(IdTable::Tasks, id));
            rows.images.iter().for_each(|(id, _)| self.note(IdTable::Images, id));
        }
        // All fields are listed, so that nobody adds one without deciding whether its rows name others, which then are written, too.
        let SessionRows {
            lifecycle,
            cgroups,
            mappings,
            waits,
            fields,
            counters,
            // The samples, or rows that they need, name these.
            strings: _,
            tasks: _,
            images: _,
            nodes: _,
            held: _,
            kernel_symbols: _,
            jit: _,
            // These are written only for images and nodes that are needed anyway, or name nothing.
            session: _,
            marks: _,
            unwind_rules: _,
            symbols: _,
            image_parts: _,
            sources: _,
            code: _,
            names: _,
            left_out: _,
            cpu_times: _,
            losses: _,
            rates: _,
            trigger: _,
            receipt: _,
        } = rows;
        let tgids = self.ids(IdTable::Tasks).iter().filter_map(|id| Some(rows.tasks.find(*id)?.tgid));
        let mut processes = with_ancestors(rows, tgids.collect());
        if extent == Extent::Machine {
            processes.extend(lifecycle.iter().map(|row| row.tgid));
            processes.extend(mappings.iter().map(|row| row.tgid));
            processes.extend(cgroups.iter().map(|row| row.tgid));
        }
        // A process that has counters and no samples has its name from these.
        processes.extend(counters.iter().filter_map(|row| match row.owner {
            Owner::Process(tgid) => Some(tgid),
            Owner::Machine | Owner::Cgroup(_) | Owner::Other(..) => None,
        }));
        lifecycle.iter().filter(|row| processes.contains(&row.tgid)).for_each(|row| self.row(*row));
        cgroups.iter().filter(|row| processes.contains(&row.tgid)).for_each(|row| self.row(*row));
        mappings.iter().filter(|row| processes.contains(&row.tgid)).for_each(|row| self.row(*row));
        // Of a thread that woke others and has no samples, nothing is kept but its name.
        waits.iter().for_each(|row| self.row(*row));
        fields.iter().for_each(|row| self.row(*row));
        counters.iter().for_each(|row| self.row(*row));
        let outer = outer_snapshots(rows, self.ids(IdTable::Snapshots));
        outer.into_iter().for_each(|id| self.note(IdTable::Snapshots, id));
        self.follow(rows);
        let kernel_symbols = symbols(&rows.kernel_symbols, &addresses(rows, &self.kernel_stacks));
        kernel_symbols.iter().for_each(|position| self.row(rows.kernel_symbols[*position]));
        let on_stacks =
            self.ids(IdTable::Stacks).iter().filter_map(|id| Some(rows.nodes.find(*id)?.location));
        let on_held = self.ids(IdTable::StackCode).iter().filter_map(|id| rows.held.code.find(*id).copied());
        let mut at_run_time = addresses(rows, &self.user_stacks);
        let mut code = BTreeSet::new();
        for location in on_stacks.chain(on_held) {
            at_run_time.extend(location.address());
            if let Location::Image { image, file_off } = location {
                code.insert((image, file_off));
            }
        }
        at_run_time.sort_unstable();
        let jit = jit(&rows.jit, &processes, &at_run_time);
        jit.iter().for_each(|position| self.row(rows.jit[*position].clone()));
        self.follow(rows);
        let ids =
            IdTable::ALL.map(|table| Renumbered::new(std::mem::take(&mut self.ids[table as usize]), table));
        let (symbols, names) = (image_symbols(rows, &code), names(rows, &code));
        Needed { ids, processes, kernel_symbols, symbols, jit, names, code }
    }

    /// Notes what the rows name that are noted, and so on; forgets ids without a row.
    fn follow(&mut self, rows: &SessionRows) {
        while let Some((table, id)) = self.fresh.pop() {
            if !rows.visit(table, id, &mut |reference| self.see(&reference)) {
                self.ids[table as usize].remove(&id);
            }
        }
    }
}

/// Returns the nodes of stacks down to their outermost frames.
fn closed(rows: &SessionRows, stacks: &BTreeSet<u32>) -> BTreeSet<u32> {
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

/// Returns the processes, all from which they were forked at any time, and all that shared memory with these: they have the same mappings.
fn with_ancestors(rows: &SessionRows, mut processes: BTreeSet<u32>) -> BTreeSet<u32> {
    let mut sources: BTreeSet<(u32, u32)> = BTreeSet::new();
    for row in &rows.lifecycle {
        if [Change::FORK, Change::SHARES].contains(&row.change) {
            sources.insert((row.tgid, row.parent_tgid));
        }
        if row.change == Change::SHARES {
            sources.insert((row.parent_tgid, row.tgid));
        }
    }
    let mut fresh: Vec<u32> = processes.iter().copied().collect();
    while let Some(process) = fresh.pop() {
        for (_, parent) in sources.range((process, 0)..=(process, u32::MAX)) {
            if processes.insert(*parent) {
                fresh.push(*parent);
            }
        }
    }
    processes
}

/// Returns the addresses whose names are looked up, and the addresses after them.
fn addresses(rows: &SessionRows, stacks: &BTreeSet<u32>) -> Vec<u64> {
    let of_node = |id: &u32| rows.nodes.find(*id)?.location.address();
    let mut addresses: Vec<u64> = closed(rows, stacks).iter().filter_map(of_node).collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

/// Returns the positions of the symbols that hold an address or end right before one: a return address after a call that never
/// returns belongs to the next function.
fn symbols(symbols: &[KernelSymbol], addresses: &[u64]) -> Vec<usize> {
    let is_hit = |symbol: &KernelSymbol| {
        let first = addresses.partition_point(|address| *address < symbol.start);
        addresses.get(first).is_some_and(|address| *address <= symbol.end)
    };
    (0..symbols.len()).filter(|position| is_hit(&symbols[*position])).collect()
}

/// Returns the positions of the JIT code of these processes that holds an address or ends right before one.
fn jit(code: &[JitCode], processes: &BTreeSet<u32>, addresses: &[u64]) -> Vec<usize> {
    let is_hit = |code: &JitCode| {
        let first = addresses.partition_point(|address| *address < code.start);
        let is_there = addresses.get(first).is_some_and(|address| *address <= code.end);
        is_there && processes.contains(&code.tgid)
    };
    (0..code.len()).filter(|position| is_hit(&code[*position])).collect()
}

/// Returns the ids of further rows of these snapshots: those of interrupted code, and of the stacks of C that called Go, follow
/// that of the sample, and keep their order.
fn outer_snapshots(rows: &SessionRows, snapshots: &BTreeSet<u32>) -> Vec<u32> {
    let is_outer = |id: &u32| rows.held.snapshots.find(*id).is_some_and(Snapshot::is_outer);
    let outer = |id: &u32| {
        let id = *id;
        (1_u32..).map_while(move |further| id.checked_add(further)).take_while(is_outer)
    };
    snapshots.iter().flat_map(outer).collect()
}

/// Returns the positions of the symbols of images that hold a piece of code or end right before it.
fn image_symbols(rows: &SessionRows, code: &BTreeSet<(u32, u64)>) -> Vec<usize> {
    let is_hit = |symbol: &Symbol| {
        let (first, last) = ((symbol.image, symbol.start), (symbol.image, symbol.end));
        first <= last && code.range(first..=last).next().is_some()
    };
    (0..rows.symbols.len()).filter(|position| is_hit(&rows.symbols[*position])).collect()
}

/// Returns the positions of the named places by which code is looked up: its own, or that of the byte before it.
fn names(rows: &SessionRows, code: &BTreeSet<(u32, u64)>) -> Vec<(usize, usize)> {
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
        let strings = Renumbered::new([3, 9], IdTable::Strings);
        assert_eq!([0, 3, 9, 4, u32::MAX].map(|id| strings.new_id(id)), [0, 2, 3, 1, 1]);
        let tasks = Renumbered::new([0, 7], IdTable::Tasks);
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
