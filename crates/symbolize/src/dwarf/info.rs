//! Holds one `.debug_info`, and everything that reading an entry in it needs.

use std::sync::{Arc, OnceLock};

use gimli::{
    Abbreviation, Abbreviations, AttributeValue, DebugAbbrevOffset, DebugInfoOffset, DebugLineOffset, DwLang,
    DwTag, Reader, Section, Unit, UnitHeader, UnitType, constants as dw,
};

use super::extent::Extent;
use super::{Broken, Dwarf, Guard, Slice};
use crate::map::Map;

/// The most attributes that an entry may have.
const MAX_ATTRIBUTES: usize = 128;

/// All units of a file.
pub(super) struct Info<'d> {
    pub(super) dwarf: Dwarf<'d>,
    /// In the order of the file.
    pub(super) headers: Vec<UnitHeader<Slice<'d>>>,
    /// Tables of abbreviations that several units share, by offset.
    shared: Map<usize, OnceLock<Option<Arc<Abbreviations>>>>,
    /// Units to which entries of other units refer.
    referred: Vec<OnceLock<Option<Box<Root<'d>>>>>,
}

/// A unit, and the attributes of its first entry.
pub(super) struct Root<'d> {
    pub(super) unit: Unit<Slice<'d>>,
    pub(super) tag: DwTag,
    pub(super) language: Option<DwLang>,
    pub(super) extent: Extent<'d>,
    pub(super) line_program: Option<DebugLineOffset>,
    /// The file of its other half, if it is split: a name relative to the directory of compilation.
    pub(super) split_name: Option<Slice<'d>>,
}

impl Root<'_> {
    /// Returns true if functions lie in namespaces, types or other functions, and their names do not say so.
    pub(super) fn has_scopes(&self) -> bool {
        let language = |it: DwLang| is_cpp(it) || matches!(it, dw::DW_LANG_Rust | dw::DW_LANG_D);
        self.language.is_some_and(language)
    }

    /// Returns true if a type contains code only inside of functions.
    pub(super) fn has_plain_types(&self) -> bool {
        let is_c = |it| {
            matches!(
                it,
                dw::DW_LANG_C | dw::DW_LANG_C89 | dw::DW_LANG_C99 | dw::DW_LANG_C11 | dw::DW_LANG_C17
            )
        };
        self.language.is_some_and(|language| is_c(language) || is_cpp(language))
    }
}

fn is_cpp(language: DwLang) -> bool {
    matches!(
        language,
        dw::DW_LANG_C_plus_plus
            | dw::DW_LANG_C_plus_plus_03
            | dw::DW_LANG_C_plus_plus_11
            | dw::DW_LANG_C_plus_plus_14
            | dw::DW_LANG_C_plus_plus_17
            | dw::DW_LANG_C_plus_plus_20
    )
}

impl<'d> Info<'d> {
    /// Lists the units; those after a broken header are skipped.
    ///
    /// # Errors
    /// [`Broken`] if tables of abbreviations overlap: reading them would take for ever.
    pub(super) fn new(dwarf: Dwarf<'d>, guard: &Guard) -> Result<Self, Broken> {
        let mut headers = Vec::new();
        let mut units = dwarf.units();
        loop {
            match units.next() {
                Ok(Some(header)) => headers.push(header),
                Ok(None) => break,
                Err(_) => {
                    guard.note();
                    break;
                }
            }
        }
        let mut offsets: Vec<usize> = headers.iter().map(|header| header.debug_abbrev_offset().0).collect();
        offsets.sort_unstable();
        check_tables(dwarf.debug_abbrev.reader(), &offsets)?;
        let shared = offsets.windows(2).filter(|pair| pair[0] == pair[1]);
        let shared = shared.map(|pair| (pair[0], OnceLock::new())).collect();
        let referred = headers.iter().map(|_| OnceLock::new()).collect();
        Ok(Self { dwarf, headers, shared, referred })
    }

