//! Loads a recording into tables. Samples stay in their blocks until [`crate::hits`] counts them.

pub mod by_id;

use icecore_format::block::Kind;
use icecore_format::index::Entry;
use icecore_format::read::{Damage, Recording};
use icecore_format::records::{
    Image, ImagesV1, KernelSymbol, KernelSymbolsV1, Lifecycle, LifecycleV1, Loss, LossesV1, Mapping,
    MappingsV1, Node, Payload, ReceiptV1, SamplesV1, SessionV1, StacksV1, StringsV1, Task, TasksV1,
};
use rayon::prelude::*;

use by_id::ById;

/// Everything of a recording except its samples.
#[derive(Debug, Default)]
pub struct Tables {
    /// Host, clock, events, options; empty if its block is missing.
    pub session: SessionV1,
    /// Text; control characters replaced, so that no name can steer a terminal or break a line.
    pub strings: ById<Box<str>>,
    /// Threads under one name.
    pub tasks: ById<Task>,
    /// Identities of executable files.
    pub images: ById<Image>,
    /// The trie of stacks.
    pub nodes: ById<Node>,
    /// Changes of tasks, in the order of the file.
    pub lifecycle: Vec<Lifecycle>,
    /// Executable mappings, in the order of the file.
    pub mappings: Vec<Mapping>,
    /// Kernel symbols, in the order of the file.
    pub kernel_symbols: Vec<KernelSymbol>,
    /// Losses, in the order of the file.
    pub losses: Vec<Loss>,
    /// What the recording cost; absent if the recorder was killed.
    pub receipt: Option<ReceiptV1>,
    /// Blocks of samples, not opened yet.
    pub sample_blocks: Vec<Entry>,
    /// What could not be used.
    pub damage: Vec<Damage>,
    /// Blocks that this build does not know: newer kinds, newer versions.
    pub skipped: Vec<Skipped>,
}

/// Blocks of one kind and version that this build cannot interpret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// The kind.
    pub kind: Kind,
    /// The version of the payload.
    pub version: u16,
    /// How many blocks.
    pub blocks: u64,
    /// Their bytes in the file.
    pub stored_bytes: u64,
}

impl Tables {
    /// Finds a string; `?` if its block is missing.
    pub fn text(&self, id: u32) -> &str {
        match id {
            0 => "",
            id => self.strings.find(id).map_or("?", |text| text),
        }
    }
}

/// One block, decoded.
enum Part {
    Session(Box<SessionV1>),
    Strings(u32, Vec<Box<str>>),
    Tasks(u32, Vec<Task>),
    Images(u32, Vec<Image>),
    Nodes(u32, Vec<Node>),
    Lifecycle(Vec<Lifecycle>),
    Mappings(Vec<Mapping>),
    KernelSymbols(Vec<KernelSymbol>),
    Losses(Vec<Loss>),
    Receipt(ReceiptV1),
    Samples,
    Unknown,
    Damaged(Damage),
}

/// Decodes all blocks but those of samples, in parallel. Nothing in a file makes this fail: what is
/// damaged or unknown is counted.
pub fn load(recording: &Recording) -> Tables {
    let parts: Vec<Part> = recording
        .entries()
        .par_iter()
        .map(|entry| decode(recording, entry).unwrap_or_else(|error| Part::Damaged(damage(entry, &error))))
        .collect();
    let mut tables = Tables { damage: recording.damage().to_vec(), ..Tables::default() };
    let (mut strings, mut tasks, mut images, mut nodes) = (vec![], vec![], vec![], vec![]);
    for (entry, part) in recording.entries().iter().zip(parts) {
        match part {
            Part::Session(session) => tables.session = *session,
            Part::Strings(first, rows) => strings.push((first, rows)),
            Part::Tasks(first, rows) => tasks.push((first, rows)),
            Part::Images(first, rows) => images.push((first, rows)),
            Part::Nodes(first, rows) => nodes.push((first, rows)),
            Part::Lifecycle(rows) => tables.lifecycle.extend(rows),
            Part::Mappings(rows) => tables.mappings.extend(rows),
            Part::KernelSymbols(rows) => tables.kernel_symbols.extend(rows),
            Part::Losses(rows) => tables.losses.extend(rows),
            Part::Receipt(receipt) => tables.receipt = Some(receipt),
            Part::Samples => tables.sample_blocks.push(*entry),
            Part::Unknown => skip(&mut tables.skipped, entry),
            Part::Damaged(damage) => tables.damage.push(damage),
        }
    }
    tables.strings = ById::from_blocks(strings);
    tables.tasks = ById::from_blocks(tasks);
    tables.images = ById::from_blocks(images);
    tables.nodes = ById::from_blocks(nodes);
    clean_session(&mut tables.session);
    tables
}

