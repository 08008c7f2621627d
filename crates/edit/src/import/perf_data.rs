//! Parses files of `perf record` without trust: checks every length against the file, and allocates no more than the file's size
//! justifies.
//!
//! ```text
//! header ─► events (attr), features
//! records, one after the other ─┬─► events of tasks and mappings, decoded at once
//!                               └─► samples: time and position, read again in the order of time
//! ```
//!
//! | room | what lives there |
//! |---|---|
//! | `header` | events, features, and the position of the records |
//! | `attr` | the settings of an event, and the layout of its records |
//! | `features` | host, command line, build-ids … |
//! | `records` | lists records, including compressed ones |
//! | `event`, `sample` | decodes records |
//! | `tracing` | fields of tracepoints |
//! | `bytes` | little-endian fields |
//!
//! # Source   uapi/linux/perf_event.h · tools/perf/Documentation/perf.data-file-format.txt

mod attr;
mod bytes;
mod event;
mod features;
#[cfg(test)]
pub(super) mod fixture;
mod header;
mod records;
mod sample;
mod tracing;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::ops::Range;

use icecore_format::read::Damage;

use crate::Error;
pub(super) use attr::Attr;
use attr::field;
use bytes::Bytes;
pub(super) use event::{Event, Kernel, Mapped};
use event::{common, kind, unwanted};
pub(super) use features::Features;
use icecore_profile::map::Map;
pub(super) use records::At;
use records::{Record, Records};
use sample::Deferred;
pub(super) use sample::{PerfSample, UserRegisters};
pub(super) use tracing::Switch;

/// Types of records that perf itself writes.
const HEADER_ATTR: u32 = 64;
const HEADER_BUILD_ID: u32 = 67;
const HEADER_FEATURE: u32 = 80;

/// The most files of threads of perf: one for each CPU, and no Linux has more.
const MOST_PARTS: usize = 8 << 10;

/// The contents of the header.
#[derive(Debug, Default)]
struct Head {
    attrs: Vec<Attr>,
    features: Features,
    records: Range<u64>,
    damage: Vec<Damage>,
}

/// The position of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SampleAt {
    /// The time; 0 if unknown.
    pub(super) time_ns: u64,
    /// Its event, a position in [`PerfData::attrs`].
    pub(super) attr: u32,
    pub(super) at: At,
}

/// A perf.data file.
#[derive(Debug)]
pub(super) struct PerfData {
    records: Records,
    pub(super) attrs: Vec<Attr>,
    pub(super) features: Features,
    /// Events of tasks and mappings with their times, ascending. Mappings and tasks that existed before the recording have the time
    /// 0.
    pub(super) events: Vec<(u64, Event)>,
    /// Samples, by time.
    pub(super) samples: Vec<SampleAt>,
    /// User sides of call chains that were recorded after their samples, by thread and number.
    deferred: Map<(u32, u64), At>,
    /// CPUs that samples hit; empty if unknown.
    pub(super) cpus: BTreeSet<u32>,
    /// Samples of the idle task are among them.
    pub(super) has_idle: bool,
    /// Records that a recording cannot hold, by type.
    pub(super) not_imported: BTreeMap<&'static str, u64>,
    pub(super) damage: Vec<Damage>,
}

