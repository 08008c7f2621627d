//! Address spaces, replayed: which mapping was at an address of a process at a moment.
//!
//! ```text
//! process 7   FOUND────────────EXEC──────────────EXIT     FORK (the number is used again)──
//! lives       ├─ life 0 ───────┼─ life 1 ─────────┤        ├─ life 2: begins as a copy ────
//! mappings     A   B            C  D                        of its parent at that moment
//! spaces      0│ 1 │ 2         3│4 │ 5                     6
//! ```
//!
//! A *life* is one address space, from fork or exec to the next exec. Processes that share memory live the same
//! life. Its mappings are laid over each other in time order; a *space* is a life after so many of them. Samples
//! name spaces, so each distinct stack is looked up once per space. Where JIT code replaces other such code, a new space begins as
//! well, so that an address shows one thing in a space: see `code`.

mod code;
mod layers;

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use icecore_elf::{Avma, FileOff};
use icecore_format::records::{Change, JitCode, Lifecycle, Mapping, Origin};

use code::Code;
use layers::Layers;

/// Mappings of one image in one address space that are looked at: real programs have a handful.
const LOOKED_AT: usize = 4096;

/// Returns the offset in its file of an address that a mapping holds.
pub fn offset_in(mapping: &Mapping, address: Avma) -> FileOff {
    FileOff((address.0 - mapping.start).wrapping_add(mapping.file_off))
}

/// One address space at one moment; dense from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SpaceId(pub u32);

/// All address spaces of a recording.
#[derive(Debug, Default)]
pub struct Spaces {
    lives: Vec<Life>,
    layers: Vec<Layers>,
    /// JIT code, by the number of the life; only of lives that have some.
    code: HashMap<u32, Code>,
    by_tgid: HashMap<u32, Vec<Stay>>,
}

/// The time of a process in one address space.
#[derive(Debug)]
struct Stay {
    from_ns: u64,
    /// The number of the life.
    life: u32,
    /// Name of the leading thread, a string id; 0 if it was never told.
    comm: u32,
    /// The first thread has ended.
    first_has_ended: bool,
    /// The other threads that have begun in it, and run.
    others: HashSet<u32>,
}

/// One address space from fork or exec to the next exec.
#[derive(Debug)]
struct Life {
    from_ns: u64,
    first_space: u32,
    /// The parent's life, and the moment of the fork.
    copied_from: Option<(u32, u64)>,
    mappings: Vec<Mapping>,
    /// Positions of mappings, ordered by image.
    by_image: Vec<u32>,
}

impl Spaces {
    /// Replays the changes of tasks and their mappings.
    ///
    /// Both are merged by time; at equal times a change of a task comes before a mapping, because an
    /// exec empties the address space into which the new program is then mapped.
    pub fn replay(changes: &[Lifecycle], mappings: &[Mapping]) -> Self {
        Self::replay_with_code(changes, mappings, &[])
    }

    /// As [`Spaces::replay`], and lays JIT code over each other in the address spaces that it belongs to.
    pub fn replay_with_code(changes: &[Lifecycle], mappings: &[Mapping], code: &[JitCode]) -> Self {
        let mut changes: Vec<&Lifecycle> = changes.iter().collect();
        let mut mappings: Vec<&Mapping> = mappings.iter().filter(|m| m.len > 0).collect();
        // An exec renames its thread at the moment from which it counts: the old program keeps its name.
        changes.sort_by_key(|c| (c.time_ns, c.change != Change::EXEC));
        mappings.sort_by_key(|m| m.time_ns);
        let mut spaces = Self::default();
        let mut changes = changes.into_iter().peekable();
        for mapping in mappings {
            while let Some(change) = changes.next_if(|c| c.time_ns <= mapping.time_ns) {
                spaces.change(change);
            }
            spaces.map(mapping);
        }
        changes.for_each(|change| spaces.change(change));
        spaces.make(code);
        spaces.number_spaces();
        spaces
    }

    /// Finds the address space of a process at a moment.
    pub fn space(&self, tgid: u32, time_ns: u64) -> Option<SpaceId> {
        self.stay(tgid, time_ns).0
    }

    /// Finds the address space of a process at a moment, and how long it has been and will be that one.
    pub fn stay(&self, tgid: u32, time_ns: u64) -> (Option<SpaceId>, Range<u64>) {
        let stays = self.by_tgid.get(&tgid).map_or(&[][..], |stays| stays);
        let after = stays.partition_point(|stay| stay.from_ns <= time_ns);
        let next_ns = stays.get(after).map_or(u64::MAX, |stay| stay.from_ns);
        let Some(stay) = after.checked_sub(1).map(|last| &stays[last]) else { return (None, 0..next_ns) };
        let life = &self.lives[stay.life as usize];
        let version = life.version(time_ns) as usize;
        let newest = version.checked_sub(1).and_then(|newest| life.mappings.get(newest));
        let from_ns = newest.map_or(stay.from_ns, |mapping| mapping.time_ns.max(stay.from_ns));
        let to_ns = life.mappings.get(version).map_or(next_ns, |mapping| mapping.time_ns.min(next_ns));
        (Some(SpaceId(life.first_space + version as u32)), from_ns..to_ns)
    }

