//! Finds the name of a function: in its own entry, or in an entry to which that refers.

use std::sync::Arc;

use gimli::{AttributeValue, DebugInfoOffset, Unit, UnitOffset, constants as dw};

use super::info::{Info, check_attributes};
use super::{Broken, Guard, Slice, Strings};
use crate::map::Map;

/// How many entries are followed for a name: an instance, its abstract origin, its declaration, and some spare ones.
const MAX_HOPS: usize = 16;

/// A reference to an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Entry {
    /// In the same unit.
    Here(UnitOffset),
    /// In any unit of the file: link-time optimization refers to the unit in which a function was compiled.
    There(DebugInfoOffset),
    /// In the supplementary file, to which dwz has moved entries that several files share.
    Supplement(DebugInfoOffset),
}

impl Entry {
    pub(super) fn of(value: &AttributeValue<Slice<'_>>) -> Option<Self> {
        match *value {
            AttributeValue::UnitRef(off) => Some(Self::Here(off)),
            AttributeValue::DebugInfoRef(off) => Some(Self::There(off)),
            AttributeValue::DebugInfoRefSup(off) => Some(Self::Supplement(off)),
            _ => None,
        }
    }
}

/// Names of functions to which entries of one unit refer.
pub(super) struct Origins<'j, 'd> {
    info: &'j Info<'d>,
    unit: &'j Unit<Slice<'d>>,
    supplement: Option<&'j Info<'d>>,
    names: Map<Entry, Option<Arc<str>>>,
}

/// The attributes of an entry that concern its name.
#[derive(Default)]
struct Said<'d> {
    linkage_name: Option<AttributeValue<Slice<'d>>>,
    name: Option<AttributeValue<Slice<'d>>>,
    origin: Option<Entry>,
}

impl<'j, 'd> Origins<'j, 'd> {
    pub(super) fn new(
        info: &'j Info<'d>,
        unit: &'j Unit<Slice<'d>>,
        supplement: Option<&'j Info<'d>>,
    ) -> Self {
        Self { info, unit, supplement, names: Map::default() }
    }

    /// Returns the name of the function that an entry describes; `None` if it has none.
    pub(super) fn name(
        &mut self,
        entry: Entry,
        strings: &Strings,
        guard: &Guard,
    ) -> Result<Option<Arc<str>>, Broken> {
        if let Some(name) = self.names.get(&entry) {
            return Ok(name.clone());
        }
        let raw = self.raw(entry);
        if let Some(raw) = raw {
            guard.spend(raw.len())?;
        }
        let name = raw.filter(|raw| !raw.is_empty()).map(|raw| strings.name(raw.slice()));
        guard.spend(name.as_deref().map_or(0, str::len))?;
        self.names.insert(entry, name.clone());
        Ok(name)
    }

    /// Follows an entry to its origins, and returns the first linkage name, otherwise the first name.
    fn raw(&self, mut entry: Entry) -> Option<Slice<'d>> {
        let (mut info, mut unit) = (self.info, self.unit);
        let mut name = None;
        for _ in 0..MAX_HOPS {
            let off;
            (info, unit, off) = match entry {
                Entry::Here(off) => (info, unit, off),
                Entry::There(off) => in_unit(info, off)?,
                Entry::Supplement(off) => in_unit(self.supplement?, off)?,
            };
            let Ok(said) = Said::read(unit, off) else { break };
            let string = |value| info.dwarf.attr_string(unit, value).ok();
            if let Some(linkage_name) = said.linkage_name.and_then(string) {
                return Some(linkage_name);
            }
            name = name.or_else(|| said.name.and_then(string));
            match said.origin {
                Some(origin) => entry = origin,
                None => break,
            }
        }
        name
    }
}

fn in_unit<'j, 'd>(
    info: &'j Info<'d>,
    off: DebugInfoOffset,
) -> Option<(&'j Info<'d>, &'j Unit<Slice<'d>>, UnitOffset)> {
    let unit = info.unit_around(off)?;
    Some((info, unit, off.to_unit_offset(&unit.header)?))
}

impl<'d> Said<'d> {
    fn read(unit: &Unit<Slice<'d>>, off: UnitOffset) -> Result<Self, Broken> {
        let mut entries = unit.entries_raw(Some(off))?;
        let abbreviation = entries.read_abbreviation()?.ok_or(Broken)?;
        check_attributes(abbreviation)?;
        let mut said = Self::default();
        for spec in abbreviation.attributes() {
            let attribute = entries.read_attribute(*spec)?;
            match attribute.name() {
                dw::DW_AT_linkage_name | dw::DW_AT_MIPS_linkage_name => {
                    said.linkage_name = Some(attribute.value());
                }
                dw::DW_AT_name => said.name = Some(attribute.value()),
                dw::DW_AT_abstract_origin | dw::DW_AT_specification => {
                    said.origin = Entry::of(&attribute.value()).or(said.origin);
                }
                _ => {}
            }
        }
        Ok(said)
    }
}
