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
use icecore_format::records::{RateCause, RateChange, TriggerCause};
use serde_json::{Value, json};

use super::ship::Queue;
use crate::kernel::events::check_rate;
use crate::settings::{Control as Wanted, Event, Options, Source};
use crate::sys::control::{self, Bound, PATIENCE};
use crate::sys::perf::Rate;
use crate::sys::rights::{self, Part};
use crate::threads::counts::Counts;
use crate::threads::tempo::{Asked, Step, Wish};
use crate::threads::triggers::{Trigger, Triggers, Written};

/// The longest request, bytes.
const MAX_REQUEST: u64 = 256;
/// The most requests that are answered at one time.
const MAX_CLIENTS: usize = 8;
/// How long who asked waits until the recorder samples more or less often: after a pause it first looks at all processes.
const FOR_A_RATE: Duration = Duration::from_secs(60);
/// The shares of the requested rate that may be asked for.
const SHARES: std::ops::RangeInclusive<f64> = 0.001..=1_000.0;
/// How long who asked waits for a file.
const FOR_A_FILE: Duration = Duration::from_secs(120);

/// What the thread knows.
#[derive(Debug)]
struct Known {
    options: Options,
    /// The rate of the events that have one; `None` if there are none, or they differ.
    rate: Option<Rate>,
    /// The sampling rate can be changed.
    has_rates: bool,
    counts: Arc<Counts>,
    triggers: Arc<Triggers>,
    asked: Arc<Asked>,
    begun: Arc<OnceLock<Instant>>,
    queue: Option<Arc<Queue>>,
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
    (options, events, has_rates): (&Options, &[Event], bool),
    counts: &Arc<Counts>,
    triggers: &Arc<Triggers>,
    asked: &Arc<Asked>,
    queue: Option<Arc<Queue>>,
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
    let (options, counts) = (options.clone(), Arc::clone(counts));
    let (triggers, asked) = (Arc::clone(triggers), Arc::clone(asked));
    let control = Control { _bound: Some(bound), ..Control::default() };
    let begun = Arc::clone(&control.begun);
    let (rate, clients) = (common(events), AtomicUsize::new(0));
    let known = Known { options, rate, has_rates, counts, triggers, asked, begun, queue, clients };
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
    let by = control::asker(stream);
    let answer = match known.answer(request.trim(), by) {
        Ok(answer) => answer,
        Err(why) => json!({ "error": why }),
    };
    writeln!(stream, "{answer}")
}

