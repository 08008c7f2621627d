//! `icecore-record ctl`: asks a recorder that runs.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use icecore_text::clean::clean;
use icecore_text::quantity::{bytes, count, duration, things};
use serde_json::Value;

use super::args::command;
use crate::sys::control;

/// The first argument of this command. `icecore-record -- ctl` records a program of this name.
const NAME: &str = "ctl";
/// The longest answer, bytes.
const MAX_ANSWER: u64 = 1 << 20;
/// How long a recorder may take to write a file.
const FOR_A_FILE: Duration = Duration::from_secs(130);

/// Asks a recorder that runs what it does, for a file, or to sample more or less often
///
/// A recorder with --rotate, --flight, --duty, --budget or --control has a socket of mode 0600, to which its user and root have a way: that of --control, or
/// PID.sock in $RUNTIME_DIRECTORY (a service), /run/icecore-record (root) or $XDG_RUNTIME_DIR/icecore-record.
#[derive(Debug, clap::Parser)]
#[command(
    name = "icecore-record ctl",
    max_term_width = 100,
    after_help = "\
Examples:
  icecore-record ctl status
  icecore-record ctl snapshot                write the history of --flight
  icecore-record ctl rotate                  begin the next file of --rotate
  icecore-record ctl rate 999                sample at 999 Hz from now on
  icecore-record ctl rate 50%                half as often as was asked for
  icecore-record ctl stop                    pause until ctl start
  icecore-record ctl -p 4711 status --json   of several recorders, this one

Exit codes: 0, or 2 if there is no such recorder or it cannot do it."
)]
pub struct Args {
    /// What to ask
    #[arg(value_enum)]
    pub request: Request,

    /// With rate: samples per second and CPU, or a percentage of the rate that the recorder was started with
    #[arg(value_name = "HZ|PERCENT", required_if_eq("request", "rate"))]
    pub rate: Option<String>,

    /// The recorder with this process id; needed if several run
    #[arg(short = 'p', long, value_name = "PID", conflicts_with = "socket")]
    pub pid: Option<u32>,

    /// The recorder with this socket (its --control)
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// What a recorder can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Request {
    /// What it has recorded and lost
    Status,
    /// Write the history (--flight), and say where it is
    Snapshot,
    /// Go on in the next file (--rotate), and say where the last one is
    Rotate,
    /// Sample so often: 999 (Hz), or 50% of the rate at the start
    Rate,
    /// Pause: take no samples
    Stop,
    /// Go on after stop
    Start,
}

/// Parses the command line if it is that of this command; prints help or the error if it cannot be parsed.
///
/// # Errors
/// The exit code: 2, or 0 for `--help`.
pub fn parse(args: impl Iterator<Item = OsString>) -> Option<Result<Args, u8>> {
    command(NAME, args)
}

/// Asks, and prints the answer.
///
/// # Errors
/// If there is no such recorder, there are several, or it says why it cannot.
pub fn ctl(args: &Args) -> anyhow::Result<u8> {
    let path = match &args.socket {
        Some(path) => path.clone(),
        None => recorder(args.pid)?,
    };
    let called = path.display();
    let mut stream =
        control::connect(&path).with_context(|| format!("cannot ask the recorder at `{called}`"))?;
    let request = match (args.request, &args.rate) {
        (Request::Rate, Some(rate)) => format!("rate {rate}"),
        (_, Some(word)) => bail!("unexpected `{word}`: only rate has a value"),
        (Request::Status, None) => "status".to_owned(),
        (Request::Snapshot, None) => "snapshot".to_owned(),
        (Request::Rotate, None) => "rotate".to_owned(),
        (Request::Stop, None) => "stop".to_owned(),
        (Request::Start, None) => "start".to_owned(),
        (Request::Rate, None) => bail!("bug: no rate"),
    };
    let patience = if args.request == Request::Status { control::PATIENCE } else { FOR_A_FILE };
    stream.set_read_timeout(Some(patience)).and_then(|()| stream.set_write_timeout(Some(patience)))?;
    let mut line = String::new();
    let mut answer = || {
        writeln!(stream, "{request}")?;
        BufReader::new((&stream).take(MAX_ANSWER)).read_line(&mut line)
    };
    let answered = answer();
    let answer: Option<Value> = answered.ok().and_then(|_| serde_json::from_str(&line).ok());
    let answer = answer.with_context(|| {
        format!(
            "no answer from the recorder at `{called}`: it answers only its own user and root, and may have ended, or stopped"
        )
    })?;
    if let Some(why) = answer["error"].as_str() {
        bail!("{}", clean(why.as_bytes()));
    }
    let mut out = std::io::stdout().lock();
    let text = if args.json { answer.to_string() } else { text(args.request, &answer) };
    writeln!(out, "{text}").context("cannot write to stdout")?;
    Ok(0)
}

