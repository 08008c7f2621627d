//! Makes one recording from start to end: arm, sample, drain, close.
//!
//! The order of arming leaves no gap: task events and mapping reports first, then one look into `/proc`
//! while ring and queues are drained, then sampling, then the command.

pub mod cache;
mod close;
mod control;
mod disk;
mod flight;
mod kept;
mod privileges;
mod replaced;
mod rotate;
mod service;
mod ship;
mod targets;
mod used;
mod view;

use std::cell::Cell;
use std::io::IsTerminal as _;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use icecore_format::records::{MissingFeature, SessionV1};
use icecore_format::write::Writer;
use libbpf_rs::PrintCallback;
use rustc_hash::FxHashSet;

use crate::cli::live::{self, Line};
use crate::cli::output::Output;
use crate::cli::pidfile::Pidfile;
use crate::cli::session;
use crate::cli::summary;
use crate::foreign::{Door, Keeper, Scan};
use crate::frame_pointers::FramePointers;
use crate::kernel::events::{self, Opened};
use crate::kernel::feed::Feed;
use crate::kernel::sampler::{Sampler, StacksOfWaits, WAYS, Walker, is_forbidden};
use crate::proc::kallsyms;
use crate::proc::scan;
use crate::settings::{Event, Options, Start, Target, Unwind};
use crate::sys::child::{Paused, Started};
use crate::sys::rights::{self, Part};
use crate::sys::{clock, usage};
use crate::threads::counts::Counts;
use crate::threads::digest::{self, Processes, READ_AGAIN_SHARE, Wishes};
use crate::threads::pump::{Begin, Looks, Pump};
use crate::threads::stop::{Stop, Stopped};
use crate::threads::store::{Embedding, Shared};
use crate::threads::tempo::Asked;
use crate::threads::triggers::{Signals, Triggers};
use close::{End, close};
use disk::with_remedy;
use flight::Saver;
use rotate::Rotation;
use service::Service;
use ship::Shipper;
use used::Meter;
use view::View;

/// The exit code for every failure of the recorder itself; otherwise the exit code is that of the command.
pub const FAILED: u8 = 2;
/// The number of chunks, and of batches, that may wait between two threads.
pub const WAITING: usize = 2;
/// The note about the period of a timer.
const VARIED: &str = "sampling intervals are jittered: every 8 samples, or 8 ms, each CPU gets another one, from a half to one and a half of the \
     period, so that no program runs in step with them";

/// The note about the period of a timer that threads inherit.
const EVEN: &str =
    "sampling intervals are even: every thread is sampled after each period of its own CPU time";

/// The note about a kernel without CONFIG_SECCOMP_FILTER.
const ANY_CALL: &str = "this kernel refuses no system calls (CONFIG_SECCOMP_FILTER): the processes that read files of others may make any";

/// Makes a recording, and returns the exit code of the command (0 without one).
///
/// # Errors
/// If a step fails; the message says what to do. The blocks that were written stay readable; a file without samples is removed.
pub fn record(options: &Options) -> anyhow::Result<u8> {
    let stop = Stop::listen().context("cannot listen for signals")?;
    let recorded = record_until(options, &stop);
    match recorded.as_ref().map_err(|error| error.downcast_ref()) {
        Err(Some(stopped @ Stopped { exit_code })) => {
            if !options.quiet {
                summary::tell(&format!("icecore-record: {stopped}\n"));
            }
            Ok(*exit_code)
        }
        _ => recorded,
    }
}

