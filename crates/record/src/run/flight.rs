//! The history that is held in memory, and written when something asks for it (`--flight`).
//!
//! ```text
//! tracker ─► part, in memory ─► history: parts, the oldest go ──┐ something asks
//!                                                               └─► saver: names of all parts ─► one file, a session for each part
//! ```
//!
//! A part is what a file of a recording that rotates is: it stands alone, and the next one begins where it ends. Names are looked up only for
//! what is written. What was written is not in the next file again.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use anyhow::Context as _;
use icecore_format::records::{LeftOut, Loss, ReceiptV1, TriggerV1};
use icecore_text::quantity;

use super::disk::why_not;
use super::kept;
use super::ship::Queue;
use crate::cli::output::{Output, Series};
use crate::cli::summary;
use crate::settings::{Flight, Options, PARTS};
use crate::sys::rights::{self, Part as Rights};
use crate::threads::closing::{Close, Turned};
use crate::threads::store::{Embedding, Stored};
use crate::threads::triggers::{Trigger, Written};

/// A part of the history. All of its samples are in it.
#[derive(Debug)]
pub(super) struct Part {
    stored: Stored,
    /// What it needs to be complete; `None` once it is.
    rest: Option<Rest>,
    number: u64,
    began_ns: u64,
    end_ns: u64,
}

/// What a part lacks until something asks.
#[derive(Debug)]
pub(super) enum Rest {
    /// The names of what its samples hit, and its receipt: another part has followed.
    Close(Box<Close>),
    /// Its receipt: it is the last one.
    Receipt { left_out: Vec<LeftOut>, losses: Vec<Loss>, receipt: Box<ReceiptV1> },
}

impl Part {
    /// Takes a part that another one has followed.
    pub(super) fn full(stored: Stored, close: Box<Close>) -> Self {
        let (Turned { number, began_ns, .. }, end_ns) = (&close.turned, close.spent.end_ns);
        let (number, began_ns) = (*number, *began_ns);
        Self { stored, rest: Some(Rest::Close(close)), number, began_ns, end_ns }
    }

    /// Takes the last part.
    pub(super) fn last(
        stored: Stored,
        Turned { number, began_ns, .. }: &Turned,
        end_ns: u64,
        rest: Rest,
    ) -> Self {
        Self { stored, rest: Some(rest), number: *number, began_ns: *began_ns, end_ns }
    }
}

/// What a trigger asks for.
#[derive(Debug)]
struct Asked {
    trigger: Trigger,
    /// The number of the last part that belongs to it.
    number: u64,
}

#[derive(Debug, Default)]
struct Held {
    /// The oldest first.
    parts: VecDeque<Part>,
    /// All parts up to this one have arrived, and of the later ones these.
    arrived: (u64, BTreeSet<u64>),
    /// A part went because of the limit of bytes.
    is_full: bool,
    asked: VecDeque<Asked>,
    is_over: bool,
    /// A file was written.
    has_written: bool,
    /// The last file could not be written.
    has_failed: bool,
}

/// The history.
#[derive(Debug)]
pub(super) struct History {
    limits: Flight,
    held: Mutex<Held>,
    changed: Condvar,
}

impl History {
    /// Adds a part. Those that are too old go, and the oldest ones if there are too many bytes.
    pub(super) fn push(&self, part: Part, trigger: Option<Trigger>) {
        let mut held = self.held();
        let Held { parts, is_full, .. } = &mut *held;
        let lasts_ns = u64::try_from(self.limits.lasts.as_nanos()).unwrap_or(u64::MAX);
        let (number, since_ns) = (part.number, part.end_ns.saturating_sub(lasts_ns));
        let place = parts.partition_point(|other| other.number < number);
        parts.insert(place, part);
        while parts.front().is_some_and(|oldest| oldest.end_ns <= since_ns) {
            parts.pop_front();
        }
        // The part that is made meanwhile may become as large as any other.
        let of_next = if trigger.is_some() { 0 } else { self.limits.bytes / u64::from(PARTS) };
        let mut bytes: u64 = parts.iter().map(|part| part.stored.len_bytes()).sum();
        while bytes > self.limits.bytes - of_next
            && parts.len() > 1
            && let Some(oldest) = parts.pop_front()
        {
            bytes -= oldest.stored.len_bytes();
            *is_full = true;
        }
        *is_full &= parts.front().is_some_and(|oldest| oldest.began_ns > since_ns);
        let (all, later) = &mut held.arrived;
        later.insert(number);
        while later.remove(&(*all + 1)) {
            *all += 1;
        }
        held.asked.extend(trigger.map(|trigger| Asked { trigger, number }));
        self.changed.notify_all();
    }

