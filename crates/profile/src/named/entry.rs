//! Finds the entry points of programs and threads.
//!
//! A stack is whole if its outermost frame is an entry point. C libraries are often built without frame pointers, so the walk
//! through a program that has them ends in the C library's entry code, and rarely at a frame pointer of 0. An entry point further
//! in proves nothing.

use super::Stack;
use crate::named::names::{Function, Names, Side, short};

/// Functions that have no callers, or only such callers: where the kernel, the C library or Go begins a program, a thread or a
/// fiber. Programs may not use these names for anything else.
const ENTRIES: [&str; 16] = [
    "_start",
    "_start_c",
    "_dl_start",
    "_dl_start_user",
    "libc_start_main_stage2",
    "__clone",
    "__clone_internal",
    "__clone3",
    "__start_context",
    "runtime.goexit",
    "runtime.goexit.abi0",
    "runtime.goexit0",
    "runtime.mstart",
    "runtime.mstart.abi0",
    "runtime.rt0_go",
    "runtime.rt0_go.abi0",
];
/// `__libc_start_main`, `__libc_start_call_main`, `__libc_start_main@@GLIBC_2.34` …
const ENTRY_PREFIX: &str = "__libc_start_";
/// Entry points whose names a program may use, too; they count only in a C library.
const ENTRIES_OF_LIBC: [&str; 5] = ["start_thread", "clone", "clone3", "start", "start_c11"];
/// How names of C libraries begin.
const LIBCS: [&str; 6] = ["libc.so", "libc-2", "libpthread", "ld-musl", "libc.musl", "ld-linux"];

/// Entry points of threads that the thread which makes them calls as well: only who calls others there has begun.
const CLONES: [&str; 5] = ["__clone", "__clone_internal", "__clone3", "clone", "clone3"];

/// Whether a function is an entry point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// It is none.
    No,
    /// It is one, whatever it calls.
    Yes,
    /// If it has called a function.
    OfOthers,
}

impl Entry {
    /// Returns true if a stack begins with it.
    pub fn begins(self, has_called: bool) -> bool {
        self == Self::Yes || self == Self::OfOthers && has_called
    }
}

/// Returns for each function whether it is an entry point.
pub fn entries(names: &Names) -> Vec<Entry> {
    let of_libc: Vec<bool> = names
        .images
        .iter()
        .map(|image| LIBCS.iter().any(|libc| short(&image.path).starts_with(libc)))
        .collect();
    let is_entry = |f: &Function| {
        let is_libc = f.image.is_some_and(|image| of_libc[image as usize]);
        let is_entry = |name: &&str| {
            ENTRIES.contains(name)
                || name.starts_with(ENTRY_PREFIX)
                || is_libc && ENTRIES_OF_LIBC.contains(name)
        };
        let mut names = f.names().map(|name| name.split('@').next().unwrap_or_default());
        match names.find(is_entry).filter(|_| f.side == Side::User && f.reason.is_none()) {
            Some(name) if CLONES.contains(&name) => Entry::OfOthers,
            Some(_) => Entry::Yes,
            None => Entry::No,
        }
    };
    names.functions.iter().map(is_entry).collect()
}

/// Returns for each stack whether its outermost frame is an entry point.
pub(super) fn below(names: &Names, stacks: &[Stack]) -> Vec<bool> {
    let entries = entries(names);
    // The outermost function, and whether it has called one.
    let mut begins = vec![(Entry::No, false); stacks.len()];
    for (position, stack) in stacks.iter().enumerate().skip(1) {
        let function = names.frames[stack.frame as usize].function as usize;
        begins[position] = match (stack.caller, begins[stack.caller as usize]) {
            (0, _) => (entries[function], false),
            (_, (entry, has_called)) => (entry, has_called || names.functions[function].side == Side::User),
        };
    }
    begins.into_iter().map(|(entry, has_called)| entry.begins(has_called)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn a_stack_is_whole_if_its_outermost_frame_is_an_entry_point() {
        let profile = fixture::profile(&[("__libc_start_call_main;main;a", 1), ("x;_start;main", 1)]);
        let whole = below(&profile.names, &profile.stacks);
        assert_eq!(whole, [false, true, true, true, false, false, false]);
        // Outside of the C library, a name that any program may use is no entry point.
        let profile = fixture::profile(&[("start_thread;main", 1), ("clone;main", 1)]);
        assert!(!below(&profile.names, &profile.stacks).contains(&true));
        // Who makes a thread is in this function, too.
        let profile = fixture::profile(&[("__clone3", 1), ("__clone3;start", 1)]);
        assert_eq!(below(&profile.names, &profile.stacks), [false, false, true]);
    }
}
