//! Loads the programs and opens the events as a recording does, and attaches none.

use std::ffi::OsString;
use std::mem::MaybeUninit;

use super::facts::{Counters, Programs, Waits};
use crate::cli::{args, check};
use crate::kernel::events;
use crate::kernel::sampler::{self, Sampler, StacksOfWaits, WAYS, Walker};
use crate::settings::{Event, Options, Source};
use crate::sys::{perf, usage};

/// What came of it.
pub(super) struct Tried {
    pub(super) programs: Result<Programs, String>,
    pub(super) events: Option<Result<(), String>>,
    /// Whether processes of this user can be sampled, which a recording does if the kernel forbids programs; `None` if it does not.
    pub(super) own: Option<Result<(), String>>,
    pub(super) counters: Counters,
    /// The number of files that could still be opened.
    pub(super) spare_files: Option<usize>,
}

/// Tries a recording of the whole machine with waits; if the kernel takes no waits, one without.
///
/// # Errors
/// If there are no settings for a recording here.
pub(super) fn tried() -> anyhow::Result<Tried> {
    let with_waits = options(&["-a", "--off-cpu"])?;
    let mut tried = with(&with_waits, None);
    if let (Err(why), true) = (&tried.programs, perf::has_privileges()) {
        tried = with(&options(&["-a"])?, Some(why.clone()));
    }
    Ok(tried)
}

fn options(line: &[&str]) -> anyhow::Result<Options> {
    let line = ["icecore-record"].iter().chain(line).map(OsString::from);
    let args = args::parse(line).map_err(|_| anyhow::anyhow!("bug: the command line of a trial is wrong"))?;
    check::options(args)
}

/// Tries these options. Without waits, `refused` says why.
fn with(options: &Options, refused: Option<String>) -> Tried {
    let mut notes = Vec::new();
    let chosen = events::chosen(options, &mut notes);
    let mut storage = [const { MaybeUninit::uninit() }; WAYS];
    let sampler = match Sampler::load(&mut storage, options, &chosen, None) {
        Ok(sampler) => sampler,
        Err(error) => {
            let own =
                sampler::is_forbidden(&error).then(|| perf::check_own().map_err(|error| error.to_string()));
            let (programs, counters) = (Err(cause(&error)), counters(&chosen, false));
            return Tried { programs, events: None, own, counters, spare_files: None };
        }
    };
    let programs = Programs {
        without_loop: match sampler.walker() {
            Walker::Loop => None,
            Walker::Helper(why) => Some(why.to_owned()),
        },
        walks_tables: sampler.walks_tables(),
        waits: match (refused, sampler.stacks_of_waits()) {
            (Some(why), _) => Waits::Refused(why),
            (None, StacksOfWaits::ByThread) => Waits::Whole,
            (None, StacksOfWaits::Copied(why)) => Waits::Copied(why.to_owned()),
            (None, StacksOfWaits::Missing) => Waits::Bare,
        },
    };
    // They stay open until all are, as in a recording.
    let opened = events::open_sampling(options, &chosen, &mut notes)
        .and_then(|sampling| Ok((sampling, events::open_queues()?)));
    let counters = counters(&chosen, opened.is_ok());
    let spare_files = Some(usage::spare_files());
    let events = Some(opened.map(drop).map_err(|error| cause(&error)));
    Tried { programs: Ok(programs), events, own: None, counters, spare_files }
}

/// Returns the first cause of an error; what the recorder advises is said elsewhere.
fn cause(error: &anyhow::Error) -> String {
    error.root_cause().to_string()
}

/// Concludes from the event that the recorder has chosen what the processor can count.
fn counters(chosen: &[Event], has_opened: bool) -> Counters {
    let is_timer =
        |event: &Event| matches!(event.source, Source::Counter { counter, .. } if counter.is_cpu_clock());
    match (chosen.iter().any(is_timer), has_opened) {
        (true, _) => Counters::Timer,
        (false, true) => Counters::Cycles,
        (false, false) => Counters::Untold,
    }
}
