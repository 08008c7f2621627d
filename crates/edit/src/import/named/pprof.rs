//! pprof: a profile of protocol buffers. Go's runtime writes it, and profilers of many languages.
//!
//! Each type of values becomes an event. What kind of code a mapping shows is known by its path only, as perf names the kernel.

use icecore_format::records::{EventMeaning, EventV1, Maker};
use icecore_pprof::{Function, Label, Location, Mapping, Sample, ValueType};
use icecore_profile::map::Map;
use prost::Message as _;

use super::profile::{MAX_INLINED, NamedFn, NamedPlace, NamedSample, Profile, Thread, event, is_kernel};
use crate::Error;

/// Returns true if these first bytes of a file, which are no text, are fields of a profile.
pub(super) fn begins(head: &[u8]) -> bool {
    let mut rest = head;
    while let Some((tag, behind)) = rest.split_first() {
        let (field, is_bytes) = (tag >> 3, tag & 7 == 2);
        let is_message = matches!(field, 1..=6 | 11);
        let is_number = matches!(field, 7..=10 | 12..=15);
        // Numbers of comments may be packed.
        if !(is_bytes && (is_message || field == 13) || tag & 7 == 0 && is_number) {
            return false;
        }
        rest = behind;
        match (prost::encoding::decode_varint(&mut rest), is_bytes) {
            (Ok(len), true) => {
                rest = usize::try_from(len).ok().and_then(|len| rest.get(len..)).unwrap_or_default()
            }
            (Ok(_), false) => {}
            (Err(_), _) => return behind.len() < 10,
        }
    }
    !head.is_empty()
}

/// Reads a profile.
///
/// # Errors
/// If the bytes are none, or what they refer to is not there.
pub(super) fn parse(bytes: &[u8]) -> Result<Profile, Error> {
    let mut message = icecore_pprof::Profile::default();
    let mut rest = bytes;
    message.merge(&mut rest).map_err(|error| {
        let at = bytes.len() - rest.len();
        Error::input(format!(
            "it is no whole profile of pprof: byte {at} of it: {error}; copy it here once more, as a whole"
        ))
    })?;
    if message.sample_type.is_empty() || message.string_table.first().is_none_or(|text| !text.is_empty()) {
        return Err(Error::input(
            "it is no profile of pprof: it has no types of values, or no table of texts that begins with an empty one",
        ));
    }
    Reader::new(&message)?.read()
}

struct Reader<'a> {
    of: &'a icecore_pprof::Profile,
    mappings: Map<u64, &'a Mapping>,
    functions: Map<u64, &'a Function>,
    locations: Map<u64, &'a Location>,
    /// The frames of locations, positions of places.
    places: Map<u64, Box<[u32]>>,
    profile: Profile,
}

impl<'a> Reader<'a> {
    fn new(of: &'a icecore_pprof::Profile) -> Result<Self, Error> {
        let mut profile = Profile::new("pprof", Maker::PPROF);
        profile
            .note("pprof does not tell the times of samples: all are of the moment when the profile begins");
        profile.start_unix_ns = u64::try_from(of.time_nanos).ok().filter(|ns| *ns > 0);
        profile.lasted_ns = u64::try_from(of.duration_nanos).ok();
        Ok(Self {
            of,
            mappings: of.mapping.iter().map(|it| (it.id, it)).collect(),
            functions: of.function.iter().map(|it| (it.id, it)).collect(),
            locations: of.location.iter().map(|it| (it.id, it)).collect(),
            places: Map::default(),
            profile,
        })
    }

    fn read(mut self) -> Result<Profile, Error> {
        let types: Vec<Option<u8>> =
            self.of.sample_type.iter().map(|of| self.event(of)).collect::<Result<_, Error>>()?;
        for (number, sample) in self.of.sample.iter().enumerate() {
            self.sample(&types, sample).map_err(|error| Error::input(format!("sample {number}: {error}")))?;
        }
        for comment in &self.of.comment {
            let comment = format!("comment of the profile: {}", self.text(*comment)?);
            self.profile.note(&comment);
        }
        self.profile.count("drop_frame_pattern", u64::from(self.of.drop_frames != 0));
        Ok(self.profile)
    }

