//! Finds the other half of a unit whose entries are not in the image: in a `.dwp` package, or in a `.dwo` file.

use gimli::{DwoId, Section, UnitHeader, UnitType};

use super::context::Context;
use super::info::{Info, Root};
use super::sources::{SplitName, load_split};
use super::{Broken, Dwarf, Slice};
use crate::image::Sections;

/// A file that may hold the other half of a unit.
pub(super) enum Half {
    /// The package of the image contains it.
    Packed,
    /// A file of its own.
    Alone(Sections),
}

/// Finds the file; `None` if the unit is whole, or the file is missing. Builds leave old files: of several files with the
/// right name this takes the one with the right id.
pub(super) fn find(context: &Context<'_, '_>, root: &Root<'_>) -> Option<(DwoId, Half)> {
    let name = root.split_name?;
    let id = root.unit.dwo_id?;
    if context.package.is_some_and(|package| package.cu_index.find(id.0).is_some()) {
        return Some((id, Half::Packed));
    }
    let directory = root.unit.comp_dir.map_or(&[][..], |dir| dir.slice());
    let name = SplitName { directory, name: name.slice() };
    let sections = (context.open_split)(name, &|sections| holds(context, id, sections))?;
    Some((id, Half::Alone(sections)))
}

/// Returns true if a file contains the other half; reads only the heads of units.
fn holds(context: &Context<'_, '_>, id: DwoId, sections: &Sections) -> bool {
    let read = || {
        let dwarf = load_split(sections);
        context.guard.spend(dwarf.debug_abbrev.reader().len())?;
        let info = Info::new(dwarf, context.guard)?;
        context.guard.spend(info.headers.len())?;
        Ok::<_, Broken>(with_id(&info, id).is_some())
    };
    // A broken file does not count as the other half.
    read().unwrap_or(false)
}

/// Reads the file, which shares sections with the image.
pub(super) fn read<'d: 's, 's>(
    context: &Context<'d, '_>,
    id: DwoId,
    half: &'s Half,
) -> Result<Info<'s>, Broken> {
    let parent: &Dwarf<'s> = &context.info.dwarf;
    let dwarf = match half {
        Half::Packed => context.package.ok_or(Broken)?.find_cu(id, parent)?.ok_or(Broken)?,
        Half::Alone(sections) => {
            let mut dwarf = load_split(sections);
            dwarf.make_dwo(parent);
            dwarf
        }
    };
    context.guard.spend(dwarf.debug_abbrev.reader().len())?;
    context.guard.spend(dwarf.debug_info.reader().len())?;
    Info::new(dwarf, context.guard)
}

/// Finds the unit that is the other half; `None` if the file is of another build.
pub(super) fn root<'d: 's, 's>(info: &Info<'s>, id: DwoId, skeleton: &Root<'d>) -> Option<Root<'s>> {
    let mut root = with_id(info, id)?;
    root.unit.copy_relocated_attributes(&skeleton.unit);
    Some(root)
}

/// Finds the unit with an id. DWARF 5 has the id in the header, earlier versions in an attribute.
fn with_id<'s>(info: &Info<'s>, id: DwoId) -> Option<Root<'s>> {
    let may_be = |header: &UnitHeader<Slice<'s>>| match header.type_() {
        UnitType::Compilation => true,
        UnitType::SplitCompilation(own) => own == id,
        _ => false,
    };
    let units = (0..info.headers.len()).filter(|unit| may_be(&info.headers[*unit]));
    units.filter_map(|unit| info.root(unit).ok()).find(|root| root.unit.dwo_id == Some(id))
}
