//! The files of a recording: one, or with `--rotate` one after the other. With `--flight` they are parts in memory.
//!
//! ```text
//! main     the file is old or large ─► asks ───────┐                ┌─► turn: session ─► tracker: old rows │ new rows
//! files                                open the file, start its writer ─► ready
//! writers                                                              old: names, receipt   new: session, batches
//! ```
//!
//! Nothing waits for a file that is being opened, named or finished: the old one takes samples until the next one is there.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use icecore_format::records::{EndReason, ReceiptV1, SessionV1};
use icecore_format::write::Writer;
use icecore_text::quantity;

use super::disk::why_not;
use super::flight::{self, History};
use super::kept;
use super::ship::Queue;
use super::{WAITING, join, spawn};
use crate::cli::output::{Output, Series};
use crate::cli::summary;
use crate::kernel::feed::Feed;
use crate::settings::{Flight, Options, Rotate};
use crate::sys::rights::{self, Part};
use crate::sys::{clock, rest, usage};
use crate::threads::chunk::Turn;
use crate::threads::closing::Turned;
use crate::threads::pump::Files;
use crate::threads::store::{self, Closed, Ended, Shared, Stored, ToWriter};
use crate::threads::triggers::{Signals, Trigger, Triggers, Written};

/// The most files that are being finished while another one is written. With so many, the next one begins later.
const MAX_UNFINISHED: usize = 4;
/// How often files are removed that are not to be kept.
const PRUNE_EVERY: Duration = Duration::from_secs(10);
/// How long the recorder goes on with the same file after the next one could not be opened.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// What the recorder has used up to a moment.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Spent {
    user_cpu_ns: u64,
    kernel_cpu_ns: u64,
    bpf_runs: u64,
    bpf_ns: u64,
}

impl Spent {
    /// Returns what it has used up to now.
    pub(super) fn now(sampler: &Feed<'_>) -> Self {
        let (own, runs) = (usage::own(), sampler.runs());
        let (user_cpu_ns, kernel_cpu_ns) = (own.user_cpu_ns, own.kernel_cpu_ns);
        Self { user_cpu_ns, kernel_cpu_ns, bpf_runs: runs.count, bpf_ns: runs.ns }
    }

    /// Returns what of a receipt says what was used since an earlier moment.
    pub(super) fn receipt_since(self, earlier: Self) -> ReceiptV1 {
        ReceiptV1 {
            exit_code: -1,
            user_cpu_ns: self.user_cpu_ns.saturating_sub(earlier.user_cpu_ns),
            kernel_cpu_ns: self.kernel_cpu_ns.saturating_sub(earlier.kernel_cpu_ns),
            peak_rss_bytes: usage::own().peak_rss_bytes,
            bpf_runs: self.bpf_runs.saturating_sub(earlier.bpf_runs),
            bpf_ns: self.bpf_ns.saturating_sub(earlier.bpf_ns),
            ..ReceiptV1::default()
        }
    }
}

/// The last file of a recording.
#[derive(Debug)]
pub(super) struct Last {
    pub(super) stored: Stored,
    pub(super) output: Arc<Output>,
    /// What the recorder had used when it began.
    pub(super) before: Spent,
    pub(super) turned: Turned,
}

/// A writer; the last one returns its file.
type Handle<'scope> = ScopedJoinHandle<'scope, Option<(Stored, Arc<Output>)>>;

/// A file that is open, and its writer. The file is removed if it has no turn.
struct Next<'scope> {
    output: Arc<Output>,
    len_bytes: Arc<AtomicU64>,
    messages: SyncSender<ToWriter>,
    writer: Handle<'scope>,
}

/// What the writers of a recording share.
#[derive(Clone)]
struct Writers<'scope> {
    shared: Shared<'scope>,
    /// Files that are being finished.
    unfinished: &'scope AtomicUsize,
    /// Takes what is full; `None` if it is written at once.
    history: Option<Arc<History>>,
    /// Takes the names of files that are finished, if they are shipped.
    queue: Option<Arc<Queue>>,
    quiet: bool,
}

