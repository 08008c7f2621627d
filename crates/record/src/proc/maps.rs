//! `/proc/PID/maps`: the executable mappings of a process that was there before the recorder.

use std::borrow::Cow;

/// One mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapsLine<'a> {
    pub start: u64,
    pub end: u64,
    pub(crate) is_writable: bool,
    pub(crate) is_executable: bool,
    pub(crate) file_off: u64,
    pub(crate) major: u32,
    pub(crate) minor: u32,
    pub(crate) inode: u64,
    pub path: Cow<'a, [u8]>,
}

/// Lists the executable mappings; lines that do not parse are skipped.
pub fn executable(text: &[u8]) -> impl Iterator<Item = MapsLine<'_>> {
    all(text).filter(|line| line.is_executable)
}

/// Lists all mappings, likewise.
///
/// # Source
/// proc(5) `/proc/pid/maps`: `start-end perms offset major:minor inode path`; addresses, offset and
/// device are hexadecimal, the path is the rest of the line and may hold spaces.
pub(crate) fn all(text: &[u8]) -> impl Iterator<Item = MapsLine<'_>> {
    text.split(|&b| b == b'\n').filter_map(parse_line)
}

fn parse_line(line: &[u8]) -> Option<MapsLine<'_>> {
    let (range, rest) = word(line)?;
    let (perms, rest) = word(rest)?;
    let (file_off, rest) = word(rest)?;
    let (device, rest) = word(rest)?;
    let (inode, path) = word(rest)?;
    let (start, end) = range.split_once('-')?;
    let (major, minor) = device.split_once(':')?;
    let line = MapsLine {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        is_writable: perms.as_bytes().get(1) == Some(&b'w'),
        is_executable: perms.as_bytes().get(2) == Some(&b'x'),
        file_off: u64::from_str_radix(file_off, 16).ok()?,
        major: u32::from_str_radix(major, 16).ok()?,
        minor: u32::from_str_radix(minor, 16).ok()?,
        inode: inode.parse().ok()?,
        path: unescaped(path.trim_ascii_start()),
    };
    (line.start < line.end).then_some(line)
}

/// Undoes the escapes of line feeds in paths, so that paths compare equal to those of mapping reports, which have no escapes.
fn unescaped(path: &[u8]) -> Cow<'_, [u8]> {
    const LINE_FEED: &[u8] = b"\\012";
    if !path.windows(LINE_FEED.len()).any(|window| window == LINE_FEED) {
        return Cow::Borrowed(path);
    }
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&first, behind)) = rest.split_first() {
        let is_line_feed = rest.starts_with(LINE_FEED);
        out.push(if is_line_feed { b'\n' } else { first });
        rest = if is_line_feed { &rest[LINE_FEED.len()..] } else { behind };
    }
    Cow::Owned(out)
}

/// Splits off the first word; `None` if it is not UTF-8.
fn word(line: &[u8]) -> Option<(&str, &[u8])> {
    let line = line.trim_ascii_start();
    let end = line.iter().position(|&b| b == b' ').unwrap_or(line.len());
    let text = std::str::from_utf8(&line[..end]).ok().filter(|text| !text.is_empty())?;
    Some((text, &line[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"\
55d0c0a00000-55d0c0a26000 r--p 00000000 fe:00 131 /usr/bin/a b\n\
55d0c0a26000-55d0c0b00000 r-xp 00026000 fe:00 131                        /usr/bin/a b\n\
7f0000000000-7f0000010000 rwxp 00000000 00:00 0 \n\
7ffe00000000-7ffe00002000 r-xp 00000000 00:00 0                          [vdso]\n";

    #[test]
    fn executable_lines_are_kept_and_paths_may_hold_spaces() {
        let lines: Vec<_> = executable(TEXT).collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(*lines[0].path, *b"/usr/bin/a b");
        assert_eq!((lines[0].start, lines[0].file_off, lines[0].inode), (0x55d0_c0a2_6000, 0x26000, 131));
        assert_eq!((lines[0].major, lines[0].minor), (0xfe, 0));
        assert_eq!((lines[0].is_writable, lines[1].is_writable), (false, true));
        assert_eq!(*lines[1].path, *b"");
        assert_eq!(*lines[2].path, *b"[vdso]");
        assert_eq!(*unescaped(b"/a\\012b\\01"), *b"/a\nb\\01");
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text: Vec<u8>) {
            let _ = executable(&text).count();
        }

        #[test]
        fn no_cut_or_flip_makes_it_panic(cut in 0..TEXT.len(), at in 0..TEXT.len(), byte: u8) {
            let mut text = TEXT.to_vec();
            text[at] = byte;
            let _ = executable(&text[..cut]).count();
        }
    }
}