impl Known {
    fn answer(&self, request: &str, by: u32) -> Result<Value, String> {
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
            "stop" => self.sample(by, |wish| wish.is_stopped = true),
            "start" => self.sample(by, |wish| wish.is_stopped = false),
            _ => match request.strip_prefix("rate ") {
                Some(_) if !self.has_rates => Err(
                    "a recording without privileges keeps its rate: threads inherit their timers, whose rate nobody can change"
                        .to_owned(),
                ),
                Some(rate) => {
                    let share = share(rate, self.rate)?;
                    self.sample(by, |wish| wish.share = share)
                }
                None => Err("this recorder knows status, snapshot, rotate, rate, stop and start".to_owned()),
            },
        }
    }

    /// Asks to sample more or less often, and waits until it is so.
    fn sample(&self, by: u32, change: impl FnOnce(&mut Wish)) -> Result<Value, String> {
        if self.begun.get().is_none() {
            return Err("the recorder has not begun to sample: ask again".to_owned());
        }
        let answer = self.asked.ask(by, change);
        let now =
            answer.recv_timeout(FOR_A_RATE).map_err(|_| "the recorder has not done it yet".to_owned())?;
        let (rate, wish) = (self.rate(now), self.asked.wish());
        let mut text = rate["text"].as_str().unwrap_or_default().to_owned();
        if now.share == 0 && !wish.is_stopped && wish.share != RateChange::WHOLE {
            let then = self.rate(Step { share: wish.share, cause: RateCause::UNKNOWN, ..now });
            text.push_str(&format!("; then {}", then["text"].as_str().unwrap_or_default()));
        }
        Ok(json!({
            "schema": "icecore.ctl/1",
            "pid": std::process::id(),
            "text": text,
            "rate": rate,
        }))
    }

    /// Returns how often the recorder samples, for programs and for people.
    fn rate(&self, now: Step) -> Value {
        let share = f64::from(now.share) / f64::from(RateChange::WHOLE);
        let hz = match self.rate {
            Some(Rate::Frequency(hz)) => Some(hz as f64 * share),
            Some(Rate::Period(_)) | None => None,
        };
        let why = match now.cause {
            RateCause::CONTROL => " by icecore-record ctl".to_owned(),
            RateCause::DUTY => " by --duty".to_owned(),
            RateCause::UNKNOWN => String::new(),
            cause => format!(": {}", cause.name()),
        };
        let text = match hz {
            _ if now.share == 0 => format!("paused{why}"),
            _ if now.share == RateChange::WHOLE => "sampling as often as was asked for".to_owned(),
            Some(hz) => format!("sampling at {hz:.1} Hz{why}"),
            None => format!("sampling {:.1} % as often as was asked for{why}", share * 100.0),
        };
        json!({ "share": share, "hz": hz, "cause": now.cause.name(), "text": text })
    }

    fn status(&self) -> Value {
        let counted = self.counts.now();
        let others: serde_json::Map<String, Value> =
            counted.other_losses.iter().map(|(cause, count)| (cause.name(), json!(count))).collect();
        let Options { rotate, flight, command, .. } = &self.options;
        let command: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
        let now = self.asked.now();
        let state = match self.begun.get() {
            None => "starting",
            Some(_) if now.share == 0 => "paused",
            Some(_) => "recording",
        };
        let bytes_are_of = if flight.is_some() { "memory" } else { "file" };
        json!({
            "schema": "icecore.ctl/1",
            "pid": std::process::id(),
            "version": env!("CARGO_PKG_VERSION"),
            "state": state,
            "rate": self.rate(now),
            "since_s": self.begun.get().map_or(0.0, |begun| begun.elapsed().as_secs_f64()),
            "samples": counted.samples,
            "lost": counted.lost_samples,
            "other_losses": others,
            "bytes": counted.file_bytes,
            "bytes_are_of": bytes_are_of,
            "command": command,
            "rotate": rotate.map(|it| json!({ "s": it.every.map(|it| it.as_secs_f64()), "bytes": it.bytes })),
            "ship": self.queue.as_ref().map(|queue| queue.status()),
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

/// Returns the rate that all events have which have one.
fn common(events: &[Event]) -> Option<Rate> {
    let mut rates = events.iter().filter_map(|event| match event.source {
        Source::Counter { rate, .. } => Some(rate),
        Source::Probe { .. } | Source::Wait { .. } => None,
    });
    let first = rates.next()?;
    rates.all(|rate| rate == first).then_some(first)
}

/// Returns which share of the requested rate is asked for, in parts of [`RateChange::WHOLE`].
fn share(asked: &str, requested: Option<Rate>) -> Result<u32, String> {
    let share = match (asked.strip_suffix('%'), requested) {
        (Some(percent), _) => percent.parse::<f64>().ok().map(|percent| percent / 100.0),
        (None, Some(Rate::Frequency(own))) => asked.parse::<u64>().ok().map(|hz| hz as f64 / own as f64),
        (None, Some(Rate::Period(_))) => {
            return Err("this recording has a period (-c) and no frequency: give a percentage, such as 50%"
                .to_owned());
        }
        (None, None) => {
            return Err(
                "the events of this recording have no frequency, or several: give a percentage, such as 50%"
                    .to_owned(),
            );
        }
    };
    let share = share.ok_or_else(|| {
        format!("`{asked}` is no rate: give samples per second such as 99, or a percentage such as 50%")
    })?;
    if !SHARES.contains(&share) {
        return Err(format!(
            "`{asked}` is too far from the rate at the start: at least a thousandth of it, at most a thousand times as much"
        ));
    }
    if let Some(Rate::Frequency(own)) = requested {
        check_rate((own as f64 * share).ceil() as u64).map_err(|error| error.to_string())?;
    }
    Ok((share * f64::from(RateChange::WHOLE)).round() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_frequency_or_a_percentage_of_that_at_the_start() {
        let (hz, period) = (Some(Rate::Frequency(99)), Some(Rate::Period(1_000)));
        assert_eq!(share("99", hz), Ok(RateChange::WHOLE));
        assert_eq!(share("33", hz), Ok(333_333));
        assert_eq!(share("990", hz), Ok(10 * RateChange::WHOLE));
        assert!(
            share("100000%", Some(Rate::Frequency(100_000)))
                .is_err_and(|why| why.contains("max_sample_rate"))
        );
        assert_eq!((share("50%", hz), share("50%", period)), (Ok(500_000), Ok(500_000)));
        for wrong in ["", "x", "0", "-1", "0%", "nan%", "inf%", "0.01%", "200000%", "99Hz"] {
            assert!(share(wrong, hz).is_err(), "{wrong}");
        }
        assert!(share("99", period).is_err() && share("99", None).is_err());
        assert_eq!(share("50%", None), Ok(500_000));
    }
}