/// Records until there is a reason to end.
fn record_until(options: &Options, stop: &Stop) -> anyhow::Result<u8> {
    let keeper = Keeper::start().context("cannot start the process that reads files")?;
    usage::keep_freed_memory();
    usage::raise_max_files();
    let service = Service::find(!options.command.is_empty());
    let signals =
        options.turns().map(|_| Signals::listen()).transpose().context("cannot listen for signals")?;
    let mut notes = Vec::new();
    options.notes.iter().for_each(|note| warn(options, &mut notes, note.clone()));
    let mut storage = [const { MaybeUninit::uninit() }; WAYS];
    let print = options.verbose.then_some((|_, text| summary::tell(&text)) as PrintCallback);
    let mut notes_on_events = Vec::new();
    let chosen = events::chosen(options, &mut notes_on_events);
    let without;
    let (options, events, mut sampler) = match Sampler::load(&mut storage, options, &chosen, print) {
        Ok(sampler) => {
            notes.append(&mut notes_on_events);
            (options, chosen, Feed::Programs(Box::new(sampler)))
        }
        Err(error) if is_forbidden(&error) => {
            let privileges::Without { options: fewer, events, source, note } =
                privileges::without(options, error, keeper.door())?;
            warn(options, &mut notes, note);
            without = fewer;
            (&without, events, Feed::Own(Box::new(source)))
        }
        Err(error) => return Err(error),
    };
    // Loading takes most of the time before recording begins.
    stop.check()?;
    sampler.take_notes().into_iter().for_each(|note| warn(options, &mut notes, note));
    if let Some(Walker::Helper(why)) = sampler.walker() {
        warn(options, &mut notes, format!("{why}: user stacks end at 127 frames, and are not copied"));
    }
    if options.user {
        notes.push(note_on_stacks(options, &sampler));
    }
    if let Some(note) = note_on_stacks_of_waits(options, &sampler) {
        warn(options, &mut notes, note);
    }
    if options.kernel && kallsyms::are_hidden() {
        notes.push("kernel addresses are hidden here (kernel.kptr_restrict, CAP_SYSLOG): kernel functions stay unnamed".into());
    }
    let (opened, queues) = match &sampler {
        Feed::Programs(_) => (events::open_sampling(options, &events, &mut notes)?, events::open_queues()?),
        // They are opened for each thread of a target.
        Feed::Own(_) => (Vec::new(), Vec::new()),
    };

    if events.iter().any(|event| event.varied_period().is_some()) {
        let varied = sampler.programs().map_or(EVEN, |_| VARIED);
        notes.push(varied.to_owned());
    }
    if let Some(start) = options.start {
        warn(options, &mut notes, note_on_start(options, start));
    }
    replaced::check(&events, keeper.door())?;
    let mut pidfile = options.pidfile.as_deref().map(Pidfile::planned).transpose()?;
    let viewer = options.live.then(|| view::program(options)).transpose()?;
    let shipper = Shipper::begin(options)?;
    let queue = shipper.as_ref().map(Shipper::queue);
    let output = Arc::new(Output::create(options)?);
    let saver = Saver::begin(options, queue.clone())?;
    let history = saver.as_ref().map(Saver::history);
    let spare = usage::spare_files();
    if spare < usage::FILES_NEEDED {
        let note = format!(
            "{spare} more files may be open here, and {} are needed: names of functions may be missing; raise the \
             limit with `ulimit -n`",
            usage::FILES_NEEDED
        );
        warn(options, &mut notes, note);
    }
    // If the recording goes to stdout, the command gets stderr as its stdout.
    let to_stderr = matches!(*output, Output::Stdout(_));
    let paused = match options.command.as_slice() {
        [] => None,
        command => Some(
            Paused::new(command, to_stderr, options.run_as.as_ref())
                .context("cannot create the process of the command")?,
        ),
    };
    // The command inherits nothing from here on.
    rights::gain_none();
    if !rights::can_refuse() {
        notes.push(ANY_CALL.to_owned());
    }
    let mut targets = targets::add(&sampler, &options.target, paused.as_ref())?;
    sampler.arm_tasks()?;
    let named = match &mut targets {
        Some(tgids) => targets::add_named(&sampler, &options.names, tgids)?,
        None => None,
    };
    let with_named;
    let options = match named {
        Some((target, note)) => {
            warn(options, &mut notes, note);
            with_named = Options { target, ..options.clone() };
            &with_named
        }
        None => options,
    };
    targets::forget_the_dead(&sampler, &options.target);
    let children = match (&options.target, &mut targets) {
        (Target::Processes(_), Some(tgids)) if options.children => targets::add_children(&sampler, tgids)?,
        (Target::Processes(_), Some(tgids)) => scan::descendants(tgids).len(),
        _ => 0,
    };
    if children > 0 {
        warn(options, &mut notes, targets::note_on_children(children, options.children));
    }
    let left_out = if options.children { 0 } else { children };
    // Any process may wake a target.
    let first_tgids = targets.filter(|_| options.off_cpu.is_none_or(|off_cpu| !off_cpu.wakers));
    let follows_some = first_tgids.is_some();
    let found = match &first_tgids {
        None => Scan::all(keeper.door()),
        Some(tgids) => Scan::of(tgids.iter().copied(), keeper.door()),
    };
    for note in replaced::notes(&events, found.clone()) {
        warn(options, &mut notes, note);
    }
    if options.verbose {
        notes.iter().for_each(|note| summary::tell(&format!("icecore-record: {note}\n")));
    }
    let processes = processes(options, &sampler, first_tgids, keeper.door())?;
    let (refused, counts, unfinished) = (AtomicBool::new(false), Counts::default(), AtomicUsize::new(0));
    let (counts, triggers) = (Arc::new(counts), Arc::<Triggers>::default());
    let asked = Arc::<Asked>::default();
    let settings = (options, &*events, sampler.programs().is_some());
    let control = control::listen(settings, &counts, &triggers, &asked, queue.clone())?;
    let meter = Meter::new(options.budget, &keeper, &counts);
    let line = Line::new(options, &counts);
    // The exit code if the program of the command does not start.
    let hung = Cell::new(None);
    let (pumped, digested, last, command, view) = thread::scope(|scope| {
        let (chunks_to, chunks) = sync_channel(WAITING);
        let (batches_to, batches) = sync_channel(WAITING);
        let (requested, refused, counts) = (stop.requested(), &refused, &*counts);
        let (pace, wishes) =
            (options.pace(&events), wishes(options, requested, refused, (counts, &triggers)));
        let digest = move || {
            rights::keep(Part::Tracker);
            digest::digest(&chunks, batches_to, processes, pace, wishes)
        };
        let tracker = spawn(scope, "icecore-tracker", digest)?;
        let Options { embed, embed_max_bytes: max_bytes, .. } = *options;
        let shared = Shared { counts, embedding: Embedding { embed, max_bytes, refused } };
        let kept = (history, queue.clone());
        let rotation = Rotation::begin(scope, options, shared, (&unfinished, &triggers, signals), kept)?;
        let pump = Pump {
            options,
            queues: &queues,
            stop: requested,
            refused,
            chunks: chunks_to,
            events: &events,
            looks: Looks::default(),
            files: options.turns().is_some().then_some(&rotation),
            show: &|phase| {
                line.show(phase);
                let waiting = || queue.as_ref().map(|queue| queue.text()).unwrap_or_default();
                service.alive(|| line.text(phase) + &waiting());
            },
            asked: &asked,
            used: &|sampler| meter.used(sampler),
            again: &|sampler| {
                let followed = follows_some.then(|| sampler.followed()).flatten();
                followed.unwrap_or_else(|| scan::processes().collect())
            },
        };
        let mut seen = pump.look_around(&sampler, found)?;
        stop.check()?;
        used::check_memory(options.budget, usage::rss_bytes())?;
        let (writer, session, begin) = begin_file(&output, options, (&events, opened), notes, &mut sampler)
            .map_err(|error| explain_begin(error, &output))?;
        let messages = (writer, session);
        rotation.first(scope, Arc::clone(&output), messages, batches)?;
        stop.let_the_second_abort().context("cannot listen for signals")?;
        if paused.is_some() {
            stop.check()?;
        }
        let census = pump.count(&sampler, &begin, &mut seen);
        let program = options.command.first().map(|program| program.to_string_lossy()).unwrap_or_default();
        let started = paused.map(Paused::start).transpose();
        let mut command = started.with_context(|| format!("cannot run `{program}`"))?;
        let told = pidfile.as_mut().map_or(Ok(()), Pidfile::write);
        if let Err(error) = told.and_then(|()| output.keep()) {
            command.into_iter().for_each(Started::end);
            return Err(error);
        }
        service.ready();
        control.begin();
        let view =
            viewer.zip(output.path()).map(|(program, path)| View::start(&program, path)).transpose()?;
        let pumped = pump.run(&mut sampler, (begin, seen, census), command.as_mut());
        live::remove();
        service.stopping();
        let command = match (&pumped, command) {
            (Err(_), command) => {
                command.into_iter().for_each(Started::end);
                None
            }
            (Ok(_), None) => None,
            (Ok(_), Some(command)) => {
                let running = command.running();
                if running.is_none() {
                    summary::tell(&format!(
                        "icecore-record: the command did not start: the kernel still waits for the file of `{program}`, whose file system \
                         does not answer\n"
                    ));
                    hung.set(Some(stop.check().err().map_or(FAILED, |Stopped { exit_code }| exit_code)));
                }
                running
            }
        };
        drop(pump);
        let digested = join(tracker)?;
        let last = rotation.end(options)?;
        anyhow::Ok((pumped?, digested, last, command, view))
    })?;
    // With --delay, probes are made when the notes are in the file already.
    sampler.take_notes().into_iter().for_each(|note| warn(options, &mut Vec::new(), note));
    if options.verbose {
        summary::tell(&format!(
            "icecore-record: the longest time without a look at whether to end was {} ms, and the longest pass over the ring took {} ms\n",
            pumped.longest_without_look.as_millis(),
            pumped.longest_pass.as_millis()
        ));
    }

    let elapsed = Duration::from_nanos(pumped.end_ns.saturating_sub(pumped.began_ns));
    let by_terminal = stop.is_of_terminal();
    let end =
        End { events: &events, elapsed, pumped, digested, exit_code: None, by_terminal, left_out, view };
    let code = close(options, &sampler, (last, saver, queue.as_deref()), end, command)?;
    shipper.into_iter().for_each(|shipper| shipper.end(stop));
    Ok(hung.get().unwrap_or(code))
}

