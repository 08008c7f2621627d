//! Finds code that is several functions: a linker folds functions of equal code into one (`--icf`), and each call names the one it means.

use std::collections::{BTreeMap, BTreeSet};

use crate::named::names::{Function, Names};
use crate::stacks::locate::Located;

/// Puts behind the name of a function those other names of its code by which the calls on the stacks name it: `alpha or beta`.
pub(super) fn mark(located: &Located, names: &mut Names) {
    let mut others: BTreeMap<u32, BTreeSet<&str>> = BTreeMap::new();
    for spot in located.spots.iter().skip(1) {
        let caller = &located.spots[spot.caller as usize];
        let called = (spot.caller > 0).then(|| names.calls.get(&caller.place)).flatten();
        let (Some(called), Some(frame)) = (called, names.of_places.of(spot.place as usize).last()) else {
            continue;
        };
        let position = names.frames[*frame as usize].function;
        if is_other(&names.functions[position as usize], called) {
            others.entry(position).or_default().insert(called);
        }
    }
    let mut marked: Vec<(u32, Function)> = Vec::with_capacity(others.len());
    for (position, others) in others {
        let mut function = names.functions[position as usize].clone();
        function.or(&others);
        marked.push((position, function));
    }
    marked.into_iter().for_each(|(position, function)| names.functions[position as usize] = function);
}

/// Returns true if this is another function of the same code. Names that differ by their beginning alone are those of one function and
/// of its helper (`free`, `__libc_free`).
fn is_other(function: &Function, called: &str) -> bool {
    let own = function.own_name();
    function.aliases.iter().any(|alias| **alias == *called)
        && !own.ends_with(called)
        && !called.ends_with(own)
}
