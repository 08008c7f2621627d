//! Finds the unwind tables of images: those in the recording, else those of the files.
//!
//! With the recording's own tables, a recording has the same stacks on every machine. If they cover all code on the stacks, no file
//! need be opened.

mod recorded;

use std::sync::OnceLock;

use icecore_format::records::{JitCode, Location, UnwindRule};
use iced_x86::{Decoder, DecoderOptions, FlowControl};
use rayon::prelude::*;

use crate::map::Map;
use crate::stacks::calls::{self, Judge};
use crate::stacks::locate::Locator;
use crate::stacks::unwind_tables::Opened;
use icecore_symbolize::image::{FileOff, Finder, Identity, Svma};
use icecore_unwind::{Machine, ModuleAddress, UnwindSections, UnwindTables};
pub(super) use recorded::Recorded;

/// The first call of a program lies at most so far from its entry point.
const ENTRY_BYTES: u64 = 64;
/// `mov %eax, %edi; xor %eax, %eax; mov $60, %al; syscall`: what musl's `__clone` does when the function of a thread returns.
const THREAD_END: [u8; 8] = [0x89, 0xc7, 0x31, 0xc0, 0xb0, 0x3c, 0x0f, 0x05];

/// The address of a piece of JIT code as its unwind tables have it: a function at 0 would count as one that the linker has dropped.
const MADE_AT: u64 = 1 << 16;

/// The unwind tables of all images that stacks hit.
pub(super) struct TableSources<'a> {
    machine: Machine,
    /// The tables of each image, by position in [`Locator::images`].
    images: Vec<Option<TableSource<'a>>>,
    /// JIT code.
    made: &'a [JitCode],
}

/// The recording's tables of an image, and those of its files if the recording does not have all; one of them at least.
struct TableSource<'a> {
    recorded: Option<Recorded>,
    files: Option<Opened>,
    /// The files of an image for which the recording has all tables: opened if the code itself is needed.
    code: OnceLock<Option<Opened>>,
    finder: Finder<'a>,
    image: &'a Identity,
}

/// A view of the tables that looks up addresses, by position in [`Locator::images`].
pub(super) struct TableLookup<'a> {
    machine: Machine,
    images: Vec<Option<(&'a TableSource<'a>, UnwindTables<'a>)>>,
    /// The tables of JIT code that has some, by position in [`Tables::jit`](crate::recording::load::Tables::jit).
    made: Map<usize, UnwindTables<'a>>,
    /// The code itself; without it nothing is guessed.
    calls: Option<&'a (dyn Judge + 'a)>,
}

impl<'a> TableSources<'a> {
    /// Finds the tables of all images whose addresses occur on stacks; `None` if the recording's machine is unknown.
    pub(super) fn find(locator: &'a Locator<'_>, finder: &Finder<'a>) -> Option<Self> {
        let tables = locator.tables;
        let machine = tables.machine()?;
        let mut of_images: Map<u32, Vec<&UnwindRule>> = Map::default();
        for rule in &tables.unwind_rules {
            if let Some(image) = locator.image(rule.image) {
                of_images.entry(image).or_default().push(rule);
            }
        }
        let mut wanted = vec![Vec::new(); locator.images.len()];
        let leaves = tables.nodes.iter().map(|(_, node)| &node.location);
        for location in tables.held.code.iter().map(|(_, location)| location).chain(leaves) {
            if let Location::Image { image, file_off } = location
                && let Some(position) = locator.image(*image)
            {
                wanted[position as usize].push(*file_off);
            }
        }
        let images = locator.images.par_iter().zip(wanted).enumerate();
        let images = images.map(|(position, (image, mut wanted))| {
            let recorded = of_images.get(&(position as u32)).and_then(|rules| Recorded::new(rules, machine));
            wanted.sort_unstable();
            wanted.dedup();
            let lacks = recorded.as_ref().is_none_or(|recorded| recorded.lacks(machine, &wanted));
            let open = || Opened::of(&finder.look(image).files.ok()?, machine, &wanted);
            let files = if lacks && !wanted.is_empty() { open() } else { None };
            let source = TableSource { recorded, files, code: OnceLock::new(), finder: *finder, image };
            (source.recorded.is_some() || source.files.is_some()).then_some(source)
        });
        Some(Self { machine, images: images.collect(), made: &tables.jit })
    }

    /// Prepares the tables for lookups.
    pub(super) fn tables(&self) -> TableLookup<'_> {
        let images = self.images.par_iter().map(|source| {
            let source = source.as_ref()?;
            let recorded = source.recorded.as_ref().map(|it| UnwindTables::new(it.sections(self.machine)));
            let files = source.files.as_ref().map(|it| UnwindTables::new(it.sections(self.machine)));
            let tables = match (recorded, files) {
                (Some(recorded), Some(files)) => recorded.with_more(files),
                (recorded, files) => recorded.or(files)?,
            };
            Some((source, tables))
        });
        let made = self.made.iter().enumerate().filter(|(_, code)| !code.rules.is_empty());
        let made = made.map(|(position, code)| {
            let eh_frame_at = Svma(MADE_AT + code.rules_at());
            let entries = UnwindSections::of_entries(self.machine, &code.rules);
            (position, UnwindTables::new(UnwindSections { eh_frame_at, ..entries }))
        });
        let made = made.collect();
        TableLookup { machine: self.machine, images: images.collect(), made, calls: None }
    }
}

