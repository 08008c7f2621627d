//! Notes about processes for [`Collector`](crate::collect::Collector), in the order of time: hits in code that is in no file, and the
//! beginnings and ends of address spaces.

use icecore_elf::Avma;
use icecore_format::records::{Change, Lifecycle};
use rustc_hash::FxHashSet;

/// The number of stacks that are remembered before all are forgotten; a forgotten one is noted again.
const REMEMBERED: usize = 64 << 10;

/// Something that happened to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Note {
    /// A sample hit code that is in no file. The address is that of an instruction in the leaf, else a return address.
    Hit { time_ns: u64, tgid: u32, address: Avma },
    /// A stack or a register held the address of such code.
    Held { time_ns: u64, tgid: u32, address: Avma },
    /// A stack held a frame of an interpreter, if that is what it is: the addresses of its method and of its instruction.
    Runs { time_ns: u64, tgid: u32, method: u64, instruction: u64 },
    /// A process was forked, and has the mappings of its parent.
    Fork { time_ns: u64, parent_tgid: u32, tgid: u32 },
    /// An address space is gone: its process runs another program, or has ended.
    Gone { time_ns: u64, tgid: u32, has_ended: bool },
}

/// Collects notes.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    list: Vec<Note>,
    /// The noted stacks with such code, by process and stack.
    seen: FxHashSet<(u32, u32)>,
    /// The noted words of stacks, by process and address.
    held: FxHashSet<(u32, Avma)>,
    /// The noted frames of interpreters, by process, method and instruction.
    runs: FxHashSet<(u32, u64, u64)>,
}

impl Notes {
    /// Notes a user stack; `addresses` are those of its frames that are in no file.
    ///
    /// # Cost
    /// None without such frames, else one table lookup: the frames of a stack are noted only the first time.
    pub(super) fn stack(
        &mut self,
        time_ns: u64,
        tgid: u32,
        stack: u32,
        addresses: impl Iterator<Item = Avma>,
    ) {
        let mut addresses = addresses.peekable();
        if addresses.peek().is_none() || !self.seen.insert((tgid, stack)) {
            return;
        }
        self.list.extend(addresses.map(|address| Note::Hit { time_ns, tgid, address }));
        if self.seen.len() >= REMEMBERED {
            self.seen.clear();
        }
    }

    /// Notes that a stack or a register held the address of such code; returns true the first time.
    ///
    /// # Cost
    /// One table lookup for each such word in the changed parts of stacks.
    pub(super) fn held(&mut self, time_ns: u64, tgid: u32, address: Avma) -> bool {
        if self.held.len() >= REMEMBERED {
            self.held.clear();
        }
        let is_new = self.held.insert((tgid, address));
        if is_new {
            self.list.push(Note::Held { time_ns, tgid, address });
        }
        is_new
    }

    /// Notes a frame of an interpreter.
    ///
    /// # Cost
    /// One table lookup.
    pub(super) fn runs(&mut self, time_ns: u64, tgid: u32, method: u64, instruction: u64) {
        if self.runs.len() >= REMEMBERED {
            self.runs.clear();
        }
        if self.runs.insert((tgid, method, instruction)) {
            self.list.push(Note::Runs { time_ns, tgid, method, instruction });
        }
    }

    /// Notes a change of a process.
    pub(super) fn change(&mut self, row: &Lifecycle, ends_process: bool) {
        let Lifecycle { time_ns, tgid, parent_tgid, .. } = *row;
        match row.change {
            Change::FORK if parent_tgid != tgid => {
                self.list.push(Note::Fork { time_ns, parent_tgid, tgid });
            }
            Change::EXEC => self.gone(time_ns, tgid, false),
            Change::EXIT if ends_process => self.gone(time_ns, tgid, true),
            _ => {}
        }
    }

    /// Notes everything again that is seen after this call: it is for another file.
    pub(super) fn end_file(&mut self) {
        self.seen.clear();
        self.held.clear();
        self.runs.clear();
    }

    fn gone(&mut self, time_ns: u64, tgid: u32, has_ended: bool) {
        // In the next address space the same stack counts as new.
        self.end_file();
        self.list.push(Note::Gone { time_ns, tgid, has_ended });
    }

    /// Hands over the notes.
    pub(super) fn take(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_noted_once_for_each_process_and_address_space() {
        let mut notes = Notes::default();
        let hit = |tgid, address| Note::Hit { time_ns: 5, tgid, address };
        notes.stack(5, 7, 1, [Avma(0x10), Avma(0x20)].into_iter());
        notes.stack(5, 7, 1, [Avma(0x10), Avma(0x20)].into_iter());
        notes.stack(5, 8, 1, [Avma(0x10)].into_iter());
        notes.stack(5, 8, 2, [].into_iter());
        assert_eq!(notes.take(), [hit(7, Avma(0x10)), hit(7, Avma(0x20)), hit(8, Avma(0x10))]);
        let (tid, comm, parent_tgid) = (7, 0, 1);
        let exec = Lifecycle { time_ns: 6, change: Change::EXEC, tgid: 7, tid, parent_tgid, comm };
        notes.change(&exec, false);
        notes.stack(7, 7, 1, [Avma(0x10)].into_iter());
        let again = Note::Hit { time_ns: 7, tgid: 7, address: Avma(0x10) };
        assert_eq!(notes.take(), [Note::Gone { time_ns: 6, tgid: 7, has_ended: false }, again]);
    }
}
