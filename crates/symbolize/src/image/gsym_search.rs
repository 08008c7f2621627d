//! Finds the GSYM of an image.

use std::path::Path;

use super::gsym::{HEADER_LEN, Header, SECTION, build_id};
use super::search::Spot;
use super::{Attempt, FileSource, FoundFile, Gsym, Outcome, Search};

/// Finds the GSYM of an image, and adds the files that it tried to the attempts.
pub(super) fn find(
    image: &FoundFile,
    recorded: &Path,
    search: &Search,
    attempts: &mut Vec<Attempt>,
) -> Option<Gsym> {
    section(image).or_else(|| alone(image, recorded, search, attempts))
}

/// Finds the section. One with another build-id was made for another build.
fn section(image: &FoundFile) -> Option<Gsym> {
    let layout = &image.layout;
    let section = layout.section(SECTION).filter(|_| layout.has(SECTION))?;
    let header = image.file.bytes(section.off, HEADER_LEN as u64)?;
    let header = Header::parse(&header).filter(|_| section.compressed_from.is_none())?;
    let is_own = header.build_id.is_empty() || header.build_id == layout.build_id;
    is_own.then_some(Gsym::Section(section.off, section.len))
}

fn alone(image: &FoundFile, recorded: &Path, search: &Search, attempts: &mut Vec<Attempt>) -> Option<Gsym> {
    let wanted = &image.layout.build_id;
    let in_tree = search.symbols.gsym_of_build_id(wanted).iter().cloned();
    let in_tree = in_tree.map(|path| (FileSource::Symbols, Spot::typed(path)));
    let name = image.file.real_path.file_name().unwrap_or_default();
    let beside = [search.beside(&image.file.real_path, name), search.spot(recorded).1];
    let beside = beside.into_iter().map(|spot| (FileSource::DebugDir, spot.with_suffix(SECTION)));
    for (source, spot) in in_tree.chain(beside) {
        // Few users have such files, so a path without one is not listed as an attempt.
        let Ok(file) = search.open(&spot) else { continue };
        let is_own = !wanted.is_empty() && build_id(&file).as_ref() == Some(wanted);
        let outcome = if is_own { Outcome::Taken } else { Outcome::OtherBuild };
        attempts.push(Attempt::new(source, spot.shown(), outcome));
        if is_own {
            return Some(Gsym::Alone(file));
        }
    }
    None
}
