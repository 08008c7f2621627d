//! Finds split DWARF: packages beside a file (`.dwp`), and the single files that a compiler wrote (`.dwo`).
//!
//! They have no build-id. The reader compares the ids of their units with those that the skeletons name.

use std::cmp::Reverse;
use std::path::Path;

use super::search::Spot;
use super::{ElfFile, FoundFile, Layout, Search};

/// Opens the package of a file that has DWARF; the recorded path of the image may lead to it as well.
pub(super) fn package(of: &FoundFile, recorded: &Path, search: &Search) -> Option<(ElfFile, Layout)> {
    // The other halves of units use a table of addresses in this file.
    if !of.layout.has(".debug_addr") {
        return None;
    }
    let own = of.file.real_path.file_name()?;
    let name = [own.as_encoded_bytes(), b".dwp"].concat();
    let name = String::from_utf8(name).ok()?;
    let spots = [search.beside(&of.file.real_path, &name), search.spot(recorded).1.with_suffix(".dwp")];
    let in_tree = search.symbols.of_name(name.as_ref()).iter().cloned().map(Spot::typed);
    let mut found =
        spots.into_iter().chain(in_tree).filter_map(|spot| open(&spot, ".debug_cu_index", search));
    found.next()
}

/// Opens, one after the other, the files that a skeleton unit may mean by this directory and name. It does not check their
/// identity: the first file with a unit that has the id of the skeleton is the right one. A folder of builds may have hundreds of
/// `main.dwo`: those with most folders in common with the name come first.
pub(crate) fn units<'s>(
    of: &'s ElfFile,
    directory: &Path,
    name: &'s Path,
    search: &'s Search,
) -> impl Iterator<Item = (ElfFile, Layout)> + 's {
    let file_name = name.file_name().unwrap_or_default();
    let spots = [
        search.spot(&directory.join(name)).1,
        search.beside(&of.real_path, name.strip_prefix("/").unwrap_or(name)),
        search.beside(&of.real_path, file_name),
    ];
    let mut in_tree: Vec<_> = search.symbols.of_name(file_name).iter().collect();
    let full = directory.join(name);
    in_tree.sort_by_cached_key(|path| Reverse(shared_components(path, &full)));
    let in_tree = in_tree.into_iter().cloned().map(Spot::typed);
    spots.into_iter().chain(in_tree).filter_map(move |spot| open(&spot, ".debug_info.dwo", search))
}

/// Counts the components that two paths have in common, from the last one on.
fn shared_components(a: &Path, b: &Path) -> usize {
    a.components().rev().zip(b.components().rev()).take_while(|(a, b)| a == b).count()
}

/// Opens an ELF file that has this section.
fn open(spot: &Spot<'_>, section: &str, search: &Search) -> Option<(ElfFile, Layout)> {
    let file = search.open(spot).ok()?;
    let layout = file.layout().ok()?;
    layout.section(section).is_some().then_some((file, layout))
}
