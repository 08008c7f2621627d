//! JIT code of processes, version 1.

use rkyv::{Archive, Serialize};

use super::packed::{ArchivedPacked, Packed, narrow};
use super::{expect_rows, items, payload, references};
use crate::error::Error;
use crate::kind::Kind;
use crate::numbers::numbers;

numbers! {
    /// The language of a function that is not compiled ahead of time; the numbers are on disk.
    Language(u8), others "language",
    /// Unknown: its process did not tell.
    UNKNOWN = 0,
    /// Python.
    PYTHON = 1,
    /// Java, and other languages of its virtual machine.
    JAVA = 2,
    /// PHP.
    PHP = 3,
    /// JavaScript.
    JAVASCRIPT = 4,
}

impl Language {
    /// Returns true if rows of this language are of functions that an interpreter runs: their addresses are those of its instructions.
    pub fn is_interpreted(self) -> bool {
        matches!(self, Self::PYTHON | Self::PHP | Self::JAVASCRIPT)
    }
}

impl Default for Language {
    fn default() -> Self {
        Self::UNKNOWN
    }
}

/// A JIT function that was hit, as the process reported it.
///
/// Of rows that hold an address at a moment the last in the order of writing counts: code is made where other code was.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JitCode<N = Vec<u8>> {
    /// Process id.
    pub tgid: u32,
    /// First address (AVMA).
    pub start: u64,
    /// Address after the last byte.
    pub end: u64,
    /// Since when, ns `CLOCK_MONOTONIC`; 0 if it may have been there from the beginning of all times.
    pub since_ns: u64,
    /// Until when; 0 if its end is unknown.
    pub until_ns: u64,
    /// Name as the process reported it; any bytes but zero.
    pub name: N,
    /// Its unwind tables as the process reported them: entries as in `.eh_frame`, which lie behind the code, at the next multiple of
    /// 8 bytes from its start. Empty if there are none.
    pub rules: N,
    /// Its source lines, as far as they were hit, in ascending order.
    pub lines: Vec<JitLine>,
    /// Its language. Of a function that an interpreter runs, the addresses are those of its instructions (bytecode), and the first line is
    /// that of its declaration.
    pub language: Language,
}

references!(JitCode<N> {
    tgid: process, start: plain, end: plain, since_ns: time_or_0, until_ns: time_or_0, name: plain,
    rules: plain, lines: within, language: plain,
});

/// The source line of JIT code: from an offset on, up to the next line.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JitLine {
    /// Distance from the start of the piece, bytes.
    pub off: u64,
    /// Source file as the process reported it, a string id; 0 if it is unknown.
    pub file: u32,
    /// Line in it, counted from 1; 0 if it is unknown.
    pub line: u32,
    /// The functions that are inlined there, innermost first: each into the next, and the last into the function of the piece. File and
    /// line are those of the first.
    pub inlined: Vec<JitInlined>,
}

references!(JitLine { off: plain, file: id(Strings), line: plain, inlined: within });

/// A function that is inlined into JIT code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JitInlined {
    /// Name as the process reported it, a string id.
    pub name: u32,
    /// Source file where it is called, a string id; 0 if it is unknown.
    pub call_file: u32,
    /// Line of the call, counted from 1; 0 if it is unknown.
    pub call_line: u32,
}

references!(JitInlined { name: id(Strings), call_file: id(Strings), call_line: plain });

impl<'a> JitCode<&'a [u8]> {
    /// Converts name and unwind tables.
    pub fn convert<N: From<&'a [u8]>>(self) -> JitCode<N> {
        let Self { tgid, start, end, since_ns, until_ns, name, rules, lines, language } = self;
        JitCode {
            tgid,
            start,
            end,
            since_ns,
            until_ns,
            name: name.into(),
            rules: rules.into(),
            lines,
            language,
        }
    }
}

impl<N> JitCode<N> {
    /// Returns how far its unwind tables lie behind its start, bytes.
    pub fn rules_at(&self) -> u64 {
        self.end.saturating_sub(self.start).next_multiple_of(8)
    }

