//! Code of functions that samples hit, version 1.

use rkyv::{Archive, Serialize};

use super::packed::{Packed, narrow};
use super::{items, payload, references};
use crate::error::Error;
use crate::kind::Kind;
use crate::limits;

/// Stretches of code, and the texts to which they refer by position.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CodeTable<T = Box<[u8]>> {
    /// The stretches.
    pub stretches: Vec<CodeStretch>,
    /// Names of functions, of data and of source files.
    pub texts: Vec<T>,
}

references!(CodeTable<T> { stretches: within, texts: plain });

/// The code of a function, or of a part of it that lies elsewhere.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CodeStretch {
    /// The image, an image id.
    pub image: u32,
    /// Offset of the first byte in the file of the image.
    pub file_off: u64,
    /// Address of the first byte in the ELF file.
    pub address: u64,
    /// The processor, as ELF headers number it (`e_machine`).
    pub machine: u16,
    /// The name of the function, a position among the texts.
    pub name: Option<u32>,
    /// The code.
    pub bytes: Vec<u8>,
    /// What is known of its instructions, ordered by their beginnings. An instruction has the frames of the last place that begins at
    /// it or before it; without one it has none.
    pub places: Vec<CodePlace>,
    /// What its instructions refer to outside of it, ordered by address.
    pub refers: Vec<CodeReference>,
}

references!(CodeStretch {
    image: id(Images),
    file_off: plain,
    address: plain,
    machine: plain,
    name: plain,
    bytes: plain,
    places: plain,
    refers: plain
});

/// Instructions with the same functions and source lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CodePlace {
    /// Distance of the first one from the beginning of the stretch, bytes.
    pub begin: u32,
    /// The functions, innermost first; all but the last are inlined into the one after it.
    pub frames: Vec<CodeFrame>,
}

/// A function, and the line in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CodeFrame {
    /// Its name, a position among the texts.
    pub name: u32,
    /// The source file, a position among the texts.
    pub file: Option<u32>,
    /// The line, counted from 1; 0 if it is unknown.
    pub line: u32,
}

/// A function or data that instructions name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CodeReference {
    /// The address in the ELF file that they name.
    pub at: u64,
    /// The name of what is there, a position among the texts.
    pub name: u32,
    /// Bytes from where that begins.
    pub offset: u64,
}

/// Code as columns.
#[derive(Debug, Default, Archive, Serialize)]
pub struct CodeV1 {
    /// Images, as differences from the row before; signs folded.
    pub image: Packed,
    /// First offsets, as differences from the row before; signs folded.
    pub file_off: Packed,
    /// First addresses, as differences from the row before; signs folded.
    pub address: Packed,
    /// Numbers of processors.
    pub machine: Packed,
    /// Position of each name among the texts, plus 1; 0 for none.
    pub name: Packed,
    /// Bytes of each stretch.
    pub lens: Packed,
    /// Number of places of each stretch.
    pub place_count: Packed,
    /// Number of references of each stretch.
    pub refer_count: Packed,
    /// All code, one stretch after the other.
    pub bytes: Vec<u8>,
    /// Distance of each place from the one before it in its stretch, the first from the beginning.
    pub after: Packed,
    /// Number of frames of each place.
    pub depth: Packed,
    /// Position of each frame's name among the texts.
    pub function: Packed,
    /// Position of each frame's file among the texts, plus 1; 0 for none.
    pub file: Packed,
    /// Line of each frame, as the difference from the frame before; signs folded.
    pub line: Packed,
    /// Addresses to which code refers, as differences from the one before; signs folded.
    pub refer: Packed,
    /// Position of each of their names among the texts.
    pub refer_name: Packed,
    /// Bytes from where what is named begins.
    pub refer_offset: Packed,
    /// The texts, one after the other.
    pub texts: Vec<u8>,
    /// Lengths of the texts in bytes.
    pub text_lens: Packed,
}

payload!(
    CodeV1, ArchivedCodeV1, Kind::CODE, 1,
    count file_off, same image, same address, same machine, same name, same lens, same place_count, same refer_count,
    other bytes, other after, other depth, other function, other file, other line,
    other refer, other refer_name, other refer_offset, other texts, other text_lens
);