/// Lists what this kernel or the recorder's privileges do not give, of what the options need.
fn missing_features(options: &Options, sampler: &Feed<'_>) -> Vec<MissingFeature> {
    let waits_are_copied = matches!(sampler.stacks_of_waits(), StacksOfWaits::Copied(_));
    let takes_tables = options.user && options.unwind == Unwind::Auto;
    let missing = [
        (sampler.programs().is_none(), MissingFeature::PROGRAMS),
        (sampler.walker().is_some_and(|walker| walker != Walker::Loop), MissingFeature::LOOP),
        (waits_are_copied && options.user && options.off_cpu.is_some(), MissingFeature::TASK_WORK),
        (takes_tables && !sampler.walks_tables(), MissingFeature::TABLE_WALKS),
        (options.kernel && kallsyms::are_hidden(), MissingFeature::KERNEL_ADDRESSES),
    ];
    missing.into_iter().filter(|(is_missing, _)| *is_missing).map(|(_, feature)| feature).collect()
}

/// Says what user stacks of waits lack here.
fn note_on_stacks_of_waits(options: &Options, sampler: &Feed<'_>) -> Option<String> {
    match sampler.stacks_of_waits() {
        _ if options.off_cpu.is_none() || !options.user => None,
        StacksOfWaits::ByThread => None,
        StacksOfWaits::Copied(why) => {
            let unless = if sampler.walks_tables() { "where unwind tables are not enough, " } else { "" };
            Some(format!("{why}: {unless}of user stacks of waits at most 2 KiB are copied"))
        }
        StacksOfWaits::Missing => Some("this kernel copies no stacks: waits have no user stacks".to_owned()),
    }
}

