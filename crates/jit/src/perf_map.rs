//! Reads perf maps: text files with one line for each piece of a process's JIT code.

use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

use icecore_elf::Avma;
use rustc_hash::FxHashMap;

use super::Piece;
use super::{MAX_NAME_BYTES, Requested};

/// At most this many bytes at the end of a file are read. Later lines override earlier ones.
pub const MAX_BYTES: u64 = 256 << 20;
/// The longest line that is kept whole: two numbers and a name.
const MAX_LINE: usize = MAX_NAME_BYTES + 64;

/// Separates the names of code that lay at one address one after the other, at unknown times.
const OR: &[u8] = b" or ";
/// At most this many such names are listed.
const MOST_NAMES: usize = 3;
/// What stands for the others.
const OTHERS: &[u8] = b"others";

/// Finds the pieces of code that contain addresses in the first `len` bytes of a file; returns true as well if the beginning was skipped. Of
/// the lines that contain an address the last one counts. But if that lies after the first `known_len` bytes, which existed when the first
/// address was seen, an earlier line may have been true until then: the piece gets both names.
///
/// # Source
/// Linux `tools/perf/Documentation/jit-interface.txt`: `START SIZE name`, both numbers hexadecimal
pub fn find(
    mut file: impl Read + Seek,
    len: u64,
    known_len: u64,
    asked: &Requested<'_>,
) -> io::Result<(Vec<Piece>, bool)> {
    let from = len.saturating_sub(MAX_BYTES);
    file.seek(SeekFrom::Start(from))?;
    let mut reader = BufReader::with_capacity(256 << 10, file.take(len - from));
    let skipped = if from > 0 { reader.skip_until(b'\n')? as u64 } else { 0 };
    let known_len = known_len.saturating_sub(from + skipped);
    Ok((find_in(reader, known_len, asked)?, from > 0))
}

/// Does the work of `find` in any text.
pub fn find_in(reader: impl BufRead, known_len: u64, asked: &Requested<'_>) -> io::Result<Vec<Piece>> {
    let mut pieces: Vec<NamedCode> = Vec::new();
    // The position of each address's piece.
    let mut at = vec![usize::MAX; asked.len()];
    lines(reader, |off, line| {
        let Some((start, end, name)) = parsed(line) else { return };
        let held = &mut at[asked.within(start, end)];
        if held.is_empty() {
            return;
        }
        let new = NamedCode { start, end, names: vec![name.to_vec()] };
        if off < known_len {
            held.fill(pieces.len());
            pieces.push(new);
        } else {
            take(&mut pieces, held, &new);
        }
        // A program may write the same line again and again.
        if pieces.len() > 2 * at.len() + 1024 {
            compact(&mut pieces, &mut at);
        }
    })?;
    compact(&mut pieces, &mut at);
    Ok(pieces.into_iter().map(NamedCode::into_piece).collect())
}

/// Gives pieces of code without times, in the order in which they were made, the names that they could have: of lines and unwind
/// tables, those that belong to one name alone.
pub(super) fn without_times(made: Vec<Piece>, asked: &Requested<'_>) -> Vec<Piece> {
    let mut pieces: Vec<NamedCode> = Vec::new();
    let mut at = vec![usize::MAX; asked.len()];
    let mut facts = FxHashMap::default();
    for Piece { start, end, name, lines, rules, .. } in made {
        let held = &mut at[asked.within(start, end)];
        if !held.is_empty() {
            take(&mut pieces, held, &NamedCode { start, end, names: vec![name.clone()] });
            facts.insert((start, end, name), (lines, rules));
        }
        if pieces.len() > 2 * at.len() + 1024 {
            compact(&mut pieces, &mut at);
        }
    }
    compact(&mut pieces, &mut at);
    let piece = |named: NamedCode| {
        let piece = named.into_piece();
        let (lines, rules) = facts.remove(&(piece.start, piece.end, piece.name.clone())).unwrap_or_default();
        Piece { lines, rules, ..piece }
    };
    pieces.into_iter().map(piece).collect()
}

/// A piece of code, as the lines of the map describe it.
#[derive(Debug, Clone)]
struct NamedCode {
    start: Avma,
    end: Avma,
    /// One name, or the names that it had one after the other: [`MOST_NAMES`] of them, and [`OTHERS`] for the rest.
    names: Vec<Vec<u8>>,
}

