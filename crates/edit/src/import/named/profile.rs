//! One plain model of a profile with names, which every parser fills.

use std::collections::BTreeMap;

use icecore_format::limits::MAX_STRING_LEN;
use icecore_format::records::{EventMeaning, EventV1, Maker};
use icecore_profile::map::Interned;
use icecore_profile::recording::damage::DamageRow;

use crate::Error;

/// The most events of a recording.
pub(super) const MAX_EVENTS: usize = 256;
/// The most functions that are inlined at one place; further ones become callers.
pub(super) const MAX_INLINED: usize = 64;
/// The most distinct stacks.
const MAX_STACKS: usize = 1 << 30;
/// The most stretches of damage that are listed.
const MAX_DAMAGE: usize = 100;

/// A profile.
#[derive(Debug)]
pub(super) struct Profile {
    /// The name of its format.
    pub(super) format: &'static str,
    pub(super) maker: Maker,
    /// The program that wrote it, as far as it says.
    pub(super) recorder: String,
    /// What the format does not tell, one sentence each.
    pub(super) notes: Vec<String>,
    /// The zero of times, since 1970-01-01 UTC; `None` if unknown.
    pub(super) start_unix_ns: Option<u64>,
    /// The zero of times.
    pub(super) start_ns: u64,
    /// How long it was recorded; `None` if unknown.
    pub(super) lasted_ns: Option<u64>,
    pub(super) events: Vec<EventV1>,
    /// Texts by position; the first one is empty.
    pub(super) texts: Interned<Box<str>>,
    pub(super) images: Interned<NamedImage>,
    pub(super) functions: Interned<NamedFn>,
    pub(super) places: Interned<NamedPlace>,
    /// Pairs of the caller, a position + 1, or 0 for none, and the place; callers come first.
    pub(super) stacks: Interned<(u32, u32)>,
    pub(super) threads: Interned<Thread>,
    pub(super) samples: Vec<NamedSample>,
    /// Samples that the recorder has lost.
    pub(super) lost: u64,
    /// What a recording cannot hold.
    pub(super) not_imported: BTreeMap<&'static str, u64>,
    pub(super) damage: Vec<DamageRow>,
}

/// A file of code. Texts are positions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct NamedImage {
    pub(super) path: u32,
    pub(super) build_id: Vec<u8>,
}

/// A function. Texts are positions, 0 for unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct NamedFn {
    pub(super) name: u32,
    /// The name as the compiler writes it, if that is another one.
    pub(super) symbol: u32,
    pub(super) file: u32,
    /// The line of its declaration; 0 if unknown.
    pub(super) line: u32,
}

/// A place in code.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct NamedPlace {
    /// The image, a position; `None` if unknown.
    pub(super) image: Option<u32>,
    /// Of a place without functions: the offset in the image, or the address if that is unknown.
    pub(super) address: u64,
    /// Functions, positions, each with its line there, 0 if unknown; innermost first. All but the last are inlined.
    pub(super) frames: Vec<(u32, u32)>,
    /// The profile says that it is code of the kernel.
    pub(super) is_kernel: bool,
}

/// A thread. What is unknown is 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Thread {
    pub(super) tgid: u32,
    pub(super) tid: u32,
    pub(super) name: u32,
    pub(super) process: u32,
}

/// A sample.
#[derive(Debug, Clone, Copy)]
pub(super) struct NamedSample {
    /// After the zero of times.
    pub(super) time_ns: u64,
    pub(super) event: u8,
    pub(super) thread: u32,
    /// A position + 1.
    pub(super) stack: u32,
    pub(super) weight: u64,
}

impl Profile {
    /// Makes a profile without samples.
    pub(super) fn new(format: &'static str, maker: Maker) -> Self {
        let mut texts = Interned::new();
        texts.intern("".into());
        Self {
            format,
            maker,
            recorder: format.to_owned(),
            notes: vec![format!("imported from a file of {format}")],
            start_unix_ns: None,
            start_ns: 0,
            lasted_ns: None,
            events: Vec::new(),
            texts,
            images: Interned::new(),
            functions: Interned::new(),
            places: Interned::new(),
            stacks: Interned::new(),
            threads: Interned::new(),
            samples: Vec::new(),
            lost: 0,
            not_imported: BTreeMap::new(),
            damage: Vec::new(),
        }
    }

    /// Notes what the format does not say.
    pub(super) fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }

    /// Returns the position of a text. Of a text that is too long for a recording the begin is kept.
    pub(super) fn text(&mut self, text: &str) -> u32 {
        let mut len = text.len().min(MAX_STRING_LEN as usize);
        while !text.is_char_boundary(len) {
            len -= 1;
        }
        self.texts.intern(text[..len].into())
    }

    /// Returns the position of a file of code.
    pub(super) fn image(&mut self, path: &str, build_id: Vec<u8>) -> u32 {
        let path = self.text(path);
        self.images.intern(NamedImage { path, build_id })
    }

    /// Returns the positions of the frames that a place becomes, outermost first: one, but inlined code of the kernel becomes callers, because
    /// a recording has no inlined functions there.
    pub(super) fn frames(&mut self, place: NamedPlace) -> Box<[u32]> {
        if !place.is_kernel || place.frames.len() < 2 {
            return [self.places.intern(place)].into();
        }
        let frame = |frame: &(u32, u32)| NamedPlace { frames: vec![*frame], ..place.clone() };
        place.frames.iter().rev().map(|it| self.places.intern(frame(it))).collect()
    }

    /// Returns the stack of frames that a stack, 0 for none, has called.
    pub(super) fn stack(&mut self, caller: u32, frames: &[u32]) -> Result<u32, Error> {
        let mut stack = caller;
        for place in frames {
            stack = self.stacks.intern((stack, *place)) + 1;
        }
        // A node of the recording has an id for each role that it plays.
        if self.stacks.len() >= MAX_STACKS {
            return Err(Error::input("it has more distinct stacks than a recording has numbers for"));
        }
        Ok(stack)
    }

    /// Adds an event; `None` and counted if a recording has no number left for it.
    pub(super) fn event(&mut self, event: EventV1) -> Option<u8> {
        if self.events.len() == MAX_EVENTS {
            self.count("event", 1);
            return None;
        }
        self.events.push(event);
        Some((self.events.len() - 1) as u8)
    }

    /// Counts what a recording cannot hold.
    pub(super) fn count(&mut self, what: &'static str, count: u64) {
        if count > 0 {
            let sum = self.not_imported.entry(what).or_default();
            *sum = sum.saturating_add(count);
        }
    }

    /// Lists a stretch that cannot be read; of very many only the first.
    pub(super) fn damaged(&mut self, offset: usize, len: usize, cause: String) {
        if self.damage.len() < MAX_DAMAGE {
            self.damage.push(DamageRow { offset: offset as u64, len: len as u64, cause });
        } else {
            self.count("damage", 1);
        }
    }
}

/// Describes an event of which the format says no more than a name and a unit.
pub(super) fn event(name: &str, unit: &str, meaning: EventMeaning) -> EventV1 {
    EventV1 { name: name.to_owned(), unit: unit.to_owned(), meaning, ..EventV1::default() }
}

/// Returns true if the path of a file of code is that of the kernel or of one of its modules, as perf names them.
pub(super) fn is_kernel(path: &str) -> bool {
    path.starts_with("[kernel") || path.ends_with(".ko")
}