/// Says when sampling begins.
fn note_on_start(options: &Options, start: Start) -> String {
    match start {
        Start::After(delay) => {
            let after =
                if options.command.is_empty() { "the recorder is ready" } else { "the command starts" };
            format!("sampling begins {} s after {after} (--delay)", delay.as_secs_f64())
        }
        Start::AtMultipleOf(every) => {
            format!("sampling begins when the time is next a multiple of {} s (--at)", every.as_secs_f64())
        }
    }
}

/// Says how user stacks are taken.
fn note_on_stacks(options: &Options, sampler: &Feed<'_>) -> String {
    let copied = "copied, unless all code of the process keeps frame pointers";
    match (sampler.walker(), options.unwind) {
        (Some(Walker::Helper(_)), _) | (_, Unwind::Fp) => {
            "user stacks are walked along frame pointers: code that keeps none hides its callers".to_owned()
        }
        (None, _) => {
            format!(
                "of user stacks at most {} KiB are copied, and the report unwinds them",
                options.stack_bytes >> 10
            )
        }
        (_, Unwind::Dwarf) => "user stacks are copied, and the report unwinds them".to_owned(),
        (_, Unwind::Auto) if sampler.walks_tables() => {
            let audit = match options.audit {
                0 => "no walk is checked against a copy".to_owned(),
                each => format!("one of {each} walks is checked against a copy"),
            };
            format!(
                "user stacks are walked by unwind tables once the sampler has them, otherwise {copied}; {audit}"
            )
        }
        (_, Unwind::Auto) => {
            format!(
                "this kernel cannot walk user stacks by unwind tables (needs Linux 6.1): they are {copied}"
            )
        }
        (_, Unwind::Copy) => format!("user stacks are {copied}"),
    }
}

