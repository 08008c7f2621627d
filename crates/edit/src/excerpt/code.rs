//! Copies the code of the functions that stacks of the excerpt hold, one block at a time.

use std::collections::BTreeSet;

use icecore_format::index::Entry;
use icecore_format::read::{Damage, Recording};
use icecore_format::records::{CodeStretch, CodeV1, IdTable};
use icecore_format::write::Writer;

use super::need::Needed;
use super::rows::SessionRows;
use crate::blocks::CodeDraft;
use icecore_profile::recording::load::damage;

/// Copies the blocks of a session; returns those that are damaged.
pub(super) fn copy(
    recording: &Recording,
    rows: &SessionRows,
    needed: &Needed,
    writer: &mut Writer,
) -> Result<Vec<Damage>, icecore_format::Error> {
    let mut lost = Vec::new();
    for entry in &rows.code {
        match kept(recording, entry, needed) {
            Ok(mut draft) => draft.append(writer, true)?,
            Err(error) => lost.push(damage(entry, &error)),
        }
    }
    Ok(lost)
}

/// Returns the stretches of a block that were hit, under new ids.
fn kept(recording: &Recording, entry: &Entry, needed: &Needed) -> Result<CodeDraft, icecore_format::Error> {
    let payload = recording.payload(entry)?;
    let table = payload.view::<CodeV1>()?.table()?;
    let mut draft = CodeDraft::default();
    for stretch in &table.stretches {
        if needed.ids(IdTable::Images).has(stretch.image) && is_hit(stretch, &needed.code) {
            let image = needed.row(CodeStretch { image: stretch.image, ..CodeStretch::default() }).image;
            draft.add(image, stretch, &table.texts);
        }
    }
    Ok(draft)
}

/// Returns true if code is in a stretch or right behind it, as a return address may be.
fn is_hit(stretch: &CodeStretch, code: &BTreeSet<(u32, u64)>) -> bool {
    let (image, begin) = (stretch.image, stretch.file_off);
    let end = begin.saturating_add(stretch.bytes.len() as u64);
    code.range((image, begin)..=(image, end)).next().is_some()
}