impl NamedCode {
    /// Returns this piece with the names of an older one at the same address added; `None` if the older one has all of them.
    fn or(&self, old: &Self) -> Option<Self> {
        let name = &self.names[0];
        let is_new = !old.names.contains(name) && old.names.len() <= MOST_NAMES;
        let names = || [&old.names[..], &self.names].concat();
        is_new.then(|| Self { start: self.start.max(old.start), end: self.end.min(old.end), names: names() })
    }

    fn into_piece(mut self) -> Piece {
        if let Some(last) = self.names.get_mut(MOST_NAMES) {
            *last = OTHERS.to_vec();
        }
        let mut name = self.names.join(OR);
        name.truncate(MAX_NAME_BYTES);
        Piece { start: self.start, end: self.end, name, ..Piece::default() }
    }
}

/// Assigns addresses to new code; where other code was before, to a piece with both names.
fn take(pieces: &mut Vec<NamedCode>, held: &mut [usize], new: &NamedCode) {
    for held in held.chunk_by_mut(|one, next| one == next) {
        let piece = match pieces.get(held[0]) {
            Some(old) => new.or(old),
            None => Some(new.clone()),
        };
        if let Some(piece) = piece {
            held.fill(pieces.len());
            pieces.push(piece);
        }
    }
}

/// Drops the pieces to which no address is assigned any more.
fn compact(pieces: &mut Vec<NamedCode>, at: &mut [usize]) {
    let mut is_kept = vec![false; pieces.len()];
    at.iter().filter(|piece| **piece != usize::MAX).for_each(|piece| is_kept[*piece] = true);
    let mut new = Vec::with_capacity(pieces.len());
    let mut kept = 0;
    for is_kept in &is_kept {
        new.push(kept);
        kept += usize::from(*is_kept);
    }
    at.iter_mut().filter(|piece| **piece != usize::MAX).for_each(|piece| *piece = new[*piece]);
    let mut is_kept = is_kept.into_iter();
    pieces.retain(|_| is_kept.next().unwrap_or(false));
}

/// Parses a line into start, end and name; `None` if it is malformed.
fn parsed(line: &[u8]) -> Option<(Avma, Avma, &[u8])> {
    let (start, rest) = number(line)?;
    let (size, rest) = number(rest)?;
    let name = rest.strip_suffix(b"\r").unwrap_or(rest);
    let name = name.split(|byte| *byte == 0).next()?;
    let name = &name[..name.len().min(MAX_NAME_BYTES)];
    let end = start.checked_add(size)?;
    (size > 0 && !name.trim_ascii().is_empty()).then_some((Avma(start), Avma(end), name))
}

/// Parses a hexadecimal number, with or without `0x`; returns it, and the text after the following blanks.
fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let text = text.trim_ascii_start();
    let text = text.strip_prefix(b"0x").or_else(|| text.strip_prefix(b"0X")).unwrap_or(text);
    let digits = text.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let (digits, rest) = text.split_at(digits);
    let value = u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    rest.starts_with(b" ").then(|| (value, rest.trim_ascii_start()))
}

