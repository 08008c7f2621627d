//! What a report found out about code, version 1.

use std::ops::Range;

use rkyv::{Archive, Serialize};

use super::packed::{Packed, narrow};
use super::{items, payload, references};
use crate::error::Error;
use crate::kind::Kind;

/// Places in the code of images, and the functions that each is in, inlined ones too, with the lines of their source.
/// Every text is kept once, so that memory stays in proportion to the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NameTable<T = Box<[u8]>> {
    /// Places; frames of the first one come first, and so on.
    pub places: Vec<NamedPlace>,
    /// Frames of all places.
    pub frames: Vec<NamedFrame>,
    /// Functions of all frames.
    pub functions: Vec<NamedFunction>,
    /// Names of functions and of source files.
    pub texts: Vec<T>,
}

impl<T> NameTable<T> {
    /// Converts the texts.
    pub fn map<U>(self, text: impl FnMut(T) -> U) -> NameTable<U> {
        let Self { places, frames, functions, texts } = self;
        NameTable { places, frames, functions, texts: texts.into_iter().map(text).collect() }
    }
}

references!(NameTable<T> { places: within, frames: plain, functions: plain, texts: plain });

/// One place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPlace {
    /// The image, an image id.
    pub image: u32,
    /// Offset in the file of the image; of a return address, one less.
    pub file_off: u64,
    /// Address in the ELF file; 0 if it is unknown.
    pub address: u64,
    /// First address of the function around it by the unwind tables; 0 if it is unknown, or the function has a name.
    pub start: u64,
    /// Positions of its frames, innermost first; all but the last are inlined into the one after it. Empty if nothing
    /// was found: then `address` and `start` are all that is known.
    pub frames: Range<usize>,
    /// The name of the function that is called here by the debug information, a position among the texts; none if that does not say.
    pub calls: Option<u32>,
}

references!(NamedPlace {
    image: id(Images),
    file_off: plain,
    address: plain,
    start: plain,
    frames: plain,
    calls: plain
});

/// One function of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedFrame {
    /// A position among the functions.
    pub function: u32,
    /// Source file, a position among the texts; none if it is unknown.
    pub file: Option<u32>,
    /// Line in it, counted from 1: where the function was, or called the one in front; 0 if it is unknown.
    pub line: u32,
}

/// A function, and what tells it apart from others of its name. Texts are positions among the texts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct NamedFunction {
    /// Its name, demangled.
    pub name: u32,
    /// The name by which the compiler distinguishes it, as it is written, if that is another one.
    pub symbol: Option<u32>,
    /// The source file that declares it.
    pub declared_file: Option<u32>,
    /// The line that declares it, counted from 1; 0 if it is unknown.
    pub declared_line: u32,
    /// Its entry in the debug information: the number of the unit, and the offset of the entry in it.
    pub entry: Option<(u32, u64)>,
    /// Its first address in the ELF file; 0 if it is unknown, or the function is only inlined.
    pub start: u64,
    /// The source file that the symbol table has for it.
    pub file: Option<u32>,
    /// Other names of the same code, demangled.
    pub aliases: Vec<u32>,
}

/// Functions and source lines of places, each written once.
#[derive(Debug, Default, Archive, Serialize)]
pub struct NamesV1 {
    /// Images, as differences from the row before; signs folded.
    pub image: Packed,
    /// Offsets in the files, as differences from the row before; signs folded.
    pub file_off: Packed,
    /// Addresses, as differences from the row before; signs folded.
    pub address: Packed,
    /// Distance from the start of the function, plus 1; 0 if it is unknown.
    pub back: Packed,
    /// Number of frames.
    pub depth: Packed,
    /// Position of the name that each place calls among the texts, plus 1; 0 for none.
    pub calls: Packed,
    /// Position of each frame's function.
    pub function: Packed,
    /// Position of each frame's file among the texts, plus 1; 0 for none.
    pub file: Packed,
    /// Line of each frame.
    pub line: Packed,
    /// Position of each function's name among the texts.
    pub name: Packed,
    /// Position of each function's symbol among the texts, plus 1; 0 for none.
    pub symbol: Packed,
    /// Position of the file that declares each function among the texts, plus 1; 0 for none.
    pub declared_file: Packed,
    /// Line that declares each function.
    pub declared_line: Packed,
    /// Unit of each function's entry, plus 1; 0 for none.
    pub unit: Packed,
    /// Offset of each function's entry in its unit.
    pub entry: Packed,
    /// First address of each function.
    pub first: Packed,
    /// Position of the file that the symbol table has for each function, plus 1; 0 for none.
    pub symbol_file: Packed,
    /// Number of other names of each function.
    pub alias_count: Packed,
    /// Positions of these names among the texts.
    pub alias: Packed,
    /// Texts, one after the other.
    pub texts: Vec<u8>,
    /// Lengths of the texts in bytes.
    pub text_lens: Packed,
}

