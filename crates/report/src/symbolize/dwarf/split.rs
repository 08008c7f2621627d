//! Finds the other half of a unit whose entries are not in the image: in a `.dwp` package, or in a `.dwo` file.

use gimli::{DwoId, Section, UnitType};

use super::info::{Info, Root};
use super::sources::{SplitName, load_split};
use super::unit::Context;
use super::{Broken, Dwarf};
use crate::image::Sections;

/// A file that may hold the other half of a unit.
pub(super) enum Half {
    /// The package of the image has it.
    Packed,
    /// A file of its own.
    Alone(Sections),
}

/// Finds the file; `None` if the unit is whole, or the file is not here.
pub(super) fn find(context: &Context<'_, '_>, root: &Root<'_>) -> Option<(DwoId, Half)> {
    let name = root.split_name?;
    let id = root.unit.dwo_id?;
    if context.package.is_some_and(|package| package.cu_index.find(id.0).is_some()) {
        return Some((id, Half::Packed));
    }
    let directory = root.unit.comp_dir.map_or(&[][..], |dir| dir.slice());
    let sections = (context.open_split)(SplitName { directory, name: name.slice() })?;
    Some((id, Half::Alone(sections)))
}

/// Reads the file, which borrows what the halves share from the image.
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

/// Finds the unit that says to be the other half; `None` if the file is of another build.
pub(super) fn root<'d: 's, 's>(info: &Info<'s>, id: DwoId, skeleton: &Root<'d>) -> Option<Root<'s>> {
    let is_split = |unit: &usize| {
        matches!(info.headers[*unit].type_(), UnitType::Compilation | UnitType::SplitCompilation(_))
    };
    let mut roots = (0..info.headers.len()).filter(is_split).filter_map(|unit| info.root(unit).ok());
    let mut root = roots.find(|root| root.unit.dwo_id == Some(id))?;
    root.unit.copy_relocated_attributes(&skeleton.unit);
    Some(root)
}