    fn text(&self, position: i64) -> Result<&'a str, Error> {
        let text = usize::try_from(position).ok().and_then(|position| self.of.string_table.get(position));
        let len = self.of.string_table.len();
        text.map(String::as_str).ok_or_else(|| Error::input(format!("text {position} of {len}")))
    }

    /// Describes what a type of values counts.
    fn event(&mut self, of: &ValueType) -> Result<Option<u8>, Error> {
        let (name, unit) = (self.text(of.r#type)?, self.text(of.unit)?);
        let unit = if unit == "nanoseconds" { "ns" } else { unit };
        let meaning = match (name, unit) {
            ("cpu" | "cpu-clock" | "task-clock", "ns") => EventMeaning::CPU_TIME,
            ("cycles" | "cpu-cycles", _) => EventMeaning::CYCLES,
            _ => EventMeaning::UNKNOWN,
        };
        let is_period = self.of.period_type.as_ref() == Some(of);
        let period = if is_period { u64::try_from(self.of.period).unwrap_or(0) } else { 0 };
        let unit = if unit.is_empty() { "events" } else { unit };
        Ok(self.profile.event(EventV1 { period, ..event(name, unit, meaning) }))
    }

    fn sample(&mut self, types: &[Option<u8>], sample: &'a Sample) -> Result<(), Error> {
        if sample.value.len() != types.len() {
            let (has, types) = (sample.value.len(), types.len());
            return Err(Error::input(format!("{has} values, and the profile has {types} types")));
        }
        let thread = self.thread(&sample.label)?;
        let mut stack = 0;
        for id in sample.location_id.iter().rev() {
            if !self.places.contains_key(id) {
                let place = self.place(*id)?;
                self.places.insert(*id, self.profile.frames(place));
            }
            stack = self.profile.stack(stack, &self.places[id])?;
        }
        let thread = self.profile.threads.intern(thread);
        self.profile.count("sample_without_value", u64::from(sample.value.iter().all(|value| *value == 0)));
        for (event, value) in types.iter().zip(&sample.value) {
            match (event, u64::try_from(*value)) {
                (_, Ok(0)) | (None, _) => {}
                (_, Err(_)) => self.profile.count("negative_value", 1),
                (Some(event), Ok(weight)) => {
                    let sample = NamedSample { time_ns: 0, event: *event, thread, stack, weight };
                    self.profile.samples.push(sample);
                }
            }
        }
        Ok(())
    }

    /// Finds what labels say of the thread. Other labels are counted.
    fn thread(&mut self, labels: &[Label]) -> Result<Thread, Error> {
        let mut thread = Thread::default();
        for label in labels {
            let number = u32::try_from(label.num).ok().filter(|_| label.str == 0);
            let text = (label.str != 0).then(|| self.text(label.str)).transpose()?;
            match (self.text(label.key)?, number, text) {
                ("pid" | "process_id", Some(number), _) => thread.tgid = number,
                ("tid" | "thread_id" | "thread id", Some(number), _) => thread.tid = number,
                ("thread" | "thread_name" | "thread name", _, Some(text)) => {
                    thread.name = self.profile.text(text)
                }
                ("process" | "process_name", _, Some(text)) => thread.process = self.profile.text(text),
                _ => self.profile.count("label", 1),
            }
        }
        Ok(thread)
    }

    fn place(&mut self, id: u64) -> Result<NamedPlace, Error> {
        let location = *self.locations.get(&id).ok_or_else(|| missing("location", id))?;
        let mapping = match location.mapping_id {
            0 => None,
            id => Some(*self.mappings.get(&id).ok_or_else(|| missing("mapping", id))?),
        };
        let path = mapping.map_or(Ok(""), |it| self.text(it.filename))?;
        let build_id = mapping.map_or(Ok(""), |it| self.text(it.build_id))?;
        let off = mapping.map_or(location.address, |it| {
            location.address.wrapping_sub(it.memory_start).wrapping_add(it.file_offset)
        });
        let mut frames = Vec::new();
        for line in &location.line {
            let function = *self
                .functions
                .get(&line.function_id)
                .ok_or_else(|| missing("function", line.function_id))?;
            if let Some(function) = self.function(function)? {
                frames.push((function, u32::try_from(line.line).unwrap_or(0)));
            }
        }
        let left_out = frames.len().saturating_sub(MAX_INLINED);
        self.profile.count("inlined_function", left_out as u64);
        frames.drain(..left_out);
        let is_kernel = is_kernel(path);
        let address = if is_kernel { location.address } else { off };
        let image = mapping.map(|_| self.profile.image(path, unhex(build_id)));
        let place =
            NamedPlace { image, address: if frames.is_empty() { address } else { 0 }, frames, is_kernel };
        Ok(place)
    }

    /// Converts a function; `None` if it has no name.
    fn function(&mut self, of: &Function) -> Result<Option<u32>, Error> {
        let (name, symbol, file) = (self.text(of.name)?, self.text(of.system_name)?, self.text(of.filename)?);
        let (name, symbol) = if name.is_empty() { (symbol, "") } else { (name, symbol) };
        if name.is_empty() {
            return Ok(None);
        }
        let symbol = if symbol == name { "" } else { symbol };
        let [name, symbol, file] = [name, symbol, file].map(|text| self.profile.text(text));
        let line = u32::try_from(of.start_line).unwrap_or(0);
        Ok(Some(self.profile.functions.intern(NamedFn { name, symbol, file, line })))
    }
}

fn missing(what: &str, id: u64) -> Error {
    Error::input(format!("the profile has no {what} {id}"))
}

/// Reads the hexadecimal digits of a build-id; empty if they are none.
fn unhex(text: &str) -> Vec<u8> {
    let digits: Option<Vec<u8>> = text.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0 && digits.len() <= 64).unwrap_or_default();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

#[cfg(test)]
mod tests {
    use icecore_pprof::Line;

    use super::super::tests::shown;
    use super::*;

    /// Two types of values; functions of a program, of a file that only a build-id names, and of the kernel.
    fn message() -> icecore_pprof::Profile {
        let texts = [
            "",
            "samples",
            "count",
            "cpu",
            "nanoseconds",
            "main",
            "f",
            "_Zf",
            "/bin/x",
            "0aFF",
            "[kernel.kallsyms]",
            "read",
            "tid",
            "color",
        ];
        let function = |id, name, system_name| Function { id, name, system_name, ..Function::default() };
        let line = |function_id, line| Line { function_id, line };
        let location = |id, mapping_id, address, line: &[Line]| Location {
            id,
            mapping_id,
            address,
            line: line.to_vec(),
        };
        let mapping = |id, filename, build_id| Mapping {
            id,
            memory_start: 0x1000,
            file_offset: 0x200,
            filename,
            build_id,
            ..Mapping::default()
        };
        let label = vec![Label { key: 12, str: 0, num: 7 }, Label { key: 13, str: 5, num: 0 }];
        icecore_pprof::Profile {
            sample_type: vec![ValueType { r#type: 1, unit: 2 }, ValueType { r#type: 3, unit: 4 }],
            sample: vec![
                Sample { location_id: vec![2, 1], value: vec![2, 20], label },
                Sample { location_id: vec![3, 4, 1], value: vec![0, 5], label: vec![] },
                Sample { location_id: vec![1], value: vec![0, -5], label: vec![] },
            ],
            mapping: vec![mapping(1, 8, 9), mapping(2, 10, 0)],
            location: vec![
                location(1, 1, 0x1010, &[line(1, 3)]),
                location(2, 1, 0x1020, &[line(2, 9), line(1, 4)]),
                location(3, 2, 0xffff_ffff_8100_0000, &[line(3, 0)]),
                location(4, 1, 0x1030, &[]),
            ],
            function: vec![function(1, 5, 5), function(2, 6, 7), function(3, 11, 0)],
            string_table: texts.map(str::to_owned).to_vec(),
            time_nanos: 5,
            period_type: Some(ValueType { r#type: 3, unit: 4 }),
            period: 10,
            ..icecore_pprof::Profile::default()
        }
    }

    #[test]
    fn each_type_of_values_is_an_event_and_addresses_become_offsets() {
        let profile = parse(&message().encode_to_vec()).expect("whole");
        let stacks = [("main;main:f", 2), ("main;main:f", 20), ("main;0x230;read!", 5)];
        assert_eq!(shown(&profile), stacks.map(|(stack, weight)| (stack.to_owned(), weight)));
        let events: Vec<_> =
            profile.events.iter().map(|it| (&*it.name, &*it.unit, it.period, it.meaning)).collect();
        let cpu = ("cpu", "ns", 10, EventMeaning::CPU_TIME);
        assert_eq!(events, [("samples", "count", 0, EventMeaning::UNKNOWN), cpu]);
        assert_eq!(profile.images.get(0).expect("the program").build_id, [0x0a, 0xff]);
        let counts: Vec<_> = profile.not_imported.iter().map(|(what, count)| (*what, *count)).collect();
        assert_eq!(counts, [("label", 1), ("negative_value", 1)]);
        assert_eq!((profile.threads.get(0).expect("one").tid, profile.start_unix_ns), (7, Some(5)));
    }

    #[test]
    fn what_refers_to_nothing_is_an_error_that_names_the_sample() {
        let cause = |change: fn(&mut icecore_pprof::Profile)| {
            let mut message = message();
            change(&mut message);
            parse(&message.encode_to_vec()).expect_err("refused").to_string()
        };
        assert_eq!(cause(|it| it.sample[1].location_id[0] = 99), "sample 1: the profile has no location 99");
        assert_eq!(cause(|it| it.location[0].mapping_id = 99), "sample 0: the profile has no mapping 99");
        assert_eq!(
            cause(|it| it.location[0].line[0].function_id = 99),
            "sample 0: the profile has no function 99"
        );
        assert_eq!(cause(|it| it.function[0].name = -1), "sample 0: text -1 of 14");
        assert_eq!(
            cause(|it| it.sample[0].value = vec![1]),
            "sample 0: 1 values, and the profile has 2 types"
        );
        assert!(cause(|it| it.string_table.clear()).contains("no table of texts"));
        let bytes = message().encode_to_vec();
        let error = parse(&bytes[..bytes.len() - 30]).expect_err("cut").to_string();
        assert!(error.contains("byte ") && error.contains("as a whole"), "{error}");
    }

    #[test]
    fn it_is_known_by_its_first_fields() {
        let bytes = message().encode_to_vec();
        assert!((1..64).all(|len| begins(&bytes[..len])));
        // Go's runtime begins with the time, or with the period.
        for head in [
            &b"\x48\xe2\xda\xda\xba\xe0\xfa\xbe\xf6\x18\x0a\x04\x08\x01\x10\x02"[..],
            b"\x5a\x04\x08\x01\x10\x02\x60\x80\x20",
        ] {
            assert!(begins(head));
        }
        for other in [&b""[..], b"\x7fELF\x02", b"PK\x03\x04", b"ICECOR\r\n", b"hello"] {
            assert!(!begins(other));
        }
    }
}