payload!(
    NamesV1, ArchivedNamesV1, Kind::NAMES, 1,
    count file_off, same image, same address, same back, same depth, same calls,
    other function, other file, other line,
    other name, other symbol, other declared_file, other declared_line, other unit, other entry, other first,
    other symbol_file, other alias_count, other alias, other texts, other text_lens
);

impl NamesV1 {
    /// Builds the columns. The frames of a place are those after the frames of the place before it, as many as
    /// its range is long.
    pub fn from_table<T: AsRef<[u8]>>(table: &NameTable<T>) -> Self {
        let (places, functions) = (|| table.places.iter(), || table.functions.iter());
        let or_0 = |position: Option<u32>| position.map_or(0, |position| u64::from(position) + 1);
        let back = |place: &NamedPlace| match place.start {
            0 => 0,
            start => place.address.saturating_sub(start).saturating_add(1),
        };
        Self {
            image: Packed::steps(places().map(|place| u64::from(place.image))),
            file_off: Packed::steps(places().map(|place| place.file_off)),
            address: Packed::steps(places().map(|place| place.address)),
            back: places().map(back).collect(),
            depth: places().map(|place| place.frames.len() as u64).collect(),
            calls: places().map(|place| or_0(place.calls)).collect(),
            function: table.frames.iter().map(|frame| frame.function).collect(),
            file: table.frames.iter().map(|frame| or_0(frame.file)).collect(),
            line: table.frames.iter().map(|frame| frame.line).collect(),
            name: functions().map(|it| it.name).collect(),
            symbol: functions().map(|it| or_0(it.symbol)).collect(),
            declared_file: functions().map(|it| or_0(it.declared_file)).collect(),
            declared_line: functions().map(|it| it.declared_line).collect(),
            unit: functions().map(|it| or_0(it.entry.map(|(unit, _)| unit))).collect(),
            entry: functions().map(|it| it.entry.map_or(0, |(_, entry)| entry)).collect(),
            first: functions().map(|it| it.start).collect(),
            symbol_file: functions().map(|it| or_0(it.file)).collect(),
            alias_count: functions().map(|it| it.aliases.len() as u64).collect(),
            alias: functions().flat_map(|it| &it.aliases).copied().collect(),
            texts: table.texts.iter().flat_map(|text| text.as_ref()).copied().collect(),
            text_lens: table.texts.iter().map(|text| text.as_ref().len() as u64).collect(),
        }
    }
}

