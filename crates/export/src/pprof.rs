//! pprof: a profile of protocol buffers, compressed with gzip. `go tool pprof`, Grafana, Parca, Pyroscope, speedscope and Perfetto read it.
//!
//! Each event is a sample type of its own; if its samples are drawn at a rate, their number is another one. A mapping is a file as if all of it
//! were mapped once; the mappings of files lie one after the other, so that an address is in one of them:
//!
//! ```text
//! address = start of the mapping + offset in the file
//! ```

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use icecore_profile::map::{Interned, Map};
use icecore_profile::named::Amount;
use icecore_profile::named::waits::Waker;
use icecore_profile::recording::events::Meaning;
use icecore_profile::stacks::locate::CodeLocation;
use icecore_symbolize::image::hex;
use prost::Message as _;

use crate::exported::{Counted, Exported, NO_STACK};
use crate::format::Format;
use crate::kept::Fact;
use icecore_pprof::{Function, Label, Line, Location, Mapping, Profile, Sample, ValueType};

/// The format.
#[derive(Debug)]
pub struct Pprof;

impl Format for Pprof {
    fn name(&self) -> &'static str {
        "pprof"
    }

    fn is_text(&self) -> bool {
        false
    }

    fn keeps(&self) -> &'static [Fact] {
        &[
            Fact::Inlined,
            Fact::Lines,
            Fact::Images,
            Fact::BuildIds,
            Fact::Addresses,
            Fact::Sides,
            Fact::Threads,
            Fact::Processes,
            Fact::Cgroups,
            Fact::Hosts,
            Fact::Events,
            Fact::Units,
            Fact::Samples,
            Fact::Waits,
            Fact::Verdict,
            Fact::Incomplete,
            Fact::Guesses,
        ]
    }

    fn write(&self, of: &Exported<'_>, out: &mut dyn Write) -> io::Result<()> {
        let mut writer = Writer::new(of, GzEncoder::new(out, Compression::default()));
        writer.head();
        writer.samples()?;
        writer.finish()
    }
}

/// The samples of one message: memory holds no more of them.
const AT_ONCE: usize = 4096;
/// The mappings of files begin at multiples of it: no file in a recording is larger than the space between two.
const ALIGNED: u64 = 1 << 21;

/// The files of code that mappings show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Mapped {
    /// A position in the locator's images.
    Image(u32),
    /// The kernel of a session.
    Kernel(u32),
}

/// Samples that become one: those of a thread and event with one stack, taken in one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    site: u32,
    thread: u32,
    event: usize,
    wait: Option<u32>,
    is_incomplete: bool,
    is_guessed: bool,
}

/// The growing profile.
struct Writer<'a, W: Write> {
    of: &'a Exported<'a>,
    out: GzEncoder<W>,
    strings: Interned<String>,
    /// Mappings by what they show; their ids are one more than their positions.
    mappings: Interned<Mapped>,
    /// The begins of files by the positions of images.
    begins: Map<u32, u64>,
    next_begin: u64,
    /// The id of the location of each place; 0 if it has none yet.
    locations: Vec<u64>,
    location_count: u64,
    /// The id of the location of samples without a stack; 0 if it has none yet.
    no_stack: u64,
    /// The id of each function; 0 if it is not written yet.
    functions: Vec<u64>,
    function_count: u64,
    /// The position of the first value of each event, and the number of all values.
    values: Vec<usize>,
    value_count: usize,
    pending: Profile,
}

impl<'a, W: Write> Writer<'a, W> {
    fn new(of: &'a Exported<'a>, out: GzEncoder<W>) -> Self {
        let mut strings = Interned::new();
        strings.intern(String::new());
        let mut value_count = 0;
        let mut first = |event| {
            let first = value_count;
            value_count += if is_drawn(event) { 2 } else { 1 };
            first
        };
        let values = of.events.iter().map(|event| first(event.meaning)).collect();
        Self {
            of,
            out,
            strings,
            mappings: Interned::new(),
            begins: Map::default(),
            next_begin: ALIGNED,
            locations: vec![0; of.located.places.len()],
            location_count: 0,
            no_stack: 0,
            functions: vec![0; of.names().functions.len()],
            function_count: 0,
            values,
            value_count,
            pending: Profile::default(),
        }
    }

    fn text(&mut self, text: &str) -> i64 {
        self.strings.intern(text.to_owned()).into()
    }

