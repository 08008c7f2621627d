//! Shortens texts that are too long to be shown. A recording of two kilobytes can give each of a million frames a name of 64 KiB.

use std::borrow::Cow;

/// Longer names of functions, files and images are shortened, bytes.
pub const MAX_NAME_BYTES: usize = 4 << 10;

/// The longest line of a stack, bytes; a longer line skips frames between the outermost and the innermost, and says so.
pub const MAX_LINE_BYTES: usize = 1 << 20;

/// Shortens a text to about `most` bytes. The result states how many bytes were removed, and their checksum, so that different
/// names stay different.
pub fn shorten(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    let kept = &text[..end];
    let (left_out, crc) = (text.len() - kept.len(), crc32fast::hash(text.as_bytes()));
    Cow::Owned(format!("{kept}…[{left_out} bytes left out, CRC-32 {crc:08x}]"))
}

/// Joins the frames of a stack, root first, into a line of at most about [`MAX_LINE_BYTES`], separated by `;`. Returns how many
/// frames it skipped.
pub fn line(frames: &[&str], out: &mut String) -> usize {
    let (outer, inner) = kept(frames, MAX_LINE_BYTES);
    let left_out = frames.len() - outer - inner;
    let mut begun = false;
    let mut push = |frame: &str| {
        if std::mem::replace(&mut begun, true) {
            out.push(';');
        }
        out.push_str(frame);
    };
    frames[..outer].iter().for_each(|frame| push(frame));
    if left_out > 0 {
        push(&gap(left_out));
    }
    frames[frames.len() - inner..].iter().for_each(|frame| push(frame));
    left_out
}

/// Returns the frames of such a line as a list.
pub fn fitted<'a>(frames: &[&'a str]) -> Vec<Cow<'a, str>> {
    let (outer, inner) = kept(frames, MAX_LINE_BYTES);
    let left_out = frames.len() - outer - inner;
    let gap = (left_out > 0).then(|| Cow::Owned(gap(left_out)));
    let shown = |frames: &[&'a str]| frames.iter().map(|frame| Cow::Borrowed(*frame)).collect::<Vec<_>>();
    shown(&frames[..outer]).into_iter().chain(gap).chain(shown(&frames[frames.len() - inner..])).collect()
}

/// Returns the text that replaces skipped frames.
pub fn gap(frames: usize) -> String {
    format!("[… {frames} frame{} left out …]", if frames == 1 { "" } else { "s" })
}

/// Returns how many frames at the beginning and at the end of a stack fit together into `most` bytes: all, or half of the bytes
/// each.
fn kept(frames: &[&str], most: usize) -> (usize, usize) {
    let cost = |frame: &&str| frame.len() + 1;
    if frames.iter().map(cost).sum::<usize>() <= most {
        return (frames.len(), 0);
    }
    let fits = |frames: &mut dyn Iterator<Item = &&str>| {
        let mut left = most / 2;
        frames.take_while(|frame| left.checked_sub(cost(frame)).map(|less| left = less).is_some()).count()
    };
    (fits(&mut frames.iter()), fits(&mut frames.iter().rev()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_shortened_and_stay_apart() {
        assert_eq!(shorten("name", 4), "name");
        let [a, b] = ["a", "b"].map(|end| format!("{}{end}", "ü".repeat(5000)));
        let [short_a, short_b] = [&a, &b].map(|name| shorten(name, 4095));
        assert!(
            short_a.starts_with("üüü") && short_a.contains("…[5907 bytes left out, CRC-32 "),
            "{short_a}"
        );
        assert!(short_a != short_b && short_a.len() < 4200);
    }

    #[test]
    fn a_line_keeps_both_ends_of_a_stack() {
        let name = "f".repeat(1000);
        let frames: Vec<&str> =
            ["main"].into_iter().chain(std::iter::repeat_n(&name[..], 5000)).chain(["leaf"]).collect();
        let mut text = String::new();
        let left_out = line(&frames, &mut text);
        assert!(text.len() <= MAX_LINE_BYTES + 100 && text.starts_with("main;f") && text.ends_with("f;leaf"));
        assert!(left_out > 3000 && text.contains(&format!(";[… {left_out} frames left out …];")));
        let mut text = String::new();
        assert_eq!((line(&["a", "b"], &mut text), &text[..]), (0, "a;b"));
        assert_eq!(line(&[&"x".repeat(2 << 20)], &mut String::new()), 1);
    }
}