    /// Finds the line of an address (AVMA), a position in [`JitCode::lines`].
    pub fn line_at(&self, address: u64) -> Option<usize> {
        let off = address.checked_sub(self.start)?;
        self.lines.partition_point(|line| line.off <= off).checked_sub(1)
    }
}

/// JIT code. Names are kept here and not among the strings, as in [`SymbolsV1`](super::SymbolsV1); source
/// files are among these, since many pieces have one.
#[derive(Debug, Default, Archive, Serialize)]
pub struct JitV1 {
    /// Process ids, as differences from the row before; signs folded.
    pub tgid: Packed,
    /// First addresses, as differences from the row before; signs folded.
    pub start: Packed,
    /// Lengths in bytes.
    pub len: Packed,
    /// Times since when, as differences from the row before; signs folded.
    pub since_ns: Packed,
    /// How long it was there, ns; 0 if its end is unknown.
    pub lasted_ns: Packed,
    /// Names, one after the other.
    pub names: Vec<u8>,
    /// Lengths of the names in bytes.
    pub name_lens: Packed,
    /// Unwind tables, one after the other.
    pub rules: Vec<u8>,
    /// Lengths of the unwind tables in bytes.
    pub rules_lens: Packed,
    /// Number of lines of each piece.
    pub line_count: Packed,
    /// Offset of each line, the distance from the start of its piece.
    pub line_off: Packed,
    /// Source file of each line, a string id.
    pub file: Packed,
    /// Number of each line in its file.
    pub line: Packed,
    /// Numbers of [`Language`].
    pub language: Packed,
    /// Number of functions that are inlined at each line.
    pub depth: Packed,
    /// Name of each inlined function, a string id.
    pub inlined: Packed,
    /// Source file where each is called, a string id.
    pub call_file: Packed,
    /// Number of the line where each is called.
    pub call_line: Packed,
}

payload!(
    JitV1, ArchivedJitV1, Kind::JIT, 1,
    count start, same tgid, same len, same since_ns, same lasted_ns, same name_lens, same rules_lens, same line_count,
    same language,
    other line_off, other file, other line, other depth, other inlined, other call_file, other call_line, other names,
    other rules
);

impl JitV1 {
    /// Builds the columns. What ended when it began, or before, is written as if it had lasted a nanosecond.
    pub fn from_rows<N: AsRef<[u8]>>(rows: &[JitCode<N>]) -> Self {
        let lasted_ns = |row: &JitCode<N>| match row.until_ns {
            0 => 0,
            until_ns => until_ns.saturating_sub(row.since_ns).max(1),
        };
        let lines = || rows.iter().flat_map(|row| &row.lines);
        let inlined = || lines().flat_map(|line| &line.inlined);
        Self {
            tgid: Packed::steps(rows.iter().map(|row| u64::from(row.tgid))),
            start: Packed::steps(rows.iter().map(|row| row.start)),
            len: rows.iter().map(|row| row.end.saturating_sub(row.start)).collect(),
            since_ns: Packed::steps(rows.iter().map(|row| row.since_ns)),
            lasted_ns: rows.iter().map(lasted_ns).collect(),
            names: rows.iter().flat_map(|row| row.name.as_ref()).copied().collect(),
            name_lens: rows.iter().map(|row| row.name.as_ref().len() as u64).collect(),
            rules: rows.iter().flat_map(|row| row.rules.as_ref()).copied().collect(),
            rules_lens: rows.iter().map(|row| row.rules.as_ref().len() as u64).collect(),
            line_count: rows.iter().map(|row| row.lines.len() as u64).collect(),
            line_off: lines().map(|line| line.off).collect(),
            file: lines().map(|line| line.file).collect(),
            line: lines().map(|line| line.line).collect(),
            language: rows.iter().map(|row| u64::from(row.language.0)).collect(),
            depth: lines().map(|line| line.inlined.len() as u64).collect(),
            inlined: inlined().map(|it| it.name).collect(),
            call_file: inlined().map(|it| it.call_file).collect(),
            call_line: inlined().map(|it| it.call_line).collect(),
        }
    }
}