    /// Finds the mapping that holds an address.
    pub fn find(&self, space: SpaceId, address: Avma) -> Option<&Mapping> {
        let mut life = self.life_of(space)?;
        let mut version = space.0 - self.lives[life].first_space;
        loop {
            if let Some(number) = self.layers[life].find(address, version) {
                return self.lives[life].mappings.get(number as usize);
            }
            let (parent, forked_ns) = self.lives[life].copied_from?;
            life = parent as usize;
            version = self.lives[life].version(forked_ns);
        }
    }

    /// Finds the address at which a space shows an offset of an image, the newest if there are several.
    pub fn address(&self, space: SpaceId, image: u32, file_off: FileOff) -> Option<Avma> {
        let mut life = self.life_of(space)?;
        let mut version = space.0 - self.lives[life].first_space;
        loop {
            let address = self.lives[life].showing(image, version).take(LOOKED_AT).find_map(|m| {
                let into = file_off.0.checked_sub(m.file_off).filter(|into| *into < m.len)?;
                let address = Avma(m.start.checked_add(into)?);
                (self.find(space, address) == Some(m)).then_some(address)
            });
            if address.is_some() {
                return address;
            }
            let (parent, forked_ns) = self.lives[life].copied_from?;
            life = parent as usize;
            version = self.lives[life].version(forked_ns);
        }
    }

    /// Finds the JIT code that holds an address, a position in what was replayed.
    pub fn code(&self, space: SpaceId, address: Avma) -> Option<usize> {
        let number = self.life_of(space)?;
        let code = self.code.get(&(number as u32))?;
        let life = &self.lives[number];
        let version = (space.0 - life.first_space) as usize;
        let newest = version.checked_sub(1).and_then(|newest| life.mappings.get(newest));
        code.find(address, newest.map_or(life.from_ns, |mapping| mapping.time_ns))
    }

    /// Tells the name that a process has in a space, a string id; 0 if it was never told.
    pub fn process_name(&self, tgid: u32, space: SpaceId) -> u32 {
        let life = self.life_of(space).map(|life| life as u32);
        let mut stays = self.by_tgid.get(&tgid).into_iter().flatten().rev();
        stays.find(|stay| Some(stay.life) == life).map_or(0, |stay| stay.comm)
    }

    /// The life that a space belongs to.
    fn life_of(&self, space: SpaceId) -> Option<usize> {
        self.lives.partition_point(|life| life.first_space <= space.0).checked_sub(1)
    }

    fn change(&mut self, change: &Lifecycle) {
        let process = change.tgid;
        match change.change {
            Change::FOUND => match self.current(process) {
                None => self.begin(process, Life::beginning(0), change.comm),
                Some(stay) if stay.comm == 0 => stay.comm = change.comm,
                Some(_) => {}
            },
            Change::FORK if change.parent_tgid != process => {
                let parent = self.current(change.parent_tgid).map(|stay| stay.life);
                let copied_from = parent.map(|life| self.original(life as usize, change.time_ns));
                let life = Life { copied_from, ..Life::beginning(change.time_ns) };
                self.begin(process, life, change.comm);
            }
            // It comes after the fork, or after the process was found: the life that began there is not its own.
            Change::SHARES if change.parent_tgid != process => {
                if self.current(change.parent_tgid).is_none() {
                    self.begin(change.parent_tgid, Life::beginning(0), 0);
                }
                let shared = self.current(change.parent_tgid).map(|stay| stay.life);
                if let (Some(own), Some(shared)) = (self.current(process), shared) {
                    own.life = shared;
                }
            }
            Change::EXEC => self.begin(process, Life::beginning(change.time_ns), change.comm),
            // A process that was found after its fork or exec has its name from these: the scan may have
            // looked before them.
            Change::COMM if change.tid == process => {
                if let Some(stay) = self.current(process).filter(|_| change.comm != 0) {
                    stay.comm = change.comm;
                }
            }
            Change::FORK => {
                if let Some(stay) = self.current(process) {
                    stay.others.insert(change.tid);
                }
            }
            Change::EXIT => {
                if let Some(stay) = self.current(process) {
                    stay.first_has_ended |= change.tid == process;
                    stay.others.remove(&change.tid);
                }
            }
            _ => {}
        }
    }

