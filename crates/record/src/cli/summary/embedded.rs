//! The summary's lines about what of the executable files went into the recording, and what did not.

use icecore_format::records::Omission;
use icecore_text::quantity::{bytes, count, things};

use crate::collect::files::{Carried, Omitted};
use crate::threads::closing::Embedded;

/// At most this many files are named; the others are counted.
const NAMED: usize = 5;

/// Returns the lines; empty if nothing was embedded or skipped.
pub(super) fn lines(embedded: &Embedded) -> Vec<String> {
    let Embedded { functions, images, left_out, jit, files } = embedded;
    let mut names = Vec::new();
    if *functions > 0 {
        names.push(format!("of {} in {}", things(*functions, "function"), things(*images, "file")));
    }
    if jit.pieces > 0 {
        names.push(format!("of {} of JIT code", things(jit.pieces, "piece")));
    }
    let left_out = match left_out + jit.left_out {
        0 => String::new(),
        1 => "; 1 more code address was skipped: the limit is reached".to_owned(),
        more => format!("; {} more code addresses were skipped: the limit is reached", count(more)),
    };
    let cut = match jit.cut_files {
        0 => String::new(),
        files => format!("; skipped, or read in part: {} that may name such code", things(files, "file")),
    };
    let named = (!names.is_empty()).then(|| format!("the names {}{left_out}{cut}", names.join(" and ")));
    named.into_iter().chain(of_files(files)).collect()
}

fn of_files(files: &Carried) -> Vec<String> {
    let mut lines = Vec::new();
    let taken = [(files.whole, "whole file", ""), (files.in_sections, "file", " without code and data")];
    let taken: Vec<String> = taken
        .iter()
        .filter(|(number, ..)| *number > 0)
        .map(|(number, what, how)| format!("{}{how}", things(*number, what)))
        .collect();
    if !taken.is_empty() {
        lines.push(format!("{}, {} before compression", taken.join(", "), bytes(files.bytes)));
    }
    let of = |why: Omission| -> Vec<&Omitted> {
        files.left_out.iter().filter(|omitted| omitted.row.why == why).collect()
    };
    lines.extend(each("only sections of", &of(Omission::REDUCED), too_much));
    lines.extend(each("skipped", &of(Omission::TOO_LARGE), too_much));
    lines.extend(each("skipped", &of(Omission::UNREADABLE), |file| {
        format!("{}: it can no longer be read, or is not an ELF file", file.path)
    }));
    lines.extend(each("no names of", &of(Omission::NO_ANSWER), |file| {
        format!("{}: its file system did not answer in time", file.path)
    }));
    lines.extend(each(
        "stacks copied for a while, not walked, through",
        &of(Omission::TABLES_FULL),
        |file| format!("{}: the unwind tables of other files had filled the sampler's memory", file.path),
    ));
    lines.extend(each("stacks copied, not walked, through", &of(Omission::TABLES_SLOW), |file| {
        format!("{}: compiling its unwind tables takes too long", file.path)
    }));
    let interrupted = of(Omission::INTERRUPTED).len() as u64;
    if interrupted > 0 {
        let are = if interrupted == 1 { "is" } else { "are" };
        lines.push(format!("ended early: {} {are} missing or incomplete", things(interrupted, "file")));
    }
    lines
}

fn too_much(file: &Omitted) -> String {
    let (needed, free) = (bytes(file.row.needed_bytes), bytes(file.row.free_bytes));
    format!("{}: it needs {needed}, and {free} of the limit was left (--embed-max)", file.path)
}

/// Names the first [`NAMED`] files, one line each, and counts the others in one more line.
fn each(what: &str, files: &[&Omitted], text: impl Fn(&Omitted) -> String) -> Vec<String> {
    let mut lines: Vec<String> =
        files.iter().take(NAMED).map(|file| format!("{what} {}", text(file))).collect();
    if let Some(more) = files.len().checked_sub(NAMED).filter(|more| *more > 0) {
        lines.push(format!("{what} {}, for the same reason", things(more as u64, "more file")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::jit::JitCounts;
    use icecore_format::records::LeftOut;

    #[test]
    fn what_is_left_out_is_told_with_its_reason() {
        let omitted = |why, path: &str| Omitted {
            row: LeftOut { image: 1, why, needed_bytes: 3 << 20, free_bytes: 1 << 20 },
            path: path.into(),
        };
        let mut left_out = vec![omitted(Omission::REDUCED, "/a"), omitted(Omission::UNREADABLE, "/c")];
        left_out.extend((0..7).map(|number| omitted(Omission::TOO_LARGE, &format!("/b{number}"))));
        left_out.extend((0..4).map(|_| omitted(Omission::INTERRUPTED, "/d")));
        let files = Carried { whole: 2, in_sections: 1, bytes: 5 << 20, left_out };
        let lines =
            lines(&Embedded { functions: 1200, images: 3, left_out: 9, files, ..Embedded::default() });
        assert!(
            lines[0].ends_with("; 9 more code addresses were skipped: the limit is reached"),
            "{}",
            lines[0]
        );
        assert_eq!(lines[1], "2 whole files, 1 file without code and data, 5.0 MiB before compression");
        assert_eq!(
            lines[2],
            "only sections of /a: it needs 3.0 MiB, and 1.0 MiB of the limit was left (--embed-max)"
        );
        assert_eq!(lines[8], "skipped 2 more files, for the same reason");
        assert_eq!(lines[9], "skipped /c: it can no longer be read, or is not an ELF file");
        assert_eq!(lines[10], "ended early: 4 files are missing or incomplete");
        assert_eq!(lines.len(), 11);
    }

    #[test]
    fn names_are_told_by_what_they_name_and_so_is_what_was_too_much() {
        let jit = JitCounts { pieces: 2000, left_out: 4, cut_files: 1 };
        let shown = lines(&Embedded { functions: 5, images: 2, left_out: 3, jit, ..Embedded::default() });
        assert_eq!(
            shown,
            ["the names of 5 functions in 2 files and of 2,000 pieces of JIT code; \
              7 more code addresses were skipped: the limit is reached; \
              skipped, or read in part: 1 file that may name such code"]
        );
        let only_jit =
            Embedded { jit: JitCounts { pieces: 1, ..JitCounts::default() }, ..Embedded::default() };
        assert_eq!(lines(&only_jit), ["the names of 1 piece of JIT code"]);
    }

    #[test]
    fn nothing_is_said_of_nothing() {
        assert!(lines(&Embedded::default()).is_empty());
    }
}
