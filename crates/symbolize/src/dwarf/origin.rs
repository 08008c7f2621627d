//! Finds out which function an entry describes: by the entry itself, and by those to which it refers.

use std::collections::hash_map::Entry::{Occupied as Known, Vacant as New};
use std::sync::Arc;

use gimli::{AttributeValue, DebugInfoOffset, UnitOffset, constants as dw};
use icecore_elf::is_legacy_rust;

use super::info::{Info, Root, check_attributes};
use super::lines::{Lines, SourceFiles, source_path};
use super::parents::{Parent, Parents};
use super::{Broken, Guard, Slice, Strings};
use crate::map::Map;
use crate::symbol::completed;
use crate::{EntryId, Origin};

/// How many entries are followed for a name: an instance, its abstract origin, its declaration, and some spare ones.
const MAX_HOPS: usize = 16;

/// How many scopes around a function are named.
const MAX_SCOPES: usize = 64;

/// What the numbers of units in the supplementary file begin with.
const SUPPLEMENT: u32 = 1 << 31;

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

/// A function that an entry describes.
#[derive(Debug, Clone)]
pub(super) struct Described {
    /// `None` if it has no name.
    pub(super) name: Option<Arc<str>>,
    pub(super) origin: Arc<Origin>,
}

/// A unit in which entries are read.
#[derive(Clone, Copy)]
struct Place<'j, 'd> {
    info: &'j Info<'d>,
    root: &'j Root<'d>,
    /// Its number in [`EntryId`].
    number: u32,
}

/// Functions to which entries of one unit refer.
pub(super) struct Origins<'j, 'd> {
    own: Place<'j, 'd>,
    supplement: Option<&'j Info<'d>>,
    strings: &'j Strings,
    guard: &'j Guard,
    known: Map<Entry, Described>,
    parents: Map<u32, Parents>,
    lines: Map<u32, Option<Lines<'d>>>,
}

/// The attributes of an entry that tell which function it describes.
#[derive(Default)]
struct Said<'d> {
    linkage_name: Option<AttributeValue<Slice<'d>>>,
    name: Option<AttributeValue<Slice<'d>>>,
    declared_file: Option<u64>,
    declared_line: Option<u32>,
    origin: Option<Entry>,
}

/// What a chain of entries says of a function.
#[derive(Default)]
struct Chain<'j, 'd> {
    linkage_name: Option<Slice<'d>>,
    name: Option<Slice<'d>>,
    declared_file: Option<(Place<'j, 'd>, u64)>,
    declared_line: Option<u32>,
    /// The last entry: all that describe the function lead there.
    last: Option<(Place<'j, 'd>, UnitOffset)>,
}

impl<'j, 'd> Chain<'j, 'd> {
    /// Follows an entry to its origins. Of each attribute the first one counts, and the linkage name before all other names.
    fn follow(mut place: Place<'j, 'd>, supplement: Option<&'j Info<'d>>, mut entry: Entry) -> Self {
        let mut chain = Self::default();
        for _ in 0..MAX_HOPS {
            let found = match entry {
                Entry::Here(off) => Some((place, off)),
                Entry::There(off) => in_unit(place.info, off, place.number & SUPPLEMENT),
                Entry::Supplement(off) => supplement.and_then(|info| in_unit(info, off, SUPPLEMENT)),
            };
            let Some((found, off)) = found else { break };
            place = found;
            let Ok(said) = Said::read(place.root, off) else { break };
            let string = |value| place.info.dwarf.attr_string(&place.root.unit, value).ok();
            chain.last = Some((place, off));
            chain.linkage_name = chain.linkage_name.or_else(|| said.linkage_name.and_then(string));
            chain.name = chain.name.or_else(|| said.name.and_then(string));
            chain.declared_file = chain.declared_file.or(said.declared_file.map(|file| (place, file)));
            chain.declared_line = chain.declared_line.or(said.declared_line);
            match said.origin {
                Some(origin) => entry = origin,
                None => break,
            }
        }
        chain
    }
}

