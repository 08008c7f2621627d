//! Makes unwind tables from Go's own table of stack depths, which stripping leaves.

use std::collections::BTreeMap;

use icecore_elf::go::{self, FDE_AT};
use icecore_elf::{Layout, Machine};
use object::read::ReadRef;

use super::functions::Requested;
use super::rules::Rule;

/// Makes the unwind tables of the functions around addresses, each once; `None` if the file is not a Go program.
pub(super) fn rules<'d>(
    file: impl ReadRef<'d>,
    layout: &Layout,
    requested: &[Requested],
) -> Option<Vec<Rule>> {
    let table = go::open(file, layout)?;
    let machine = Machine::of_elf(layout.machine.0)?;
    let mut rules: BTreeMap<u64, Rule> = BTreeMap::new();
    for requested in requested {
        let Some(function) = table.function(requested.at.0).filter(|it| !rules.contains_key(&it.start))
        else {
            continue;
        };
        // Within a function, code lies in the file as in memory.
        let bias = requested.at.0.wrapping_sub(requested.off.0);
        let code = |at: u64, len| file.read_bytes_at(at.checked_sub(bias)?, len).ok();
        let Some(made) = go::rule(machine, &table, &function, code) else { continue };
        let at = FDE_AT | function.start;
        let start = function.start.wrapping_sub(bias);
        rules.insert(function.start, Rule { at, start, bias, bytes: made.bytes });
    }
    Some(rules.into_values().collect())
}