impl CodeV1 {
    /// Builds the columns. No stretch has more than [`limits::MAX_CODE_LEN`] bytes.
    pub fn from_table<T: AsRef<[u8]>>(table: &CodeTable<T>) -> Self {
        let stretches = || table.stretches.iter();
        let places = || stretches().flat_map(|it| &it.places);
        let frames = || places().flat_map(|it| &it.frames);
        let refers = || stretches().flat_map(|it| &it.refers);
        let or_0 = |position: Option<u32>| position.map_or(0, |position| u64::from(position) + 1);
        let after = stretches().flat_map(|it| {
            let before = std::iter::once(0).chain(it.places.iter().map(|place| place.begin));
            it.places.iter().zip(before).map(|(place, before)| place.begin.saturating_sub(before))
        });
        Self {
            image: Packed::steps(stretches().map(|it| u64::from(it.image))),
            file_off: Packed::steps(stretches().map(|it| it.file_off)),
            address: Packed::steps(stretches().map(|it| it.address)),
            machine: stretches().map(|it| u64::from(it.machine)).collect(),
            name: stretches().map(|it| or_0(it.name)).collect(),
            lens: stretches().map(|it| it.bytes.len() as u64).collect(),
            place_count: stretches().map(|it| it.places.len() as u64).collect(),
            refer_count: stretches().map(|it| it.refers.len() as u64).collect(),
            bytes: stretches().flat_map(|it| &it.bytes).copied().collect(),
            after: after.collect(),
            depth: places().map(|it| it.frames.len() as u64).collect(),
            function: frames().map(|it| it.name).collect(),
            file: frames().map(|it| or_0(it.file)).collect(),
            line: Packed::steps(frames().map(|it| u64::from(it.line))),
            refer: Packed::steps(refers().map(|it| it.at)),
            refer_name: refers().map(|it| it.name).collect(),
            refer_offset: refers().map(|it| it.offset).collect(),
            texts: table.texts.iter().flat_map(|text| text.as_ref()).copied().collect(),
            text_lens: table.texts.iter().map(|text| text.as_ref().len() as u64).collect(),
        }
    }
}

impl ArchivedCodeV1 {
    /// Reads the table.
    ///
    /// # Errors
    /// [`Error::Payload`] if a stretch is too long, a place lies outside of its stretch or not behind the one before it, columns of
    /// places, frames or references differ in length, or a position is none.
    pub fn table(&self) -> Result<CodeTable<&[u8]>, Error> {
        let texts = items(Kind::CODE, &self.texts, &self.text_lens)?;
        let bytes = items(Kind::CODE, &self.bytes, &self.lens)?;
        if let Some(long) = bytes.iter().find(|bytes| bytes.len() > limits::MAX_CODE_LEN) {
            let (len, limit) = (long.len(), limits::MAX_CODE_LEN);
            return Err(wrong(format!("code of {len} bytes: the limit is {limit}")));
        }
        let mut frames = self.frames(texts.len())?.into_iter();
        let mut places = self.places(&mut frames)?.into_iter();
        let mut refers = self.references(texts.len())?.into_iter();
        let columns = self.image.sums().into_iter().zip(self.file_off.sums()).zip(self.address.sums());
        let columns = columns.zip(self.machine.values()).zip(self.name.values()).zip(bytes);
        let columns = columns.zip(self.place_count.values()).zip(self.refer_count.values());
        let mut stretches = Vec::new();
        for (((((((image, file_off), address), machine), name), bytes), place_count), refer_count) in columns
        {
            let name = name.checked_sub(1).map(|name| position(name, texts.len())).transpose()?;
            let mut own = take(&mut places, place_count, "places")?;
            let mut at = 0_u64;
            for (nth, place) in own.iter_mut().enumerate() {
                let after = u64::from(place.begin);
                at += after;
                if at >= bytes.len() as u64 || (nth > 0 && after == 0) {
                    let len = bytes.len();
                    return Err(wrong(format!(
                        "place {nth} begins at {at} of {len} bytes, {after} behind the one before"
                    )));
                }
                place.begin = narrow(at);
            }
            stretches.push(CodeStretch {
                image: narrow(image),
                file_off,
                address,
                // A number that does not fit is a processor that no reader knows.
                machine: u16::try_from(machine).unwrap_or(u16::MAX),
                name,
                bytes: bytes.to_vec(),
                places: own,
                refers: take(&mut refers, refer_count, "references")?,
            });
        }
        match (places.len(), refers.len(), frames.len()) {
            (0, 0, 0) => Ok(CodeTable { stretches, texts }),
            left => Err(wrong(format!("{left:?} places, references and frames belong to nothing"))),
        }
    }