/// The files of a recording.
pub(super) struct Rotation<'scope> {
    writers: Writers<'scope>,
    rotate: Option<Rotate>,
    triggers: &'scope Triggers,
    signals: Option<Signals>,
    /// Conditions are not served before.
    next_condition: Cell<Option<Instant>>,
    flight: Option<Flight>,
    /// The number and the begin of the current file.
    current: Cell<(u64, u64)>,
    /// The first block of all files but the first, whose times are those of its file.
    session: RefCell<SessionV1>,
    handles: RefCell<Vec<Handle<'scope>>>,
    /// The length of the current file, as its writer tells it.
    len_bytes: RefCell<Arc<AtomicU64>>,
    /// When the next file is to begin by the clock.
    due: Cell<Option<Instant>>,
    /// The way to the thread that opens files, and its answers; `None` without `--rotate`.
    opener: Option<(SyncSender<()>, Receiver<Option<Next<'scope>>>)>,
    is_asked: Cell<bool>,
    ready: RefCell<Option<Next<'scope>>>,
    /// What the recorder had used when the current file began.
    before: Cell<Spent>,
}

impl<'scope> Rotation<'scope> {
    /// Begins with the first file, and returns the way to its writer.
    ///
    /// # Errors
    /// If the kernel makes no thread.
    pub(super) fn begin<'env>(
        scope: &'scope Scope<'scope, 'env>,
        options: &'scope Options,
        shared: Shared<'scope>,
        (unfinished, triggers, signals): (&'scope AtomicUsize, &'scope Triggers, Option<Signals>),
        (history, queue): (Option<Arc<History>>, Option<Arc<Queue>>),
    ) -> anyhow::Result<Self> {
        let quiet = options.quiet || options.live;
        let writers = Writers { shared, unfinished, history, queue, quiet };
        let opener = match options.turns() {
            None => None,
            Some(_) => {
                let (ask, asked) = sync_channel(1);
                let (answer, answers) = sync_channel(1);
                let work = writers.clone();
                let open = move || {
                    rights::keep(Part::Files);
                    open_files(scope, options, &work, &asked, &answer);
                };
                spawn(scope, "icecore-files", open)?;
                Some((ask, answers))
            }
        };
        Ok(Self {
            writers,
            rotate: options.turns(),
            triggers,
            signals,
            next_condition: Cell::default(),
            flight: options.flight,
            current: Cell::default(),
            session: RefCell::default(),
            handles: RefCell::default(),
            len_bytes: RefCell::default(),
            due: Cell::new(None),
            opener,
            is_asked: Cell::new(false),
            ready: RefCell::default(),
            before: Cell::default(),
        })
    }

    /// Starts the writer of the first file, whose first block is written.
    ///
    /// # Errors
    /// If the kernel makes no thread.
    pub(super) fn first(
        &self,
        scope: &'scope Scope<'scope, '_>,
        output: Arc<Output>,
        (writer, session): (Writer, SessionV1),
        messages: Receiver<ToWriter>,
    ) -> anyhow::Result<()> {
        self.current.set((1, session.start_ns));
        *self.session.borrow_mut() = session;
        self.due.set(self.next_due());
        let (name, part) = match self.rotate {
            Some(_) => ("icecore-closer", Part::Closer),
            None => ("icecore-writer", Part::Writer),
        };
        let (work, len_bytes) = (self.writers.clone(), Arc::clone(&self.len_bytes.borrow()));
        let write = move || {
            rights::keep(part);
            rest::may();
            work.write(output, writer, &messages, &len_bytes)
        };
        self.handles.borrow_mut().push(spawn(scope, name, write)?);
        Ok(())
    }

    /// Returns true if something asks, and is served now. A condition waits until the last history is as old as one may be: anybody may have a
    /// process of some name, and make the condition hold again and again.
    fn is_triggered(&self) -> bool {
        let signalled = self.signals.as_ref().and_then(Signals::take);
        signalled.into_iter().for_each(|trigger| self.triggers.ask(trigger));
        self.triggers.is_asked(self.serves_conditions())
    }

    fn serves_conditions(&self) -> bool {
        self.next_condition.get().is_none_or(|next| Instant::now() >= next)
    }

    fn next_due(&self) -> Option<Instant> {
        self.rotate.and_then(|rotate| Instant::now().checked_add(rotate.every?))
    }

    /// Waits for the writers, removes the files that are not to be kept, and returns the last one.
    ///
    /// # Errors
    /// If one of them panicked.
    pub(super) fn end(self, options: &Options) -> anyhow::Result<Last> {
        // Nothing waits any longer.
        self.is_triggered();
        let trigger = self.triggers.take(true);
        // The thread that opens files ends.
        drop(self.opener);
        drop(self.ready);
        let mut last = None;
        for handle in self.handles.into_inner() {
            last = join(handle)?.or(last);
        }
        kept::prune(options, self.writers.queue.as_deref());
        let (stored, output) = last.expect("bug: no file is open at the end");
        let (number, began_ns) = self.current.get();
        let turned = Turned { number, began_ns, trigger };
        Ok(Last { stored, output, before: self.before.get(), turned })
    }
}

