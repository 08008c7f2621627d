//! Makes unwind tables of what Go's runtime knows of its stacks, which stripping leaves.

use std::collections::BTreeMap;

use icecore_elf::go::{self, FDE_AT};
use icecore_elf::{Layout, Machine};
use object::read::ReadRef;

use super::functions::Asked;
use super::rules::Rule;

/// Makes the unwind tables of the functions around addresses, each once; none if this is no program of Go.
pub(super) fn rules<'d>(file: impl ReadRef<'d>, layout: &Layout, asked: &[Asked]) -> Option<Vec<Rule>> {
    let table = go::open(file, layout)?;
    let machine = Machine::of_elf(layout.machine.0)?;
    let mut rules: BTreeMap<u64, Rule> = BTreeMap::new();
    for asked in asked {
        let Some(function) = table.function(asked.at.0).filter(|it| !rules.contains_key(&it.start)) else {
            continue;
        };
        // Code lies in the file as in memory, from one function to the next.
        let bias = asked.at.0.wrapping_sub(asked.off.0);
        let code = |at: u64, len| file.read_bytes_at(at.checked_sub(bias)?, len).ok();
        let Some(made) = go::rule(machine, &table, &function, code) else { continue };
        let at = FDE_AT | function.start;
        let start = function.start.wrapping_sub(bias);
        rules.insert(function.start, Rule { at, start, bias, bytes: made.bytes });
    }
    Some(rules.into_values().collect())
}
