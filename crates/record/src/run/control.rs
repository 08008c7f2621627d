//! Answers `icecore-record ctl`: a thread listens on a socket of this user, and passes on what is asked.
//!
//! A request is a word and the end of the line; the answer is one line of JSON. Nobody can hold the recording up: the main thread looks only at
//! what was asked.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use icecore_format::records::TriggerCause;
use serde_json::{Value, json};

use crate::settings::{Control as Wanted, Options};
use crate::sys::control::{self, Bound, PATIENCE};
use crate::sys::rights::{self, Part};
use crate::threads::counts::Counts;
use crate::threads::triggers::{Trigger, Triggers, Written};

/// The longest request, bytes.
const MAX_REQUEST: u64 = 256;
/// The most requests that are answered at one time.
const MAX_CLIENTS: usize = 8;
/// How long who asked waits for a file.
const FOR_A_FILE: Duration = Duration::from_secs(120);

/// What the thread knows.
#[derive(Debug)]
struct Known {
    options: Options,
    counts: Arc<Counts>,
    triggers: Arc<Triggers>,
    begun: Arc<OnceLock<Instant>>,
    clients: AtomicUsize,
}

/// The socket, which goes with this value.
#[derive(Debug, Default)]
pub(super) struct Control {
    _bound: Option<Bound>,
    begun: Arc<OnceLock<Instant>>,
}

impl Control {
    /// Notes that the recording has begun.
    pub(super) fn begin(&self) {
        self.begun.get_or_init(Instant::now);
    }
}

/// Listens from now on, until the returned value goes.
///
/// # Errors
/// If the socket that the user named cannot be made. That of a usual name is no need.
pub(super) fn listen(
    options: &Options,
    counts: &Arc<Counts>,
    triggers: &Arc<Triggers>,
) -> anyhow::Result<Control> {
    let bound = match &options.control {
        Wanted::Nothing => return Ok(Control::default()),
        Wanted::At(path) => match control::bind(path) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                anyhow::bail!("cannot make the control socket `{}`: it exists; remove it", path.display())
            }
            bound => bound.with_context(|| format!("cannot make the control socket `{}`", path.display()))?,
        },
        Wanted::Usual => match control::bind_usual() {
            Ok(bound) => bound,
            Err(_) => return Ok(Control::default()),
        },
    };
    let listener = bound.listener.try_clone().context("cannot listen on the control socket")?;
    let (options, counts, triggers) = (options.clone(), Arc::clone(counts), Arc::clone(triggers));
    let control = Control { _bound: Some(bound), ..Control::default() };
    let begun = Arc::clone(&control.begun);
    let known = Known { options, counts, triggers, begun, clients: AtomicUsize::new(0) };
    let serve = move || {
        rights::keep(Part::Helper);
        serve(&listener, &Arc::new(known));
    };
    // It ends with the process.
    thread::Builder::new()
        .name("icecore-control".to_owned())
        .spawn(serve)
        .context("cannot start a thread")?;
    Ok(control)
}

fn serve(listener: &UnixListener, known: &Arc<Known>) {
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // There may be no descriptor left.
            thread::sleep(PATIENCE);
            continue;
        };
        if !control::is_allowed(&stream) {
            continue;
        }
        if known.clients.load(Ordering::Relaxed) >= MAX_CLIENTS {
            // The buffer of a new socket has room.
            let _ = writeln!(&stream, "{}", json!({ "error": "too many ask at once: ask again" }));
            continue;
        }
        known.clients.fetch_add(1, Ordering::Relaxed);
        let own = Arc::clone(known);
        let answer = move || {
            // Who asked may be gone.
            let _ = talk(&stream, &own);
            own.clients.fetch_sub(1, Ordering::Relaxed);
        };
        if thread::Builder::new().name("icecore-control".to_owned()).spawn(answer).is_err() {
            known.clients.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn talk(mut stream: &UnixStream, known: &Known) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut request = String::new();
    BufReader::new(stream.take(MAX_REQUEST)).read_line(&mut request)?;
    let answer = match known.answer(request.trim()) {
        Ok(answer) => answer,
        Err(why) => json!({ "error": why }),
    };
    writeln!(stream, "{answer}")
}

impl Known {
    fn answer(&self, request: &str) -> Result<Value, String> {
        match request {
            "status" => Ok(self.status()),
            "snapshot" if self.options.flight.is_some() => self.ask("icecore-record ctl snapshot"),
            "snapshot" => {
                Err("this recording holds no history: start the recorder with --flight TIME".to_owned())
            }
            "rotate" if self.options.rotate.is_some() => self.ask("icecore-record ctl rotate"),
            "rotate" => {
                Err("this recording has one file: start the recorder with --rotate TIME|SIZE".to_owned())
            }
            _ => Err("this recorder knows status, snapshot and rotate".to_owned()),
        }
    }

    fn status(&self) -> Value {
        let counted = self.counts.now();
        let others: serde_json::Map<String, Value> =
            counted.other_losses.iter().map(|(cause, count)| (cause.name(), json!(count))).collect();
        let Options { rotate, flight, command, .. } = &self.options;
        let command: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
        let bytes_are_of = if flight.is_some() { "memory" } else { "file" };
        json!({
            "schema": "icecore.ctl/1",
            "pid": std::process::id(),
            "version": env!("CARGO_PKG_VERSION"),
            "state": if self.begun.get().is_some() { "recording" } else { "starting" },
            "since_s": self.begun.get().map_or(0.0, |begun| begun.elapsed().as_secs_f64()),
            "samples": counted.samples,
            "lost": counted.lost_samples,
            "other_losses": others,
            "bytes": counted.file_bytes,
            "bytes_are_of": bytes_are_of,
            "command": command,
            "rotate": rotate.map(|it| json!({ "s": it.every.map(|it| it.as_secs_f64()), "bytes": it.bytes })),
            "flight": flight.map(|it| json!({ "s": it.lasts.as_secs_f64(), "bytes": it.bytes })),
        })
    }

    /// Asks for a file, and waits for it.
    fn ask(&self, what: &str) -> Result<Value, String> {
        let (answer, told) = sync_channel(1);
        self.triggers.ask(Trigger { answers: vec![answer], ..Trigger::new(TriggerCause::CONTROL, what) });
        let told =
            told.recv_timeout(FOR_A_FILE).map_err(|_| "the recorder has not written it yet".to_owned())?;
        let Written { path, samples, lost, bytes, text } = told?;
        Ok(json!({
            "schema": "icecore.ctl/1",
            "pid": std::process::id(),
            "path": path,
            "samples": samples,
            "lost": lost,
            "bytes": bytes,
            "text": text,
        }))
    }
}