impl ArchivedNamesV1 {
    /// Reads the table.
    ///
    /// # Errors
    /// [`Error::Payload`] if the columns of frames or of functions differ in length, or the places have another number of frames,
    /// or a position is none.
    pub fn table(&self) -> Result<NameTable<&[u8]>, Error> {
        let texts = items(Kind::NAMES, &self.texts, &self.text_lens)?;
        let functions = self.functions(texts.len())?;
        let frames = self.frames(functions.len(), texts.len())?;
        let columns = self.image.sums().into_iter().zip(self.file_off.sums()).zip(self.address.sums());
        let columns = columns.zip(self.back.values()).zip(self.depth.values()).zip(self.calls.values());
        let (mut places, mut from) = (Vec::new(), 0_usize);
        for (((((image, file_off), address), back), depth), calls) in columns {
            let to = usize::try_from(depth).ok().and_then(|depth| from.checked_add(depth));
            let to = to.filter(|to| *to <= frames.len());
            let to = to.ok_or_else(|| wrong(format!("{depth} frames: {} are left", frames.len() - from)))?;
            let start = back.checked_sub(1).map_or(0, |back| address.saturating_sub(back));
            let calls = calls.checked_sub(1).map(|text| position("text", text, texts.len())).transpose()?;
            places.push(NamedPlace {
                image: narrow(image),
                file_off,
                address,
                start,
                frames: from..to,
                calls,
            });
            from = to;
        }
        match frames.len() - from {
            0 => Ok(NameTable { places, frames, functions, texts }),
            left => Err(wrong(format!("{left} frames belong to no place"))),
        }
    }

    fn functions(&self, texts: usize) -> Result<Vec<NamedFunction>, Error> {
        let columns = [
            &self.name,
            &self.symbol,
            &self.declared_file,
            &self.declared_line,
            &self.unit,
            &self.entry,
            &self.first,
            &self.symbol_file,
            &self.alias_count,
        ];
        let columns = columns.map(|column| column.values());
        let len = columns[0].len();
        if columns.iter().any(|column| column.len() != len) {
            let counts: Vec<String> = columns.iter().map(|column| column.len().to_string()).collect();
            return Err(wrong(format!("columns of functions have {} rows", counts.join(", "))));
        }
        let text = |at: u64| position("text", at, texts);
        let optional = |at: u64| at.checked_sub(1).map(text).transpose();
        let aliases = self.alias.values().into_iter().map(text).collect::<Result<Vec<u32>, Error>>()?;
        let mut left = &aliases[..];
        let function = |row: usize| {
            let [name, symbol, declared_file, declared_line, unit, entry, start, file, count] =
                columns.each_ref().map(|column| column[row]);
            let split = usize::try_from(count).ok().and_then(|count| left.split_at_checked(count));
            let (own, rest) =
                split.ok_or_else(|| wrong(format!("{count} aliases: {} are left", left.len())))?;
            left = rest;
            Ok(NamedFunction {
                name: text(name)?,
                symbol: optional(symbol)?,
                declared_file: optional(declared_file)?,
                declared_line: narrow(declared_line),
                entry: unit.checked_sub(1).map(|unit| (narrow(unit), entry)),
                start,
                file: optional(file)?,
                aliases: own.to_vec(),
            })
        };
        let functions = (0..len).map(function).collect::<Result<Vec<_>, Error>>()?;
        match left.len() {
            0 => Ok(functions),
            left => Err(wrong(format!("{left} aliases belong to no function"))),
        }
    }

    fn frames(&self, functions: usize, texts: usize) -> Result<Vec<NamedFrame>, Error> {
        let (of, files, lines) = (self.function.values(), self.file.values(), self.line.values());
        if of.len() != files.len() || of.len() != lines.len() {
            let counts = format!("{}, {} and {}", of.len(), files.len(), lines.len());
            return Err(wrong(format!("functions, files and lines of frames are {counts}")));
        }
        let frame = |((function, file), line): ((u64, u64), u64)| {
            let file = file.checked_sub(1).map(|file| position("text", file, texts)).transpose()?;
            Ok(NamedFrame { function: position("function", function, functions)?, file, line: narrow(line) })
        };
        of.into_iter().zip(files).zip(lines).map(frame).collect()
    }
}

fn position(what: &str, position: u64, len: usize) -> Result<u32, Error> {
    if position < len as u64 {
        Ok(narrow(position))
    } else {
        Err(wrong(format!("{what} {position} of {len}")))
    }
}