/// Prints a note before the recording begins. With `--verbose` it is only stored: all notes are printed a little later.
fn warn(options: &Options, notes: &mut Vec<String>, note: String) {
    if !options.quiet && !options.verbose {
        summary::tell(&format!("icecore-record: {note}\n"));
    }
    notes.push(note);
}

/// Returns the processes that the tracker follows, and the lists that control which stacks the sampler copies.
fn processes(
    options: &Options,
    sampler: &Feed<'_>,
    followed: Option<FxHashSet<u32>>,
    door: Door,
) -> anyhow::Result<Processes> {
    let Some(sampler) = sampler.programs() else {
        return Ok(Processes { followed, door, frame_pointers: None, sent_pages: None, kernel_names: None });
    };
    let walks_deep = sampler.walker() == Walker::Loop;
    let judges = walks_deep && options.unwind.judges();
    let frame_pointers =
        judges.then(|| FramePointers::new(sampler, options.keeps_tables, &door)).transpose()?;
    let copies = walks_deep && options.unwind != Unwind::Fp;
    let sent_pages = copies.then(|| sampler.sent_pages()).transpose()?;
    // Who must not know addresses of the kernel must not know them from names either.
    let kernel_names = if kallsyms::are_hidden() { None } else { sampler.kernel_names() };
    Ok(Processes { followed, door, frame_pointers, sent_pages, kernel_names })
}

/// Returns what to embed of the images that are hit.
fn wishes<'a>(
    options: &'a Options,
    stop: &'a AtomicBool,
    refused: &'a AtomicBool,
    (counts, triggers): (&'a Counts, &'a Triggers),
) -> Wishes<'a> {
    let is_told = !options.quiet && std::io::stderr().is_terminal();
    let has_stacks = options.unwind != Unwind::Fp;
    Wishes {
        embed: options.embed,
        max_bytes: options.embed_max_bytes,
        has_stacks,
        is_told,
        tell: summary::tell,
        stop,
        refused,
        counts,
        when: &options.when,
        counters_every: options.counters.unwrap_or_default(),
        triggers,
        read_share: options.budget.cpu.map_or(1.0, |parts| parts as f64 / 1e7).min(READ_AGAIN_SHARE),
    }
}

/// Explains why the recording could not begin, and what to do.
fn explain_begin(error: anyhow::Error, output: &Output) -> anyhow::Error {
    let called = output.called();
    match (error.downcast_ref(), error.downcast_ref()) {
        (Some(io), _) | (_, Some(icecore_format::Error::Io(io))) => {
            anyhow::anyhow!("cannot begin {called}: {}", with_remedy(io))
        }
        _ => error.context(format!("cannot begin {called}")),
    }
}

/// Starts sampling, unless it is to begin later, and writes the first block.
fn begin_file(
    output: &Output,
    options: &Options,
    (events, opened): (&[Event], Vec<Opened>),
    notes: Vec<String>,
    sampler: &mut Feed<'_>,
) -> anyhow::Result<(Writer, SessionV1, Begin)> {
    let mut writer = output.writer()?;
    let mut session = session::describe(options, events, notes, missing_features(options, sampler));
    let begin = if options.start.is_some() {
        Begin::At(session.start_ns, opened)
    } else {
        sampler.arm_sampling(events, opened)?;
        sampler.take_notes().into_iter().for_each(|note| warn(options, &mut session.notes, note));
        Begin::Began(clock::monotonic_ns())
    };
    writer.append(&session)?;
    Ok((writer, session, begin))
}

fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> anyhow::Result<thread::ScopedJoinHandle<'scope, T>> {
    thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, work).context("cannot start a thread")
}

fn join<T>(handle: thread::ScopedJoinHandle<'_, T>) -> anyhow::Result<T> {
    handle.join().map_err(|_| {
        anyhow::anyhow!("bug: a thread of the recorder panicked; the blocks that were written can be read")
    })
}