impl Files for Rotation<'_> {
    fn is_due(&self) -> bool {
        let (Some(rotate), Some((ask, answers))) = (self.rotate, &self.opener) else { return false };
        if self.is_asked.get() {
            match answers.try_recv() {
                Ok(Some(next)) => *self.ready.borrow_mut() = Some(next),
                Ok(None) => self.due.set(Instant::now().checked_add(TRY_AGAIN_AFTER)),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return false,
            }
            self.is_asked.set(false);
            return self.ready.borrow().is_some();
        }
        let is_old = self.due.get().is_some_and(|due| Instant::now() >= due);
        let bytes = self.len_bytes.borrow().load(Ordering::Relaxed);
        let is_large = rotate.bytes.is_some_and(|most| bytes >= most);
        let has_room = self.writers.unfinished.load(Ordering::Relaxed) < MAX_UNFINISHED;
        let is_due = is_old || is_large || self.is_triggered();
        self.is_asked.set(is_due && has_room && ask.try_send(()).is_ok());
        false
    }

    fn turn(&self, at_ns: u64, sampler: &Feed<'_>, ring_high_water_bytes: u64) -> Turn {
        let Next { output, len_bytes, messages, writer } = self.ready.take().expect("bug: no file is open");
        output.keep().expect("bug: the file has another name already");
        let mut handles = self.handles.borrow_mut();
        // If one of them has panicked, the scope does as well.
        handles.retain(|handle| !handle.is_finished());
        handles.push(writer);
        *self.len_bytes.borrow_mut() = len_bytes;
        self.due.set(self.next_due());
        let now = Spent::now(sampler);
        let used = now.receipt_since(self.before.replace(now));
        let trigger = self.triggers.take(self.serves_conditions());
        let saved = self.flight.filter(|_| trigger.is_some());
        if let Some(flight) = saved {
            self.next_condition.set(Instant::now().checked_add(flight.lasts));
        }
        let end_reason = if saved.is_some() { EndReason::TRIGGERED } else { EndReason::ROTATED };
        let (number, began_ns) = self.current.replace((self.current.get().0 + 1, at_ns));
        let turned = Turned { number, began_ns, trigger };
        let spent = ReceiptV1 { end_ns: at_ns, end_reason, ring_high_water_bytes, ..used };
        let ago_ns = clock::monotonic_ns().saturating_sub(at_ns);
        let session = SessionV1 {
            start_ns: at_ns,
            start_unix_ns: clock::unix_ns().saturating_sub(ago_ns),
            ..self.session.borrow().clone()
        };
        self.writers.unfinished.fetch_add(1, Ordering::Relaxed);
        // There is room: it is the first message.
        let _ = messages.try_send(ToWriter::Begin(Box::new(session)));
        Turn { at_ns, spent, next: messages, turned }
    }
}

