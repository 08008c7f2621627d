//! `--ship`: hands finished files to an archive. Another program ships them, without any capability, and nobody waits for it.
//!
//! ```text
//! closers, saver ─► queue of names ─► shipper, one file at a time ─► icecore-report ship ─► archive
//!                     │                  └─► it has arrived: the file is removed, or stays with --keep…
//!                     └─ the oldest go if too much waits
//! ```

use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use icecore_text::quantity::{bytes, things};
use serde_json::{Value, json};

use super::view;
use crate::cli::output::{Series, Settled};
use crate::cli::summary;
use crate::settings::{Keep, Options, Ship};
use crate::sys::rights::{self, Part};
use crate::sys::{child, user::User};
use crate::threads::stop::Stop;

/// How many bytes of files stay at most, if the user does not say so.
const MOST_BYTES: u64 = 1 << 30;
/// What is waited after a failure; then twice as long each time, and at most the second time.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];
/// How long the recorder waits at its end for the files that have not arrived.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long it waits before it says so.
const UNTOLD: Duration = Duration::from_secs(1);
/// How long the program may take to end once it is told to.
const TO_END: Duration = Duration::from_secs(2);
/// The longest answer, bytes.
const MAX_ANSWER: u64 = 1 << 20;
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A finished file that has not arrived.
#[derive(Debug)]
struct Waiting {
    path: PathBuf,
    bytes: u64,
    failures: u32,
}

impl Waiting {
    /// The folder of a path may be written in several ways.
    fn is(&self, path: &Path) -> bool {
        self.path.file_name() == path.file_name()
    }
}

#[derive(Debug, Default)]
struct Held {
    waiting: Vec<Waiting>,
    /// What is on its way, and since when.
    sending: Option<(PathBuf, Instant)>,
    arrived: u64,
    /// Files that were removed because too much waits.
    removed_unsent: u64,
    /// Why the last file has not arrived; `None` after one that has.
    error: Option<String>,
    failures: u32,
    not_before: Option<Instant>,
    /// No more files come.
    is_over: bool,
    /// Nothing is shipped any more.
    is_given_up: bool,
}

/// The files that wait.
#[derive(Debug)]
pub(super) struct Queue {
    ship: Ship,
    /// How many bytes stay here if the user does not say so.
    most_bytes: u64,
    quiet: bool,
    held: Mutex<Held>,
    changed: Condvar,
}

impl Queue {
    /// Begins with finished files of earlier runs.
    fn new(ship: Ship, quiet: bool, earlier: Vec<(PathBuf, u64)>) -> Self {
        // They must not go at once.
        let most_bytes = MOST_BYTES.max(earlier.iter().map(|(_, bytes)| bytes).sum());
        let waiting = earlier.into_iter().map(|(path, bytes)| Waiting { path, bytes, failures: 0 }).collect();
        let held = Mutex::new(Held { waiting, ..Held::default() });
        Self { ship, most_bytes, quiet, held, changed: Condvar::new() }
    }

    /// Returns which files stay, given what the user says.
    pub(super) fn limits(&self, keep: Keep) -> Keep {
        if self.ship.keeps { keep } else { Keep { bytes: Some(self.most_bytes), ..keep } }
    }

    /// Takes a file that is finished, if it is where it was requested.
    pub(super) fn push(&self, path: Option<&Path>, settled: &Settled) {
        if let (Some(path), Settled::AsAsked | Settled::Again) = (path, settled) {
            let bytes = fs::metadata(path).map_or(0, |meta| meta.len());
            self.held().waiting.push(Waiting { path: path.to_owned(), bytes, failures: 0 });
            self.changed.notify_all();
        }
    }

    /// Counts files that were removed because too much is kept here.
    pub(super) fn removed(&self, paths: &[PathBuf]) {
        let mut held = self.held();
        let mut gone = Vec::new();
        for path in paths {
            let at = held.waiting.iter().position(|waiting| waiting.is(path));
            gone.extend(at.map(|at| held.waiting.remove(at)));
        }
        held.removed_unsent += gone.len() as u64;
        // Who reads messages may be slow, and nobody waits for that with the lock.
        drop(held);
        for Waiting { path, bytes: size, .. } in gone {
            summary::tell(&format!(
                "error: removed `{}` ({}) before it has arrived at `{}`: more may not wait here (--keep…)",
                path.display(),
                bytes(size),
                self.ship.to
            ));
        }
    }

