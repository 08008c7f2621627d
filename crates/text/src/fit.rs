//! Measures text in the columns of a terminal, and cuts what is too wide.

use std::borrow::Cow;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Replaces what is cut out of a text.
const CUT: &str = "…";
/// Joins the characters around it into one: those of a family in an emoji.
const JOINER: char = '\u{200d}';

/// Returns how many columns a text takes: a character of East Asia takes two, a combining mark none.
///
/// # Source   Unicode Standard Annex #11
pub fn columns(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.width() }
}

/// Cuts the middle out of a text that takes more than `most` columns: both ends of a name distinguish it from others.
pub fn cut(text: &str, most: usize) -> Cow<'_, str> {
    if columns(text) <= most {
        return Cow::Borrowed(text);
    }
    let kept = most.saturating_sub(columns(CUT));
    let pieces: Vec<&str> = pieces(text).collect();
    let fitting = |pieces: &mut dyn Iterator<Item = &&str>, mut room: usize| -> usize {
        let fits = |piece: &&str| {
            room = room.checked_sub(columns(piece))?;
            Some(piece.len())
        };
        pieces.map_while(fits).sum()
    };
    let head = fitting(&mut pieces.iter(), kept.div_ceil(2));
    let tail = fitting(&mut pieces.iter().rev(), kept / 2);
    Cow::Owned(format!("{}{CUT}{}", &text[..head], &text[text.len() - tail..]))
}

/// Breaks a text between words into lines of at most `width` columns; a longer word has a line of its own.
pub(super) fn lines(text: &str, width: Option<usize>) -> Vec<Cow<'_, str>> {
    let Some(width) = width.filter(|width| columns(text) > *width) else { return vec![Cow::Borrowed(text)] };
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split(' ') {
        if !line.is_empty() && columns(&line) + 1 + columns(word) > width {
            lines.push(Cow::Owned(std::mem::take(&mut line)));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(Cow::Owned(line));
    lines
}

/// The columns of one level of indentation.
const LEVEL: usize = 3;

/// Keeps the innermost levels of an indentation that takes more than `most` columns, after the number of those that it leaves out.
/// It leaves out several levels at once, so that neighbouring lines stay aligned.
pub(super) fn indented(indent: &str, most: usize) -> Cow<'_, str> {
    let levels = indent.chars().count() / LEVEL;
    let fitting = (most / LEVEL).max(4);
    if levels <= fitting {
        return Cow::Borrowed(indent);
    }
    let step = fitting / 2;
    let left_out = (levels - fitting + 1).div_ceil(step) * step;
    let kept: String = indent.chars().skip(left_out * LEVEL).collect();
    Cow::Owned(format!("{CUT}{left_out} {kept}"))
}

/// Splits a text where it may be cut: marks stay with their character.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut before = rest.chars().next()?;
        let begins = |(_, c): &(usize, char)| {
            let is_joined = std::mem::replace(&mut before, *c) == JOINER;
            !is_joined && c.width() != Some(0)
        };
        let end = rest.char_indices().skip(1).find(begins).map_or(rest.len(), |(at, _)| at);
        let (piece, after) = rest.split_at(end);
        rest = after;
        Some(piece)
    })
}

/// Reduces the widest columns until all fit together into `room`: narrower ones stay whole. No column gets less than `least`.
pub(super) fn share(widths: &[usize], least: &[usize], room: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..widths.len()).collect();
    order.sort_by_key(|column| widths[*column]);
    let mut shared = widths.to_vec();
    let mut room = room;
    for (position, column) in order.iter().enumerate() {
        let fair = room / (widths.len() - position);
        shared[*column] = widths[*column].min(fair.max(least[*column]));
        room = room.saturating_sub(shared[*column]);
    }
    shared
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_ends_of_a_name_stay() {
        assert_eq!(cut("whole", 5), "whole");
        assert_eq!(cut("std::vec::Vec<T>::push", 11), "std::…:push");
        assert_eq!((cut("abc", 2), cut("abc", 1), cut("abc", 0)), ("a…".into(), "…".into(), "…".into()));
    }

    #[test]
    fn wide_characters_take_two_columns_and_marks_stay_with_their_character() {
        assert_eq!((columns("漢字"), columns("e\u{301}"), columns("☎\u{fe0f}")), (4, 1, 2));
        assert_eq!(cut("漢字漢字漢字", 8), "漢字…字");
        assert_eq!(cut("漢字漢字漢字", 7), "漢…字");
        assert_eq!(cut("ae\u{301}\u{308}bcdée\u{301}", 5), "ae\u{301}\u{308}…ée\u{301}");
        // A family is one picture of two columns.
        let family = "👩\u{200d}👩\u{200d}👧";
        assert_eq!((columns(family), pieces(family).count()), (2, 1));
    }

    #[test]
    fn the_widest_columns_give_way_first() {
        assert_eq!(share(&[10, 100, 40], &[0; 3], 60), [10, 25, 25]);
        assert_eq!(share(&[10, 100], &[0; 2], 60), [10, 50]);
        assert_eq!(share(&[10, 20], &[0; 2], 60), [10, 20]);
        assert_eq!(share(&[30, 30], &[8; 2], 4), [8, 8]);
    }

    proptest! {
        #[test]
        fn no_text_is_wider_than_its_room(text in "\\PC{0,40}", most in 1_usize..30) {
            let cut = cut(&text, most);
            prop_assert!(columns(&cut) <= most, "{cut:?} takes {} of {most}", columns(&cut));
            prop_assert_eq!(pieces(&text).collect::<String>(), text);
        }
    }
}