    /// Writes what is said once.
    fn head(&mut self) {
        let of = self.of;
        for event in &of.events {
            if is_drawn(event.meaning) {
                let name = format!("{}-samples", event.name);
                let count = ValueType { r#type: self.text(&name), unit: self.text("count") };
                self.pending.sample_type.push(count);
            }
            let weight = ValueType { r#type: self.text(&event.name), unit: self.text(&event.unit) };
            self.pending.sample_type.push(weight);
        }
        // Viewers show the last one, unless the profile names another.
        if let Some(event) = of.events.iter().find(|event| event.is_usual).or(of.events.first()) {
            self.pending.default_sample_type = self.text(&event.name);
            if event.period > 0 {
                let period = ValueType { r#type: self.text(&event.name), unit: self.text(&event.unit) };
                self.pending.period_type = Some(period);
                self.pending.period = signed(event.period);
            }
        }
        self.pending.time_nanos = signed(of.begin_unix_ns());
        self.pending.duration_nanos = signed(of.lasted_ns());
        let remarks = of.remarks();
        self.pending.comment = remarks.iter().map(|remark| self.text(remark)).collect();
    }

    fn samples(&mut self) -> io::Result<()> {
        let of = self.of;
        let mut amounts: Map<Key, usize> = Map::default();
        let mut samples: Vec<(Key, Amount)> = Vec::new();
        for Counted { row, site, amount } in of.counted() {
            let Some(event) = of.event(row) else { continue };
            let key = Key {
                site,
                thread: row.thread,
                event,
                wait: row.wait,
                is_incomplete: row.taken.is_walked() && !row.taken.rooted,
                is_guessed: row.taken.guessed,
            };
            let at = *amounts.entry(key).or_insert_with(|| {
                samples.push((key, Amount::default()));
                samples.len() - 1
            });
            samples[at].1.add(amount);
        }
        for (key, amount) in samples {
            let sample = self.sample(key, amount);
            self.pending.sample.push(sample);
            if self.pending.sample.len() == AT_ONCE {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn sample(&mut self, key: Key, amount: Amount) -> Sample {
        let of = self.of;
        let mut value = vec![0; self.value_count];
        let first = self.values[key.event];
        if is_drawn(of.events[key.event].meaning) {
            value[first] = signed(amount.samples);
            value[first + 1] = signed(amount.weight);
        } else {
            value[first] = signed(amount.weight);
        }
        let location_id = match key.site {
            0 => vec![self.no_stack()],
            site => of.walk(site).map(|(_, site)| self.location(site.place)).collect(),
        };
        Sample { location_id, value, label: self.labels(key) }
    }

    fn labels(&mut self, key: Key) -> Vec<Label> {
        let of = self.of;
        let thread = &of.report.profile.threads[key.thread as usize];
        let mut labels = vec![
            self.label("event", &of.events[key.event].name),
            self.label("process", &thread.process),
            self.number("pid", thread.tgid.into()),
            self.label("thread", &thread.comm),
            self.number("tid", thread.tid.into()),
        ];
        let cgroup = of.report.loaded.cgroups.path(thread.cgroup);
        labels.extend(cgroup.map(|path| self.label("cgroup", path)));
        labels.push(self.label("host", &of.part(thread).session.host));
        if let Some(wait) = key.wait.map(|wait| &of.report.profile.waits[wait as usize]) {
            labels.push(self.label("wait", &wait.kind.name()));
            match &wait.waker {
                Waker::Thread(waker) => {
                    labels.push(self.label("waker", &waker.comm));
                    labels.push(self.number("waker_tid", waker.tid.into()));
                }
                other => labels.push(self.label("waker", other.words().unwrap_or_default())),
            }
        }
        if key.is_incomplete {
            labels.push(self.label("stack", "incomplete"));
        }
        if key.is_guessed {
            labels.push(self.label("frames", "guessed"));
        }
        labels
    }

    fn label(&mut self, key: &str, text: &str) -> Label {
        Label { key: self.text(key), str: self.text(text), num: 0 }
    }

    fn number(&mut self, key: &str, num: i64) -> Label {
        Label { key: self.text(key), str: 0, num }
    }

    /// Returns the id of the location of a place; writes the location if it is new.
    fn location(&mut self, place: u32) -> u64 {
        let known = self.locations[place as usize];
        if known != 0 {
            return known;
        }
        self.location_count += 1;
        let id = self.location_count;
        self.locations[place as usize] = id;
        let of = self.of;
        let (mapping_id, address) = match of.location(place) {
            CodeLocation::Image(image, off) => {
                let mapping = self.mapping(Mapped::Image(image));
                (mapping, self.begins.get(&image).map_or(0, |begin| begin.saturating_add(off.0)))
            }
            CodeLocation::Kernel(part, address) => (self.mapping(Mapped::Kernel(part)), address.0),
            _ => (0, 0),
        };
        let line = |frame: &u32| {
            let line = of.frame(*frame).line.unwrap_or(0).into();
            Line { function_id: self.function(*frame), line }
        };
        let line = of.frames(place).iter().map(line).collect();
        self.pending.location.push(Location { id, mapping_id, address, line });
        id
    }

    /// Returns the id of the location of samples without a stack; writes it if it is new. Viewers drop samples without locations.
    fn no_stack(&mut self) -> u64 {
        if self.no_stack == 0 {
            self.location_count += 1;
            self.no_stack = self.location_count;
            self.function_count += 1;
            let (id, function_id) = (self.no_stack, self.function_count);
            let name = self.text(NO_STACK);
            self.pending.function.push(Function { id: function_id, name, ..Function::default() });
            let line = vec![Line { function_id, line: 0 }];
            self.pending.location.push(Location { id, line, ..Location::default() });
        }
        self.no_stack
    }

    /// Returns the id of a frame's function; writes the function if it is new.
    fn function(&mut self, frame: u32) -> u64 {
        let of = self.of;
        let position = of.frame(frame).function as usize;
        if self.functions[position] != 0 {
            return self.functions[position];
        }
        self.function_count += 1;
        let id = self.function_count;
        self.functions[position] = id;
        let function = of.function(frame);
        let name = self.text(&function.name);
        let declared = function.declared.or(function.seen.map(|(file, _)| (file, 0)));
        let file = declared.map_or(of.frame(frame).file, |(file, _)| Some(file));
        let filename = file.map_or(0, |file| self.text(&of.names().files[file as usize]));
        let start_line = declared.map_or(0, |(_, line)| line.into());
        // With a system name that equals the name viewers take the name for one that they may shorten.
        self.pending.function.push(Function { id, name, filename, start_line, ..Function::default() });
        id
    }

    /// Returns the id of a mapping; writes the mapping if it is new.
    fn mapping(&mut self, mapped: Mapped) -> u64 {
        let before = self.mappings.len();
        let id = u64::from(self.mappings.intern(mapped)) + 1;
        if self.mappings.len() == before {
            return id;
        }
        let of = self.of;
        let (start, limit, path, build_id) = match mapped {
            Mapped::Image(image) => {
                let identity = &of.locator.images[image as usize];
                let start = self.next_begin;
                let limit = start.saturating_add(identity.size_bytes.max(ALIGNED));
                self.next_begin = limit.div_ceil(ALIGNED).saturating_mul(ALIGNED);
                self.begins.insert(image, start);
                (start, limit, &*identity.path, hex(&identity.build_id))
            }
            Mapped::Kernel(part) => {
                let session = &of.report.loaded.tables.parts.part(part).session;
                (1 << 63, u64::MAX, "[kernel.kallsyms]", hex(&session.kernel_build_id))
            }
        };
        let mapping = Mapping {
            id,
            memory_start: start,
            memory_limit: limit,
            file_offset: 0,
            filename: self.text(path),
            build_id: self.text(&build_id),
            has_functions: true,
            has_filenames: true,
            has_line_numbers: true,
            has_inline_frames: true,
        };
        self.pending.mapping.push(mapping);
        id
    }

    /// Writes what has gathered.
    fn flush(&mut self) -> io::Result<()> {
        let pending = std::mem::take(&mut self.pending);
        self.out.write_all(&pending.encode_to_vec())
    }

    fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        let string_table = self.strings.into_items();
        self.out.write_all(&Profile { string_table, ..Profile::default() }.encode_to_vec())?;
        self.out.finish()?.flush()
    }
}

/// Returns true if samples of an event are drawn at a rate, so that their number is a value of its own.
fn is_drawn(meaning: Meaning) -> bool {
    meaning.is_of_cpu()
}

/// A number as the format has it; above 2⁶³ the largest.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
