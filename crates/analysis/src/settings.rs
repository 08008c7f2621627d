//! What a session was recorded with, as far as advice and restrictions need it: advice never repeats what is in force already or cannot be
//! done. What is unknown is no reason for advice.

use icecore_format::records::{
    CpuScope, EmbedMode, EventV1, MissingFeature, SessionV1, TargetKind, UnwindMode,
};

use icecore_profile::recording::events::{Meaning, is_drawn};
use icecore_text::quantity::{duration, ranges};

/// The largest `--max-depth`.
const MOST_FRAMES: u32 = 4096;
/// The largest `--stack-bytes`, which is also the default.
const MOST_BYTES: u32 = 1 << 20;

/// The settings of a session that matter for advice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Another program made the recording; it has other options.
    pub(crate) is_foreign: bool,
    pub(crate) unwind: UnwindMode,
    /// 0 if unknown.
    pub(crate) stack_bytes: u32,
    /// 0 if unknown.
    pub(crate) max_depth: u32,
    /// Samples of CPU time are taken every so many units of the event (`-c`), without variation; likewise those of other counters if
    /// none samples CPU time.
    pub(crate) is_exact: bool,
    /// Every event that happens is a sample: there is no rate.
    pub(crate) takes_each: bool,
    pub(crate) embed: EmbedMode,
    /// The recorder saw no addresses of the kernel.
    pub(crate) is_kernel_hidden: bool,
    /// The recorder's kernel cannot copy stacks.
    pub(crate) copies_nothing: bool,
    /// The recorder's kernel copies little of the stacks of waits.
    pub(crate) copies_little_of_waits: bool,
    /// The recorder had no privileges: the kernel walked and copied the stacks.
    pub(crate) has_no_programs: bool,
}

impl Settings {
    /// Reads the settings of a session.
    pub fn of(session: &SessionV1) -> Self {
        let is_of_cpu = |event: &&EventV1| Meaning::of(event).is_of_cpu();
        let of_cpu: Vec<&EventV1> = session.events.iter().filter(is_of_cpu).collect();
        let drawn: Vec<&EventV1> = session.events.iter().filter(|event| is_drawn(event)).collect();
        let rated = if of_cpu.is_empty() { &drawn } else { &of_cpu };
        Self {
            is_foreign: session.maker.is_foreign(),
            unwind: session.unwind,
            stack_bytes: session.stack_bytes,
            max_depth: session.max_depth,
            is_exact: rated.iter().all(|event| event.frequency_hz == 0 && event.period > 0),
            takes_each: rated.is_empty() && !session.events.is_empty(),
            embed: session.embed,
            is_kernel_hidden: session.lacks(MissingFeature::KERNEL_ADDRESSES),
            copies_nothing: session.lacks(MissingFeature::LOOP),
            copies_little_of_waits: session.lacks(MissingFeature::TASK_WORK),
            has_no_programs: session.lacks(MissingFeature::PROGRAMS),
        }
    }

    /// Suggests what helps if stacks have more frames than were recorded. The limit is that of the walk or, if stacks were unwound,
    /// that of a stack.
    pub fn deeper(&self, is_walked_only: bool) -> String {
        if self.has_no_programs {
            return "without privileges the kernel walks 127 frames at most, and copies 16 KiB: record as root".to_owned();
        }
        if self.copies_nothing {
            return "the kernel that was recorded walks 127 frames at most".to_owned();
        }
        let is_known_smaller = is_walked_only && (1..MOST_FRAMES).contains(&self.max_depth);
        if self.is_foreign || is_known_smaller {
            format!("record with a larger --max-depth (at most {MOST_FRAMES})")
        } else {
            format!("{MOST_FRAMES} frames are the most that a stack has in a recording")
        }
    }

    /// Suggests what helps if stacks reach beyond their copies; some copies may have been shortened because the ring was full.
    pub fn copy_more(&self, is_shortened: bool) -> &'static str {
        match is_shortened {
            _ if self.is_foreign => "record with a larger copy of the stack",
            _ if self.has_no_programs => {
                "16 KiB is the most that is copied of a stack without privileges: record as root, or compile with -fno-omit-frame-pointer"
            }
            _ if (1..MOST_BYTES).contains(&self.stack_bytes) => "record with --stack-bytes 1M",
            _ if self.copies_little_of_waits => {
                "2 KiB is the most that was copied of the stacks of waits, as everywhere before Linux 6.18"
            }
            true => {
                "copies were shortened while the ring was full: record with a larger --ring, or at a lower rate"
            }
            false => "1 MiB of a stack is the most that is copied",
        }
    }

    /// Suggests what helps if a walk along frame pointers is wrong; `None` if nothing does, or if it is unknown what was tried.
    pub(crate) fn unwind_more(&self, is_walked_only: bool) -> Option<&'static str> {
        match self.unwind {
            _ if self.has_no_programs && self.unwind == UnwindMode::FRAME_POINTERS => {
                Some("record without --unwind fp")
            }
            _ if self.is_foreign => {
                Some("record with copies of the stack (perf: --call-graph dwarf), or with icecore-record")
            }
            _ if self.copies_nothing => None,
            UnwindMode::FRAME_POINTERS => Some("record with --unwind auto"),
            UnwindMode::AUTO | UnwindMode::COPY if !is_walked_only => Some("record with --unwind dwarf"),
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
        if self.is_foreign {
            "record for longer, or sample more often"
        } else if self.is_exact {
            "record for longer, or with a smaller -c"
        } else {
            "record for longer, or with a higher -F"
        }
    }
}