    /// Reads places; each begins as far behind the one before it as its column says.
    fn places(&self, frames: &mut std::vec::IntoIter<CodeFrame>) -> Result<Vec<CodePlace>, Error> {
        let (after, depth) = (self.after.values(), self.depth.values());
        if after.len() != depth.len() {
            return Err(wrong(format!("columns of places have {} and {} rows", after.len(), depth.len())));
        }
        let place =
            |(after, depth)| Ok(CodePlace { begin: narrow(after), frames: take(frames, depth, "frames")? });
        after.into_iter().zip(depth).map(place).collect()
    }

    fn frames(&self, texts: usize) -> Result<Vec<CodeFrame>, Error> {
        let (of, files, lines) = (self.function.values(), self.file.values(), self.line.sums());
        if of.len() != files.len() || of.len() != lines.len() {
            let counts = format!("{}, {} and {}", of.len(), files.len(), lines.len());
            return Err(wrong(format!("columns of frames have {counts} rows")));
        }
        let frame = |((name, file), line): ((u64, u64), u64)| {
            let file = file.checked_sub(1).map(|file| position(file, texts)).transpose()?;
            Ok(CodeFrame { name: position(name, texts)?, file, line: narrow(line) })
        };
        of.into_iter().zip(files).zip(lines).map(frame).collect()
    }

    fn references(&self, texts: usize) -> Result<Vec<CodeReference>, Error> {
        let (at, names, offsets) = (self.refer.sums(), self.refer_name.values(), self.refer_offset.values());
        if at.len() != names.len() || at.len() != offsets.len() {
            let counts = format!("{}, {} and {}", at.len(), names.len(), offsets.len());
            return Err(wrong(format!("columns of references have {counts} rows")));
        }
        let reference = |((at, name), offset): ((u64, u64), u64)| {
            Ok(CodeReference { at, name: position(name, texts)?, offset })
        };
        at.into_iter().zip(names).zip(offsets).map(reference).collect()
    }
}

/// Takes the next `count` rows.
fn take<R>(rows: &mut std::vec::IntoIter<R>, count: u64, what: &str) -> Result<Vec<R>, Error> {
    match usize::try_from(count).ok().filter(|count| *count <= rows.len()) {
        Some(count) => Ok(rows.by_ref().take(count).collect()),
        None => Err(wrong(format!("{count} {what}: {} are left", rows.len()))),
    }
}

fn position(position: u64, texts: usize) -> Result<u32, Error> {
    match position < texts as u64 {
        true => Ok(narrow(position)),
        false => Err(wrong(format!("text {position} of {texts}"))),
    }
}