    /// Reads the first entry of a unit.
    pub(super) fn root(&self, index: usize) -> Result<Root<'d>, Broken> {
        let header = self.headers[index];
        let abbreviations = self.abbreviations(header.debug_abbrev_offset())?;
        let mut unit = Unit {
            str_offsets_base: gimli::DebugStrOffsetsBase::default_for_encoding_and_file(
                header.encoding(),
                self.dwarf.file_type,
            ),
            loclists_base: gimli::DebugLocListsBase(0),
            rnglists_base: gimli::DebugRngListsBase::default_for_encoding_and_file(
                header.encoding(),
                self.dwarf.file_type,
            ),
            addr_base: gimli::DebugAddrBase(0),
            abbreviations,
            name: None,
            comp_dir: None,
            low_pc: 0,
            line_program: None,
            dwo_id: match header.type_() {
                UnitType::Skeleton(id) | UnitType::SplitCompilation(id) => Some(id),
                _ => None,
            },
            header,
        };
        let mut entries = unit.header.entries_raw(&unit.abbreviations, None)?;
        let abbreviation = entries.read_abbreviation()?.ok_or(Broken)?;
        check_attributes(abbreviation)?;
        let (mut comp_dir, mut split_name, mut language, mut line_program) = (None, None, None, None);
        let mut extent = Extent::default();
        for spec in abbreviation.attributes() {
            let attribute = entries.read_attribute(*spec)?;
            extent.note(&attribute);
            match (attribute.name(), attribute.value()) {
                (dw::DW_AT_comp_dir, value) => comp_dir = Some(value),
                (dw::DW_AT_dwo_name | dw::DW_AT_GNU_dwo_name, value) => split_name = Some(value),
                (dw::DW_AT_language, AttributeValue::Language(value)) => language = Some(value),
                (dw::DW_AT_stmt_list, AttributeValue::DebugLineRef(off)) => line_program = Some(off),
                (dw::DW_AT_str_offsets_base, AttributeValue::DebugStrOffsetsBase(base)) => {
                    unit.str_offsets_base = base;
                }
                (dw::DW_AT_addr_base | dw::DW_AT_GNU_addr_base, AttributeValue::DebugAddrBase(base)) => {
                    unit.addr_base = base;
                }
                (
                    dw::DW_AT_rnglists_base | dw::DW_AT_GNU_ranges_base,
                    AttributeValue::DebugRngListsBase(base),
                ) => unit.rnglists_base = base,
                (dw::DW_AT_GNU_dwo_id, AttributeValue::DwoId(id)) => unit.dwo_id = unit.dwo_id.or(Some(id)),
                _ => {}
            }
        }
        let tag = abbreviation.tag();
        // An attribute may name strings and addresses by their position in a table whose base is a later attribute.
        let string =
            |unit: &Unit<_>, value: Option<_>| value.and_then(|v| self.dwarf.attr_string(unit, v).ok());
        unit.comp_dir = string(&unit, comp_dir);
        let split_name = string(&unit, split_name);
        unit.low_pc = extent.low(&self.dwarf, &unit).unwrap_or(0);
        Ok(Root { unit, tag, language, extent, line_program, split_name })
    }

    /// Returns the unit that contains an entry, with its number, and keeps it for the next reference.
    pub(super) fn unit_around(&self, off: DebugInfoOffset) -> Option<(usize, &Root<'d>)> {
        let begins = |header: &UnitHeader<_>| header.debug_info_offset().is_some_and(|begin| begin <= off);
        let index = self.headers.partition_point(begins).checked_sub(1)?;
        let root = self.referred[index].get_or_init(|| self.root(index).ok().map(Box::new));
        Some((index, root.as_deref()?))
    }

    fn abbreviations(&self, off: DebugAbbrevOffset) -> Result<Arc<Abbreviations>, Broken> {
        let read = || self.dwarf.debug_abbrev.abbreviations(off).ok().map(Arc::new);
        let table = match self.shared.get(&off.0) {
            Some(slot) => slot.get_or_init(read).clone(),
            None => read(),
        };
        table.ok_or(Broken)
    }
}

/// Refuses entries with an absurd number of attributes. Attributes may take no bytes, so an entry of one byte could cost as much
/// work as the whole table of abbreviations. Real entries have 30 at most.
pub(super) fn check_attributes(abbreviation: &Abbreviation) -> Result<(), Broken> {
    if abbreviation.attributes().len() > MAX_ATTRIBUTES { Err(Broken) } else { Ok(()) }
}

/// Refuses tables that overlap: with as many tables as bytes, reading all would take the square of the section's length.
fn check_tables(section: &Slice<'_>, sorted: &[usize]) -> Result<(), Broken> {
    let mut total = 0usize;
    let mut last = None;
    for &off in sorted {
        if last.replace(off) == Some(off) {
            continue;
        }
        let mut rest = *section;
        if rest.skip(off).is_ok() {
            total = total.saturating_add(table_len(rest));
        }
        if total > section.len().saturating_mul(2) {
            return Err(Broken);
        }
    }
    Ok(())
}

/// Returns the length of a table of abbreviations, up to where it breaks.
fn table_len(whole: Slice<'_>) -> usize {
    let mut rest = whole;
    let mut skip_table = || -> gimli::Result<()> {
        while rest.read_uleb128()? != 0 {
            rest.read_uleb128()?;
            rest.read_u8()?;
            loop {
                let (name, form) = (rest.read_uleb128()?, rest.read_uleb128()?);
                if form == u64::from(dw::DW_FORM_implicit_const.0) {
                    rest.read_sleb128()?;
                }
                if (name, form) == (0, 0) {
                    break;
                }
            }
        }
        Ok(())
    };
    let _ = skip_table(); // whatever breaks it also breaks the units that use it
    whole.len() - rest.len()
}
