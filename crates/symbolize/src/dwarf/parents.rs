//! Finds the scopes around the entries of a unit: namespaces, types, functions.

use gimli::{DwTag, Unit, UnitOffset, constants as dw};

use super::Slice;
use super::info::check_attributes;
use crate::map::Map;

/// A scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parent {
    /// Its entry.
    pub(super) at: UnitOffset,
    pub(super) tag: DwTag,
}

/// The scopes of one unit.
#[derive(Debug, Default)]
pub(super) struct Parents {
    of: Map<usize, Parent>,
}

impl Parents {
    /// Reads all entries of a unit, without recursion. If they break, those before count.
    ///
    /// # Cost    one pass over the unit
    pub(super) fn read(unit: &Unit<Slice<'_>>) -> Self {
        let mut parents = Self::default();
        let _ = parents.fill(unit); // whatever breaks it also breaks the pass that finds functions, which says so
        parents
    }

    /// Returns the innermost scope around a scope or a function.
    pub(super) fn of(&self, entry: UnitOffset) -> Option<Parent> {
        self.of.get(&entry.0).copied()
    }

    fn fill(&mut self, unit: &Unit<Slice<'_>>) -> Result<(), super::Broken> {
        let mut entries = unit.entries_raw(None)?;
        let mut open: Vec<(isize, Parent)> = Vec::new();
        while !entries.is_empty() {
            let (at, depth) = (entries.next_offset(), entries.next_depth());
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            check_attributes(abbreviation)?;
            let tag = abbreviation.tag();
            entries.skip_attributes(abbreviation.attributes())?;
            if !is_scope(tag) {
                continue;
            }
            while open.pop_if(|(outer, _)| *outer >= depth).is_some() {}
            if let Some((_, parent)) = open.last() {
                self.of.insert(at.0, *parent);
            }
            if abbreviation.has_children() {
                open.push((depth, Parent { at, tag }));
            }
        }
        Ok(())
    }
}

fn is_scope(tag: DwTag) -> bool {
    matches!(
        tag,
        dw::DW_TAG_namespace
            | dw::DW_TAG_subprogram
            | dw::DW_TAG_structure_type
            | dw::DW_TAG_class_type
            | dw::DW_TAG_union_type
            | dw::DW_TAG_enumeration_type
            | dw::DW_TAG_interface_type
    )
}
