//! The trees of the panes: all stacks, and the callers and callees of one function. They grow again when the selection changes, and
//! not before they are shown.

use super::{Branch, Item, Pane, is_whole};
use crate::views::tui::items;
use icecore_analysis::explore::Explorer;
use icecore_analysis::explore::call_tree::{CallTree, Direction, Ground, Label};
use icecore_analysis::explore::found::Found;
use icecore_analysis::explore::selected::Selected;

/// The trees.
#[derive(Debug, Default)]
pub(in crate::views::tui) struct Trees {
    all: Option<CallTree>,
    center: Option<u32>,
    callers: Option<CallTree>,
    callees: Option<CallTree>,
    /// The trees are those of another selection: all of it, around the function.
    is_old: [bool; 2],
}

impl Trees {
    /// The selection has changed.
    pub(super) fn are_old(&mut self) {
        self.is_old = [true; 2];
    }

    /// Puts a function between its callers and callees.
    pub(super) fn look_at(&mut self, function: u32) {
        if self.center != Some(function) {
            (self.center, self.callers, self.callees) = (Some(function), None, None);
        }
    }

    /// Returns the function between its callers and callees.
    pub(in crate::views::tui) fn center(&self) -> Option<u32> {
        self.center
    }

    /// Returns a tree of a pane.
    pub(in crate::views::tui) fn get(&self, branch: Branch, pane: Pane) -> Option<&CallTree> {
        match branch {
            branch if is_whole(branch, pane) => self.all.as_ref(),
            Branch::Callees => self.callees.as_ref(),
            Branch::Callers => self.callers.as_ref(),
        }
    }

    /// Returns the function of a node.
    pub(super) fn function(&self, branch: Branch, pane: Pane, node: u32) -> Option<u32> {
        match self.get(branch, pane)?.nodes.get(node as usize)?.label {
            Label::Function(function) => Some(function),
            _ => None,
        }
    }

    fn slot(&mut self, branch: Branch, pane: Pane) -> &mut Option<CallTree> {
        match branch {
            branch if is_whole(branch, pane) => &mut self.all,
            Branch::Callees => &mut self.callees,
            Branch::Callers => &mut self.callers,
        }
    }

    /// Lists the tree of all stacks, and where the item under the cursor is now.
    pub(super) fn whole(
        &mut self,
        explorer: &Explorer<'_>,
        selected: &Selected,
        cursor: Option<Item>,
    ) -> (Vec<Item>, Option<Item>) {
        let ground = Ground { explorer, selected };
        let is_old = std::mem::take(&mut self.is_old[0]);
        let mut marked = None;
        let tree = match self.all.take() {
            Some(tree) if is_old => {
                let (tree, at) = tree.again(ground, None, marked_node(cursor, Branch::Callees));
                marked = Some(Item::Node(Branch::Callees, at));
                tree
            }
            Some(tree) => tree,
            None => CallTree::all(ground),
        };
        let items = items::nodes(Branch::Callees, self.all.insert(tree)).collect();
        (items, marked)
    }

    /// Lists callers, the function, and callees.
    pub(super) fn around(
        &mut self,
        explorer: &Explorer<'_>,
        selected: &Selected,
        cursor: Option<Item>,
    ) -> (Vec<Item>, Option<Item>) {
        let Some(function) = self.center else { return (Vec::new(), None) };
        let ground = Ground { explorer, selected };
        let is_old = std::mem::take(&mut self.is_old[1]);
        let mut marked = None;
        for (branch, direction) in
            [(Branch::Callers, Direction::Callers), (Branch::Callees, Direction::Callees)]
        {
            let slot = self.slot(branch, Pane::Callers);
            let tree = match slot.take() {
                Some(tree) if is_old => {
                    let (tree, at) = tree.again(ground, Some(function), marked_node(cursor, branch));
                    if matches!(cursor, Some(Item::Node(other, _)) if other == branch) {
                        marked = Some(if at == 0 { Item::Center } else { Item::Node(branch, at) });
                    }
                    tree
                }
                Some(tree) => tree,
                None => CallTree::of(ground, function, direction),
            };
            *slot = Some(tree);
        }
        let of = |branch: Branch| self.get(branch, Pane::Callers).map(|tree| items::nodes(branch, tree));
        let callers = of(Branch::Callers).into_iter().flatten();
        let callees = of(Branch::Callees).into_iter().flatten();
        (callers.chain([Item::Center]).chain(callees).collect(), marked)
    }

    /// Opens a closed node, or closes an open one.
    pub(super) fn turn(
        &mut self,
        explorer: &Explorer<'_>,
        selected: &Selected,
        branch: Branch,
        (pane, node): (Pane, u32),
    ) {
        let Some(tree) = self.slot(branch, pane) else { return };
        if tree.nodes[node as usize].is_open {
            tree.close(node);
        } else {
            tree.open(Ground { explorer, selected }, node);
        }
    }

    /// Opens the heaviest path below a node; returns its end.
    pub(super) fn open_heaviest(
        &mut self,
        explorer: &Explorer<'_>,
        selected: &Selected,
        branch: Branch,
        (pane, node): (Pane, u32),
    ) -> Option<u32> {
        let ground = Ground { explorer, selected };
        self.slot(branch, pane).as_mut().map(|tree| tree.open_heaviest(ground, node))
    }

    /// Opens whatever leads to a match in the trees of a pane; returns true if all matches can be seen.
    pub(super) fn open_to(
        &mut self,
        explorer: &Explorer<'_>,
        selected: &Selected,
        found: &Found,
        pane: Pane,
    ) -> bool {
        let ground = Ground { explorer, selected };
        let mut are_all_seen = true;
        let branches: &[Branch] = match pane {
            Pane::Tree => &[Branch::Callees],
            Pane::Callers => &[Branch::Callers, Branch::Callees],
            _ => &[],
        };
        for branch in branches {
            if let Some(tree) = self.slot(*branch, pane) {
                are_all_seen &= tree.open_to(ground, found);
            }
        }
        are_all_seen
    }
}

/// Returns the node under the cursor, if it belongs to a branch; else the root.
fn marked_node(cursor: Option<Item>, branch: Branch) -> u32 {
    match cursor {
        Some(Item::Node(other, node)) if other == branch => node,
        _ => 0,
    }
}
