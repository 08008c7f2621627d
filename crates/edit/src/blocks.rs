//! Blocks that several edits write.

use icecore_format::records::{
    CodeFrame, CodePlace, CodeReference, CodeStretch, CodeTable, CodeV1, EventV1, NamesV1, SessionV1,
};
use icecore_format::write::Writer;
use icecore_profile::map::Interned;
use icecore_profile::named::found::Draft;

/// The size at which a block of code is full, bytes: a reader opens a block for each function that it shows.
const CODE_BYTES: usize = 256 << 10;

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

/// A block of code under construction.
#[derive(Default)]
pub(crate) struct CodeDraft {
    stretches: Vec<CodeStretch>,
    texts: Interned<Box<[u8]>>,
    bytes: usize,
}

impl CodeDraft {
    /// Adds a stretch of an image, an image id; the texts are those to which it refers.
    pub(crate) fn add<T: AsRef<[u8]>>(&mut self, image: u32, stretch: &CodeStretch, texts: &[T]) {
        let mut text = |position: u32| self.texts.intern(texts[position as usize].as_ref().into());
        let mut frame = |frame: &CodeFrame| CodeFrame {
            name: text(frame.name),
            file: frame.file.map(&mut text),
            line: frame.line,
        };
        let place = |place: &CodePlace| CodePlace {
            begin: place.begin,
            frames: place.frames.iter().map(&mut frame).collect(),
        };
        let places = stretch.places.iter().map(place).collect();
        let refers = stretch.refers.iter().map(|it| CodeReference { name: text(it.name), ..*it }).collect();
        let name = stretch.name.map(text);
        self.bytes += stretch.bytes.len();
        self.stretches.push(CodeStretch { image, name, places, refers, ..stretch.clone() });
    }

    /// Writes the collected code, if it fills a block or is the last.
    pub(crate) fn append(&mut self, writer: &mut Writer, is_last: bool) -> Result<(), icecore_format::Error> {
        if self.stretches.is_empty() || (self.bytes < CODE_BYTES && !is_last) {
            return Ok(());
        }
        let Self { stretches, texts, .. } = std::mem::take(self);
        writer.append(&CodeV1::from_table(&CodeTable { stretches, texts: texts.into_items() })).map(drop)
    }
}

/// Replaces a missing session block, so that the blocks after it do not join the session before it.
pub(crate) fn unknown_session(note: &str) -> SessionV1 {
    // An event of unknown unit, so that samples have an event to refer to.
    let events = vec![EventV1 { name: "?".into(), ..EventV1::default() }];
    SessionV1 { events, notes: vec![note.to_owned()], ..SessionV1::default() }
}