/// Calls `each` with the offset of every line, and with its text or the beginning of a long one.
fn lines(mut reader: impl BufRead, mut each: impl FnMut(u64, &[u8])) -> io::Result<()> {
    let (mut line, mut off, mut begin) = (Vec::new(), 0, 0);
    loop {
        let bytes = match reader.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            bytes => bytes?,
        };
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let part = &bytes[..end.unwrap_or(bytes.len())];
        let room = MAX_LINE - line.len();
        line.extend_from_slice(&part[..part.len().min(room)]);
        let used = part.len() + usize::from(end.is_some());
        off += used as u64;
        if end.is_some() || used == 0 {
            each(begin, &line);
            line.clear();
            begin = off;
        }
        if used == 0 {
            return Ok(());
        }
        reader.consume(used);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names and bounds of what is found.
    fn found(text: &[u8], addresses: &[u64]) -> Vec<(u64, u64, String)> {
        let addresses: Vec<Avma> = addresses.iter().copied().map(Avma).collect();
        let asked = Requested::new(&addresses);
        // A small buffer: lines lie across its end.
        let known_len = text.len() as u64;
        let pieces = find_in(BufReader::with_capacity(7, text), known_len, &asked).expect("memory");
        pieces
            .into_iter()
            .map(|p| (p.start.0, p.end.0, String::from_utf8_lossy(&p.name).into_owned()))
            .collect()
    }

    fn row(start: u64, len: u64, name: &str) -> (u64, u64, String) {
        (start, start + len, name.to_owned())
    }

    #[test]
    fn names_have_blanks_and_numbers_may_begin_with_0x() {
        let text = b"1000 20 JS:*f /a b.js:1:2\n0x2000 0X10 py::g:/x.py\r\n3000 8 \xff\x00tail\n4000 8 last";
        let found = found(text, &[0x1000, 0x200f, 0x3007, 0x4001]);
        let names = ["JS:*f /a b.js:1:2", "py::g:/x.py", "\u{fffd}", "last"];
        let at = [(0x1000, 0x20), (0x2000, 0x10), (0x3000, 8), (0x4000, 8)];
        let expected: Vec<_> =
            at.into_iter().zip(names).map(|((start, len), n)| row(start, len, n)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn only_what_was_hit_is_kept_and_the_last_line_counts() {
        let text = b"1000 100 old\n1000 40 new\n5000 10 not hit\n1000 40 newer\n";
        assert_eq!(found(text, &[0x1010]), [row(0x1000, 0x40, "newer")]);
        assert_eq!(found(text, &[0x1010, 0x1080]), [row(0x1000, 0x100, "old"), row(0x1000, 0x40, "newer")]);
        assert_eq!(found(text, &[0x2000]), []);
    }

    #[test]
    fn what_is_no_line_of_a_map_is_left_out() {
        let long = [b"1000 10 ".to_vec(), vec![b'x'; 3 * MAX_LINE], b"\n2000 10 next\n".to_vec()].concat();
        let [first, next] = &found(&long, &[0x1000, 0x2000])[..] else { panic!("two lines") };
        assert_eq!((first.2.len(), next), (MAX_NAME_BYTES, &row(0x2000, 0x10, "next")));
        for text in [
            "",
            "\n\n",
            "1000",
            "1000 ",
            "1000 10",
            "1000 10 ",
            "1000 0 f",
            "g 10 f",
            "1000 10 \0",
            "1000\t10 f",
        ] {
            assert_eq!(found(text.as_bytes(), &[0x1000]), [], "{text:?}");
        }
        assert_eq!(
            found(b"ffffffffffffffff 10 f\n11111111111111111 1 f\n1000 -1 f\n", &[0x1000, u64::MAX]),
            []
        );
    }

    #[test]
    fn where_lines_came_meanwhile_all_names_of_an_address_are_told() {
        let found = |known_len, text: &str| {
            let addresses = [0x1000, 0x1010, 0x1020].map(Avma);
            let asked = Requested::new(&addresses);
            let pieces = find_in(text.as_bytes(), known_len, &asked).expect("memory");
            let name = |piece: &Piece| String::from_utf8_lossy(&piece.name).into_owned();
            pieces.iter().map(|piece| (piece.start.0, piece.end.0, name(piece))).collect::<Vec<_>>()
        };
        let text = "1000 20 a\n1010 20 b\n";
        assert_eq!(found(text.len() as u64, text), [row(0x1000, 0x20, "a"), row(0x1010, 0x20, "b")]);
        let both = [row(0x1000, 0x20, "a"), row(0x1010, 0x10, "a or b"), row(0x1010, 0x20, "b")];
        assert_eq!(found(10, text), both, "a was known, b came then");
        assert_eq!(found(0, text), both);
        let again = found(0, "1000 8 a\n1000 8 b\n1000 8 a\n1000 8 c\n1000 8 d\n1000 8 e\n");
        assert_eq!(again, [row(0x1000, 8, "a or b or c or others")]);
    }

    #[test]
    fn a_map_that_says_one_thing_for_ever_takes_no_memory() {
        let text: String = (0..50_000).map(|n| format!("1000 10 f{n}\n")).collect();
        assert_eq!(found(text.as_bytes(), &[0x1000]), [row(0x1000, 0x10, "f49999")]);
        let pieces = find_in(text.as_bytes(), 0, &Requested::new(&[Avma(0x1000)])).expect("memory");
        assert_eq!((pieces.len(), &pieces[0].name[..]), (1, &b"f0 or f1 or f2 or others"[..]));
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text: Vec<u8>, asked: Vec<u64>) {
            found(&text, &asked);
        }
    }
}
