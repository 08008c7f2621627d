//! The machinery of interpreters: functions of an interpreter's own file which a function of its language has called.

use std::collections::BTreeSet;

use icecore_format::records::{Location, Node};

use crate::recording::load::Tables;

/// Finds the frames to be counted to their callers: those in a file that holds the loop of an interpreter, with a function that this runs
/// among their callers. The result is by position of the node, and empty if no interpreter ran.
pub(crate) fn machinery(tables: &Tables) -> Vec<bool> {
    let is_run = |node: &Node| node.location.interpreted().is_some();
    // The machine frame that runs a function is its caller.
    let loops = tables.nodes.iter().filter(|(_, node)| is_run(node));
    let loops = loops.filter_map(|(_, node)| image(tables.nodes.find(node.parent)?));
    let interpreters: BTreeSet<u32> = loops.collect();
    if interpreters.is_empty() {
        return Vec::new();
    }
    let mut has_run = vec![false; tables.nodes.len()];
    let mut is_machinery = vec![false; tables.nodes.len()];
    for (position, (_, node)) in tables.nodes.iter().enumerate() {
        // A caller precedes what it calls.
        let caller = tables.nodes.find_at(node.parent).filter(|(caller, _)| *caller < position);
        let calls = caller.is_some_and(|(caller, node)| has_run[caller] || is_run(node));
        has_run[position] = calls;
        is_machinery[position] = calls && image(node).is_some_and(|it| interpreters.contains(&it));
    }
    is_machinery
}

fn image(node: &Node) -> Option<u32> {
    match node.location {
        Location::Image { image, .. } => Some(image),
        Location::Address(_) => None,
    }
}
