//! The worked example of docs/FORMAT.md §7: its bytes are those that the writer writes and the reader reads.

use icecore_format::Error;
use icecore_format::block::{Kind, Processes};
use icecore_format::read::Recording;
use icecore_format::records::Payload;
use icecore_format::write::Writer;
use rkyv::util::AlignedVec;

/// The payload of the example: five bytes of a kind that no version knows.
struct Hello;

impl Payload for Hello {
    const KIND: Kind = Kind(900);
    const VERSION: u16 = 1;
    type View = ();

    fn items(&self) -> usize {
        5
    }

    fn span_ns(&self) -> (u64, u64) {
        (1_000_000_000, 2_000_000_000)
    }

    fn processes(&self) -> Processes {
        Processes::NONE.with(7)
    }

    fn to_bytes(&self) -> Result<AlignedVec<16>, Error> {
        let mut bytes = AlignedVec::new();
        bytes.extend_from_slice(b"hello");
        Ok(bytes)
    }

    fn view(_bytes: &[u8]) -> Result<&(), Error> {
        Ok(&())
    }
}

/// The bytes of the dump in §7: three digits of offset, then pairs of digits up to the comment.
fn documented() -> Vec<u8> {
    let text = include_str!("../../../../docs/FORMAT.md");
    let section = text.split("## 7.").nth(1).expect("it has a section 7");
    let mut bytes = Vec::new();
    for line in section.lines() {
        let Some((off, rest)) = line.split_once("  ") else { continue };
        if off.len() != 3 || u64::from_str_radix(off, 16) != Ok(bytes.len() as u64) {
            continue;
        }
        let pairs = rest.split("   ").next().unwrap_or_default().split_whitespace();
        bytes.extend(pairs.map(|pair| u8::from_str_radix(pair, 16).expect("two digits")));
    }
    bytes
}

/// The dump as the section has it, without comments.
fn dump(bytes: &[u8]) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
    let line = |(row, bytes): (usize, &[u8])| {
        let (left, right) = bytes.split_at(bytes.len().min(8));
        format!("{:03x}  {}  {}\n", row * 16, hex(left), hex(right))
    };
    bytes.chunks(16).enumerate().map(line).collect()
}

#[test]
fn the_worked_example_has_exactly_the_documented_bytes() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let path = dir.path().join("r");
    let mut writer = Writer::create(std::fs::File::create_new(&path).expect("new"), [3; 16]).expect("room");
    writer.append(&Hello).expect("room");
    writer.finish().expect("room");
    let written = std::fs::read(&path).expect("just written");
    assert_eq!(documented(), written, "the writer writes\n{}", dump(&written));
    let recording = Recording::from_bytes(&documented()).expect("own file");
    assert!(recording.is_closed() && recording.damage().is_empty());
    let payload = recording.payload(&recording.entries()[0]).expect("whole");
    assert_eq!(payload.as_bytes(), b"hello");
}