impl ArchivedJitV1 {
    /// Lists the rows in the order of the block.
    ///
    /// # Errors
    /// [`Error::Payload`] if a name or a table lies outside of the arena, or the lines or inlined functions are not as many as the
    /// rows and lines say, or lines do not ascend.
    pub fn rows(&self) -> Result<Vec<JitCode<&[u8]>>, Error> {
        let names = items(Kind::JIT, &self.names, &self.name_lens)?;
        let rules = items(Kind::JIT, &self.rules, &self.rules_lens)?;
        let (lines, counts) = self.lines()?;
        let mut lines = lines.into_iter();
        let [tgid, start, since_ns] = [&self.tgid, &self.start, &self.since_ns].map(|column| column.sums());
        let [len, lasted_ns, language] =
            [&self.len, &self.lasted_ns, &self.language].map(|column| column.values());
        let row = |(i, (name, rules)): (usize, _)| JitCode {
            tgid: narrow(tgid[i]),
            start: start[i],
            end: start[i].saturating_add(len[i]),
            since_ns: since_ns[i],
            until_ns: if lasted_ns[i] == 0 { 0 } else { since_ns[i].saturating_add(lasted_ns[i]) },
            name,
            rules,
            lines: lines.by_ref().take(counts[i] as usize).collect(),
            language: Language(u8::try_from(language[i]).unwrap_or(u8::MAX)),
        };
        Ok(names.into_iter().zip(rules).enumerate().map(row).collect())
    }

    /// The lines of all rows, and how many each has.
    fn lines(&self) -> Result<(Vec<JitLine>, Vec<u64>), Error> {
        let wrong = |cause: String| Error::Payload { kind: Kind::JIT, cause };
        let (counts, all) = counted(&self.line_count);
        let columns = [&self.line_off, &self.file, &self.line, &self.depth];
        for (name, column) in ["line_off", "file", "line", "depth"].into_iter().zip(columns) {
            expect_rows(Kind::JIT, name, column, all)?;
        }
        let mut inlined = self.inlined()?.into_iter();
        let [off, file, number, depth] = columns.map(|column| column.values());
        let line = |(((off, file), line), depth)| {
            let inlined = inlined.by_ref().take(depth as usize).collect();
            JitLine { off, file: narrow(file), line: narrow(line), inlined }
        };
        let lines: Vec<JitLine> = off.into_iter().zip(file).zip(number).zip(depth).map(line).collect();
        let mut rest = &lines[..];
        for count in &counts {
            let (own, behind) = rest.split_at(*count as usize);
            if !own.is_sorted_by(|a, b| a.off < b.off) {
                return Err(wrong("the lines of a piece of code do not ascend".to_owned()));
            }
            rest = behind;
        }
        Ok((lines, counts))
    }

    /// The inlined functions of all lines.
    fn inlined(&self) -> Result<Vec<JitInlined>, Error> {
        let (_, all) = counted(&self.depth);
        let columns = [&self.inlined, &self.call_file, &self.call_line];
        for (name, column) in ["inlined", "call_file", "call_line"].into_iter().zip(columns) {
            expect_rows(Kind::JIT, name, column, all)?;
        }
        let [name, file, line] = columns.map(|column| column.values());
        let inlined = |((name, file), line)| JitInlined {
            name: narrow(name),
            call_file: narrow(file),
            call_line: narrow(line),
        };
        Ok(name.into_iter().zip(file).zip(line).map(inlined).collect())
    }
}