/// Lists what the recorder was asked to exclude, or could not take without privileges. `unsampled_ns` is the time that threads spent in the
/// kernel then, if it is known.
pub(crate) fn restrictions(session: &SessionV1, unsampled_ns: Option<u64>) -> Vec<String> {
    let mut told = Vec::new();
    match (session.user, session.kernel) {
        _ if session.lacks(MissingFeature::PROGRAMS) => {
            let spent = match unsampled_ns {
                Some(ns) => format!(" (together about {})", duration(ns)),
                None => " (how much is unknown)".to_owned(),
            };
            told.push(format!(
                "recorded without privileges: time in the kernel and of threads that end before their first sample{spent}, waits, counters of \
                 processes and functions of interpreters are not in here"
            ));
        }
        (true, false) => told.push("recorded with -U: kernel time is not in here".to_owned()),
        (false, true) => told.push("recorded with -K: user time is not in here".to_owned()),
        _ => {}
    }
    if session.cpu_scope == CpuScope::SOME {
        let cpus = ranges(&session.cpus);
        told.push(format!("recorded with -C {cpus}: what ran on other CPUs is not in here"));
    }
    if session.target == TargetKind::THREADS {
        told.push("recorded with -t: other threads of these processes are not in here".to_owned());
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A session with what the recorder does if nothing is asked.
    fn session() -> SessionV1 {
        SessionV1 {
            maker: icecore_format::records::Maker::RECORDER,
            target: TargetKind::SYSTEM,
            cpu_scope: CpuScope::ALL,
            unwind: UnwindMode::AUTO,
            embed: EmbedMode::HITS,
            stack_bytes: MOST_BYTES,
            max_depth: 1024,
            user: true,
            kernel: true,
            ..SessionV1::default()
        }
    }

    fn unwound(unwind: UnwindMode) -> Settings {
        Settings::of(&SessionV1 { unwind, ..session() })
    }

    fn lacking(feature: MissingFeature) -> Settings {
        Settings::of(&SessionV1 { missing_features: vec![feature], ..session() })
    }

    #[test]
    fn what_is_in_force_is_not_advised() {
        let (auto, dwarf) = (unwound(UnwindMode::AUTO), unwound(UnwindMode::DWARF));
        assert_eq!([auto.unwind_more(true), dwarf.unwind_more(false)], [None; 2]);
        assert_eq!(auto.unwind_more(false), Some("record with --unwind dwarf"));
        assert_eq!(unwound(UnwindMode::COPY).unwind_more(false), Some("record with --unwind dwarf"));
        assert_eq!(unwound(UnwindMode::FRAME_POINTERS).unwind_more(true), Some("record with --unwind auto"));
        assert!(auto.copy_more(false).ends_with("the most that is copied"));
        assert!(auto.copy_more(true).contains("--ring"));
        assert!(lacking(MissingFeature::TASK_WORK).copy_more(false).starts_with("2 KiB is the most"));
        let little = Settings::of(&SessionV1 { stack_bytes: 64 << 10, ..session() });
        assert!(little.copy_more(true).ends_with("--stack-bytes 1M"));
        assert!(auto.deeper(true).contains("--max-depth") && auto.deeper(false).ends_with("in a recording"));
        let bare = lacking(MissingFeature::PROGRAMS);
        assert!(
            bare.copy_more(false).starts_with("16 KiB is the most")
                && bare.deeper(true).contains("127 frames")
        );
        let old = lacking(MissingFeature::LOOP);
        assert!(old.deeper(true).contains("127") && old.unwind_more(true).is_none());
        let most = Settings::of(&SessionV1 { max_depth: 4096, ..session() });
        assert!(most.deeper(true).ends_with("in a recording"));
    }

    #[test]
    fn what_was_not_to_be_sampled_is_told() {
        assert!(restrictions(&session(), None).is_empty());
        let told = |session: SessionV1| restrictions(&session, Some(1_500_000_000)).join("\n");
        let bare = SessionV1 { kernel: false, missing_features: vec![MissingFeature::PROGRAMS], ..session() };
        let said = told(bare.clone());
        assert!(
            said.contains("without privileges") && said.contains("1.50 s") && !said.contains("-U"),
            "{said}"
        );
        assert!(restrictions(&bare, None).join("").contains("unknown"));
        assert_eq!(
            told(SessionV1 { cpu_scope: CpuScope::SOME, cpus: vec![1, 3], ..session() }),
            "recorded with -C 1,3: what ran on other CPUs is not in here"
        );
        let user = SessionV1 { kernel: false, ..session() };
        assert_eq!(told(user), "recorded with -U: kernel time is not in here");
        let kernel = SessionV1 { user: false, ..session() };
        assert_eq!(told(kernel), "recorded with -K: user time is not in here");
        let thread = SessionV1 { target: TargetKind::THREADS, target_ids: vec![7], ..session() };
        assert!(told(thread).contains("other threads"));
    }

    #[test]
    fn nothing_is_concluded_from_what_is_unknown() {
        let later = SessionV1 {
            target: TargetKind(900),
            cpu_scope: CpuScope(900),
            unwind: UnwindMode(900),
            missing_features: vec![MissingFeature(900)],
            ..SessionV1::default()
        };
        for unknown in [SessionV1::default(), later] {
            let settings = Settings::of(&unknown);
            assert_eq!([settings.unwind_more(true), settings.unwind_more(false)], [None; 2]);
            assert!(!settings.deeper(true).contains("--max-depth"));
            assert!(!settings.copy_more(false).contains("--stack-bytes"));
            assert!(restrictions(&unknown, None).is_empty());
        }
    }
}
