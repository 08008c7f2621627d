//! Where programs and threads begin.
//!
//! C libraries are often built without frame pointers, so the walk through a program that has them ends
//! somewhere in the C library's entry code, and rarely at a frame pointer of 0. Such a stack is whole.

use super::Stack;
use crate::names::{Names, Side};

/// Functions that no other function calls, or that only such functions call.
const ENTRIES: [&str; 15] = [
    "_start",
    "_start_c",
    "_dl_start",
    "_dl_start_user",
    "start_thread",
    "clone",
    "__clone",
    "__clone_internal",
    "clone3",
    "__clone3",
    "runtime.goexit",
    "runtime.goexit.abi0",
    "runtime.mstart",
    "runtime.mstart.abi0",
    "runtime.rt0_go.abi0",
];
/// `__libc_start_main`, `__libc_start_call_main`, `__libc_start_main@@GLIBC_2.34` …
const ENTRY_PREFIX: &str = "__libc_start_";

/// Tells for each stack whether an entry point is in it.
pub(super) fn below(names: &Names, stacks: &[Stack]) -> Vec<bool> {
    let is_entry: Vec<bool> = names
        .functions
        .iter()
        .map(|f| f.side == Side::User && (ENTRIES.contains(&&*f.name) || f.name.starts_with(ENTRY_PREFIX)))
        .collect();
    let mut has_entry = vec![false; stacks.len()];
    for (position, stack) in stacks.iter().enumerate().skip(1) {
        let function = names.frames[stack.frame as usize].function;
        has_entry[position] = has_entry[stack.caller as usize] || is_entry[function as usize];
    }
    has_entry
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn a_stack_with_an_entry_point_anywhere_is_whole() {
        let profile = fixture::profile(&[("x;__libc_start_call_main;main;a", 1), ("restart;main", 1)]);
        let whole = below(&profile.names, &profile.stacks);
        assert_eq!(whole, [false, false, true, true, true, false, false]);
    }
}