fn wrong(cause: String) -> Error {
    Error::Payload { kind: Kind::NAMES, cause }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Payload as _;

    fn table() -> NameTable<&'static [u8]> {
        let place = |image, file_off, address, start, frames| NamedPlace {
            image,
            file_off,
            address,
            start,
            frames,
            calls: None,
        };
        let frame = |function, file, line| NamedFrame { function, file, line };
        let function = |name| NamedFunction { name, ..NamedFunction::default() };
        let inner = NamedFunction {
            symbol: Some(2),
            declared_file: Some(1),
            declared_line: 2,
            entry: Some((0, 77)),
            ..function(0)
        };
        let outer = NamedFunction { start: 0x2018, file: Some(1), aliases: vec![0, 2], ..function(2) };
        NameTable {
            places: vec![
                NamedPlace { calls: Some(2), ..place(1, 0x1010, 0x2010, 0, 0..2) },
                place(1, 0x1020, 0x2020, 0x2018, 2..2),
                place(0, 7, 0, 0, 2..3),
            ],
            frames: vec![frame(0, Some(1), 3), frame(1, Some(1), 9), frame(1, None, 0)],
            functions: vec![inner, outer],
            texts: vec![b"inner", b"/src/a.c", b"outer"],
        }
    }

    #[test]
    fn a_table_survives() {
        let bytes = NamesV1::from_table(&table()).to_bytes().expect("fits");
        assert_eq!(NamesV1::view(&bytes).expect("own bytes").table().expect("own rows"), table());
    }

    #[test]
    fn frames_and_texts_that_are_not_there_are_errors() {
        let cause = |change: fn(&mut NamesV1)| {
            let mut columns = NamesV1::from_table(&table());
            change(&mut columns);
            let bytes = columns.to_bytes().expect("fits");
            NamesV1::view(&bytes).expect("columns of one length").table().expect_err("refused").to_string()
        };
        assert!(cause(|c| c.depth = [2_u64, 0, 2].into_iter().collect()).contains("1 are left"));
        assert!(cause(|c| c.depth = [2_u64, 0, 0].into_iter().collect()).contains("1 frames belong to no"));
        assert!(cause(|c| c.depth = [u64::MAX, 0, 0].into_iter().collect()).contains("3 are left"));
        assert!(cause(|c| c.function = [9_u64, 0, 0].into_iter().collect()).contains("function 9 of 2"));
        assert!(cause(|c| c.name = [9_u64, 0].into_iter().collect()).contains("text 9 of 3"));
        assert!(cause(|c| c.calls = [9_u64, 0, 0].into_iter().collect()).contains("text 8 of 3"));
        assert!(cause(|c| c.symbol = [9_u64, 0].into_iter().collect()).contains("text 8 of 3"));
        assert!(cause(|c| c.alias = [9_u64, 0].into_iter().collect()).contains("text 9 of 3"));
        assert!(
            cause(|c| c.first = [9_u64].into_iter().collect()).contains("2, 2, 2, 2, 2, 2, 1, 2, 2 rows")
        );
        assert!(cause(|c| c.alias_count = [0_u64, 3].into_iter().collect()).contains("2 are left"));
        assert!(
            cause(|c| c.alias_count = [0_u64, 1].into_iter().collect()).contains("1 aliases belong to no")
        );
        assert!(cause(|c| c.file = [9_u64, 0, 0].into_iter().collect()).contains("text 8 of 3"));
        assert!(cause(|c| c.line = [1_u64].into_iter().collect()).contains("3, 3 and 1"));
        assert!(cause(|c| c.text_lens = [99_u64, 0, 0].into_iter().collect()).contains("item 0"));
    }
    #[test]
    fn columns_that_claim_more_than_they_have_are_refused_before_they_are_unpacked() -> Result<(), Error> {
        let whole = || NamesV1::from_table(&table());
        for lying in [
            NamesV1 { function: Packed::lying(), ..whole() },
            NamesV1 { name: Packed::lying(), ..whole() },
            NamesV1 { entry: Packed::lying(), ..whole() },
            NamesV1 { alias: Packed::lying(), ..whole() },
            NamesV1 { file: Packed::lying(), ..whole() },
            NamesV1 { line: Packed::lying(), ..whole() },
            NamesV1 { text_lens: Packed::lying(), ..whole() },
        ] {
            assert!(NamesV1::view(&lying.to_bytes()?).is_err());
        }
        Ok(())
    }
}
