//! Small profiles for tests, from folded lines.

use icecore_format::records::{StackRepair, WalkEnd};

use super::*;
use crate::named::names::{Frame, ImageName};

/// How all samples of [`profile`] were taken.
pub const TAKEN: Taken =
    Taken { end: WalkEnd::NONE, rooted: false, guessed: false, repair: StackRepair::NONE, in_kernel: false };

/// Builds a profile of one thread; a stack is root first, each sample weighs 10.
pub fn profile(stacks: &[(&str, u64)]) -> Profile {
    let mut functions: Interned<Function> = Interned::new();
    let mut trie: Interned<Stack> = Interned::new();
    trie.intern(Stack { caller: u32::MAX, frame: u32::MAX });
    let mut rows = Rows::default();
    for (stack, samples) in stacks {
        let leaf = stack.split(';').fold(0, |caller, name| {
            let function = Function { image: Some(0), ..Function::new(name) };
            trie.intern(Stack { caller, frame: functions.intern(function) })
        });
        let (samples, weight) = (*samples, samples * 10);
        let (thread, taken, span_ns) = (0, TAKEN, (0, 0));
        rows.add(ProfileRow {
            thread,
            stack: leaf,
            taken,
            event: 0,
            cpu: 0,
            wait: None,
            samples,
            weight,
            span_ns,
        });
    }
    let frame = |function| Frame { function, file: None, line: None, inlined: false };
    let names = Names {
        images: vec![ImageName { path: "/bin/x".into() }],
        frames: (0..functions.len() as u32).map(frame).collect(),
        functions: functions.into_items(),
        ..Names::default()
    };
    let thread =
        Thread { part: 0, tgid: 7, tid: 7, comm: "x".into(), process: "x".into(), cgroup: 0, field: None };
    let (stacks, threads) = (trie.into_items(), vec![thread]);
    let cell =
        |(row, it): (u32, &ProfileRow)| Cell { row, slice: 0, samples: it.samples as u32, weight: it.weight };
    let cells = (0..).zip(&rows.rows).map(cell).collect();
    let measure = Measure { unit: "ns".into(), is_cpu_time: true, is_uneven: false };
    Profile { names, stacks, threads, rows: rows.rows, cells, measure, ..Profile::default() }
}

/// Prints a profile as folded lines, in the order of its rows.
pub fn folded(profile: &Profile) -> Vec<String> {
    let line = |row: &ProfileRow| {
        let mut names: Vec<&str> = profile.walk(row.stack).map(|s| &*profile.function(s).name).collect();
        names.reverse();
        format!("{} {}", names.join(";"), row.samples)
    };
    profile.rows.iter().map(line).collect()
}
