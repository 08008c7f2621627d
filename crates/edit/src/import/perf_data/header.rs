//! Reads the header of a perf.data file, and the sections to which it refers.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use super::attr::Attr;
use super::bytes::Bytes;
use super::features::Features;
use super::{Head, damage};
use crate::Error;

const MAGIC: &[u8; 8] = b"PERFILE2";
/// The magic number of a file from a big-endian machine.
const MAGIC_BIG: &[u8; 8] = b"2ELIFREP";
/// The length of a stream's header, bytes.
const STREAM_LEN: u64 = 16;
/// The length of a file's header, bytes.
const FILE_LEN: u64 = 104;
/// The longest attribute that is read, including the section of its ids, bytes.
const MAX_ATTR_LEN: u64 = 4096;
/// The longest feature that is read, bytes: build-ids of a hundred thousand files.
const MAX_FEATURE_LEN: u64 = 16 << 20;

/// A section of the file.
#[derive(Debug, Clone, Copy)]
struct Section {
    off: u64,
    len: u64,
}

impl Section {
    fn take(bytes: &mut Bytes<'_>) -> Option<Self> {
        Some(Self { off: bytes.u64()?, len: bytes.u64()? })
    }

    /// Returns the end of the section, if a file of this length contains it.
    fn end_within(self, file_len: u64) -> Option<u64> {
        self.off.checked_add(self.len).filter(|end| *end <= file_len)
    }
}

/// Reads the header: events, features, and the position of the records.
///
/// # Errors
/// If it is no perf.data file of a little-endian machine, or its events cannot be read. Other truncated or invalid parts count as
/// damage.
pub(super) fn read(file: &File, file_len: u64) -> Result<Head, Error> {
    let header = part(file, 0, file_len.min(FILE_LEN))?;
    match header.get(..8) {
        Some(magic) if magic == MAGIC => {}
        Some(magic) if magic == MAGIC_BIG => {
            return Err(Error::input("it was recorded on a big-endian machine, which is not supported"));
        }
        _ => return Err(Error::input("it is no perf.data file: it does not begin with `PERFILE2`")),
    }
    let truncated = || Error::input("at byte 8: the header is truncated");
    let mut bytes = Bytes(&header[8..]);
    let header_len = bytes.u64().ok_or_else(truncated)?;
    if header_len == STREAM_LEN {
        return Ok(Head { records: STREAM_LEN..file_len, ..Head::default() });
    }
    let read = (|| {
        let attr_len = bytes.u64()?;
        let (attrs, data) = (Section::take(&mut bytes)?, Section::take(&mut bytes)?);
        Section::take(&mut bytes)?;
        Some((attr_len, attrs, data, [bytes.u64()?, bytes.u64()?, bytes.u64()?, bytes.u64()?]))
    })();
    let (attr_len, attrs, data, features) = read.ok_or_else(truncated)?;
    let mut head = Head { attrs: read_attrs(file, file_len, attr_len, attrs)?, ..Head::default() };
    if data.off > file_len {
        return Err(Error::input(format!(
            "the records begin at byte {}, after the end of the file",
            data.off
        )));
    }
    match data.end_within(file_len) {
        Some(end) if data.len > 0 => {
            head.records = data.off..end;
            read_features(file, file_len, end, features, &mut head);
        }
        end => {
            head.records = data.off..file_len;
            let cause = match end {
                Some(_) => "perf record did not finish: what it writes last is missing, including build-ids"
                    .to_owned(),
                None => {
                    let missing = data.len - (file_len - data.off);
                    format!(
                        "the file is truncated: {missing} bytes of records are missing, and everything after them"
                    )
                }
            };
            head.damage.push(damage(file_len, cause));
        }
    }
    Ok(head)
}

fn read_attrs(file: &File, file_len: u64, attr_len: u64, section: Section) -> Result<Vec<Attr>, Error> {
    let wrong = |cause: String| Error::input(format!("at byte {}: {cause}", section.off));
    if !(80..=MAX_ATTR_LEN).contains(&attr_len) {
        return Err(wrong(format!("events of {attr_len} bytes each are invalid")));
    }
    section
        .end_within(file_len)
        .ok_or_else(|| wrong(format!("events of {} bytes end after the end of the file", section.len)))?;
    let (mut attrs, mut room) = (Vec::new(), file_len / 8);
    for number in 0..section.len / attr_len {
        let off = section.off + number * attr_len;
        let bytes = part(file, off, attr_len)?;
        let (attr, ids) = bytes.split_at(bytes.len() - 16);
        let cut = || Error::input(format!("at byte {off}: event {number} cannot be read"));
        let mut attr = Attr::decode(attr).ok_or_else(cut)?;
        let ids = Section::take(&mut Bytes(ids)).filter(|ids| ids.end_within(file_len).is_some());
        let ids = ids.filter(|ids| ids.len / 8 <= room).ok_or_else(cut)?;
        room -= ids.len / 8;
        attr.ids = Bytes(&part(file, ids.off, ids.len)?).words(ids.len / 8).ok_or_else(cut)?.iter().collect();
        attrs.push(attr);
    }
    if attrs.is_empty() {
        return Err(wrong("there are no events".to_owned()));
    }
    Ok(attrs)
}

/// Reads the features whose table begins at `at`.
fn read_features(file: &File, file_len: u64, at: u64, bits: [u64; 4], head: &mut Head) {
    let mut off = at;
    for feature in (0..256_u32).filter(|n| bits[(n / 64) as usize] >> (n % 64) & 1 == 1) {
        let place = part(file, off, 16.min(file_len.saturating_sub(off))).unwrap_or_default();
        let section = Section::take(&mut Bytes(&place));
        let Some(section) = section.filter(|section| section.end_within(file_len).is_some()) else {
            let cause = format!("the table of features is truncated or invalid from feature {feature} on");
            head.damage.push(damage(off, cause));
            return;
        };
        off += 16;
        if !Features::is_wanted(feature) {
            continue;
        }
        let bytes = part(file, section.off, section.len.min(MAX_FEATURE_LEN)).unwrap_or_default();
        if head.features.take(feature, &bytes, &mut head.attrs).is_none() {
            let cause = format!("feature {feature} cannot be read");
            head.damage.push(damage(section.off, cause));
        }
    }
}

/// Reads a section that lies within the file.
fn part(file: &File, off: u64, len: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, off)?;
    Ok(bytes)
}