fn clean_session(session: &mut SessionV1) {
    let SessionV1 { recorder, command_line, host, kernel_release, kernel_version, arch, .. } = session;
    let events = session.events.iter_mut().flat_map(|event| [&mut event.name, &mut event.unit]);
    let labels = session.labels.iter_mut().flat_map(|label| [&mut label.key, &mut label.value]);
    let texts = [recorder, host, kernel_release, kernel_version, arch, &mut session.target];
    let lists = command_line.iter_mut().chain(&mut session.notes);
    for text in texts.into_iter().chain(events).chain(labels).chain(lists) {
        *text = clean(text.as_bytes()).into();
    }
}

/// Describes a block that could not be used.
pub(crate) fn damage(entry: &Entry, error: &icecore_format::Error) -> Damage {
    let cause = format!("{} block: {error}", entry.header.kind.name());
    Damage { off: entry.off, len: entry.header.next(entry.off) - entry.off, cause }
}

fn decode(recording: &Recording, entry: &Entry) -> Result<Part, icecore_format::Error> {
    let known = (entry.header.kind, entry.header.version);
    if known == (SamplesV1::KIND, SamplesV1::VERSION) {
        return Ok(Part::Samples);
    }
    let payload = recording.payload(entry)?;
    // A kind without a version that this build knows falls through to the last arm.
    Ok(match known {
        (Kind::SESSION, 1) => Part::Session(Box::new(payload.view::<SessionV1>()?.to_owned_record()?)),
        (Kind::STRINGS, 1) => {
            let view = payload.view::<StringsV1>()?;
            let rows = view.rows()?.into_iter().map(|(_, text)| clean(text)).collect();
            Part::Strings(view.first_id.to_native(), rows)
        }
        (Kind::TASKS, 1) => {
            let view = payload.view::<TasksV1>()?;
            Part::Tasks(view.first_id.to_native(), view.rows().collect())
        }
        (Kind::IMAGES, 1) => {
            let view = payload.view::<ImagesV1>()?;
            Part::Images(view.first_id.to_native(), view.rows()?)
        }
        (Kind::STACKS, 1) => {
            let view = payload.view::<StacksV1>()?;
            let rows: Result<Vec<Node>, _> = view.rows().map(|row| row.map(|(_, node)| node)).collect();
            Part::Nodes(view.first_id.to_native(), rows?)
        }
        (Kind::LIFECYCLE, 1) => Part::Lifecycle(payload.view::<LifecycleV1>()?.rows().collect()),
        (Kind::MAPPINGS, 1) => Part::Mappings(payload.view::<MappingsV1>()?.rows().collect()),
        (Kind::KERNEL_SYMBOLS, 1) => Part::KernelSymbols(payload.view::<KernelSymbolsV1>()?.rows().collect()),
        (Kind::LOSSES, 1) => Part::Losses(payload.view::<LossesV1>()?.rows().collect()),
        (Kind::RECEIPT, 1) => Part::Receipt(payload.view::<ReceiptV1>()?.to_owned_record()?),
        _ => Part::Unknown,
    })
}

fn skip(skipped: &mut Vec<Skipped>, entry: &Entry) {
    let (kind, version) = (entry.header.kind, entry.header.version);
    let stored_bytes = u64::from(entry.header.stored_len);
    match skipped.iter_mut().find(|s| s.kind == kind && s.version == version) {
        Some(row) => {
            row.blocks += 1;
            row.stored_bytes += stored_bytes;
        }
        None => skipped.push(Skipped { kind, version, blocks: 1, stored_bytes }),
    }
}

/// Makes text of bytes: UTF-8, and no characters that control a terminal or the direction of text.
pub(crate) fn clean(bytes: &[u8]) -> Box<str> {
    let controls = |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let text = String::from_utf8_lossy(bytes);
    if !text.contains(controls) {
        return text.into();
    }
    text.chars().map(|c| if controls(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_can_steer_a_terminal_or_break_a_line() {
        assert_eq!(&*clean(b"a\x1b[31mb\nc\xff"), "a\u{fffd}[31mb\u{fffd}c\u{fffd}");
        assert_eq!(&*clean("gr\u{fc}n".as_bytes()), "grün");
        assert_eq!(&*clean("a\u{202e}b\u{2066}c".as_bytes()), "a\u{fffd}b\u{fffd}c");
    }
}
