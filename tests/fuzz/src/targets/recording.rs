//! The reader: opening, damage, payloads, views, tables.

use std::sync::OnceLock;

use icecore_format::header;
use icecore_format::read::Recording;
use icecore_format::records::{
    CodeFrame, CodePlace, CodeReference, CodeStretch, ImagePartsV1, JitCode, JitInlined, JitLine, Language,
    LeftOut, NameTable, NamedFrame, NamedFunction, NamedPlace, Omission, Piece, SamplesV1, SourceFile,
    SourceProof,
};
use icecore_profile::recording::load::load;
use icecore_tests::synthetic::{Builder, START_NS, broken_walks, story};

use super::{FREE_BYTES, image};
use crate::{draft, memory};

/// Tables hold at most so many bytes for one of a payload: an empty string is an end of 4 bytes in the file and
/// a pointer with a length in memory, three times over while blocks are joined.
const BYTES_PER_PAYLOAD_BYTE: usize = 24;

/// Opens a recording (or a [`draft`]) and reads all that it has.
pub fn run(data: &[u8]) {
    let file = draft::finished(data);
    // The file itself, and what the largest payload may claim before it is found to lie.
    memory::within(limit_bytes(&file), || read(&file));
}

/// What reading a recording may hold, bytes.
pub(super) fn limit_bytes(file: &[u8]) -> usize {
    let Ok(recording) = Recording::from_bytes(file) else { return FREE_BYTES };
    let raw = recording.entries().iter().map(|entry| entry.header.raw_len as usize);
    FREE_BYTES + 4 * file.len() + BYTES_PER_PAYLOAD_BYTE * raw.sum::<usize>()
}

fn read(file: &[u8]) {
    let Ok(recording) = Recording::from_bytes(file) else { return };
    let mut places = Vec::new();
    for entry in recording.entries() {
        places.push((entry.off, entry.header.end(entry.off)));
        let Ok(payload) = recording.payload(entry) else { continue };
        assert_eq!(payload.as_bytes().len(), entry.header.raw_len as usize);
        // All else is loaded as tables.
        if let Ok(samples) = payload.view::<SamplesV1>() {
            drop(samples.rows());
        }
    }
    places.sort_unstable();
    assert!(places.is_sorted_by(|before, after| before.1 <= after.0), "blocks overlap: {places:?}");
    let inside = |place: &(u64, u64)| place.0 >= header::LEN as u64 && place.1 <= file.len() as u64;
    assert!(places.iter().all(inside), "blocks outside the file: {places:?}");
    for damage in recording.damage() {
        assert!(damage.len <= file.len() as u64, "{damage}, in a file of {} bytes", file.len());
    }
    load(&recording);
}

/// A library that the recordings bring along, compiled once.
static ELF: OnceLock<Vec<u8>> = OnceLock::new();

/// Recordings: one with everything in it but stacks to be unwound, one with these, one still open, an empty one.
pub(crate) fn files() -> [Vec<u8>; 4] {
    let write = |builder: Builder, close| {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let path = dir.path().join("x");
        builder.write(&path, close).expect("writable");
        std::fs::read(&path).expect("just written")
    };
    // A few samples of every kind are enough to begin with.
    let short = || {
        let mut story = story();
        story.samples.truncate(40);
        let elf = ELF.get_or_init(|| image::seeds().swap_remove(0));
        let (len, (head, rest)) = (elf.len() as u64, elf.split_at(elf.len() / 2));
        let pieces = [Piece { off: 0, bytes: head }, Piece { off: head.len() as u64, bytes: rest }];
        story.image_parts.push(ImagePartsV1::from_rows(0, len, &pieces));
        story.cgroup(1_000, 100, "/make.slice");
        story.cgroup_of_thread(50_000_000, 100, 101, "/make.slice/io");
        story.cgroup(60_000_000, 300, "");
        let (since_ns, file) = (START_NS + 9, story.string("/a.js"));
        let inlined = vec![JitInlined { name: file, call_file: file, call_line: 5 }];
        let lines = [(0, vec![]), (8, inlined)].map(|(off, inlined)| JitLine { off, file, line: 3, inlined });
        let lines = lines.into();
        let (start, end, until_ns, name) = (0x7_0000, 0x7_0100, 0, b"JS:*a".to_vec());
        let language = Language::PYTHON;
        let rules = b"\x0c\0\0\0\0\0\0\0rules of".to_vec();
        story.jit.push(JitCode { tgid: 300, start, end, since_ns, until_ns, name, rules, lines, language });
        let place =
            NamedPlace { image: 0, file_off: 0x10, address: 0x2010, start: 0, frames: 0..2, calls: None };
        let functions = [0, 1].map(|name| NamedFunction { name, ..NamedFunction::default() });
        let frames = [(0, 3), (1, 9)].map(|(function, line)| NamedFrame { function, file: Some(2), line });
        let texts = ["inner", "outer", "/a.c"].map(|text| text.as_bytes().into());
        story.names = NameTable {
            places: vec![place],
            frames: frames.into(),
            functions: functions.into(),
            texts: texts.into(),
        };
        let proof = SourceProof::MD5;
        story.sources.files.push(SourceFile { image: 0, path: 0, text: 1, proof, modified_unix_ns: 7 });
        story.sources.texts = ["/a.c", "int a;\n"].map(|text| text.as_bytes().into()).into();
        let frames = vec![CodeFrame { name: 0, file: Some(1), line: 3 }];
        story.code.stretches.push(CodeStretch {
            file_off: 0x10,
            address: 0x2010,
            machine: 62,
            name: Some(0),
            bytes: b"\xe8\x07\x00\x00\x00\xc3".to_vec(),
            places: vec![CodePlace { begin: 0, frames }],
            refers: vec![CodeReference { at: 0x201c, name: 0, offset: 0 }],
            ..CodeStretch::default()
        });
        story.code.texts = ["outer", "/a.c"].map(|text| text.as_bytes().into()).into();
        let (why, needed_bytes, free_bytes) = (Omission::TOO_LARGE, 9 << 20, 1 << 20);
        story.left_out.push(LeftOut { image: 1, why, needed_bytes, free_bytes });
        story
    };
    // By the rules of a library, and, where there are none, by frame pointers.
    let unwound = || {
        let mut stacks = broken_walks();
        stacks.samples.truncate(40);
        let elf = ELF.get_or_init(|| image::seeds().swap_remove(0));
        let whole = [Piece { off: 0, bytes: &elf[..] }];
        stacks.image_parts.push(ImagePartsV1::from_rows(1, elf.len() as u64, &whole));
        stacks
    };
    [write(short(), true), write(unwound(), true), write(short(), false), write(Builder::default(), true)]
}

/// The recordings; as drafts; as drafts stored raw with their index; as drafts that lie about their length.
pub fn seeds() -> Vec<Vec<u8>> {
    let files = files();
    let drafts: Vec<Vec<u8>> = files.iter().map(|file| draft::of(file)).collect();
    let raw = drafts.iter().map(|it| {
        let mut raw = draft::finished(&draft::with_codec(it, 0));
        raw[..8].copy_from_slice(&draft::MAGIC);
        raw
    });
    let lying = drafts.iter().map(|it| draft::with_codec(it, 2));
    let mut seeds: Vec<_> = raw.chain(lying).collect();
    seeds.extend(drafts.iter().cloned());
    seeds.extend(files);
    seeds
}