/// The values of a column, and their sum.
fn counted(column: &ArchivedPacked) -> (Vec<u64>, usize) {
    let counts = column.values();
    let all = counts.iter().fold(0_u64, |sum, count| sum.saturating_add(*count));
    (counts, usize::try_from(all).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Payload as _;

    #[test]
    fn rows_come_back_as_they_were() -> Result<(), Error> {
        let row = |tgid, start, since_ns, until_ns, name: &'static [u8]| JitCode {
            tgid,
            start,
            end: start + 0x40,
            since_ns,
            until_ns,
            name,
            rules: &name[..name.len() / 2],
            lines: Vec::new(),
            language: Language::JAVA,
        };
        let line = |off, file, line| JitLine { off, file, line, inlined: Vec::new() };
        let call = |name, call_file, call_line| JitInlined { name, call_file, call_line };
        let inlined = vec![call(7, 4, 20), call(8, 0, 0)];
        let with_lines = vec![line(0, 4, 10), JitLine { inlined, ..line(8, 4, 11) }, line(0x20, 0, 0)];
        let rows = [
            JitCode { lines: with_lines, ..row(7, 0x7f00_0000_1000, 0, 0, b"JS:~f /a b.js:1:2") },
            row(7, 0x1000, 5_000_000_000, 6_000_000_000, b""),
            row(3, u64::MAX - 0x40, 4, 0, b"\xff"),
            JitCode { lines: vec![line(4, u32::MAX, 1)], language: Language(77), ..row(3, 0, 0, 9, b"x") },
        ];
        let bytes = JitV1::from_rows(&rows).to_bytes()?;
        assert_eq!(JitV1::view(&bytes)?.rows()?, rows);
        let ended_before_it_began = JitV1::from_rows(&[row(7, 0x1000, 100, 50, b"f")]).to_bytes()?;
        assert_eq!(JitV1::view(&ended_before_it_began)?.rows()?[0].until_ns, 101);
        Ok(())
    }
    #[test]
    fn a_line_holds_up_to_the_next_one() {
        let lines =
            [(4, 10), (8, 11)].map(|(off, line)| JitLine { off, file: 1, line, ..JitLine::default() });
        let code = JitCode { start: 0x100, end: 0x120, lines: lines.into(), ..JitCode::<Vec<u8>>::default() };
        let at = [0xff, 0x103, 0x104, 0x107, 0x108, 0x11f].map(|at| code.line_at(at));
        assert_eq!(at, [None, None, Some(0), Some(0), Some(1), Some(1)]);
    }

    #[test]
    fn lines_that_do_not_ascend_or_belong_to_no_row_are_refused() -> Result<(), Error> {
        let call = JitInlined { name: 1, call_file: 1, call_line: 1 };
        let line = |off| JitLine { off, file: 1, line: 1, inlined: vec![call] };
        let code = |lines| JitCode { end: 9, lines, ..JitCode::<Vec<u8>>::default() };
        let is_refused = |columns: JitV1| JitV1::view(&columns.to_bytes()?).map(|view| view.rows().is_err());
        for lines in [vec![line(4), line(4)], vec![line(4), line(3)]] {
            assert!(is_refused(JitV1::from_rows(&[code(lines)]))?);
        }
        let whole = || JitV1::from_rows(&[code(vec![line(3), line(4)])]);
        assert!(!is_refused(whole())?);
        let count = |count: u64| [count].into_iter().collect();
        assert!(is_refused(JitV1 { line_count: count(1), ..whole() })?);
        assert!(is_refused(JitV1 { line_count: count(u64::MAX), ..whole() })?);
        assert!(is_refused(JitV1 { file: count(1), ..whole() })?);
        for counts in [[1, 2], [u64::MAX, 2], [0, 1]] {
            assert!(is_refused(JitV1 { depth: counts.into_iter().collect(), ..whole() })?);
        }
        assert!(is_refused(JitV1 { depth: count(2), ..whole() })?);
        assert!(is_refused(JitV1 { inlined: count(1), ..whole() })?);
        assert!(is_refused(JitV1 { call_line: count(1), ..whole() })?);
        for lying in [
            JitV1 { line_off: Packed::lying(), ..whole() },
            JitV1 { file: Packed::lying(), ..whole() },
            JitV1 { line: Packed::lying(), ..whole() },
            JitV1 { depth: Packed::lying(), ..whole() },
            JitV1 { call_file: Packed::lying(), ..whole() },
        ] {
            assert!(JitV1::view(&lying.to_bytes()?).is_err());
        }
        Ok(())
    }
}