impl PerfData {
    /// Reads a file, except for the contents of its samples. Of `perf record --threads`, `parts` has the files of its threads, which
    /// have records and no header.
    ///
    /// # Errors
    /// If it is no perf.data file, its events cannot be read or distinguished, or reading fails.
    pub(super) fn read(file: File, parts: Vec<File>) -> Result<Self, Error> {
        let file_len = file.metadata()?.len();
        let Head { attrs, features, records, mut damage } = header::read(&file, file_len)?;
        let mut reader = Reader { attrs, features, ..Reader::default() };
        let mut all = Records::default();
        damage.extend(all.walk(file, records, |record| reader.record(record))?);
        if parts.len() > MOST_PARTS {
            return Err(Error::input("it has more parts than machines have CPUs"));
        }
        for part in parts {
            let len = part.metadata()?.len();
            damage.extend(all.walk(part, 0..len, |record| reader.record(record))?);
        }
        let Reader {
            attrs,
            features,
            mut events,
            mut samples,
            deferred,
            cpus,
            has_idle,
            not_imported,
            too_short,
            ..
        } = reader;
        damage.extend(too_short);
        if attrs.iter().all(Attr::is_dummy) {
            return Err(Error::input("there are no events in it"));
        }
        // Records of one CPU are ordered; those of several are not.
        events.sort_by_key(|(time_ns, _)| *time_ns);
        samples.sort_by_key(|sample| sample.time_ns);
        let records = all;
        Ok(Self { records, attrs, features, events, samples, deferred, cpus, has_idle, not_imported, damage })
    }

    /// Lists the events that sample: perf has others that only report tasks and mappings.
    pub(super) fn events(&self) -> impl Iterator<Item = &Attr> {
        self.attrs.iter().filter(|attr| !attr.is_dummy())
    }

    /// Returns the event that samples switches of threads, a position in [`PerfData::attrs`], if perf has noted where its fields lie.
    pub(super) fn switches(&self) -> Option<u32> {
        self.features.switch?;
        self.attrs.iter().position(Attr::is_switch).map(|position| position as u32)
    }

    /// Returns the position of a sample's event in [`PerfData::events`].
    pub(super) fn event(&self, attr: u32) -> usize {
        self.attrs.iter().take(attr as usize).filter(|attr| !attr.is_dummy()).count()
    }

    /// Reads a sample; `None` if it is shorter than it should be.
    ///
    /// # Errors
    /// If reading fails.
    pub(super) fn sample<'b>(
        &self,
        sample: SampleAt,
        buffer: &'b mut Vec<u8>,
    ) -> io::Result<Option<PerfSample<'b>>> {
        let body = self.records.body(sample.at, buffer)?;
        Ok(PerfSample::decode(body, sample.at.misc, &self.attrs[sample.attr as usize]))
    }

    /// Reads the user side of a call chain that was recorded later; `None` if it was not.
    ///
    /// # Errors
    /// If reading fails.
    pub(super) fn deferred<'b>(
        &self,
        tid: u32,
        cookie: u64,
        buffer: &'b mut Vec<u8>,
    ) -> io::Result<Option<Deferred<'b>>> {
        let Some(at) = self.deferred.get(&(tid, cookie)) else { return Ok(None) };
        let body = self.records.body(*at, buffer)?;
        Ok(Deferred::decode(body))
    }
}

fn damage(off: u64, cause: String) -> Damage {
    Damage { off, len: 0, cause }
}

/// Collects records in the order of the file.
#[derive(Default)]
struct Reader {
    attrs: Vec<Attr>,
    features: Features,
    /// Positions of events, by their ids in records.
    by_id: Map<u64, u32>,
    /// The field that holds the event's id; `None` if there is one event.
    id_field: Option<u64>,
    /// All events are known, because the first record of one was read.
    is_ready: bool,
    events: Vec<(u64, Event)>,
    samples: Vec<SampleAt>,
    deferred: Map<(u32, u64), At>,
    cpus: BTreeSet<u32>,
    has_idle: bool,
    not_imported: BTreeMap<&'static str, u64>,
    /// The first record that is too short.
    too_short: Option<Damage>,
}