impl<'j, 'd> Origins<'j, 'd> {
    pub(super) fn new(
        info: &'j Info<'d>,
        root: &'j Root<'d>,
        number: u32,
        supplement: Option<&'j Info<'d>>,
        strings: &'j Strings,
        guard: &'j Guard,
    ) -> Self {
        let (known, parents, lines) = (Map::default(), Map::default(), Map::default());
        Self { own: Place { info, root, number }, supplement, strings, guard, known, parents, lines }
    }

    /// Returns the function that an entry describes; `files` are the source files of the own unit.
    pub(super) fn function(
        &mut self,
        entry: Entry,
        files: &mut SourceFiles<'_, '_>,
    ) -> Result<Described, Broken> {
        if let Some(known) = self.known.get(&entry) {
            return Ok(known.clone());
        }
        let chain = Chain::follow(self.own, self.supplement, entry);
        let text = |raw: Option<Slice<'d>>| raw.map(|raw| raw.slice()).filter(|raw| !raw.is_empty());
        let (linkage_name, own) = (text(chain.linkage_name), text(chain.name));
        self.guard.spend(linkage_name.map_or(0, <[u8]>::len) + own.map_or(0, <[u8]>::len))?;
        let name = match (linkage_name, own) {
            (Some(mangled), Some(own)) if is_legacy_rust(mangled) => {
                Some(self.completed(mangled, own, &chain)?)
            }
            // An assembler name of C: people know the other one.
            (Some(raw), Some(own)) if !is_mangled(raw) => Some(self.qualified(own, &chain)?),
            (Some(mangled), _) => Some(self.strings.name(mangled)),
            (None, Some(own)) => Some(self.qualified(own, &chain)?),
            (None, None) => None,
        };
        self.guard.spend(name.as_deref().map_or(0, str::len))?;
        let declared = match (chain.declared_file, chain.declared_line) {
            (Some((place, file)), Some(line)) if place.number == self.own.number => {
                files.path(file, self.strings, self.guard)?.map(|file| (file, line))
            }
            (Some((place, file)), Some(line)) => self.path(place, file)?.map(|file| (file, line)),
            _ => None,
        };
        let id =
            |(place, off): (Place<'_, '_>, UnitOffset)| EntryId { unit: place.number, off: off.0 as u64 };
        let symbol = linkage_name.filter(|raw| is_mangled(raw)).or(own).or(linkage_name);
        let symbol = symbol.map(|raw| self.strings.path(raw));
        let entry_id = chain.last.map(id);
        let origin = Origin { entry: entry_id, symbol, declared, ..Origin::default() };
        let described = Described { name, origin: origin.into() };
        self.known.insert(entry, described.clone());
        Ok(described)
    }

    /// Completes a name of Rust's older mangling.
    fn completed(&mut self, mangled: &[u8], own: &[u8], chain: &Chain<'j, 'd>) -> Result<Arc<str>, Broken> {
        let (name, own) = (self.strings.name(mangled), String::from_utf8_lossy(own));
        let is_nested = name.matches("{{closure}}").nth(1).is_some();
        let scopes = if is_nested { self.scopes(chain)? } else { Vec::new() };
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        Ok(completed(&name, &own, &scopes))
    }

    /// Puts the scopes around a function before its name, in languages that have scopes.
    fn qualified(&mut self, own: &[u8], chain: &Chain<'j, 'd>) -> Result<Arc<str>, Broken> {
        let has_scopes = chain.last.is_some_and(|(place, _)| place.root.has_scopes());
        let scopes = if has_scopes { self.scopes(chain)? } else { Vec::new() };
        if scopes.is_empty() {
            return Ok(self.strings.name(own));
        }
        let mut name = String::new();
        for scope in scopes.iter().rev() {
            name.push_str(scope);
            name.push_str("::");
        }
        name.push_str(&String::from_utf8_lossy(own));
        Ok(self.strings.path(name.as_bytes()))
    }

