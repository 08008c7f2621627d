//! Blocks that several edits write.

use icecore_format::records::{EventV1, NamesV1, SessionV1};
use icecore_format::write::Writer;
use icecore_profile::named::found::Draft;

/// Writes collected names, if they fill a block or are the last.
pub(crate) fn append_names(
    writer: &mut Writer,
    draft: &mut Draft,
    is_last: bool,
) -> Result<(), icecore_format::Error> {
    match (draft.is_full() || is_last).then(|| draft.take()).flatten() {
        Some(table) => writer.append(&NamesV1::from_table(&table)).map(drop),
        None => Ok(()),
    }
}

/// Replaces a missing session block, so that the blocks after it do not join the session before it.
pub(crate) fn unknown_session(note: &str) -> SessionV1 {
    // An event of unknown unit, so that samples have an event to refer to.
    let events = vec![EventV1 { name: "?".into(), ..EventV1::default() }];
    SessionV1 { events, notes: vec![note.to_owned()], ..SessionV1::default() }
}
