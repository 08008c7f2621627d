//! The protobuf file of `simpleperf report-sample`: Android's profiler, with names.
//!
//! ```text
//! "SIMPLEPERF"  version u16  { size u32  Record }  0 u32
//! ```
//!
//! # Source   cmd_report_sample.proto of Android's platform/system/extras

use icecore_format::events;
use icecore_format::records::{EventMeaning, Maker};
use icecore_profile::map::Map;
use prost::Message;

use super::profile::{NamedFn, NamedPlace, NamedSample, Profile, Thread, event, is_kernel};
use crate::Error;

/// What a file begins with.
pub(super) const MAGIC: &[u8] = b"SIMPLEPERF";
/// The only version.
const VERSION: u16 = 1;

/// One of these.
#[derive(Clone, PartialEq, Message)]
struct Record {
    #[prost(message, optional, tag = "1")]
    sample: Option<SampleMessage>,
    #[prost(message, optional, tag = "2")]
    lost: Option<LostSituation>,
    #[prost(message, optional, tag = "3")]
    file: Option<FileMessage>,
    #[prost(message, optional, tag = "4")]
    thread: Option<ThreadMessage>,
    #[prost(message, optional, tag = "5")]
    meta_info: Option<MetaInfo>,
}

#[derive(Clone, PartialEq, Message)]
struct SampleMessage {
    #[prost(uint64, optional, tag = "1")]
    time: Option<u64>,
    #[prost(int32, optional, tag = "2")]
    thread_id: Option<i32>,
    /// Leaf first.
    #[prost(message, repeated, tag = "3")]
    callchain: Vec<Entry>,
    #[prost(uint64, optional, tag = "4")]
    event_count: Option<u64>,
    #[prost(uint32, optional, tag = "5")]
    event_type_id: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Entry {
    #[prost(uint64, optional, tag = "1")]
    vaddr_in_file: Option<u64>,
    #[prost(uint32, optional, tag = "2")]
    file_id: Option<u32>,
    /// A position in the symbols of the file; -1 if it is unknown.
    #[prost(int32, optional, tag = "3")]
    symbol_id: Option<i32>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct LostSituation {
    #[prost(uint64, optional, tag = "1")]
    sample_count: Option<u64>,
    #[prost(uint64, optional, tag = "2")]
    lost_count: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct FileMessage {
    #[prost(uint32, optional, tag = "1")]
    id: Option<u32>,
    #[prost(string, optional, tag = "2")]
    path: Option<String>,
    #[prost(string, repeated, tag = "3")]
    symbol: Vec<String>,
    #[prost(string, repeated, tag = "4")]
    mangled_symbol: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct ThreadMessage {
    #[prost(uint32, optional, tag = "1")]
    thread_id: Option<u32>,
    #[prost(uint32, optional, tag = "2")]
    process_id: Option<u32>,
    #[prost(string, optional, tag = "3")]
    thread_name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct MetaInfo {
    #[prost(string, repeated, tag = "1")]
    event_type: Vec<String>,
    #[prost(string, optional, tag = "2")]
    app_package_name: Option<String>,
}

/// What all records say.
#[derive(Default)]
struct Records {
    samples: Vec<SampleMessage>,
    files: Map<u32, FileMessage>,
    threads: Map<u32, ThreadMessage>,
    meta: MetaInfo,
    lost: Option<LostSituation>,
}

/// Reads a file. If it ends early, the whole records before are what is read.
///
/// # Errors
/// If the version is another one, or no record is whole.
pub(super) fn parse(bytes: &[u8]) -> Result<Profile, Error> {
    let mut profile = Profile::new("simpleperf", Maker::SIMPLEPERF);
    profile.note("simpleperf's protobuf tells neither CPUs nor build-ids, nor how walks of stacks ended");
    let body = &bytes[MAGIC.len().min(bytes.len())..];
    let version = body.first_chunk().map(|version| u16::from_le_bytes(*version));
    match version {
        Some(VERSION) => {}
        Some(other) => {
            return Err(Error::input(format!(
                "its version of simpleperf's protobuf is {other}; import reads {VERSION}"
            )));
        }
        None => return Err(Error::input(format!("it ends at byte {}, in the header", bytes.len()))),
    }
    let records = records(bytes, MAGIC.len() + 2, &mut profile);
    if records.samples.is_empty() {
        let cause = profile.damage.first().map(|row| format!(": at byte {}: {}", row.offset, row.cause));
        return Err(Error::input(format!("it has no samples{}", cause.unwrap_or_default())));
    }
    Reader { records: &records, profile, events: Map::default() }.read()
}

fn records(bytes: &[u8], mut at: usize, profile: &mut Profile) -> Records {
    let mut records = Records::default();
    loop {
        let rest = &bytes[at..];
        let Some(len) = rest.first_chunk().map(|len| u32::from_le_bytes(*len) as usize) else {
            profile.damaged(
                at,
                rest.len(),
                "the file ends early: copy it here once more, as a whole".to_owned(),
            );
            return records;
        };
        if len == 0 {
            profile.count("bytes_behind_the_end", (rest.len() - 4) as u64);
            return records;
        }
        let Some(body) = rest.get(4..4 + len) else {
            let cause = format!("a record of {len} bytes is cut: copy the file here once more, as a whole");
            profile.damaged(at, rest.len(), cause);
            return records;
        };
        match Record::decode(body) {
            Ok(record) => records.take(record, profile),
            Err(error) => profile.damaged(at, 4 + len, format!("a record cannot be decoded: {error}")),
        }
        at += 4 + len;
    }
}

impl Records {
    fn take(&mut self, record: Record, profile: &mut Profile) {
        match record {
            Record { sample: Some(sample), .. } => self.samples.push(sample),
            Record { file: Some(file), .. } => {
                self.files.insert(file.id.unwrap_or(0), file);
            }
            Record { thread: Some(thread), .. } => {
                self.threads.insert(thread.thread_id.unwrap_or(0), thread);
            }
            Record { meta_info: Some(meta), .. } => self.meta = meta,
            Record { lost: Some(lost), .. } => self.lost = Some(lost),
            _ => profile.count("record", 1),
        }
    }
}

struct Reader<'a> {
    records: &'a Records,
    profile: Profile,
    /// Events by the number of their type.
    events: Map<u32, Option<u8>>,
}

impl Reader<'_> {
    fn read(mut self) -> Result<Profile, Error> {
        let records = self.records;
        let times = || records.samples.iter().map(|sample| sample.time.unwrap_or(0));
        self.profile.start_ns = times().min().unwrap_or(0);
        self.profile.lasted_ns = times().max().map(|last| last - self.profile.start_ns);
        if let Some(name) = &records.meta.app_package_name {
            self.profile.note(&format!("the app was {name}"));
        }
        for sample in &records.samples {
            self.sample(sample)?;
        }
        if let Some(lost) = records.lost {
            self.profile.lost = lost.lost_count.unwrap_or(0);
            let (told, found) = (lost.sample_count.unwrap_or(0), records.samples.len() as u64);
            if told != found {
                self.profile.note(&format!("simpleperf tells of {told} samples, and the file has {found}"));
            }
        }
        Ok(self.profile)
    }

    fn sample(&mut self, sample: &SampleMessage) -> Result<(), Error> {
        let thread = self.thread(sample.thread_id.unwrap_or(0));
        let Some(event) = self.event(sample.event_type_id.unwrap_or(0)) else { return Ok(()) };
        let mut stack = 0;
        for entry in sample.callchain.iter().rev() {
            let place = self.place(*entry);
            let frames = self.profile.frames(place);
            stack = self.profile.stack(stack, &frames)?;
        }
        let time_ns = sample.time.unwrap_or(0) - self.profile.start_ns;
        let weight = sample.event_count.unwrap_or(0);
        self.profile.samples.push(NamedSample { time_ns, event, thread, stack, weight });
        Ok(())
    }

    fn thread(&mut self, id: i32) -> u32 {
        let tid = u32::try_from(id).unwrap_or(0);
        let known = self.records.threads.get(&tid);
        let tgid = known.and_then(|thread| thread.process_id).unwrap_or(0);
        let name = known.and_then(|thread| thread.thread_name.as_deref()).unwrap_or_default();
        let name = self.profile.text(name);
        self.profile.threads.intern(Thread { tgid, tid, name, process: 0 })
    }

    /// Finds the event of a type.
    fn event(&mut self, number: u32) -> Option<u8> {
        if let Some(known) = self.events.get(&number) {
            return *known;
        }
        let name = self.records.meta.event_type.get(number as usize);
        let name = name.cloned().unwrap_or_else(|| format!("event {number}"));
        let word = name.split(':').next().unwrap_or_default();
        let (unit, meaning) = match word {
            "cpu-clock" | "task-clock" => ("ns", EventMeaning::CPU_TIME),
            "cpu-cycles" => ("cycles", EventMeaning::CYCLES),
            _ => (events::UNIT, EventMeaning::UNKNOWN),
        };
        let event = self.profile.event(event(&name, unit, meaning));
        self.events.insert(number, event);
        event
    }

    fn place(&mut self, entry: Entry) -> NamedPlace {
        let address = entry.vaddr_in_file.unwrap_or(0);
        let file = self.records.files.get(&entry.file_id.unwrap_or(0));
        let path = file.and_then(|file| file.path.as_deref()).unwrap_or_default();
        let symbol = usize::try_from(entry.symbol_id.unwrap_or(-1)).ok();
        let named = file.zip(symbol).and_then(|(file, symbol)| {
            let mangled = file.mangled_symbol.get(symbol).map_or("", |name| &**name);
            Some((file.symbol.get(symbol).filter(|name| !name.is_empty())?, mangled))
        });
        let is_kernel = is_kernel(path);
        let image = self.profile.image(path, Vec::new());
        let mut frames = Vec::new();
        if let Some((name, mangled)) = named {
            let symbol = if mangled == name { "" } else { mangled };
            let (name, symbol) = (self.profile.text(name), self.profile.text(symbol));
            let function = NamedFn { name, symbol, ..NamedFn::default() };
            frames.push((self.profile.functions.intern(function), 0));
        }
        let address = if frames.is_empty() { address } else { 0 };
        NamedPlace { image: Some(image), address, frames, is_kernel }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::shown;
    use super::*;

    fn file(records: &[Record]) -> Vec<u8> {
        let record = |record: &Record| {
            let body = record.encode_to_vec();
            [&(body.len() as u32).to_le_bytes()[..], &body].concat()
        };
        let records: Vec<Vec<u8>> = records.iter().map(record).collect();
        [MAGIC, &VERSION.to_le_bytes(), &records.concat(), &[0; 4]].concat()
    }

    fn records() -> Vec<Record> {
        let entry = |file_id, symbol_id| Entry {
            vaddr_in_file: Some(0x40),
            file_id: Some(file_id),
            symbol_id: Some(symbol_id),
        };
        let sample = |time, callchain: Vec<Entry>| SampleMessage {
            time: Some(time),
            thread_id: Some(9),
            callchain,
            event_count: Some(time),
            event_type_id: Some(0),
        };
        let file = |id, path: &str, symbol: &str, mangled: &str| FileMessage {
            id: Some(id),
            path: Some(path.to_owned()),
            symbol: vec![symbol.to_owned()],
            mangled_symbol: vec![mangled.to_owned()],
        };
        let meta = MetaInfo {
            event_type: vec!["cpu-clock:u".to_owned()],
            app_package_name: Some("org.app".to_owned()),
        };
        let thread =
            ThreadMessage { thread_id: Some(9), process_id: Some(8), thread_name: Some("main".to_owned()) };
        let lost = LostSituation { sample_count: Some(3), lost_count: Some(1) };
        vec![
            Record { sample: Some(sample(70, vec![entry(1, 0), entry(0, 0)])), ..Record::default() },
            Record { sample: Some(sample(50, vec![entry(0, -1), entry(0, 0)])), ..Record::default() },
            Record { file: Some(file(0, "/lib.so", "f()", "_Z1fv")), ..Record::default() },
            Record { file: Some(file(1, "[kernel.kallsyms]", "read", "read")), ..Record::default() },
            Record { thread: Some(thread), ..Record::default() },
            Record { meta_info: Some(meta), ..Record::default() },
            Record { lost: Some(lost), ..Record::default() },
        ]
    }

    #[test]
    fn samples_have_what_later_records_say() {
        let profile = parse(&file(&records())).expect("whole");
        let stacks = [("f();read!", 70), ("f();0x40", 50)];
        assert_eq!(shown(&profile), stacks.map(|(stack, weight)| (stack.to_owned(), weight)));
        assert_eq!((profile.start_ns, profile.lasted_ns, profile.lost), (50, Some(20), 1));
        assert_eq!(profile.events[0].meaning, EventMeaning::CPU_TIME);
        let thread = profile.threads.get(0).expect("one");
        assert_eq!((thread.tgid, thread.tid), (8, 9));
        assert!(profile.notes.iter().any(|note| note == "simpleperf tells of 3 samples, and the file has 2"));
        let function = profile.functions.get(0).expect("one");
        assert_eq!(profile.texts.get(function.symbol).map(|text| &**text), Some("_Z1fv"));
    }

    #[test]
    fn a_file_that_ends_early_keeps_whole_records_and_says_where() {
        let whole = file(&records());
        let profile = parse(&whole[..whole.len() - 6]).expect("most of it");
        assert_eq!((profile.samples.len(), profile.damage.len(), profile.lost), (2, 1, 0));
        assert_eq!(profile.damage[0].offset, whole.len() as u64 - 4 - 4 - records()[6].encoded_len() as u64);
        let mut broken = whole.clone();
        broken[16] = 0xff;
        assert_eq!(parse(&broken).expect("most of it").damage[0].offset, 12);
        let error = parse(&whole[..20]).expect_err("no samples").to_string();
        assert!(error.starts_with("it has no samples: at byte 12: a record of"), "{error}");
        assert_eq!(parse(b"SIMPLEPERF").expect_err("cut").to_string(), "it ends at byte 10, in the header");
        assert!(parse(b"SIMPLEPERF\x02\0").expect_err("newer").to_string().contains("is 2; import reads 1"));
    }
}