/// Opens a file and starts its writer whenever the main thread asks, and removes files that are not to be kept.
fn open_files<'scope>(
    scope: &'scope Scope<'scope, '_>,
    options: &'scope Options,
    writers: &Writers<'scope>,
    asked: &Receiver<()>,
    answer: &SyncSender<Option<Next<'scope>>>,
) {
    let series = Series::of(options);
    loop {
        let is_asked = match asked.recv_timeout(PRUNE_EVERY) {
            Ok(()) => true,
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => break,
        };
        if is_asked {
            let next = open(scope, options, &series, writers.clone());
            if let Err(error) = &next {
                summary::tell(&format!("error: {error:#}; the recording goes on in the same file"));
            }
            if answer.send(next.ok()).is_err() {
                break;
            }
        }
        kept::prune(options, writers.queue.as_deref());
    }
}

fn open<'scope>(
    scope: &'scope Scope<'scope, '_>,
    options: &Options,
    series: &Series,
    writers: Writers<'scope>,
) -> anyhow::Result<Next<'scope>> {
    let output = Arc::new(match options.flight {
        Some(_) => Output::Memory,
        None => Output::File(series.create()?),
    });
    let writer = output.writer()?;
    let (messages, received) = sync_channel(WAITING);
    let len_bytes = Arc::<AtomicU64>::default();
    let (own, own_len) = (Arc::clone(&output), Arc::clone(&len_bytes));
    let write = move || {
        rights::keep(Part::Closer);
        rest::may();
        writers.write(own, writer, &received, &own_len)
    };
    Ok(Next { output, len_bytes, messages, writer: spawn(scope, "icecore-closer", write)? })
}

impl Writers<'_> {
    /// Writes a file; returns it if it is the last one.
    fn write(
        &self,
        output: Arc<Output>,
        writer: Writer,
        messages: &Receiver<ToWriter>,
        len_bytes: &AtomicU64,
    ) -> Option<(Stored, Arc<Output>)> {
        let (stored, close) = match store::store(writer, messages, self.shared, len_bytes) {
            Ended::Last(stored) => return Some((stored, output)),
            Ended::Full(stored, close) => (stored, close),
        };
        let trigger = close.turned.trigger.clone();
        match &self.history {
            Some(history) => history.push(flight::Part::full(stored, close), trigger),
            None => self.closed(&output, &stored.close(*close, self.shared), trigger),
        }
        self.unfinished.fetch_sub(1, Ordering::Relaxed);
        None
    }

    fn closed(&self, output: &Output, Closed { samples, lost, bytes }: &Closed, trigger: Option<Trigger>) {
        let settled = output.settle();
        self.queue.as_ref().inspect(|queue| queue.push(output.path(), &settled));
        let called = output.called();
        let told = match bytes {
            Ok(bytes) => Ok(Written {
                path: output.path().and_then(Path::to_str).map(str::to_owned),
                samples: *samples,
                lost: *lost,
                bytes: *bytes,
                text: format!(
                    "finished {called}: {}, {} lost, {}",
                    quantity::things(*samples, "sample"),
                    quantity::count(*lost),
                    quantity::bytes(*bytes)
                ),
            }),
            Err(error) => Err(format!("cannot write {called}: {}", why_not(error))),
        };
        match &told {
            Ok(Written { text, .. }) if !self.quiet => summary::tell(&format!("icecore-record: {text}")),
            Ok(_) => {}
            Err(why) => summary::tell(&format!("error: {why}")),
        }
        trigger.inspect(|trigger| trigger.answer(&told));
        if let Some(text) = settled.text(&called) {
            summary::tell(&format!("icecore-record: {text}"));
        }
    }
}
