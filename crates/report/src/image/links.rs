//! Decides whether the DWARF of a file may be handed to a reader that follows links to other files.
//!
//! blazesym opens what `.gnu_debuglink`, `.gnu_debugaltlink` and `.debug_sup` name, by plain `open`: a FIFO in
//! that place stops the report for ever, and a mismatch is an error for the whole file. So the links are looked
//! at here first. blazesym is given no debug directories, which leaves one candidate per link: the name itself
//! if absolute, else beside the file.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::{ElfFile, Layout};
use crate::symbolize::Reason;

/// The most bytes that compressed debug sections of one file may claim to become, together.
const MAX_DECOMPRESSED_LEN: u64 = 8 << 30;
/// The largest ratio that is believed; zlib cannot do better.
const MAX_RATIO: u64 = 1032;
/// The longest path to a supplementary file, with its build-id, in bytes.
const MAX_LINK_LEN: u64 = 8192;

/// Reports whether there is DWARF, and reading it leads to no harmful file and no absurd allocation.
pub(crate) fn dwarf_is_readable(file: &ElfFile, layout: &Layout) -> bool {
    layout.has(".debug_info")
        && !layout.has(".gnu_debuglink")
        && !layout.has(".debug_sup")
        && supplement_is_sound(file, layout)
        && sizes_are_believable(layout)
}

/// Checks the file that dwz has moved common entries to: absent is fine (some names will be missing), a file
/// with another build-id is not.
fn supplement_is_sound(file: &ElfFile, layout: &Layout) -> bool {
    let Some(section) = layout.section(".gnu_debugaltlink") else { return true };
    if section.len > MAX_LINK_LEN {
        return false;
    }
    let Some(bytes) = file.section_bytes(section) else { return false };
    let Some(end) = bytes.iter().position(|&byte| byte == 0) else { return false };
    let (name, build_id) = (OsStr::from_bytes(&bytes[..end]), &bytes[end + 1..]);
    let mut path = file.real_path.clone();
    path.set_file_name(name);
    match ElfFile::open(&path) {
        Err(reason) => reason == Reason::ImageMissing,
        Ok(other) => other.layout().is_ok_and(|layout| {
            layout.build_id == build_id
                && !layout.has(".gnu_debugaltlink")
                && !layout.has(".gnu_debuglink")
                && sizes_are_believable(&layout)
        }),
    }
}

fn sizes_are_believable(layout: &Layout) -> bool {
    let claims = layout.sections.iter().filter_map(|section| Some((section.len, section.compressed_from?)));
    let mut total = 0u64;
    for (len, raw) in claims {
        total = total.saturating_add(raw);
        if raw / MAX_RATIO > len {
            return false;
        }
    }
    total <= MAX_DECOMPRESSED_LEN
}
