//! Reads what the recorder was asked to do, so that advice never repeats what was done already or cannot be done.

use icecore_format::records::{EventV1, SessionV1};
use icecore_text::clean::clean;

use icecore_profile::recording::events::{Meaning, is_drawn};

/// The largest `--max-depth`.
const MOST_FRAMES: u32 = 4096;
/// The largest `--stack-bytes`, which is also the default.
const MOST_BYTES: u64 = 1 << 20;

/// The recorder's `--unwind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unwind {
    /// Not given: `auto`, but older recorders could not copy stacks.
    Unsaid,
    Fp,
    Auto,
    Dwarf,
}

/// The settings of a session that matter for advice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// Another program made the recording; it has other options.
    pub(crate) is_foreign: bool,
    pub(crate) unwind: Unwind,
    pub(crate) stack_bytes: u64,
    pub(crate) max_depth: u32,
    /// Samples of CPU time are taken every so many units of the event (`-c`), without variation; likewise those of other counters if
    /// none samples CPU time.
    pub(crate) is_exact: bool,
    /// Every event that happens is a sample: there is no rate.
    pub(crate) takes_each: bool,
    /// The recorder was to embed all files that were hit (`--embed all`).
    pub embeds_all: bool,
    /// The recorder was to embed no names of functions (`--embed none`).
    pub embeds_none: bool,
    /// The recorder saw no addresses of the kernel.
    pub(crate) is_kernel_hidden: bool,
    /// The recorder's kernel cannot copy stacks.
    pub(crate) copies_nothing: bool,
    /// The recorder's kernel copies little of the stacks of waits.
    pub(crate) copies_little_of_waits: bool,
}

impl Asked {
    /// Reads the settings from the recorder's command line; missing options have their defaults.
    pub fn of(session: &SessionV1) -> Self {
        let noted = |what: &str| session.notes.iter().any(|note| note.contains(what));
        let is_of_cpu = |event: &&EventV1| Meaning::of(event).is_of_cpu();
        let of_cpu: Vec<&EventV1> = session.events.iter().filter(is_of_cpu).collect();
        let drawn: Vec<&EventV1> = session.events.iter().filter(|event| is_drawn(event)).collect();
        let rated = if of_cpu.is_empty() { &drawn } else { &of_cpu };
        Self {
            is_foreign: session.recorder.starts_with(|first: char| first.is_ascii_alphabetic()),
            unwind: match option(session, &["--unwind"]) {
                Some("fp") => Unwind::Fp,
                Some("auto" | "copy") => Unwind::Auto,
                Some("dwarf") => Unwind::Dwarf,
                _ => Unwind::Unsaid,
            },
            stack_bytes: option(session, &["--stack-bytes"]).and_then(bytes).unwrap_or(MOST_BYTES),
            max_depth: session.max_depth,
            is_exact: rated.iter().all(|event| event.frequency_hz == 0 && event.period > 0),
            takes_each: rated.is_empty() && !session.events.is_empty(),
            embeds_all: option(session, &["--embed"]) == Some("all"),
            embeds_none: option(session, &["--embed"]) == Some("none"),
            is_kernel_hidden: noted("kernel addresses are hidden"),
            copies_nothing: noted("and are not copied"),
            copies_little_of_waits: noted("of user stacks of waits at most 2 KiB"),
        }
    }

    /// Suggests what helps if stacks have more frames than were recorded. The limit is that of the walk or, if stacks were unwound,
    /// that of a stack.
    pub fn deeper(&self, is_walked_only: bool) -> String {
        if self.copies_nothing {
            return "the kernel that was recorded walks 127 frames at most".to_owned();
        }
        if self.is_foreign || (is_walked_only && self.max_depth < MOST_FRAMES) {
            format!("record with a larger --max-depth (at most {MOST_FRAMES})")
        } else {
            format!("{MOST_FRAMES} frames are the most that a stack has in a recording")
        }
    }

    /// Suggests what helps if stacks reach beyond their copies; some copies may have been shortened because the ring was full.
    pub fn copy_more(&self, is_shortened: bool) -> &'static str {
        match is_shortened {
            _ if self.is_foreign => "record with a larger copy of the stack",
            _ if self.stack_bytes < MOST_BYTES => "record with --stack-bytes 1M",
            _ if self.copies_little_of_waits => {
                "2 KiB is the most that was copied of the stacks of waits, as everywhere before Linux 6.18"
            }
            true => {
                "copies were shortened while the ring was full: record with a larger --ring, or at a lower rate"
            }
            false => "1 MiB of a stack is the most that is copied",
        }
    }

    /// Suggests what helps if a walk along frame pointers is wrong; `None` if nothing does.
    pub(crate) fn unwind_more(&self, is_walked_only: bool) -> Option<&'static str> {
        match (self.unwind, is_walked_only) {
            _ if self.is_foreign => {
                Some("record with copies of the stack (perf: --call-graph dwarf), or with icecore-record")
            }
            _ if self.copies_nothing => None,
            (Unwind::Fp, _) | (Unwind::Unsaid, true) => Some("record with --unwind auto"),
            (Unwind::Auto | Unwind::Unsaid, false) => Some("record with --unwind dwarf"),
            _ => None,
        }
    }

    /// Suggests how to get fewer samples.
    pub(crate) fn fewer_samples(&self) -> &'static str {
        match (self.takes_each, self.is_exact) {
            (true, _) => "record fewer events",
            (_, true) => "record with a larger -c",
            _ => "record with a lower -F",
        }
    }

    /// Suggests how to get more samples.
    pub(crate) fn more_samples(&self) -> &'static str {
        if self.is_exact {
            "record for longer, or with a smaller -c"
        } else {
            "record for longer, or with a higher -F"
        }
    }
}

