//! Writes that fail in the middle: what was accepted before stays readable, and the writer can go on.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex};

use super::sink::{Sink, Torn};
use super::*;
use crate::read::Recording;
use crate::records::{ReceiptV1, SessionV1};

/// A disk that has room for so many bytes at each write; the last room is that of the first write.
struct SmallDisk {
    file: File,
    rooms: Vec<usize>,
}

impl Sink for SmallDisk {
    fn put(&mut self, off: u64, bytes: &[u8]) -> Result<(), Torn> {
        match self.rooms.pop() {
            Some(room) if room < bytes.len() => {
                self.file.write_all_at(&bytes[..room], off).expect("a real disk");
                self.file.cut_back_to(off);
                Err(Torn { cause: io::ErrorKind::StorageFull.into(), stays: 0 })
            }
            _ => self.file.put(off, bytes),
        }
    }

    fn cut_back_to(&mut self, end: u64) {
        self.file.cut_back_to(end);
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A pipe that fails once, after so many bytes.
struct Hiccup {
    taken: Arc<Mutex<Vec<u8>>>,
    fails_at: Option<usize>,
}

impl Write for Hiccup {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut taken = self.taken.lock().expect("no panic");
        let room = self.fails_at.map_or(bytes.len(), |at| at.saturating_sub(taken.len()).min(bytes.len()));
        if room == 0 && !bytes.is_empty() {
            self.fails_at = None;
            return Err(io::ErrorKind::StorageFull.into());
        }
        taken.extend_from_slice(&bytes[..room]);
        Ok(room)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn session() -> SessionV1 {
    SessionV1 { host: "a host whose name makes this payload a little longer".repeat(9), ..Default::default() }
}

#[test]
fn a_torn_write_is_cut_back_in_a_file_and_the_writer_goes_on() {
    let whole = {
        let file = tempfile::tempfile().expect("a file");
        let mut writer = Writer::create(file.try_clone().expect("open"), [1; 16]).expect("room");
        writer.append(&session()).expect("room");
        writer.append(&ReceiptV1::default()).expect("room");
        writer.finish().expect("room");
        contents(&file)
    };
    for room in [0, 1, 63, 64, 65] {
        let file = tempfile::tempfile().expect("a file");
        let disk = SmallDisk {
            file: file.try_clone().expect("open"),
            rooms: vec![usize::MAX, room, usize::MAX, usize::MAX],
        };
        let mut writer = Writer::begin(Box::new(disk), EndMark::Open, [1; 16]).expect("room");
        writer.append(&session()).expect("room");
        let before = writer.len_bytes();
        assert!(matches!(writer.append(&ReceiptV1::default()), Err(Error::Io(_))), "room {room}");
        assert_eq!((writer.len_bytes(), file.metadata().expect("ours").len()), (before, before));
        writer.append(&ReceiptV1::default()).expect("room again");
        writer.finish().expect("room");
        assert_eq!(contents(&file), whole, "as if nothing had happened");
    }
}

/// The bytes of a file from its start.
fn contents(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.metadata().expect("ours").len() as usize];
    file.read_exact_at(&mut bytes, 0).expect("ours");
    bytes
}

#[test]
fn a_torn_end_leaves_the_blocks_and_an_open_mark() {
    let file = tempfile::tempfile().expect("a file");
    // Popped from the end: header, session, receipt, and the index without room.
    let disk = SmallDisk {
        file: file.try_clone().expect("open"),
        rooms: vec![9, usize::MAX, usize::MAX, usize::MAX],
    };
    let mut writer = Writer::begin(Box::new(disk), EndMark::Open, [1; 16]).expect("room");
    writer.append(&session()).expect("room");
    writer.append(&ReceiptV1::default()).expect("room");
    writer.finish().expect_err("no room");
    let recording = Recording::from_file(&file).expect("a header is there");
    assert_eq!((recording.entries().len(), recording.is_closed(), recording.damage()), (2, false, &[][..]));
}

#[test]
fn a_torn_block_stays_in_a_stream_and_costs_only_itself() {
    for fails_at in [300, 301, 307, 320] {
        let taken = Arc::new(Mutex::new(Vec::new()));
        let pipe = Hiccup { taken: Arc::clone(&taken), fails_at: Some(fails_at) };
        let mut writer = Writer::stream(pipe, [1; 16]).expect("room");
        writer.append(&session()).expect("room");
        assert!(writer.len_bytes() < 300, "{}", writer.len_bytes());
        assert!(matches!(writer.append(&session()), Err(Error::Io(_))));
        assert_eq!(writer.len_bytes(), fails_at as u64);
        writer.append(&ReceiptV1::default()).expect("room again");
        writer.finish().expect("room");
        let bytes = taken.lock().expect("no panic").clone();
        for cut in [0, index::TAIL_LEN] {
            let recording = Recording::from_bytes(&bytes[..bytes.len() - cut]).expect("a header is there");
            assert_eq!(recording.entries().len(), 2, "{:?}", recording.damage());
            assert!(recording.entries().iter().all(|entry| recording.payload(entry).is_ok()));
            assert_eq!(recording.is_closed(), cut == 0);
        }
    }
}

/// A non-blocking pipe with a slow reader: every other write finds it full, the rest take a few bytes.
struct Slow {
    taken: Arc<Mutex<Vec<u8>>>,
    is_full: bool,
}

impl Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.is_full = !self.is_full;
        if self.is_full {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let few = bytes.len().min(50);
        self.taken.lock().expect("no panic").extend_from_slice(&bytes[..few]);
        Ok(few)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_pipe_is_waited_for() {
    let taken = Arc::new(Mutex::new(Vec::new()));
    let pipe = Slow { taken: Arc::clone(&taken), is_full: false };
    let mut writer = Writer::stream(pipe, [1; 16]).expect("room");
    writer.append(&session()).expect("room");
    writer.finish().expect("room");
    let recording = Recording::from_bytes(&taken.lock().expect("no panic")).expect("whole");
    assert_eq!((recording.is_closed(), recording.damage()), (true, &[][..]));
}

#[test]
fn what_shrinks_beyond_belief_is_stored_so_that_a_reader_takes_it() {
    let taken = Arc::new(Mutex::new(Vec::new()));
    let mut writer =
        Writer::stream(Hiccup { taken: Arc::clone(&taken), fails_at: None }, [1; 16]).expect("room");
    writer.append(&SessionV1 { host: "x".repeat(16 << 20), ..Default::default() }).expect("room");
    writer.finish().expect("room");
    let recording = Recording::from_bytes(&taken.lock().expect("no panic")).expect("whole");
    let entry = recording.entries()[0];
    assert!(recording.payload(&entry).is_ok(), "{:?}", entry.header);
}

#[test]
fn the_memory_of_a_block_until_the_index_is_as_documented() {
    assert_eq!(size_of::<Entry>(), 64);
}

#[test]
fn a_stored_block_keeps_its_bytes_and_gets_a_number_of_its_own() {
    let written = |write: &dyn Fn(&mut Writer)| {
        let taken = Arc::new(Mutex::new(Vec::new()));
        let pipe = Hiccup { taken: Arc::clone(&taken), fails_at: None };
        let mut writer = Writer::stream(pipe, [1; 16]).expect("room");
        write(&mut writer);
        writer.finish().expect("room");
        let bytes = taken.lock().expect("no panic").clone();
        Recording::from_bytes(&bytes).expect("whole")
    };
    let from = written(&|writer| writer.append(&session()).map(drop).expect("room"));
    let entry = from.entries()[0];
    let stored = from.stored(&entry).expect("whole");
    let to = written(&|writer| {
        for _ in 0..2 {
            writer.append_stored(&entry.header, stored).expect("room");
        }
        let torn = writer.append_stored(&entry.header, &stored[1..]);
        assert!(matches!(torn, Err(Error::Payload { .. })));
    });
    assert_eq!(to.entries().len(), 2);
    for (sequence, copy) in (0..).zip(to.entries()) {
        assert_eq!(copy.header, BlockHeader { sequence, ..entry.header });
        assert_eq!(to.stored(copy).expect("whole"), stored);
    }
}

#[test]
fn recordings_in_memory_become_sessions_of_a_file() {
    let part = |number: u64| {
        let mut part = Writer::in_memory([number as u8; 16]).expect("a compressor");
        part.append(&SessionV1 { start_ns: number, ..session() }).expect("memory");
        part.append(&ReceiptV1 { end_ns: number + 1, ..ReceiptV1::default() }).expect("memory");
        part
    };
    let file = tempfile::NamedTempFile::new().expect("a file");
    let mut writer = Writer::create(file.reopen().expect("open"), [1; 16]).expect("room");
    let parts = [part(7), part(8)];
    let bytes: u64 = parts.iter().map(|part| part.len_bytes() - crate::header::LEN as u64).sum();
    parts.iter().for_each(|part| writer.append_all(part).expect("room"));
    assert_eq!(writer.len_bytes(), bytes + crate::header::LEN as u64);
    writer.finish().expect("room");
    let recording = Recording::open(file.path()).expect("it opens");
    assert!(recording.is_closed() && recording.damage().is_empty());
    let starts: Vec<u64> = recording
        .entries()
        .iter()
        .filter(|entry| entry.header.kind == Kind::SESSION)
        .map(|entry| {
            let payload = recording.payload(entry).expect("whole");
            payload.view::<SessionV1>().expect("whole").start_ns.to_native()
        })
        .collect();
    assert_eq!(starts, [7, 8]);
}