/// Finds the recorder that is meant.
fn recorder(pid: Option<u32>) -> anyhow::Result<PathBuf> {
    let found = control::found();
    match (pid, &found[..]) {
        (Some(pid), _) => {
            let path = found.into_iter().find(|(found, _)| *found == pid).map(|(_, path)| path);
            path.with_context(|| {
                format!("no recorder of this user with a control socket has the process id {pid}")
            })
        }
        (None, [(_, path)]) => Ok(path.clone()),
        (None, []) => bail!(
            "no recorder of this user has a control socket: start one with --control PATH (--rotate, --flight, --duty and --budget have one by themselves), or ask as its user or root"
        ),
        (None, several) => {
            let pids: Vec<String> = several.iter().map(|(pid, _)| pid.to_string()).collect();
            bail!("{} recorders run: say which with -p PID ({})", pids.len(), pids.join(", "))
        }
    }
}

fn text(request: Request, answer: &Value) -> String {
    let number = |key: &str| answer[key].as_u64().unwrap_or(0);
    if request != Request::Status {
        return clean(answer["text"].as_str().unwrap_or_default().as_bytes()).to_string();
    }
    if answer["state"] == "starting" {
        return format!("process {}: starting, nothing is recorded yet", number("pid"));
    }
    let seconds = answer["since_s"].as_f64().unwrap_or(0.0);
    let mut lost = vec![format!("{} lost", things(number("lost"), "sample"))];
    let others = answer["other_losses"].as_object().into_iter().flatten();
    lost.extend(others.map(|(cause, lost)| format!("{} {cause}", count(lost.as_u64().unwrap_or(0)))));
    let state = clean(answer["state"].as_str().unwrap_or_default().as_bytes());
    let lasts = duration((seconds * 1e9) as u64);
    let state = match answer["state"].as_str() {
        Some("paused") => {
            let why = clean(answer["rate"]["text"].as_str().unwrap_or("paused").as_bytes());
            format!("{why}, {lasts} after it began")
        }
        _ => format!("{state} for {lasts}{}", rate(&answer["rate"])),
    };
    let of = if answer["bytes_are_of"] == "memory" { "this part, in memory" } else { "this file" };
    format!(
        "process {}: {state}, {}, {}, {} of {of}{}",
        number("pid"),
        things(number("samples"), "sample"),
        lost.join(", "),
        bytes(number("bytes")),
        shipped(&answer["ship"])
    )
}

/// Says what was shipped, and what waits.
fn shipped(ship: &Value) -> String {
    if ship.is_null() {
        return String::new();
    }
    let number = |key: &str| ship[key].as_u64().unwrap_or(0);
    let removed = match number("removed_unsent") {
        0 => String::new(),
        removed => format!(", {} removed before", count(removed)),
    };
    let slow = ship["sending_s"].as_f64().filter(|seconds| *seconds >= 5.0);
    let slow = slow.map(|seconds| format!(" (one is on its way for {})", duration((seconds * 1e9) as u64)));
    let error = ship["error"].as_str().map(|error| format!(" ({})", clean(error.as_bytes()))).or(slow);
    format!(
        "; shipped {}, {} waiting{removed}{}",
        things(number("arrived"), "file"),
        count(number("waiting")),
        error.unwrap_or_default()
    )
}

/// Says how often it samples, unless that is what was asked for.
fn rate(rate: &Value) -> String {
    let text = rate["text"].as_str().filter(|_| rate["share"].as_f64().is_some_and(|share| share != 1.0));
    text.map(|text| format!(" ({})", clean(text.as_bytes()))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_first_word_names_the_command() {
        Args::command().debug_assert();
        let parse = |line: &str| parse(line.split(' ').map(OsString::from));
        let asked = parse("icecore-record ctl -p 7 status").and_then(Result::ok);
        assert_eq!(asked.map(|args| (args.request, args.pid)), Some((Request::Status, Some(7))));
        assert!(parse("icecore-record -- ctl").is_none() && parse("icecore-record").is_none());
    }

    #[test]
    fn the_answer_is_a_line_for_people() {
        let answer = json!({ "pid": 7, "state": "recording", "since_s": 2.5, "samples": 1200, "lost": 0,
            "other_losses": { "stack_shortened": 3 }, "bytes": 4096, "bytes_are_of": "file" });
        let paused = json!({ "pid": 7, "state": "paused", "since_s": 2.5, "samples": 1200, "lost": 0, "bytes": 4096,
            "rate": { "share": 0.0, "text": "paused by --duty" } });
        let told = "process 7: paused by --duty, 2.50 s after it began, 1,200 samples, 0 samples lost, 4.0 KiB of this file";
        assert_eq!(text(Request::Status, &paused), told);
        let line = "process 7: recording for 2.50 s, 1,200 samples, 0 samples lost, 3 stack_shortened, 4.0 KiB of this file";
        assert_eq!(text(Request::Status, &answer), line);
        let ship = json!({ "arrived": 7, "waiting": 2, "removed_unsent": 1, "error": "it is gone" });
        assert_eq!(shipped(&ship), "; shipped 7 files, 2 waiting, 1 removed before (it is gone)");
        let slow =
            json!({ "arrived": 0, "waiting": 7, "removed_unsent": 0, "error": null, "sending_s": 8.0 });
        assert_eq!(shipped(&slow), "; shipped 0 files, 7 waiting (one is on its way for 8.00 s)");
        let starting = json!({ "pid": 7, "state": "starting" });
        assert_eq!(text(Request::Status, &starting), "process 7: starting, nothing is recorded yet");
    }
}