/// Lists what the recorder was asked to exclude.
pub(crate) fn restrictions(session: &SessionV1) -> Vec<String> {
    let mut told = Vec::new();
    match (session.user, session.kernel) {
        (true, false) => told.push("recorded with -U: kernel time is not in here".to_owned()),
        (false, true) => told.push("recorded with -K: user time is not in here".to_owned()),
        _ => {}
    }
    if let Some(cpus) = cpus(session).map(|cpus| clean(cpus.as_bytes())) {
        told.push(format!("recorded with -C {cpus}: what ran on other CPUs is not in here"));
    }
    if session.target.starts_with("threads ") {
        told.push("recorded with -t: other threads of these processes are not in here".to_owned());
    }
    told
}

/// Returns the CPUs to which the recorder was restricted, as they were typed.
pub(crate) fn cpus(session: &SessionV1) -> Option<&str> {
    option(session, &["-C", "--cpu"])
}

/// Returns the value of an option on the recorder's command line, before the command that it ran.
fn option<'s>(session: &'s SessionV1, names: &[&str]) -> Option<&'s str> {
    let mut words = session.command_line.iter().skip(1).take_while(|word| *word != "--");
    while let Some(word) = words.next() {
        for name in names {
            match word.strip_prefix(name) {
                Some("") => return words.next().map(String::as_str),
                Some(rest) if rest.starts_with('=') => return Some(&rest[1..]),
                Some(rest) if !name.starts_with("--") => return Some(rest),
                _ => {}
            }
        }
    }
    None
}

/// Parses a number of bytes as the recorder does.
fn bytes(typed: &str) -> Option<u64> {
    let digits = typed.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match typed[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(command: &str) -> SessionV1 {
        SessionV1 {
            recorder: "0.1.0".to_owned(),
            command_line: command.split(' ').map(str::to_owned).collect(),
            user: true,
            kernel: true,
            max_depth: 1024,
            ..SessionV1::default()
        }
    }

    fn asked(command: &str) -> Asked {
        Asked::of(&session(command))
    }

    #[test]
    fn what_is_in_force_is_not_advised() {
        assert_eq!(asked("icecore-record --unwind auto -a").unwind_more(true), None);
        assert_eq!(asked("icecore-record -a").unwind_more(false), Some("record with --unwind dwarf"));
        assert_eq!(asked("icecore-record --unwind=dwarf -a").unwind_more(false), None);
        assert_eq!(
            asked("icecore-record --unwind fp -a").unwind_more(true),
            Some("record with --unwind auto")
        );
        // Options of the recorded command are not the recorder's.
        assert_eq!(
            asked("icecore-record -- x --unwind fp").unwind_more(false),
            Some("record with --unwind dwarf")
        );
        assert!(asked("icecore-record -a").copy_more(false).ends_with("the most that is copied"));
        assert!(asked("icecore-record -a").copy_more(true).contains("--ring"));
        let note =
            "this kernel runs no programs: of user stacks of waits at most 2 KiB are copied".to_owned();
        let old = Asked::of(&SessionV1 { notes: vec![note], ..session("icecore-record -a --off-cpu") });
        assert!(old.copy_more(false).starts_with("2 KiB is the most"));
        assert!(asked("icecore-record --stack-bytes 64K -a").copy_more(true).ends_with("--stack-bytes 1M"));
        assert!(asked("icecore-record -a").deeper(true).contains("--max-depth"));
        assert!(asked("icecore-record -a").deeper(false).ends_with("in a recording"));
        let note = "this kernel has no bpf_loop (5.17): user stacks end at 127 frames, and are not copied"
            .to_owned();
        let old = Asked::of(&SessionV1 { notes: vec![note], ..session("icecore-record -a") });
        assert!(old.deeper(true).contains("127") && old.unwind_more(true).is_none());
        assert!(
            asked("icecore-record --embed all -a").embeds_all
                && !asked("icecore-record --embed-max 1G -a").embeds_all
        );
        let most = SessionV1 { max_depth: 4096, ..session("icecore-record -a --max-depth 4096") };
        assert!(Asked::of(&most).deeper(true).ends_with("in a recording"));
    }

    #[test]
    fn what_was_not_to_be_sampled_is_told() {
        assert!(restrictions(&session("icecore-record -a -- taskset -C 1")).is_empty());
        let told = |command| restrictions(&session(command)).join("\n");
        assert_eq!(
            told("icecore-record -C0 -a"),
            "recorded with -C 0: what ran on other CPUs is not in here"
        );
        assert_eq!(
            told("icecore-record --cpu 1,3 -a"),
            "recorded with -C 1,3: what ran on other CPUs is not in here"
        );
        let user = SessionV1 { kernel: false, ..session("icecore-record -U") };
        assert_eq!(restrictions(&user), ["recorded with -U: kernel time is not in here"]);
        let kernel = SessionV1 { user: false, ..session("icecore-record -K") };
        assert_eq!(restrictions(&kernel), ["recorded with -K: user time is not in here"]);
        let thread = SessionV1 { target: "threads 7".to_owned(), ..session("icecore-record -t 7") };
        assert!(restrictions(&thread)[0].contains("other threads"));
    }
}