fn wrong(cause: String) -> Error {
    Error::Payload { kind: Kind::CODE, cause }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Payload as _;

    fn table() -> CodeTable<&'static [u8]> {
        let frame = |name, file, line| CodeFrame { name, file, line };
        let outer = CodeStretch {
            image: 1,
            file_off: 0x1010,
            address: 0x2010,
            machine: 62,
            name: Some(0),
            bytes: vec![0x90, 0xe8, 1, 2, 3, 4, 0xc3],
            places: vec![
                CodePlace { begin: 1, frames: vec![frame(1, Some(2), 9), frame(0, Some(2), 3)] },
                CodePlace { begin: 6, frames: vec![] },
            ],
            refers: vec![CodeReference { at: 0x9000, name: 1, offset: 4 }],
        };
        let bare = CodeStretch { image: 0, bytes: vec![0xc3], ..CodeStretch::default() };
        CodeTable { stretches: vec![outer, bare], texts: vec![b"outer", b"inner", b"/src/a.c"] }
    }

    #[test]
    fn a_table_survives() {
        let bytes = CodeV1::from_table(&table()).to_bytes().expect("fits");
        assert_eq!(CodeV1::view(&bytes).expect("own bytes").table().expect("own rows"), table());
    }

    #[test]
    fn what_is_not_there_or_too_long_is_an_error() {
        let cause = |change: fn(&mut CodeV1)| {
            let mut columns = CodeV1::from_table(&table());
            change(&mut columns);
            let bytes = columns.to_bytes().expect("fits");
            CodeV1::view(&bytes).expect("columns of one length").table().expect_err("refused").to_string()
        };
        assert!(cause(|c| c.name = [9_u64, 0].into_iter().collect()).contains("text 8 of 3"));
        assert!(cause(|c| c.function = [9_u64, 0].into_iter().collect()).contains("text 9 of 3"));
        assert!(cause(|c| c.file = [9_u64, 0].into_iter().collect()).contains("text 8 of 3"));
        assert!(cause(|c| c.refer_name = [9_u64].into_iter().collect()).contains("text 9 of 3"));
        assert!(cause(|c| c.lens = [99_u64, 0].into_iter().collect()).contains("item 0"));
        assert!(cause(|c| c.text_lens = [99_u64, 0, 0].into_iter().collect()).contains("item 0"));
        assert!(cause(|c| c.place_count = [3_u64, 0].into_iter().collect()).contains("3 places: 2 are left"));
        assert!(cause(|c| c.place_count = [1_u64, 0].into_iter().collect()).contains("(1, 0, 0) places"));
        assert!(cause(|c| c.refer_count = [0_u64, u64::MAX].into_iter().collect()).contains("1 are left"));
        assert!(cause(|c| c.depth = [1_u64, 0].into_iter().collect()).contains("(0, 0, 1) places"));
        assert!(cause(|c| c.depth = [3_u64, 0].into_iter().collect()).contains("3 frames: 2 are left"));
        assert!(cause(|c| c.after = [1_u64, 0].into_iter().collect()).contains("place 1 begins at 1 of 7"));
        assert!(cause(|c| c.after = [1_u64, 6].into_iter().collect()).contains("place 1 begins at 7 of 7"));
        assert!(cause(|c| c.after = [u64::MAX, 1].into_iter().collect()).contains("place 0 begins at"));
        assert!(cause(|c| c.after = [1_u64].into_iter().collect()).contains("1 and 2 rows"));
        assert!(cause(|c| c.line = [1_u64].into_iter().collect()).contains("2, 2 and 1 rows"));
        assert!(cause(|c| c.refer_offset = Packed::default()).contains("1, 1 and 0 rows"));
        let long = vec![0x90; limits::MAX_CODE_LEN + 1];
        let long = CodeStretch { bytes: long, ..CodeStretch::default() };
        let long = CodeTable::<&[u8]> { stretches: vec![long], texts: vec![] };
        let bytes = CodeV1::from_table(&long).to_bytes().expect("fits");
        let error = CodeV1::view(&bytes).expect("an archive").table().expect_err("refused");
        assert!(error.to_string().contains("the limit is 1048576"), "{error}");
    }

    #[test]
    fn columns_that_claim_more_than_they_have_are_refused_before_they_are_unpacked() -> Result<(), Error> {
        let whole = || CodeV1::from_table(&table());
        for lying in [
            CodeV1 { lens: Packed::lying(), ..whole() },
            CodeV1 { after: Packed::lying(), ..whole() },
            CodeV1 { depth: Packed::lying(), ..whole() },
            CodeV1 { function: Packed::lying(), ..whole() },
            CodeV1 { file: Packed::lying(), ..whole() },
            CodeV1 { line: Packed::lying(), ..whole() },
            CodeV1 { refer: Packed::lying(), ..whole() },
            CodeV1 { refer_name: Packed::lying(), ..whole() },
            CodeV1 { refer_offset: Packed::lying(), ..whole() },
            CodeV1 { text_lens: Packed::lying(), ..whole() },
        ] {
            assert!(CodeV1::view(&lying.to_bytes()?).is_err());
        }
        Ok(())
    }
}
