use icecore_format::records::{Image, ImagesV1, Piece, SessionV1, StringsV1};
use icecore_format::write::Writer;

use super::*;
use crate::recording::load::load;
use icecore_symbolize::image::fixture::{self, Fixture, identity};
use icecore_symbolize::image::{FileOff, Finder, Layout, Search};
use icecore_symbolize::{Answer, Wanted, symbolize};

/// A session: images by build-id, and pieces of them: image, length of its file, where from, bytes.
type Told<'b> = (&'b [&'b [u8]], &'b [(u32, u64, u64, &'b [u8])]);

fn recording(sessions: &[Told<'_>]) -> Recording {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let mut writer = Writer::create(file.reopen().expect("ours"), [1; 16]).expect("writable");
    for (images, blocks) in sessions {
        let image = |build_id: &&[u8]| Image {
            kind: icecore_format::records::ImageKind::FILE,
            path: 1,
            build_id: build_id.to_vec(),
            dev: 0,
            inode: 0,
            size_bytes: 0,
            modified_unix_ns: 0,
        };
        let images: Vec<Image> = images.iter().map(image).collect();
        writer.append(&SessionV1::default()).expect("fits");
        writer.append(&StringsV1::from_rows(1, &["/no/such/lib.so"])).expect("fits");
        writer.append(&ImagesV1::from_rows(0, &images)).expect("fits");
        for (image, len, off, bytes) in *blocks {
            let rows = [Piece { off: *off, bytes: *bytes }];
            writer.append(&ImagePartsV1::from_rows(*image, *len, &rows)).expect("fits");
        }
    }
    writer.finish().expect("writable");
    Recording::open(file.path()).expect("own file")
}

fn wanted(build_id: &[u8]) -> Identity {
    let kind = icecore_symbolize::image::Kind::File;
    let path = "/no/such/lib.so".to_owned();
    let (build_id, inode, has_double) = (build_id.to_vec(), None, false);
    Identity { kind, path, build_id, size_bytes: 0, modified_unix_ns: 0, inode, has_double }
}

/// Opens the image of a build-id, and tells what went wrong.
fn open(recording: &Recording, build_id: &[u8]) -> (Option<(ElfFile, Layout)>, Option<String>) {
    let tables = load(recording);
    let image = |id: u32| tables.images.find(id).map(|image| wanted(&image.build_id));
    let identities: Vec<Option<Identity>> = (0..100).map(image).collect();
    let files = EmbeddedFiles::new(recording, &tables, |id| identities[id as usize].as_ref());
    let opened = files.open(&wanted(build_id)).map(|file| {
        let layout = file.layout().expect("sound headers");
        (file, layout)
    });
    (opened, files.trouble())
}

/// Tells whether all bytes of a file are there.
fn is_whole(file: &ElfFile) -> bool {
    file.bytes(FileOff(0), file.len).is_some()
}

fn fixture_file() -> (Vec<u8>, Vec<u8>) {
    let fixture = Fixture::shared();
    (std::fs::read(&fixture.with_debug).expect("read"), identity(&fixture.with_debug).build_id)
}

#[test]
fn a_whole_file_comes_back_byte_for_byte_whatever_the_order_of_its_blocks() {
    let (elf, build_id) = fixture_file();
    let (len, (first, second)) = (elf.len() as u64, elf.split_at(5000));
    let other = (&[&b"x"[..], b"y"][..], &[(0, 4, 0, &b"text"[..])][..]);
    let own =
        (&[&b"z"[..], &build_id][..], &[(1, len, 5000, second), (0, 3, 0, b"abc"), (1, len, 0, first)][..]);
    let recording = recording(&[other, own]);
    let (opened, trouble) = open(&recording, &build_id);
    let (file, layout) = opened.expect("it is there");
    assert_eq!((is_whole(&file), trouble), (true, None));
    assert_eq!(file.bytes(FileOff(0), len), Some(elf));
    assert!(layout.has(".debug_info"));
}

#[test]
fn a_section_that_misses_a_byte_has_none() {
    let (elf, build_id) = fixture_file();
    let whole = ElfFile::open(&Fixture::shared().with_debug).and_then(|file| file.layout()).expect("ELF");
    let section = whole.section(".debug_info").expect("compiled with -g");
    let (hole, len) = (section.off.0 as usize + 3, elf.len() as u64);
    let blocks = [(0, len, 0, &elf[..hole]), (0, len, hole as u64 + 1, &elf[hole + 1..])];
    let recording = recording(&[(&[&build_id], &blocks)]);
    let (file, layout) = open(&recording, &build_id).0.expect("it is there");
    assert!(!is_whole(&file) && !layout.has(".debug_info") && layout.has(".debug_line"));
    let torn = layout.section(".debug_info").expect("its header is there");
    assert_eq!(file.section_bytes(torn), None);
    assert_eq!(
        (file.bytes(FileOff(hole as u64), 1), file.bytes(FileOff(hole as u64 + 1), 1).is_some()),
        (None, true)
    );
}

#[test]
fn an_image_takes_the_most_that_any_image_of_its_build_id_has_and_never_of_two() {
    let (elf, build_id) = fixture_file();
    let len = elf.len() as u64;
    let some = (&[&build_id[..]][..], &[(0, len, 0, &elf[..9000])][..]);
    let all = (&[&b"x"[..], &build_id][..], &[(1, len, 0, &elf[..])][..]);
    let (opened, trouble) = open(&recording(&[some, all, some]), &build_id);
    assert_eq!((is_whole(&opened.expect("it is there").0), trouble), (true, None));
    assert!(open(&recording(&[some, all]), b"other").0.is_none());
}

#[test]
fn the_file_of_another_build_is_not_taken() {
    let (elf, _) = fixture_file();
    let recording = recording(&[(&[b"another"], &[(0, elf.len() as u64, 0, &elf)])]);
    assert!(open(&recording, b"another").0.is_none());
}

#[test]
fn pieces_that_contradict_each_other_are_told_and_not_taken() {
    let (elf, build_id) = fixture_file();
    let len = elf.len() as u64;
    for (blocks, words) in [
        (vec![(0, len, 0, &elf[..]), (0, len, 7, &b"x"[..])], "two pieces"),
        (vec![(0, len, 0, &elf[..100]), (0, len + 1, 100, &elf[100..])], "it is said to have"),
        (vec![(0, u64::MAX, 0, &elf[..])], "a file of 18446744073709551615 bytes"),
    ] {
        let (opened, trouble) = open(&recording(&[(&[&build_id], &blocks)]), &build_id);
        let trouble = trouble.expect("it is told");
        assert!(opened.is_none() && trouble.contains(words), "{trouble}");
    }
}

#[test]
fn a_damaged_block_costs_the_sections_in_it() {
    let (elf, build_id) = fixture_file();
    let whole = ElfFile::open(&Fixture::shared().with_debug).and_then(|file| file.layout()).expect("ELF");
    let (at, len) =
        (whole.section(".debug_info").expect("compiled with -g").off.0 as usize, elf.len() as u64);
    let blocks = [
        (0, len, 0, &elf[..at]),
        (0, len, at as u64, &elf[at..at + 9]),
        (0, len, at as u64 + 9, &elf[at + 9..]),
    ];
    let good = recording(&[(&[&build_id], &blocks)]);
    let mut bytes = good.as_bytes().to_vec();
    let torn = good.entries()[4];
    bytes[torn.off as usize + 70] ^= 1;
    let (opened, trouble) = open(&Recording::from_bytes(&bytes).expect("its header is whole"), &build_id);
    let layout = opened.expect("the rest is there").1;
    assert!(!layout.has(".debug_info") && layout.has(".symtab"));
    assert!(trouble.is_some_and(|said| said.contains("image_parts block: checksum")), "it is told");
}

#[test]
fn blocks_of_other_images_are_not_opened() {
    let (elf, build_id) = fixture_file();
    let blocks = [(0, 4, 0, &b"text"[..]), (1, elf.len() as u64, 0, &elf[..])];
    let good = recording(&[(&[b"other", &build_id], &blocks)]);
    let mut bytes = good.as_bytes().to_vec();
    bytes[good.entries()[3].off as usize + 70] ^= 1;
    let damaged = Recording::from_bytes(&bytes).expect("its header is whole");
    let (opened, trouble) = open(&damaged, &build_id);
    assert_eq!((opened.is_some(), trouble), (true, None));
    assert!(open(&damaged, b"other").1.is_some(), "asked for, it is opened");
}

#[test]
fn names_and_lines_come_from_the_recording_where_the_file_is_not() {
    let (elf, build_id) = fixture_file();
    let recording = recording(&[(&[&build_id], &[(0, elf.len() as u64, 0, &elf)])]);
    let tables = load(&recording);
    let image = wanted(&build_id);
    let files = EmbeddedFiles::new(&recording, &tables, |_| Some(&image));
    let (outer, _) = fixture::function(&Fixture::shared().with_debug, "outer");
    let (offsets, search) = ([outer], Search::nowhere());
    let finder = Finder { search: &search, embedded: Some(&files) };
    let wanted = [Wanted { image: &image, offsets: &offsets }];
    let Answer::Named(functions) = &symbolize(&wanted, &finder, &|_| ())[0][0] else {
        panic!("it has a name")
    };
    let outer = functions.last().expect("never empty");
    assert_eq!((&*outer.name, outer.line.is_some()), ("outer", true));
}
