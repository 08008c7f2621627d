//! Opens the files that the DWARF of an image continues in.
//!
//! Their names are data of the image. What is opened is a regular file or nothing, and whoever reads it compares the
//! identity: here the build-id, in the reader of DWARF the id of the unit.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::{ElfFile, Layout};

/// The longest path to a supplementary file, with its build-id, in bytes.
const MAX_LINK_LEN: u64 = 8192;

/// Opens the supplementary file, which dwz has moved common entries to: as it is named, from where the file is.
pub(crate) fn supplement(file: &ElfFile, layout: &Layout) -> Option<(ElfFile, Layout)> {
    let (name, id) = link(file, layout)?;
    let (other, layout) = open(&file.real_path.parent()?.join(OsStr::from_bytes(&name)))?;
    let is_same = layout.build_id == id || supplement_id(&other, &layout).is_some_and(|own| own == id);
    (!id.is_empty() && is_same).then_some((other, layout))
}

/// Reads the name and the identity of the supplementary file: `.gnu_debugaltlink`, or `.debug_sup` of DWARF 5.
fn link(file: &ElfFile, layout: &Layout) -> Option<(Vec<u8>, Vec<u8>)> {
    if let Some(section) = layout.section(".gnu_debugaltlink").filter(|section| section.len <= MAX_LINK_LEN) {
        let bytes = file.section_bytes(section)?;
        let end = bytes.iter().position(|&byte| byte == 0)?;
        return Some((bytes[..end].to_vec(), bytes[end + 1..].to_vec()));
    }
    let (is_supplementary, name, id) = debug_sup(file, layout)?;
    (!is_supplementary).then_some((name, id))
}

fn supplement_id(file: &ElfFile, layout: &Layout) -> Option<Vec<u8>> {
    let (is_supplementary, _, id) = debug_sup(file, layout)?;
    is_supplementary.then_some(id)
}

/// Reads `.debug_sup`: version u16, is_supplementary u8, name with a 0 behind, length of the identity (LEB128, here one
/// byte), identity.
fn debug_sup(file: &ElfFile, layout: &Layout) -> Option<(bool, Vec<u8>, Vec<u8>)> {
    let section = layout.section(".debug_sup").filter(|section| section.len <= MAX_LINK_LEN)?;
    let bytes = file.section_bytes(section)?;
    let (&[_, _, is_supplementary], rest) = bytes.split_first_chunk::<3>()?;
    let end = rest.iter().position(|&byte| byte == 0)?;
    let (name, rest) = (&rest[..end], &rest[end + 1..]);
    let (&len, id) = rest.split_first()?;
    Some((is_supplementary != 0, name.to_vec(), id.get(..usize::from(len & 0x7f))?.to_vec()))
}

/// Opens the package of all `.dwo` files: beside the file, with `.dwp` behind its name.
pub(crate) fn package(file: &ElfFile) -> Option<(ElfFile, Layout)> {
    let mut name = file.real_path.file_name()?.to_owned();
    name.push(".dwp");
    open(&file.real_path.with_file_name(name))
}

/// Opens a `.dwo` file: where it was compiled, else beside the image.
pub(crate) fn split(file: &ElfFile, directory: &[u8], name: &[u8]) -> Option<(ElfFile, Layout)> {
    let name = Path::new(OsStr::from_bytes(name));
    let directory = Path::new(OsStr::from_bytes(directory));
    open(&directory.join(name)).or_else(|| open(&file.real_path.with_file_name(name.file_name()?)))
}

fn open(path: &Path) -> Option<(ElfFile, Layout)> {
    let file = ElfFile::open(path).ok()?;
    let layout = file.layout().ok()?;
    Some((file, layout))
}
