//! Copies the source files whose lines are among the names that are kept, one block at a time.

use std::collections::BTreeSet;

use icecore_format::index::Entry;
use icecore_format::read::{Damage, Recording};
use icecore_format::records::{IdTable, SourceTable, SourcesV1};
use icecore_format::write::Writer;

use super::need::Needed;
use super::rows::SessionRows;
use icecore_profile::map::Interned;
use icecore_profile::recording::load::damage;

/// Copies the blocks of a session; returns those that are damaged.
pub(super) fn copy(
    recording: &Recording,
    rows: &SessionRows,
    needed: &Needed,
    writer: &mut Writer,
) -> Result<Vec<Damage>, icecore_format::Error> {
    let mut lost = Vec::new();
    if rows.sources.is_empty() {
        return Ok(lost);
    }
    let wanted = files(rows, needed);
    for entry in &rows.sources {
        match kept(recording, entry, needed, &wanted) {
            Ok(table) if table.files.is_empty() => {}
            Ok(table) => drop(writer.append(&SourcesV1::from_table(&table))?),
            Err(error) => lost.push(damage(entry, &error)),
        }
    }
    Ok(lost)
}

/// Lists the image and the path of each source file of the names that are kept.
fn files<'r>(rows: &'r SessionRows, needed: &Needed) -> BTreeSet<(u32, &'r [u8])> {
    let of_place = |(table, place): &(usize, usize)| {
        let table = &rows.names[*table];
        let place = &table.places[*place];
        let frames = table.frames[place.frames.clone()].iter();
        frames.filter_map(|frame| Some((place.image, &*table.texts[frame.file? as usize])))
    };
    needed.names.iter().flat_map(of_place).collect()
}

/// Returns the wanted files of a block, under new ids.
fn kept(
    recording: &Recording,
    entry: &Entry,
    needed: &Needed,
    wanted: &BTreeSet<(u32, &[u8])>,
) -> Result<SourceTable, icecore_format::Error> {
    let payload = recording.payload(entry)?;
    let table = payload.view::<SourcesV1>()?.table()?;
    let text = |position: u32| table.texts[position as usize];
    let mut texts: Interned<Box<[u8]>> = Interned::new();
    let mut files = Vec::new();
    for file in &table.files {
        if needed.ids(IdTable::Images).has(file.image) && wanted.contains(&(file.image, text(file.path))) {
            let mut new = needed.row(*file);
            new.path = texts.intern(text(file.path).into());
            new.text = texts.intern(text(file.text).into());
            files.push(new);
        }
    }
    Ok(SourceTable { files, texts: texts.into_items() })
}
