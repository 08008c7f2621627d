use super::fixture::{File, mmap2, sample};
use super::*;

/// A program that begins, forks, maps, is sampled twice and ends; a tail of features.
fn small() -> File {
    let mut file = File::default();
    file.event(kind::COMM, 1 << 13, &[7, 7], b"prog\0", 100)
        .mapping(0x40_0000, b"/bin/prog", 110)
        .event(kind::FORK, 0, &[7, 7, 8, 7, 0, 0], b"", 150)
        .record(kind::SAMPLE, 2, &sample(300, 0x40_0010, &[], &[0; 20], &[1, 2]))
        .record(kind::SAMPLE, 2, &sample(200, 0x40_0020, &[], &[0; 20], &[3]))
        .event(kind::LOST, 0, &[1, 0, 5, 0], b"", 310)
        .event(16, 0, &[7, 7], b"namespaces", 320)
        .event(kind::EXIT, 0, &[7, 7, 8, 7, 0, 0], b"", 330)
        .feature(3, &File::text("host"))
        .feature(12, &[&1_u32.to_le_bytes()[..], &[0; 4], &[0; 4], &File::text("cpu-clock:u")].concat());
    file
}

fn read(bytes: &[u8]) -> Result<PerfData, Error> {
    let mut file = tempfile::tempfile().expect("room");
    io::Write::write_all(&mut file, bytes).expect("room");
    PerfData::read(file, Vec::new())
}

/// The contents of a file.
#[derive(Debug, PartialEq)]
struct Told {
    events: Vec<(u64, Event)>,
    /// Time and address.
    samples: Vec<(u64, u64)>,
    host: String,
    names: Vec<String>,
}

fn told(bytes: &[u8]) -> Told {
    let data = read(bytes).expect("sound");
    let mut buffer = Vec::new();
    let ip =
        |at: &SampleAt, buffer: &mut Vec<u8>| data.sample(*at, buffer).expect("there").expect("whole").ip;
    let samples = data.samples.iter().map(|at| (at.time_ns, ip(at, &mut buffer).0)).collect();
    assert!(data.damage.is_empty(), "{:?}", data.damage);
    assert_eq!(data.not_imported.iter().collect::<Vec<_>>(), [(&"namespaces", &1)]);
    assert_eq!((data.cpus.iter().copied().collect::<Vec<_>>(), data.has_idle), (vec![1], false));
    let names = data.attrs.iter().map(Attr::name).collect();
    Told { events: data.events, samples, host: data.features.host, names }
}

#[test]
fn records_are_read_in_the_order_of_time() {
    let Told { events, samples, host, names } = told(&small().bytes());
    assert_eq!(samples, [(200, 0x40_0020), (300, 0x40_0010)]);
    assert_eq!((&host[..], names), ("host", vec!["cpu-clock:u".to_owned()]));
    let kinds: Vec<u64> = events.iter().map(|(time_ns, _)| *time_ns).collect();
    assert_eq!(kinds, [100, 110, 150, 310, 330]);
    assert_eq!(events[0].1, Event::Named { tgid: 7, tid: 7, comm: b"prog".to_vec(), is_exec: true });
    assert_eq!(events[2].1, Event::Forked { tgid: 7, tid: 8, creator: 7, creator_tid: 7 });
    assert_eq!(events[3].1, Event::Lost { count: 5, cpu: Some(0), is_samples: false });
    assert_eq!(events[4].1, Event::Exited { tgid: 7, tid: 8 });
}

#[test]
fn a_stream_and_compressed_records_say_the_same() {
    let plain = told(&small().bytes());
    assert_eq!(told(&small().stream()), plain);
    assert_eq!(told(&small().compressed()), plain);
}

#[test]
fn a_file_that_is_cut_off_anywhere_gives_what_is_whole_or_a_clear_error() {
    for bytes in [small().bytes(), small().stream(), small().compressed()] {
        let whole = read(&bytes).expect("sound").samples.len();
        for len in 0..bytes.len() {
            match read(&bytes[..len]) {
                Ok(data) => {
                    // A stream may end between any two records.
                    let is_stream = bytes[8] == 16;
                    assert!(is_stream || !data.damage.is_empty(), "{len} of {} bytes", bytes.len());
                    assert!(data.samples.len() <= whole);
                }
                Err(error) => assert!(!format!("{error:#}").is_empty(), "{len}"),
            }
        }
    }
    let cut = read(&small().bytes()[..500]).expect("its events are there");
    assert_eq!(cut.damage[0].off, 500);
    assert!(cut.damage[0].cause.contains("the file is truncated"), "{}", cut.damage[0].cause);
}

#[test]
fn flipped_bytes_never_end_in_a_panic() {
    for bytes in [small().bytes(), small().stream(), small().compressed()] {
        for at in 0..bytes.len() {
            for value in [0, 0x7f, 0xff, bytes[at] ^ 1, bytes[at] ^ 0x80] {
                let mut bytes = bytes.clone();
                bytes[at] = value;
                let Ok(data) = read(&bytes) else { continue };
                let mut buffer = Vec::new();
                for sample in &data.samples {
                    let decoded = data.sample(*sample, &mut buffer).expect("it was there");
                    let Some(sample) = decoded else { continue };
                    sample.sides(&mut Vec::new(), &mut Vec::new());
                }
            }
        }
    }
}