impl Reader {
    /// Prepares to distinguish the records of several events.
    fn prepare(&mut self) -> Result<(), Error> {
        let Some((first, others)) = self.attrs.split_first() else {
            return Err(Error::input("records precede the attributes of their events"));
        };
        let all_have = |field| first.has_field(field) && others.iter().all(|attr| attr.has_field(field));
        let are_alike = others.iter().all(|attr| attr.sample_type == first.sample_type);
        let tell_all = |attr: &Attr| attr.tells_all() == first.tells_all();
        self.id_field = match others {
            [] => None,
            _ if !others.iter().all(tell_all) => {
                return Err(Error::input("its events cannot be distinguished"));
            }
            _ if all_have(field::IDENTIFIER) => Some(field::IDENTIFIER),
            _ if are_alike && all_have(field::ID) => Some(field::ID),
            _ => {
                return Err(Error::input(
                    "its events cannot be distinguished: records have no ids of events",
                ));
            }
        };
        self.is_ready = true;
        for (attr, number) in self.attrs.iter().zip(0..) {
            self.by_id.extend(attr.ids.iter().map(|id| (*id, number)));
        }
        Ok(())
    }

    fn record(&mut self, Record { kind, body, at }: Record<'_>) -> Result<(), Error> {
        match kind {
            HEADER_ATTR => return self.attr(body),
            HEADER_FEATURE => {
                let mut bytes = Bytes(body);
                if let Some(feature) = bytes.u64() {
                    // Unreadable features are skipped.
                    let _ =
                        self.features.take(feature.min(u64::from(u32::MAX)) as u32, bytes.0, &mut self.attrs);
                }
                return Ok(());
            }
            HEADER_BUILD_ID => {
                let _ = self.features.build_id(at.misc, body);
                return Ok(());
            }
            _ => {}
        }
        if let Some(name) = unwanted(kind) {
            *self.not_imported.entry(name).or_default() += 1;
        }
        if kind >= kind::FIRST_OF_PERF {
            return Ok(());
        }
        if !self.is_ready {
            self.prepare()?;
        }
        let id = self.id_field.and_then(|field| common(kind, body, &self.attrs[0], field));
        // Records that perf synthesized have no id.
        let number = id.and_then(|id| self.by_id.get(&id)).copied().unwrap_or(0);
        let attr = &self.attrs[number as usize];
        let time_ns = common(kind, body, attr, field::TIME).unwrap_or(0);
        match kind {
            // No kernel writes samples of a dummy event.
            kind::SAMPLE if attr.is_dummy() => {
                *self.not_imported.entry("sample_of_dummy_event").or_default() += 1;
            }
            kind::SAMPLE => {
                let of = |field| common(kind, body, attr, field);
                self.cpus.extend(of(field::CPU).map(|cpu| cpu as u32));
                self.has_idle |= of(field::TID) == Some(0);
                self.samples.push(SampleAt { time_ns, attr: number, at });
            }
            kind::CALLCHAIN_DEFERRED => {
                let thread = common(kind, body, attr, field::TID).map(|ids| (ids >> 32) as u32);
                match thread.zip(Deferred::decode(body)) {
                    Some((tid, Deferred { cookie, .. })) => drop(self.deferred.insert((tid, cookie), at)),
                    None => self.too_short(kind, at),
                }
            }
            _ => match Event::decode(kind, at.misc, body, attr) {
                Ok(event) => self.events.extend(event.map(|event| (time_ns, event))),
                Err(_) => self.too_short(kind, at),
            },
        }
        Ok(())
    }

    fn too_short(&mut self, kind: u32, at: At) {
        *self.not_imported.entry("too_short").or_default() += 1;
        self.too_short
            .get_or_insert_with(|| damage(at.offset(), format!("a record of type {kind} is too short")));
    }

    /// Takes an event from a stream: its attributes and ids.
    fn attr(&mut self, body: &[u8]) -> Result<(), Error> {
        let attr = Attr::decode(body);
        let len = body.get(4..8).and_then(|len| Bytes(len).u32()).unwrap_or(0) as usize;
        let (Some(mut attr), Some(ids)) = (attr, body.get(len..)) else {
            return Err(Error::input("an event is too short"));
        };
        attr.ids = Bytes(ids).words(ids.len() as u64 / 8).map(|ids| ids.iter().collect()).unwrap_or_default();
        if self.is_ready {
            return Err(Error::input("an event follows records of other events"));
        }
        self.attrs.push(attr);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