    fn map(&mut self, mapping: &Mapping) {
        match self.current(mapping.tgid) {
            Some(stay) if !stay.has_ended() => {}
            // Its fork was lost: a new process under a used number.
            Some(_) => self.begin(mapping.tgid, Life::beginning(mapping.time_ns), 0),
            None => self.begin(mapping.tgid, Life::beginning(0), 0),
        }
        let Some(life) = self.current(mapping.tgid).map(|stay| stay.life) else { return };
        let life = &mut self.lives[life as usize];
        let scanned = mapping.origin == Origin::SCAN;
        let time_ns = if scanned { life.from_ns } else { mapping.time_ns };
        life.mappings.push(Mapping { time_ns, ..*mapping });
    }

    /// Notes JIT code, and the moments at which it changes as mappings of nothing.
    fn make(&mut self, code: &[JitCode]) {
        let mut of_lives: HashMap<u32, Vec<(usize, &JitCode)>> = HashMap::new();
        for (row, code) in code.iter().enumerate() {
            if code.start >= code.end || (code.name.is_empty() && code.rules.is_empty()) {
                continue;
            }
            let Some(stays) = self.by_tgid.get(&code.tgid) else { continue };
            let after = stays.partition_point(|stay| stay.from_ns <= code.since_ns);
            if let Some(stay) = stays.get(after.saturating_sub(1)) {
                of_lives.entry(stay.life).or_default().push((row, code));
            }
        }
        for (number, rows) in of_lives {
            let code = Code::new(rows);
            let life = &mut self.lives[number as usize];
            let mut turns: Vec<u64> = code.turns().filter(|ns| *ns > life.from_ns).collect();
            turns.sort_unstable();
            turns.dedup();
            let (tgid, start, len, file_off, image) = (0, 0, 0, 0, u32::MAX);
            let origin = Origin::EVENT;
            let mount_ns = 0;
            let nothing = |time_ns| Mapping { time_ns, tgid, start, len, file_off, image, origin, mount_ns };
            life.mappings.extend(turns.into_iter().map(nothing));
            self.code.insert(number, code);
        }
    }

    fn current(&mut self, tgid: u32) -> Option<&mut Stay> {
        self.by_tgid.get_mut(&tgid).and_then(|stays| stays.last_mut())
    }

    fn begin(&mut self, tgid: u32, life: Life, comm: u32) {
        let (number, from_ns) = (self.lives.len() as u32, life.from_ns);
        self.lives.push(life);
        let stay = Stay { from_ns, life: number, comm, first_has_ended: false, others: HashSet::new() };
        self.by_tgid.entry(tgid).or_default().push(stay);
    }

    /// What a fork copies. A copy that has mapped nothing itself stands for its original, so that long
    /// lines of forks cost nothing.
    fn original(&self, life: usize, forked_ns: u64) -> (u32, u64) {
        match self.lives[life].copied_from {
            Some(original) if self.lives[life].mappings.is_empty() => original,
            _ => (life as u32, forked_ns),
        }
    }

    fn number_spaces(&mut self) {
        let mut next = 0u32;
        for life in &mut self.lives {
            // A scan comes after the first events, and what it found was there before them, or is stale:
            // it counts from the beginning of the life and lies below what the kernel reported.
            life.mappings.sort_by_key(|m| (m.time_ns, m.origin != Origin::SCAN));
            life.by_image = (0..life.mappings.len() as u32).collect();
            life.by_image.sort_by_key(|position| life.mappings[*position as usize].image);
            life.first_space = next;
            next = next.saturating_add(life.mappings.len() as u32).saturating_add(1);
        }
        let bounds = |m: &Mapping| (Avma(m.start), Avma(m.start.saturating_add(m.len)));
        self.layers = self
            .lives
            .iter()
            .map(|life| Layers::new(&life.mappings.iter().map(bounds).collect::<Vec<_>>()))
            .collect();
    }
}

impl Stay {
    /// Returns true if no thread of the process is known to run.
    fn has_ended(&self) -> bool {
        self.first_has_ended && self.others.is_empty()
    }
}

impl Life {
    fn beginning(from_ns: u64) -> Self {
        let (mappings, by_image) = Default::default();
        Self { from_ns, first_space: 0, copied_from: None, mappings, by_image }
    }

    /// Lists the mappings of an image among the first `version`, newest first.
    fn showing(&self, image: u32, version: u32) -> impl Iterator<Item = &Mapping> {
        let of = |position: &u32| &self.mappings[*position as usize];
        let begin = self.by_image.partition_point(|position| of(position).image < image);
        let len = self.by_image[begin..].partition_point(|at| of(at).image == image && *at < version);
        self.by_image[begin..begin + len].iter().rev().map(of)
    }

    /// Counts the mappings that are there at a moment.
    fn version(&self, time_ns: u64) -> u32 {
        self.mappings.partition_point(|m| m.time_ns <= time_ns) as u32
    }
}

#[cfg(test)]
mod tests;
