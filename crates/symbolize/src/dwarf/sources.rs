//! Gives the files of one image to gimli.

use gimli::{DwarfPackage, EndianSlice, RunTimeEndian, SectionId};
use object::Endianness;

use super::{Dwarf, Slice};
use crate::image::Sections;

/// The open files that contain the DWARF of one image.
pub(crate) struct Sources<'a> {
    /// The image, or its debug file.
    pub(crate) main: &'a Sections,
    /// The file to which dwz has moved parts of it.
    pub(crate) supplement: Option<&'a Sections>,
    /// The `.dwp` file, which contains all of its `.dwo` files.
    pub(crate) package: Option<&'a Sections>,
    /// Opens a `.dwo` file.
    pub(crate) open_split: &'a OpenSplit<'a>,
}

/// Opens the first file with a name that the second argument accepts.
pub(crate) type OpenSplit<'a> =
    dyn Fn(SplitName<'_>, &dyn Fn(&Sections) -> bool) -> Option<Sections> + Sync + 'a;

/// The name of a `.dwo` file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SplitName<'a> {
    /// The directory in which the unit was compiled; empty if unknown.
    pub(crate) directory: &'a [u8],
    /// Absolute, or relative to that directory.
    pub(crate) name: &'a [u8],
}

/// Sections that are read, by their names without `.dwo`.
const READ: [SectionId; 11] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugCuIndex,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
    SectionId::DebugTuIndex,
];

/// Sections of `.dwp` files that are not read, but must be present: gimli refuses a package whose index points beyond them.
const INDEXED: [SectionId; 5] = [
    SectionId::DebugLoc,
    SectionId::DebugLocLists,
    SectionId::DebugMacinfo,
    SectionId::DebugMacro,
    SectionId::DebugTypes,
];

/// Returns true if a section must be opened.
pub(crate) fn is_read(name: &str) -> bool {
    let is_named = |id: &SectionId| id.dwo_name() == Some(name);
    READ.iter().any(|id| id.name() == name || is_named(id)) || INDEXED.iter().any(is_named)
}

impl<'a> Sources<'a> {
    /// Returns the number of bytes of debug information.
    pub(super) fn len(&self) -> usize {
        let others = self.supplement.into_iter().chain(self.package);
        others.fold(self.main.len(), |sum, file| sum.saturating_add(file.len()))
    }

    /// Reads the main file with its supplement, and the supplement itself.
    pub(super) fn load(&self) -> (Dwarf<'a>, Option<Dwarf<'a>>) {
        let mut dwarf = load(self.main);
        let supplement = self.supplement.map(load);
        if let Some(supplement) = self.supplement {
            dwarf.set_sup(load(supplement));
        }
        (dwarf, supplement)
    }

    /// Reads the index of the package.
    pub(super) fn package(&self) -> Option<DwarfPackage<Slice<'a>>> {
        let sections = self.package?;
        let empty = EndianSlice::new(&[][..], endian(sections));
        let section =
            |id: SectionId| Ok::<_, gimli::Error>(id.dwo_name().map_or(empty, |name| slice(sections, name)));
        DwarfPackage::load(section, empty).ok()
    }
}

/// Reads sections under their names in a `.dwo` file.
pub(super) fn load_split(sections: &Sections) -> Dwarf<'_> {
    let section =
        |id: SectionId| id.dwo_name().map_or_else(|| slice(sections, ""), |name| slice(sections, name));
    infallible(gimli::Dwarf::load(|id| Ok(section(id))))
}

fn load(sections: &Sections) -> Dwarf<'_> {
    infallible(gimli::Dwarf::load(|id| Ok(slice(sections, id.name()))))
}

fn infallible<'d>(loaded: Result<Dwarf<'d>, std::convert::Infallible>) -> Dwarf<'d> {
    match loaded {
        Ok(dwarf) => dwarf,
        Err(never) => match never {},
    }
}

fn slice<'d>(sections: &'d Sections, name: &str) -> Slice<'d> {
    EndianSlice::new(sections.bytes(name), endian(sections))
}

fn endian(sections: &Sections) -> RunTimeEndian {
    match sections.endian() {
        Endianness::Little => RunTimeEndian::Little,
        Endianness::Big => RunTimeEndian::Big,
    }
}
