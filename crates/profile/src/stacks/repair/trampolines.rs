//! Finds signal trampolines on walks. The kernel put the address of their first instruction on the stack, so no call precedes it.
//! The frame that a walk along frame pointers shows outside of a trampoline is a caller of the interrupted function, which is
//! missing.

use icecore_format::records::{Location, Mark, UnwindRule};
use rayon::prelude::*;

use super::tables::Recorded;
use crate::map::Map;
use crate::stacks::calls::signal_returns;
use crate::stacks::locate::Locator;
use icecore_symbolize::image::{FileOff, Finder};
use icecore_unwind::UnwindTables;

/// The names of trampolines in C libraries, the kernel and Go.
const NAMES: [&[u8]; 3] = [b"__restore_rt", b"__kernel_rt_sigreturn", b"runtime.sigreturn__sigaction"];

/// Finds the nodes of stacks that are trampolines, and their marks: by the unwind tables and symbols in the recording, or, for an
/// image without either, by the machine code.
///
/// # Cost   one lookup for each distinct address in images that have a trampoline, or no unwind tables in the recording
pub(crate) fn trampolines(locator: &Locator<'_>, finder: &Finder<'_>) -> Vec<(u32, Mark)> {
    let tables = locator.tables;
    let Some(machine) = tables.machine() else { return Vec::new() };
    let mut of_images: Map<u32, Vec<(u64, u32)>> = Map::default();
    for (id, node) in tables.nodes.iter() {
        if let Location::Image { image, file_off } = node.location
            && let Some(image) = locator.image(image)
        {
            of_images.entry(image).or_default().push((file_off, id));
        }
    }
    let mut rules: Map<u32, Vec<&UnwindRule>> = Map::default();
    for rule in &tables.unwind_rules {
        rules.entry(locator.image(rule.image).unwrap_or(u32::MAX)).or_default().push(rule);
    }
    let is_one = |name: &Vec<u8>| NAMES.iter().any(|begin| name.starts_with(begin));
    let named = tables.symbols.iter().filter(|symbol| symbol.names.iter().any(is_one));
    let mut named: Vec<(u32, u64)> =
        named.filter_map(|symbol| Some((locator.image(symbol.image)?, symbol.start))).collect();
    named.sort_unstable();
    let found = of_images.par_iter().map(|(image, nodes)| {
        let is_named = |off: u64| named.binary_search(&(*image, off)).is_ok();
        let of_rules = rules.get(image).map(|rules| {
            let has_signals = rules.iter().any(|rule| is_of_signals(&rule.bytes));
            has_signals.then(|| Recorded::new(rules, machine)).flatten()
        });
        let unwound = of_rules.as_ref().and_then(|of| of.as_ref());
        let unwound = unwound.map(|recorded| (recorded, UnwindTables::new(recorded.sections(machine))));
        let is_by_rules = |off: u64| {
            unwound.as_ref().is_some_and(|(recorded, of)| of.is_trampoline(recorded.svma(FileOff(off))))
        };
        let files = of_rules.is_none().then(|| finder.look(&locator.images[*image as usize]).files.ok());
        let map = files.flatten().and_then(|files| files.image.file.map());
        let is_by_code = |off: u64| {
            let code = map.as_ref().and_then(|map| map.get(usize::try_from(off).ok()?..));
            code.is_some_and(|code| signal_returns(machine).iter().any(|it| code.starts_with(it)))
        };
        let is_it = |off: u64| is_named(off) || is_by_rules(off) || is_by_code(off);
        let nodes = nodes.iter().filter(|(off, _)| is_it(*off));
        nodes.map(|(_, node)| (*node, Mark::INTERRUPTED)).collect::<Vec<_>>()
    });
    found.flatten_iter().collect()
}

/// Returns true if an entry is the common part (CIE) of signal frames: its augmentation has an `S`.
fn is_of_signals(entry: &[u8]) -> bool {
    let is_shared = entry.get(4..8) == Some(&[0; 4]);
    let augmentation = entry.get(9..).unwrap_or_default().split(|byte| *byte == 0).next();
    is_shared && augmentation.is_some_and(|text| text.contains(&b'S'))
}