    /// Waits until something asks, and all that belongs to it has arrived; takes that. `None` at the end.
    fn next(&self) -> Option<(Vec<Part>, Trigger, bool)> {
        let mut held = self.held();
        loop {
            let is_there = held.asked.front().is_some_and(|asked| asked.number <= held.arrived.0);
            if is_there && let Some(Asked { trigger, number }) = held.asked.pop_front() {
                let is_full = std::mem::take(&mut held.is_full);
                let end = held.parts.partition_point(|part| part.number <= number);
                return Some((held.parts.drain(..end).collect(), trigger, is_full));
            }
            if held.is_over {
                return None;
            }
            held = self.changed.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes parts back that could not be written: something may ask again.
    fn put_back(&self, parts: Vec<Part>, is_full: bool) {
        let mut held = self.held();
        held.has_failed = true;
        held.is_full |= is_full;
        parts.into_iter().rev().for_each(|part| held.parts.push_front(part));
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread that writes the history when something asks for it.
#[derive(Debug)]
pub(super) struct Saver {
    history: Arc<History>,
    thread: JoinHandle<()>,
}

impl Saver {
    /// Starts it; `None` if all is written at once. Names of files go into a queue if they are shipped.
    ///
    /// # Errors
    /// If the kernel makes no thread, or no file can be made where histories go.
    pub(super) fn begin(options: &Options, queue: Option<Arc<Queue>>) -> anyhow::Result<Option<Self>> {
        let Some(limits) = options.flight else { return Ok(None) };
        // It is removed again, because nothing keeps it.
        drop(Series::of(options).create()?);
        let (held, changed) = Default::default();
        let history = Arc::new(History { limits, held, changed });
        let (own, options) = (Arc::clone(&history), options.clone());
        let save = move || {
            rights::keep(Rights::Saver);
            while let Some((parts, trigger, is_full)) = own.next() {
                save(&own, (&options, queue.as_deref()), parts, &trigger, is_full);
            }
        };
        let thread = thread::Builder::new().name("icecore-saver".to_owned()).spawn(save);
        Ok(Some(Self { history, thread: thread.context("cannot start a thread")? }))
    }

    /// Returns the history that it writes.
    pub(super) fn history(&self) -> Arc<History> {
        Arc::clone(&self.history)
    }

    /// Appends the last part, if something asks for it; waits until all is written. Returns whether anything was written, and an error if the
    /// last file could not be.
    pub(super) fn end(self, last: Option<(Part, Trigger)>) -> Result<bool, ()> {
        last.into_iter().for_each(|(part, trigger)| self.history.push(part, Some(trigger)));
        self.history.held().is_over = true;
        self.history.changed.notify_all();
        let has_panicked = self.thread.join().is_err();
        let held = self.history.held();
        if has_panicked || held.has_failed { Err(()) } else { Ok(held.has_written) }
    }
}

/// Returns what a file says of its trigger.
fn recorded(trigger: &Trigger, limits: Flight, is_full: bool) -> TriggerV1 {
    let Trigger { time_ns, cause, what, .. } = trigger;
    let asked_ns = u64::try_from(limits.lasts.as_nanos()).unwrap_or(u64::MAX);
    TriggerV1 { time_ns: *time_ns, asked_ns, what: what.clone(), cause: *cause, is_full }
}

/// Writes the parts into one file.
fn save(
    history: &History,
    (options, queue): (&Options, Option<&Queue>),
    mut parts: Vec<Part>,
    trigger: &Trigger,
    is_full: bool,
) {
    let refused = AtomicBool::new(false);
    let embedding = Embedding { embed: options.embed, max_bytes: options.embed_max_bytes, refused: &refused };
    let count = parts.len();
    let (mut samples, mut lost) = (0, 0);
    for (number, part) in (1..).zip(&mut parts) {
        let asked = recorded(trigger, history.limits, is_full);
        let trigger = (number == count).then_some(&asked);
        match part.rest.take() {
            Some(Rest::Close(close)) => _ = part.stored.end(*close, embedding, trigger),
            Some(Rest::Receipt { left_out, losses, receipt }) => {
                part.stored.complete(&left_out, &losses, trigger, &receipt);
            }
            None => {}
        }
        let (own, own_lost) = part.stored.counted;
        samples += own;
        lost += own_lost;
    }
    let span_ns = parts.first().zip(parts.last()).map_or(0, |(first, last)| last.end_ns - first.began_ns);
    let what = &trigger.what;
    match write(options, queue, &parts) {
        Ok((path, bytes)) => {
            let mut held = history.held();
            (held.has_written, held.has_failed) = (true, false);
            drop(held);
            let text = format!(
                "wrote `{}`: {} before it, {}, {} lost, {}",
                path.display(),
                quantity::duration(span_ns),
                quantity::things(samples, "sample"),
                quantity::count(lost),
                quantity::bytes(bytes)
            );
            if !options.quiet {
                summary::tell(&format!("icecore-record: {what}: {text}\n"));
            }
            let path = path.to_str().map(str::to_owned);
            trigger.answer(&Ok(Written { path, samples, lost, bytes, text }));
        }
        Err(why) => {
            history.put_back(parts, is_full);
            let then = if history.held().is_over {
                "the recorder ends, and the history with it"
            } else {
                "the history stays in memory until something asks again"
            };
            let told = format!("{why}; {then}");
            summary::tell(&format!("error: {what}: {told}\n"));
            trigger.answer(&Err(told));
        }
    }
    kept::prune(options, queue);
}

/// Writes a file; returns its path and its length.
fn write(options: &Options, queue: Option<&Queue>, parts: &[Part]) -> Result<(PathBuf, u64), String> {
    let own = Series::of(options).create().map_err(|error| format!("{error:#}"))?;
    let output = Output::File(own);
    let called = output.called();
    let cannot = |error: &icecore_format::Error| format!("cannot write {called}: {}", why_not(error));
    let mut writer = output.writer().map_err(|error| format!("cannot begin {called}: {error:#}"))?;
    parts.iter().try_for_each(|part| part.stored.append_to(&mut writer)).map_err(|error| cannot(&error))?;
    let bytes = writer.finish().map_err(|error| cannot(&error))?;
    output.keep().map_err(|error| format!("{error:#}"))?;
    let settled = output.settle();
    queue.inspect(|queue| queue.push(output.path(), &settled));
    match settled.text(&called).filter(|_| settled.is_failure()) {
        Some(text) => Err(text),
        None => Ok((output.path().unwrap_or(Path::new("")).to_owned(), bytes)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use icecore_format::records::{SourceFile, SourceProof, SourceTable, SourcesV1, TriggerCause};
    use icecore_format::write::Writer;

    use super::*;

    const S: u64 = 1_000_000_000;

    /// Makes a part of so many seconds and about so many bytes, which nothing shrinks.
    fn part(number: u64, seconds: std::ops::Range<u64>, bytes: usize) -> Part {
        let mut writer = Writer::in_memory([7; 16]).expect("memory");
        let mut state = number;
        let mut noise = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        let text: Vec<u8> = (0..bytes).map(|_| noise()).collect();
        let table: SourceTable = SourceTable {
            files: vec![SourceFile {
                image: 0,
                path: 0,
                text: 0,
                proof: SourceProof::UNCHECKED,
                modified_unix_ns: 0,
            }],
            texts: vec![text.into()],
        };
        writer.append(&SourcesV1::from_table(&table)).expect("memory");
        let turned = Turned { number, began_ns: seconds.start * S, trigger: None };
        let (left_out, losses, receipt) = Default::default();
        Part::last(Stored::new(writer), &turned, seconds.end * S, Rest::Receipt { left_out, losses, receipt })
    }

    fn history(seconds: u64, bytes: u64) -> History {
        let limits = Flight { lasts: Duration::from_secs(seconds), bytes };
        History { limits, held: Mutex::default(), changed: Condvar::default() }
    }

    fn numbers(parts: &[Part]) -> Vec<u64> {
        parts.iter().map(|part| part.number).collect()
    }

    fn trigger() -> Option<Trigger> {
        Some(Trigger::new(TriggerCause::SIGNAL, "x"))
    }

    #[test]
    fn the_history_reaches_as_far_back_as_requested_and_no_part_is_taken_twice() {
        let history = history(20, 1 << 30);
        for number in 1..=9 {
            history.push(part(number, number * 5..number * 5 + 5, 100), None);
        }
        history.push(part(10, 50..52, 100), trigger());
        let (parts, _, is_full) = history.next().expect("something asks");
        // From 30 s on: 22 s, and 20 s are asked for.
        assert_eq!((numbers(&parts), is_full), (vec![6, 7, 8, 9, 10], false));
        history.push(part(11, 52..53, 100), trigger());
        assert_eq!(history.next().map(|(parts, ..)| numbers(&parts)), Some(vec![11]));
        history.held().is_over = true;
        assert!(history.next().is_none());
    }

    #[test]
    fn the_oldest_parts_go_if_there_are_too_many_bytes() {
        let history = history(60, 400_000);
        for number in 1..=9 {
            history.push(part(number, number..number + 1, 90_000), None);
            let bytes: u64 = history.held().parts.iter().map(|part| part.stored.len_bytes()).sum();
            assert!(bytes <= 300_000, "there is room for a part that is being made: {bytes}");
        }
        history.push(part(10, 10..11, 90_000), trigger());
        let (parts, _, is_full) = history.next().expect("something asks");
        assert_eq!((numbers(&parts), is_full), (vec![7, 8, 9, 10], true));
        // One part alone stays, however large it is.
        history.push(part(11, 11..12, 500_000), trigger());
        assert_eq!(
            history.next().map(|(parts, _, is_full)| (numbers(&parts), is_full)),
            Some((vec![11], false))
        );
    }

    #[test]
    fn what_belongs_to_a_trigger_is_waited_for_and_what_comes_after_it_stays() {
        let history = history(60, 1 << 30);
        history.push(part(2, 2..3, 100), trigger());
        history.push(part(3, 3..4, 100), None);
        assert_eq!(history.held().arrived.0, 0, "the first part is still on its way");
        history.push(part(1, 1..2, 100), None);
        let (parts, ..) = history.next().expect("something asks");
        assert_eq!(numbers(&parts), [1, 2]);
        history.put_back(parts, true);
        history.push(part(4, 4..5, 100), trigger());
        let (parts, _, is_full) = history.next().expect("something asks again");
        assert_eq!((numbers(&parts), is_full), (vec![1, 2, 3, 4], true), "what was missing still is");
    }
}