    /// Names the scopes around a function, innermost first.
    fn scopes(&mut self, chain: &Chain<'j, 'd>) -> Result<Vec<String>, Broken> {
        let Some((place, mut off)) = chain.last else { return Ok(Vec::new()) };
        let (guard, unit) = (self.guard, &place.root.unit);
        let parents = match self.parents.entry(place.number) {
            Known(parents) => parents.into_mut(),
            New(slot) => {
                guard.spend(unit.header.unit_length())?;
                slot.insert(Parents::read(unit))
            }
        };
        let mut scopes = Vec::new();
        // GCC gives the class of a lambda no name.
        let is_call = chain.name.is_some_and(|name| name.slice() == b"operator()");
        while scopes.len() < MAX_SCOPES {
            let Some(Parent { at, tag }) = parents.of(off) else { break };
            off = at;
            let around = Chain::follow(place, self.supplement, Entry::Here(at));
            let name = around.name.map(|name| String::from_utf8_lossy(name.slice()).into_owned());
            guard.spend(name.as_ref().map_or(8, String::len))?;
            match (name.filter(|name| !name.is_empty()), tag) {
                (Some(name), _) => scopes.push(name),
                (None, dw::DW_TAG_namespace) => scopes.push("(anonymous namespace)".to_owned()),
                (None, dw::DW_TAG_subprogram) => {}
                (None, _) if scopes.is_empty() && is_call => scopes.push("{lambda}".to_owned()),
                (None, _) => scopes.push("(anonymous class)".to_owned()),
            }
        }
        Ok(scopes)
    }

    /// Finds the path of a source file that an entry of another unit names by its number.
    fn path(&mut self, place: Place<'j, 'd>, file: u64) -> Result<Option<Arc<str>>, Broken> {
        let Self { lines, strings, guard, .. } = self;
        let read = || {
            let lines = Lines::open(&place.info.dwarf, place.root, guard);
            lines.unwrap_or_else(|Broken| {
                guard.note();
                None
            })
        };
        let lines = lines.entry(place.number).or_insert_with(read).as_ref();
        let path = source_path(&place.info.dwarf, &place.root.unit, lines, file);
        let path = path.filter(|path| !path.is_empty());
        guard.spend(path.as_deref().map_or(0, <[u8]>::len))?;
        Ok(path.map(|path| strings.path(&path)))
    }
}

/// Returns true if a linkage name has the form of a mangled one, which distinguishes more than the name.
fn is_mangled(raw: &[u8]) -> bool {
    raw.starts_with(b"_Z") || raw.starts_with(b"_R") || raw.starts_with(b"_D")
}

/// Finds the unit around an entry of a file.
fn in_unit<'j, 'd>(
    info: &'j Info<'d>,
    off: DebugInfoOffset,
    supplement: u32,
) -> Option<(Place<'j, 'd>, UnitOffset)> {
    let (index, root) = info.unit_around(off)?;
    let number = u32::try_from(index).ok()? | supplement;
    Some((Place { info, root, number }, off.to_unit_offset(&root.unit.header)?))
}

impl<'d> Said<'d> {
    fn read(root: &Root<'d>, off: UnitOffset) -> Result<Self, Broken> {
        let mut entries = root.unit.entries_raw(Some(off))?;
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
                dw::DW_AT_decl_file => {
                    said.declared_file = match attribute.value() {
                        AttributeValue::FileIndex(file) => Some(file),
                        other => other.udata_value(),
                    };
                }
                dw::DW_AT_decl_line => {
                    let line = attribute.udata_value().and_then(|line| u32::try_from(line).ok());
                    said.declared_line = line.filter(|line| *line > 0);
                }
                dw::DW_AT_abstract_origin | dw::DW_AT_specification => {
                    said.origin = Entry::of(&attribute.value()).or(said.origin);
                }
                _ => {}
            }
        }
        Ok(said)
    }
}