impl TableSource<'_> {
    /// Returns the files if they contain code: files in a recording may lack it.
    fn with_code(&self) -> Option<&Opened> {
        let has_code = |opened: &&Opened| opened.layout.has_code();
        let open = || Opened::of(&self.finder.look(self.image).files.ok()?, Machine::X86_64, &[]);
        let files = self.files.as_ref().filter(has_code);
        files.or_else(|| self.code.get_or_init(open).as_ref().filter(has_code))
    }

    fn svma(&self, off: FileOff) -> Option<Svma> {
        let recorded = || self.recorded.as_ref().map(|recorded| recorded.svma(off));
        self.files.as_ref().and_then(|files| files.layout.svma(off)).or_else(recorded)
    }
}

impl<'a> TableLookup<'a> {
    /// Adds the code, against which guesses are checked.
    pub(super) fn with_calls(self, calls: &'a (dyn Judge + 'a)) -> Self {
        Self { calls: Some(calls), ..self }
    }

    pub(super) fn calls(&self) -> Option<&'a dyn Judge> {
        self.calls
    }

    /// Returns the instruction set.
    pub(super) fn machine(&self) -> Machine {
        self.machine
    }

    /// Returns true if machine code shows a call before an offset; `None` if the file is not available, or if the kernel puts the
    /// address on stacks: that of a signal trampoline.
    pub(super) fn is_behind_call(&self, image: u32, off: FileOff) -> Option<bool> {
        let (source, _) = self.images.get(image as usize)?.as_ref()?;
        let file = source.with_code()?.sections.file();
        let at = usize::try_from(off.0).ok()?;
        let before = file.get(at.saturating_sub(8)..at)?;
        let is_trampoline =
            || calls::signal_returns(self.machine).iter().any(|call| file[at..].starts_with(call));
        match calls::ends_with_call(self.machine, before) {
            false if is_trampoline() => None,
            is_behind => Some(is_behind),
        }
    }

    /// Returns true if machine code shows that the stack of a program or thread begins with the return address at an offset.
    pub(super) fn is_start(&self, image: u32, off: FileOff) -> bool {
        let files = self.images.get(image as usize).and_then(|image| image.as_ref()?.0.with_code());
        let is_entry = |files: &Opened| {
            let call = files.layout.svma(FileOff(off.0.saturating_sub(1)));
            let into = call.and_then(|call| (call.0 + 1).checked_sub(files.layout.entry.0));
            let code = into.filter(|into| *into <= ENTRY_BYTES).and_then(|into| {
                let end = usize::try_from(off.0).ok()?;
                files.sections.file().get(end.checked_sub(into as usize)?..end)
            });
            code.is_some_and(is_first_call)
        };
        let ends_thread = |files: &Opened| {
            let behind = usize::try_from(off.0).ok().and_then(|off| files.sections.file().get(off..));
            match self.machine {
                Machine::X86_64 => behind.is_some_and(|code| code.starts_with(&THREAD_END)),
                Machine::Aarch64 => false,
            }
        };
        let is_it = files.is_some_and(|files| is_entry(files) || ends_thread(files));
        is_it && self.is_behind_call(image, off) == Some(true)
    }

    /// Returns true if some JIT code has unwind tables.
    pub(super) fn has_made(&self) -> bool {
        !self.made.is_empty()
    }

    /// Returns the place of an address in a piece of JIT code, counted from its start; `None` if it has no unwind tables. Pieces have
    /// the numbers behind those of images.
    pub(super) fn made(&self, position: usize, at: Svma) -> Option<ModuleAddress<'_>> {
        let tables = self.made.get(&position)?;
        let module = u32::try_from(self.images.len() + position).ok()?;
        Some(ModuleAddress { module: Some(module), at: at.wrapping_add(MADE_AT), tables: Some(tables) })
    }

    /// Returns the place of an offset in an image.
    pub(super) fn place(&self, image: Option<u32>, off: FileOff) -> ModuleAddress<'_> {
        let found = image.and_then(|image| self.images.get(image as usize)?.as_ref());
        match found.and_then(|(source, tables)| Some((source.svma(off)?, tables))) {
            Some((at, tables)) => ModuleAddress { module: image, at, tables: Some(tables) },
            None => ModuleAddress { module: image, at: Svma(off.0), tables: None },
        }
    }
}

/// Returns true if the code from an entry point to a return address runs straight to one call at its end.
fn is_first_call(code: &[u8]) -> bool {
    let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
    while decoder.can_decode() {
        match decoder.decode().flow_control() {
            FlowControl::Next => {}
            FlowControl::Call | FlowControl::IndirectCall => return !decoder.can_decode(),
            _ => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_begins_with_one_call() {
        assert!(is_first_call(&[0x31, 0xed, 0x48, 0x89, 0xe7, 0xe8, 1, 2, 3, 4]));
        assert!(
            !is_first_call(&[0x31, 0xed, 0xe8, 1, 2, 3, 4, 0xf4, 0x90, 0xe8, 1, 2, 3, 4]),
            "another function"
        );
    }
}
