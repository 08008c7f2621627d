use icecore_format::records::{CodePlace, CodeStretch, Image, ImageKind, ImagesV1, SessionV1, StringsV1};
use icecore_format::write::Writer;

use super::*;
use crate::recording::load::load;

/// The stretches of a block: offset, bytes, name.
type Told<'t> = &'t [(u64, usize, &'t str)];

/// Writes sessions of one image each, with a block for each list of stretches.
fn recording(sessions: &[&[Told<'_>]]) -> Vec<u8> {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let mut writer = Writer::create(file.reopen().expect("ours"), [1; 16]).expect("writable");
    for blocks in sessions {
        let kind = ImageKind::FILE;
        let (build_id, dev, inode, size_bytes, modified_unix_ns) = (vec![7], 0, 0, 0, 0);
        let image = Image { kind, path: 1, build_id, dev, inode, size_bytes, modified_unix_ns };
        writer.append(&SessionV1::default()).expect("fits");
        writer.append(&StringsV1::from_rows(1, &["/lib/x.so"])).expect("fits");
        writer.append(&ImagesV1::from_rows(0, &[image])).expect("fits");
        for block in *blocks {
            let stretch = |(position, (off, len, _)): (usize, &(u64, usize, &str))| CodeStretch {
                image: 0,
                file_off: *off,
                address: 0x40_0000 + off,
                machine: 62,
                name: Some(position as u32),
                bytes: vec![0x90; *len],
                places: vec![CodePlace {
                    begin: 0,
                    frames: vec![CodeFrame { name: position as u32, file: None, line: 3 }],
                }],
                refers: Vec::new(),
            };
            let stretches = block.iter().enumerate().map(stretch).collect();
            let texts: Vec<&[u8]> = block.iter().map(|(_, _, name)| name.as_bytes()).collect();
            writer.append(&CodeV1::from_table(&CodeTable { stretches, texts })).expect("fits");
        }
    }
    writer.finish().expect("writable");
    std::fs::read(file.path()).expect("own file")
}

/// Opens a recording, and asks for the names at offsets, those of all stretches, and the extent at offset 25.
fn names(bytes: &[u8], offs: &[u64]) -> (Vec<String>, Vec<String>, Option<Range<Svma>>) {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), bytes).expect("room");
    let recording = Recording::open(file.path()).expect("own file");
    let tables = load(&recording);
    let stored = StoredCode::new(&recording, &tables, |_| Some(5));
    let name = |stretch: &StoredStretch| stretch.name.as_deref().unwrap_or_default().to_owned();
    assert!(stored.find(0, FileOff(25)).is_none(), "another image");
    let found = offs.iter().map(|off| stored.find(5, FileOff(*off)).as_ref().map_or_else(String::new, name));
    let all = stored.all().iter().map(|(_, stretch)| name(stretch)).collect();
    (found.collect(), all, stored.extent(5, FileOff(25)).map(|(_, range)| range))
}

#[test]
fn the_innermost_and_last_stretch_of_all_sessions_is_found() {
    let bytes =
        recording(&[&[&[(10, 90, "outer"), (20, 10, "old")], &[(20, 10, "inner")]], &[&[(200, 1, "other")]]]);
    let (found, all, extent) = names(&bytes, &[9, 10, 20, 29, 30, 99, 100, 200, 201]);
    assert_eq!(found, ["", "outer", "inner", "inner", "outer", "outer", "", "other", ""]);
    assert_eq!(all, ["outer", "old", "inner", "other"], "what counts comes last");
    assert_eq!(extent, Some(Svma(0x40_0000 + 20)..Svma(0x40_0000 + 30)));
}

#[test]
fn a_damaged_block_has_no_code_and_the_others_do() {
    let whole = recording(&[&[&[(10, 90, "first")], &[(200, 80, "second")]]]);
    let at = whole.windows(5).position(|window| window == b"first").expect("texts are stored");
    let mut bytes = whole;
    bytes[at] ^= 1;
    let (found, all, _) = names(&bytes, &[10, 200]);
    assert_eq!((found, all), (vec![String::new(), "second".into()], vec!["second".to_owned()]));
}

#[test]
fn functions_and_lines_of_places_come_back() {
    let bytes = recording(&[&[&[(20, 10, "f")]]]);
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), bytes).expect("room");
    let recording = Recording::open(file.path()).expect("own file");
    let tables = load(&recording);
    let stored = StoredCode::new(&recording, &tables, Some);
    let stretch = stored.find(0, FileOff(25)).expect("it is there");
    let function = Function { line: Some(3), ..Function::new("f".into()) };
    assert_eq!(stretch.places, [(0, vec![function])].into());
    assert_eq!((stretch.begin, stretch.address, stretch.machine), (FileOff(20), Svma(0x40_0014), 62));
}
