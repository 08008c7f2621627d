//! Finds code that is several functions: a linker folds functions of equal code into one (`--icf`), and each call names the one it means.

use std::collections::{BTreeMap, BTreeSet};

use crate::named::names::{Function, Names};
use crate::stacks::locate::Located;

/// Adds to the name of each function the other names by which calls on the stacks name its code: `alpha or beta`.
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

/// Returns true if this is another function of the same code. A name that only adds to the other one (`open`, `open64`), and one that is
/// reserved for libraries themselves (`__libc_free`), are those of one function.
fn is_other(function: &Function, called: &str) -> bool {
    let own = function.own_name();
    let adds = |a: &str, b: &str| a.starts_with(b) || a.ends_with(b);
    let are_of_one =
        adds(own, called) || adds(called, own) || [own, called].iter().any(|name| name.starts_with('_'));
    !are_of_one && function.aliases.iter().any(|alias| **alias == *called)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_a_library_adds_are_no_other_functions() {
        let of = |name: &str, called: &str| {
            let aliases = [called, "more"].map(Into::into).into();
            is_other(&Function { aliases, ..Function::new(name) }, called)
        };
        assert!(of("alpha(int)", "beta(int)") && of("memcpy", "memmove") && of("A::f()", "B::f()"));
        for (name, called) in [
            ("free", "__libc_free"),
            ("open", "open64"),
            ("__open64_nocancel", "__open_nocancel"),
            ("fopen64", "_IO_new_fopen"),
            ("same", "same"),
        ] {
            assert!(!of(name, called) && !of(called, name), "{name} {called}");
        }
        assert!(!is_other(&Function::new("alpha"), "beta"), "nobody says that it has this name");
    }
}
