//! Reads the MD5 of source files, which line tables of DWARF 5 may have.

use super::info::Info;
use super::lines::{Lines, SourceFiles};
use super::requested::Requested;
use super::sweep;
use super::{Broken, Guard, Sources, Strings};
use crate::map::Map;
use crate::source::{Checksums, Md5};
use icecore_elf::Svma;

/// Finds what the line tables of the units that claim addresses, which ascend, say of files.
///
/// # Errors
/// [`Broken`] if the file asks for more work than its size and the addresses justify.
pub(crate) fn checksums(
    sources: &Sources<'_>,
    code: Svma,
    at: &[Svma],
    paths: &[&str],
) -> Result<Vec<Checksums>, Broken> {
    let guard = Guard::new(sources.len(), at.len());
    let strings = Strings::default();
    let (dwarf, _) = sources.load();
    let info = Info::new(dwarf, &guard)?;
    let positions: Map<&str, usize> =
        paths.iter().enumerate().map(|(position, path)| (*path, position)).collect();
    let mut found = vec![Checksums::default(); paths.len()];
    for claim in sweep::claims(&info, Requested { at, code }, &guard) {
        let Ok(root) = info.root(claim.unit) else { continue };
        let Ok(Some(lines)) = Lines::open(&info.dwarf, &root, &guard) else { continue };
        let mut files = SourceFiles::new(&info.dwarf, &root.unit, Some(&lines));
        for (number, md5) in lines.files() {
            let Some(path) = files.path(number, &strings, &guard)? else { continue };
            if let Some(position) = positions.get(&*path) {
                found[*position].note(md5.map(Md5));
            }
        }
    }
    if guard.is_exhausted() { Err(Broken) } else { Ok(found) }
}
