//! The lines of a pane.

use super::Facts;
use super::pane::{Pane, Sort};
use icecore_analysis::explore::Explorer;
use icecore_analysis::explore::call_tree::{CallTree, Label};
use icecore_analysis::explore::filters::Subject;
use icecore_analysis::explore::selected::{Row, Selected};

/// One line of a pane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Item {
    /// A function, image, process, thread or kind of waits.
    Row(Row),
    /// An event, a position.
    Event(u8),
    /// A filter, a position in the list of [`super::words::filters`].
    Filter(usize),
    /// A node of one of the trees of the pane.
    Node(Branch, u32),
    /// The function between its callers and its callees.
    Center,
}

/// Which tree of a pane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Branch {
    /// The tree of all stacks, or what a function calls.
    Callees,
    /// Who calls it.
    Callers,
}

impl Item {
    /// Returns true if both stand for the same, whatever their amounts are.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Row(one), Self::Row(other)) => one.number == other.number,
            (one, other) => one == other,
        }
    }
}

/// Lists the rows of a pane that is a list, in order.
pub(super) fn rows(
    facts: &Facts,
    explorer: &Explorer<'_>,
    selected: &Selected,
    (pane, sort): (Pane, Sort),
) -> Vec<Item> {
    let mut rows = match pane {
        Pane::Functions => selected.functions(explorer),
        Pane::Images => selected.images(explorer),
        Pane::Processes => selected.processes(explorer),
        Pane::Threads => selected.threads(explorer),
        Pane::Waits => selected.waits(explorer),
        Pane::Tree | Pane::Callers | Pane::Events | Pane::Filters => Vec::new(),
    };
    let weights = |row: &Row| match sort {
        Sort::Own => (row.sum.own.weight, row.sum.total.weight),
        Sort::Total => (row.sum.total.weight, row.sum.own.weight),
        Sort::Name => (0, 0),
    };
    rows.sort_by(|a, b| {
        let names = || name(facts, explorer, pane, a.number).cmp(&name(facts, explorer, pane, b.number));
        weights(b).cmp(&weights(a)).then_with(names).then(a.number.cmp(&b.number))
    });
    rows.into_iter().map(Item::Row).collect()
}

/// Lists the visible nodes of a tree.
pub(super) fn nodes(branch: Branch, tree: &CallTree) -> impl Iterator<Item = Item> {
    tree.visible().into_iter().map(move |node| Item::Node(branch, node))
}

/// Returns the name of a row of a pane.
pub(super) fn name(facts: &Facts, explorer: &Explorer<'_>, pane: Pane, number: u32) -> String {
    let at = number as usize;
    match pane {
        Pane::Images => explorer.image(number).unwrap_or("[no image]").to_owned(),
        Pane::Processes => facts.processes[at].name.to_string(),
        Pane::Threads => facts.threads[at].name.to_string(),
        Pane::Waits => explorer.kinds[at].name(),
        Pane::Events => facts.events[at].name.to_string(),
        _ => explorer.name(number).to_owned(),
    }
}

/// Returns the name of a node.
pub(super) fn label<'a>(explorer: &Explorer<'a>, label: Label) -> &'a str {
    match label {
        Label::Root => "[everything]",
        Label::Function(function) => explorer.name(function),
        Label::Outermost => "[outermost: nobody called it]",
        Label::NoFrames => "[no frames]",
    }
}

/// Returns what a row of a pane can be filtered by.
pub(super) fn subject(pane: Pane, number: u32) -> Option<Subject> {
    match pane {
        Pane::Functions => Some(Subject::Function(number)),
        Pane::Images => Some(Subject::Image(number)),
        Pane::Processes => Some(Subject::Process(number)),
        Pane::Threads => Some(Subject::Thread(number)),
        Pane::Waits => Some(Subject::Wait(number)),
        Pane::Tree | Pane::Callers | Pane::Events | Pane::Filters => None,
    }
}
