//! Folded stacks: a line for each stack, root first, with a count: `main;f;g 12`.
//!
//! async-profiler and the scripts of flame graphs end frames with marks, which their viewers hide:
//!
//! | mark | what it says |
//! |---|---|
//! | `_[k]` | the frame is in the kernel |
//! | `_[i]` | the function is inlined into its caller |
//! | `_[j]`, `_[0]`, `_[1]` | the code was compiled at run time, interpreted, or compiled by the first compiler of Java |

use icecore_format::records::{EventMeaning, Maker};

use super::profile::{MAX_INLINED, NamedFn, NamedPlace, NamedSample, Profile, Thread, event};
use crate::Error;

/// Returns true if a text with these first bytes may have folded stacks.
pub(super) fn begins(head: &[u8]) -> bool {
    let mut lines = head.split_inclusive(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    lines.next().is_some_and(|line| {
        // The first bytes of a pipe may end in the first line.
        let is_cut = !line.ends_with(b"\n") && head.len() == icecore_format::header::LEN;
        is_cut || fields(line).is_some()
    })
}

/// Divides a line into the stack and its count.
fn fields(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = line.trim_ascii();
    let space = line.iter().rposition(|byte| *byte == b' ' || *byte == b'\t')?;
    let (stack, count) = (line[..space].trim_ascii_end(), &line[space + 1..]);
    let is_number = count.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
    (is_number && !stack.is_empty()).then_some((stack, count))
}

/// Reads folded stacks. Lines that are none are listed as damage.
///
/// # Errors
/// If no line is one, or there are too many distinct stacks.
pub(super) fn parse(bytes: &[u8]) -> Result<Profile, Error> {
    let mut profile = Profile::new("folded", Maker::FOLDED);
    for missing in
        ["processes and threads", "times, so that all samples are of one moment", "what its counts are of"]
    {
        profile.note(&format!("folded stacks do not tell {missing}"));
    }
    profile.events.push(event("samples", "counts", EventMeaning::UNKNOWN));
    let thread = profile.threads.intern(Thread::default());
    let mut at = 0;
    for (number, line) in (1..).zip(bytes.split_inclusive(|byte| *byte == b'\n')) {
        let begin = at;
        at += line.len();
        if line.trim_ascii().is_empty() {
            continue;
        }
        let parts = fields(line)
            .and_then(|(stack, count)| Some((stack, std::str::from_utf8(count).ok()?.parse::<u64>().ok()?)));
        match parts {
            Some((stack, weight)) => {
                let stack = stack_of(&mut profile, &String::from_utf8_lossy(stack))?;
                profile.samples.push(NamedSample { time_ns: 0, event: 0, thread, stack, weight });
            }
            None => {
                profile.damaged(begin, line.len(), format!("line {number} does not end with a whole number"))
            }
        }
    }
    match profile.samples.len() {
        0 => Err(Error::input("no line is a stack and a whole number, such as `main;f 12`")),
        _ => Ok(profile),
    }
}

fn stack_of(profile: &mut Profile, text: &str) -> Result<u32, Error> {
    let mut caller = 0;
    let mut place: Option<NamedPlace> = None;
    for frame in text.split(';') {
        let (name, mark) = marked(frame);
        if mark.is_some_and(|mark| matches!(mark, 'j' | '0' | '1')) {
            profile.count("mark_of_compiled_code", 1);
        }
        let name = profile.text(if name.is_empty() { "[empty]" } else { name });
        let function = profile.functions.intern(NamedFn { name, ..NamedFn::default() });
        match &mut place {
            Some(place) if mark == Some('i') && place.frames.len() < MAX_INLINED => {
                place.frames.insert(0, (function, 0));
            }
            _ => {
                if let Some(done) = place.take() {
                    let frames = profile.frames(done);
                    caller = profile.stack(caller, &frames)?;
                }
                let is_kernel = mark == Some('k');
                place = Some(NamedPlace { image: None, address: 0, frames: vec![(function, 0)], is_kernel });
            }
        }
    }
    let frames = place.map(|place| profile.frames(place)).unwrap_or_default();
    profile.stack(caller, &frames)
}

/// Divides a frame into the name and its mark.
fn marked(frame: &str) -> (&str, Option<char>) {
    let mark = frame.strip_suffix(']').and_then(|frame| {
        let (name, mark) = frame.rsplit_once("_[")?;
        let mut letters = mark.chars();
        let letter = letters.next().filter(|letter| "jik01".contains(*letter))?;
        (letters.next().is_none() && !name.is_empty()).then_some((name, Some(letter)))
    });
    mark.unwrap_or((frame, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(profile: &Profile) -> Vec<(String, u64)> {
        super::super::tests::shown(profile)
    }

    #[test]
    fn frames_are_divided_and_marks_are_no_names() {
        let text = "main;f;g 12\n\nmain;f_[j];h_[i];sys_read_[k] 1000000000000000000\r\na b\t7\nmain;x_[q] 1";
        let profile = parse(text.as_bytes()).expect("stacks");
        let wanted = [
            ("main;f;g", 12),
            ("main;f:h;sys_read!", 1_000_000_000_000_000_000),
            ("a b", 7),
            ("main;x_[q]", 1),
        ];
        assert_eq!(shown(&profile), wanted.map(|(stack, weight)| (stack.to_owned(), weight)));
        assert_eq!(profile.not_imported.get("mark_of_compiled_code"), Some(&1));
    }

    #[test]
    fn lines_without_a_whole_number_are_listed_with_their_place() {
        let profile = parse(b"main 1\nmain;f 1.5\nmain;g 99999999999999999999\nmain;h -3\n").expect("one");
        let damage: Vec<(u64, &str)> =
            profile.damage.iter().map(|row| (row.offset, &row.cause[..6])).collect();
        assert_eq!((profile.samples.len(), damage), (1, vec![(7, "line 2"), (18, "line 3"), (46, "line 4")]));
        assert!(parse(b"x 1.5").expect_err("none").to_string().contains("such as `main;f 12`"));
    }

    #[test]
    fn other_text_is_not_taken_for_stacks() {
        for text in ["", "hello", "y\ny\ny\n", "# perf script\nmain 12\n", "main;f\n12\n"] {
            assert!(!begins(text.as_bytes()), "{text}");
        }
        for text in ["main 1", "\na;b 12\n", "ünï;b 3\nrest"] {
            assert!(begins(text.as_bytes()), "{text}");
        }
    }
}