    /// Waits for a file that is to be shipped now. `None` at the end.
    fn next(&self) -> Option<PathBuf> {
        let mut held = self.held();
        loop {
            if held.is_given_up || held.is_over && held.waiting.is_empty() {
                return None;
            }
            // One file that is refused keeps no others waiting.
            let first = held.waiting.iter().min_by_key(|waiting| (waiting.failures, &waiting.path));
            let pause = held.not_before.map(|at| at.saturating_duration_since(Instant::now()));
            match (first, pause.filter(|pause| !pause.is_zero())) {
                (Some(first), None) => {
                    let path = first.path.clone();
                    held.sending = Some((path.clone(), Instant::now()));
                    return Some(path);
                }
                (Some(_), Some(pause)) => {
                    let woken = self.changed.wait_timeout(held, pause);
                    held = woken.unwrap_or_else(PoisonError::into_inner).0;
                }
                (None, _) => held = self.changed.wait(held).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Notes that a file has arrived, and removes it unless files are kept.
    fn arrived(&self, path: &Path) {
        let removed = if self.ship.keeps { Ok(()) } else { fs::remove_file(path) };
        let mut held = self.held();
        let Held { waiting, removed_unsent, .. } = &mut *held;
        match waiting.iter().position(|waiting| waiting.is(path)) {
            Some(at) => _ = waiting.remove(at),
            // It was removed while it was on its way.
            None => *removed_unsent = removed_unsent.saturating_sub(1),
        }
        held.arrived += 1;
        (held.sending, held.error, held.failures, held.not_before) = (None, None, 0, None);
        drop(held);
        let (shown, to) = (path.display(), &self.ship.to);
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => summary::tell(&format!(
                "error: cannot remove `{shown}`, which has arrived at `{to}`: {error}"
            )),
            _ if self.quiet => {}
            _ => summary::tell(&format!("icecore-record: `{shown}` has arrived at `{to}`")),
        }
    }

    /// Notes why a file has not arrived.
    fn failed(&self, path: &Path, why: String) {
        let is_there = path.exists();
        let mut held = self.held();
        held.sending = None;
        // Another recorder of this series ships it, too, or somebody has removed it.
        if !is_there {
            held.waiting.retain(|waiting| !waiting.is(path));
            return;
        }
        held.waiting.iter_mut().filter(|it| it.is(path)).for_each(|waiting| waiting.failures += 1);
        held.failures += 1;
        let pause = PAUSES[0].saturating_mul(1 << (held.failures - 1).min(16)).min(PAUSES[1]);
        held.not_before = Instant::now().checked_add(pause);
        let is_known = held.error.as_ref() == Some(&why);
        held.error = Some(why.clone());
        drop(held);
        if !is_known {
            summary::tell(&format!(
                "error: cannot ship `{}` to `{}`: {why}; it stays here, and the recorder tries again",
                path.display(),
                self.ship.to
            ));
        }
    }

    /// Notes that no more files come. What waits is tried again at once.
    fn finish(&self) {
        let mut held = self.held();
        (held.is_over, held.failures, held.not_before) = (true, 0, None);
        self.changed.notify_all();
    }

    /// Ships nothing any more.
    fn give_up(&self, why: Option<String>) {
        let mut held = self.held();
        (held.is_given_up, held.sending) = (true, None);
        held.error = why.or_else(|| held.error.take());
        self.changed.notify_all();
    }

    /// Returns what `icecore-record ctl status` says.
    pub(super) fn status(&self) -> Value {
        let held = self.held();
        json!({
            "to": self.ship.to,
            "waiting": held.waiting.len(),
            "waiting_bytes": held.waiting.iter().map(|waiting| waiting.bytes).sum::<u64>(),
            "sending_s": held.sending.as_ref().map(|(_, since)| since.elapsed().as_secs_f64()),
            "arrived": held.arrived,
            "removed_unsent": held.removed_unsent,
            "error": held.error,
        })
    }

    /// Says what waits; empty if nothing does.
    pub(super) fn text(&self) -> String {
        let held = self.held();
        match held.waiting.len() as u64 {
            0 => String::new(),
            waiting => format!(", {} not shipped yet", things(waiting, "file")),
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The ways to the program.
struct Pipes {
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Pipes {
    /// Reads a document.
    fn read(&mut self) -> io::Result<Value> {
        let mut line = Vec::new();
        io::Read::take(&mut self.answers, MAX_ANSWER).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_slice(&line)?)
    }

    /// Ships a file. The inner result says why it has not arrived.
    ///
    /// # Errors
    /// If the program is gone.
    fn ship(&mut self, path: &Path) -> io::Result<Result<(), String>> {
        let request = [path.as_os_str().as_bytes(), b"\n"].concat();
        self.requests.write_all(&request)?;
        let answer = self.read()?;
        let file = &answer["files"][0];
        Ok(if file["arrived"] == true {
            Ok(())
        } else {
            Err(file["error"].as_str().unwrap_or("the program that ships does not say why").to_owned())
        })
    }
}

/// What ships files, and the thread that asks it to.
#[derive(Debug)]
pub(super) struct Shipper {
    process: Child,
    thread: JoinHandle<()>,
    queue: Arc<Queue>,
    /// Files of earlier runs are shipped, too.
    is_of_series: bool,
}

impl Shipper {
    /// Starts it, with the files of earlier runs; `None` if nothing is to be shipped.
    ///
    /// # Errors
    /// If the program is missing, or the archive cannot be meant.
    pub(super) fn begin(options: &Options) -> anyhow::Result<Option<Self>> {
        let Some(ship) = &options.ship else { return Ok(None) };
        let program = view::beside("ship files (--ship)")?;
        let series = Series::of(options);
        ensure!(
            !series.has_line_end(),
            "cannot ship files (--ship): the path of -o has a line feed; name another one"
        );
        let user = series.owner_by_sudo().map(|uid| User::find(&uid.to_string())).transpose();
        let user = user.context("cannot look up the user who called sudo")?.flatten();
        let mut process = view::started(|| {
            let mut command = Command::new(&program);
            command.args(["ship", "--json", "--requests", "--", &ship.to]);
            // Ctrl-C is for the recorder: in its own group the program goes on.
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
            match user {
                Some(user) => {
                    rights::gain_none();
                    child::run_as(&mut command, user);
                }
                None => rights::keep_none()?,
            }
            command.spawn()
        })
        .with_context(|| format!("cannot run `{}`", program.display()))?;
        let (Some(requests), Some(answers)) = (process.stdin.take(), process.stdout.take()) else {
            bail!("bug: the program that ships has no pipes");
        };
        let mut pipes = Pipes { requests, answers: BufReader::new(answers) };
        if pipes.read().is_err() {
            // It has said why.
            let _ = process.wait();
            bail!("cannot ship files (--ship): `{}` has ended", program.display());
        }
        let is_of_series = options.turns().is_some();
        let earlier = if is_of_series { series.finished() } else { Vec::new() };
        let queue = Arc::new(Queue::new(ship.clone(), options.quiet || options.live, earlier));
        let own = Arc::clone(&queue);
        let serve = move || {
            rights::keep(Part::Shipper);
            serve(&own, pipes);
        };
        let thread = thread::Builder::new().name("icecore-shipper".to_owned()).spawn(serve);
        let thread = thread.context("cannot start a thread")?;
        Ok(Some(Self { process, thread, queue, is_of_series }))
    }

    /// Returns the files that wait.
    pub(super) fn queue(&self) -> Arc<Queue> {
        Arc::clone(&self.queue)
    }

    /// Waits until all files have arrived, for a while, or until the user requests an end; says what has not arrived.
    pub(super) fn end(mut self, stop: &Stop) {
        self.queue.finish();
        let begun = Instant::now();
        let (mut is_told, is_requested) = (self.queue.quiet, stop.again());
        while !self.thread.is_finished() && begun.elapsed() < PATIENCE && !is_requested() {
            if !is_told && begun.elapsed() >= UNTOLD {
                is_told = true;
                summary::tell(&format!(
                    "icecore-record: waiting for {} to arrive at `{}`, at most {} s; Ctrl-C ends it",
                    things(self.queue.held().waiting.len() as u64, "file"),
                    self.queue.ship.to,
                    PATIENCE.as_secs()
                ));
            }
            thread::sleep(LOOK_EVERY);
        }
        if !self.thread.is_finished() {
            self.queue.give_up(None);
            child::kill_group(&self.process);
        }
        // It ends with its input, unless what it reads or writes does not answer.
        let begun = Instant::now();
        while matches!(self.process.try_wait(), Ok(None)) && begun.elapsed() < TO_END {
            thread::sleep(LOOK_EVERY);
        }
        self.tell_rest();
    }

    /// Says what has not arrived.
    fn tell_rest(&self) {
        let held = self.queue.held();
        let Some(first) = held.waiting.first() else { return };
        let size = held.waiting.iter().map(|waiting| waiting.bytes).sum();
        let why = held.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
        let next = if self.is_of_series { ", or the next recording with the same -o and --ship" } else { "" };
        summary::tell(&format!(
            "error: {} ({}) {} not arrived at `{}`{why}; kept here, `{}` first: ship with `icecore-report ship DEST FILE…`{next}",
            things(held.waiting.len() as u64, "file"),
            bytes(size),
            if held.waiting.len() == 1 { "has" } else { "have" },
            self.queue.ship.to,
            first.path.display()
        ));
    }
}

/// Ships one file after the other.
fn serve(queue: &Queue, mut pipes: Pipes) {
    while let Some(path) = queue.next() {
        match pipes.ship(&path) {
            Ok(Ok(())) => queue.arrived(&path),
            Ok(Err(why)) => queue.failed(&path, why),
            Err(_) if queue.held().is_given_up => break,
            Err(_) => {
                let why = "the program that ships has ended: start the recorder again".to_owned();
                summary::tell(&format!("error: {why}; files stay here"));
                queue.give_up(Some(why));
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(keeps: bool) -> Queue {
        Queue::new(Ship { to: "archive".to_owned(), keeps }, true, Vec::new())
    }

    /// Makes files that wait.
    fn files(queue: &Queue, names: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        for name in names {
            let path = dir.path().join(name);
            fs::write(&path, "ten bytes!").expect("room");
            queue.push(Some(&path), &Settled::AsAsked);
        }
        dir
    }

    fn name(path: Option<PathBuf>) -> Option<String> {
        path.map(|path| path.file_name().expect("a name").to_string_lossy().into_owned())
    }

    fn counts(queue: &Queue) -> [u64; 4] {
        let status = queue.status();
        ["waiting", "waiting_bytes", "arrived", "removed_unsent"].map(|key| status[key].as_u64().expect(key))
    }

    #[test]
    fn a_file_that_is_refused_keeps_no_others_waiting_and_pauses_grow_to_a_minute() {
        let queue = queue(false);
        let dir = files(&queue, &["a", "b"]);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            let path = queue.next().expect("one waits");
            queue.failed(&path, "no".to_owned());
            let mut held = queue.held();
            let pause = held.not_before.take().expect("it waits").saturating_duration_since(Instant::now());
            pauses.push(pause.as_secs_f64().round() as u64);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        queue.held().waiting[0].failures += 1;
        let path = queue.next().expect("b");
        assert_eq!(name(Some(path.clone())), Some("b".to_owned()));
        queue.arrived(&path);
        assert!(!path.exists() && dir.path().join("a").exists());
        assert_eq!((counts(&queue), queue.held().failures), ([1, 10, 1, 0], 0));
        assert!(queue.status()["error"].is_null());
    }

    #[test]
    fn what_is_removed_is_counted_unless_it_arrives_all_the_same() {
        let queue = queue(true);
        let dir = files(&queue, &["a", "b", "c"]);
        let path = queue.next().expect("a");
        let gone = ["a", "b", "x"].map(|name| Path::new(".").join(name));
        queue.removed(&gone);
        assert_eq!(counts(&queue), [1, 10, 0, 2]);
        queue.arrived(&path);
        assert_eq!(counts(&queue), [1, 10, 1, 1]);
        assert!(path.exists(), "what arrives is kept");
        // Somebody else has removed it.
        fs::remove_file(dir.path().join("c")).expect("ours");
        let path = queue.next().expect("c");
        queue.failed(&path, "it is gone".to_owned());
        assert_eq!((counts(&queue), queue.held().failures), ([0, 0, 1, 1], 0));
        queue.finish();
        assert_eq!(queue.next(), None);
    }

    #[test]
    fn without_a_limit_of_the_user_a_gibibyte_waits_and_what_was_there_before() {
        let limits = |bytes, keeps, keep| {
            let ship = Ship { to: "archive".to_owned(), keeps };
            Queue::new(ship, true, vec![("a".into(), bytes), ("b".into(), 1)]).limits(keep)
        };
        let bytes = |bytes| Keep { bytes: Some(bytes), ..Keep::default() };
        assert_eq!(limits(7, false, Keep::default()), bytes(1 << 30));
        assert_eq!(limits(1 << 34, false, Keep::default()), bytes((1 << 34) + 1));
        assert_eq!(limits(1 << 34, true, bytes(5)), bytes(5));
    }

    #[test]
    fn nothing_is_shipped_after_the_end_of_patience() {
        let queue = queue(false);
        let _dir = files(&queue, &["a"]);
        queue.give_up(Some("gone".to_owned()));
        assert_eq!((queue.next(), counts(&queue)[0]), (None, 1));
        assert_eq!(queue.status()["error"], "gone");
    }
}