#[test]
fn a_recorder_that_was_killed_leaves_its_records() {
    let mut bytes = small().bytes();
    // perf writes the length of its records last, and features after them.
    bytes[48..56].fill(0);
    let records_end = bytes.len() - 2 * 16 - File::text("host").len() - 12 - File::text("cpu-clock:u").len();
    bytes.truncate(records_end);
    let data = read(&bytes).expect("its events are there");
    assert_eq!(data.samples.len(), 2);
    assert!(data.damage[0].cause.starts_with("perf record did not finish"), "{:?}", data.damage);
    assert_eq!(data.attrs[0].name(), "cpu-clock");
}

#[test]
fn what_is_none_is_refused_with_the_reason() {
    let refusal = |bytes: &[u8]| format!("{:#}", read(bytes).expect_err("refused"));
    assert!(refusal(b"").contains("it is no perf.data file"));
    assert!(refusal(b"PERFFILE and more").contains("it is no perf.data file"));
    assert!(refusal(b"2ELIFREP and more").contains("big-endian"));
    assert!(refusal(b"PERFILE2\x68\0\0\0\0\0\0\0").contains("at byte 8: the header is truncated"));
    assert!(refusal(b"PERFILE2\x10\0\0\0\0\0\0\0").contains("there are no events in it"));
    let mut bytes = small().bytes();
    bytes[16..24].fill(0xff);
    assert!(refusal(&bytes).contains("events of 18446744073709551615 bytes each are invalid"));
    let mut bytes = small().bytes();
    bytes[32..40].fill(0xff);
    assert!(refusal(&bytes).contains("end after the end of the file"));
    // Records precede the attributes of their event.
    let mut stream = File::default();
    stream.record(kind::SAMPLE, 2, &[]);
    let bytes = [&b"PERFILE2\x10\0\0\0\0\0\0\0"[..], &stream.bytes()[104 + 144..]].concat();
    assert!(refusal(&bytes).contains("precede the attributes of their events"));
}

#[test]
fn records_of_events_are_told_apart_by_their_numbers() {
    let two = |fields: [u64; 2]| {
        let attr = |sample_type, id| Attr { ids: vec![id], ..fixture::attr(sample_type) };
        let mut reader =
            Reader { attrs: vec![attr(fields[0], 10), attr(fields[1], 11)], ..Reader::default() };
        let body = |id: u64| [id.to_le_bytes(), 5_u64.to_le_bytes()].concat();
        for id in [11, 10, 99] {
            let at = At::default();
            reader.record(Record { kind: kind::SAMPLE, body: &body(id), at })?;
        }
        Ok::<_, Error>(reader.samples.iter().map(|sample| sample.attr).collect::<Vec<_>>())
    };
    let id = field::IDENTIFIER;
    assert_eq!(two([id | field::IP, id | field::TIME]).expect("told apart"), [1, 0, 0]);
    assert_eq!(two([field::ID, field::ID]).expect("told apart"), [1, 0, 0]);
    let refusal = two([field::ID, field::ID | field::IP]).expect_err("ids lie at different places");
    assert!(refusal.to_string().contains("cannot be distinguished"));
}

#[test]
fn events_that_only_tell_of_tasks_are_not_among_the_events() {
    let dummy = Attr { kind: 1, config: 9, ..Attr::default() };
    let mut data = read(&small().bytes()).expect("sound");
    data.attrs.insert(0, dummy.clone());
    data.attrs.push(dummy);
    assert_eq!((data.events().count(), data.event(1)), (1, 0));
}

#[test]
fn samples_of_an_event_that_samples_nothing_are_counted_and_of_no_event() {
    let real = Attr { ids: vec![10], ..fixture::attr(field::IDENTIFIER) };
    let dummy = Attr { kind: 1, config: 9, ids: vec![11], ..fixture::attr(field::IDENTIFIER) };
    for attrs in [vec![real.clone(), dummy.clone()], vec![dummy, real]] {
        let mut reader = Reader { attrs, ..Reader::default() };
        for id in [10_u64, 11] {
            let record = Record { kind: kind::SAMPLE, body: &id.to_le_bytes(), at: At::default() };
            reader.record(record).expect("told apart");
        }
        assert_eq!(reader.samples.len(), 1);
        assert!(!reader.attrs[reader.samples[0].attr as usize].is_dummy());
        assert_eq!(reader.not_imported["sample_of_dummy_event"], 1);
    }
}

#[test]
fn records_that_are_too_short_are_counted_and_the_first_is_shown() {
    let mut file = small();
    file.record(kind::COMM, 0, &[0; 12]).record(kind::MMAP2, 0, &mmap2(7, 1, 1, 0, b"x", 4)[..40]);
    let data = read(&file.bytes()).expect("the rest is sound");
    assert_eq!(data.not_imported["too_short"], 2);
    assert_eq!(data.damage.len(), 1);
    assert_eq!(data.damage[0].cause, "a record of type 3 is too short");
}
