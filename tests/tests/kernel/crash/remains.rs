//! The conditions that every recording must satisfy, whatever happened to its recorder.

use std::path::Path;

use icecore_format::Error;
use icecore_format::block::Kind;
use icecore_format::header::EndMark;
use icecore_format::read::Recording;
use icecore_report::{Streams, run};
use serde_json::Value;

/// A recording that could be opened, and that is right as far as it goes.
pub(crate) struct Remains {
    pub(crate) recording: Recording,
    pub(crate) summary: Value,
    pub(crate) info: Value,
}

/// The state of a file.
pub(crate) enum Left {
    /// It was not created yet.
    NoFile,
    /// It is shorter than its header.
    NoHeader,
    Some(Box<Remains>),
}

impl Left {
    /// Returns the readable recording; panics if the file is not readable.
    pub(crate) fn some(self) -> Box<Remains> {
        match self {
            Self::Some(remains) => remains,
            Self::NoFile => panic!("there is no file"),
            Self::NoHeader => panic!("the file has no header"),
        }
    }
}

/// Opens a file by the library and by the report, and asserts that
/// - nothing panics, and what cannot be read is refused with a clear sentence,
/// - every block is whole but the last, and nothing refers to a block that is not there,
/// - a recording that was not closed says so.
pub(crate) fn left_in(path: &Path) -> Left {
    let recording = match Recording::open(path) {
        Ok(recording) => recording,
        Err(Error::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => {
            assert_refused(path, "No such file");
            return Left::NoFile;
        }
        Err(Error::NoHeader { .. }) => {
            assert_refused(path, "the recorder was stopped before it wrote anything");
            return Left::NoHeader;
        }
        Err(error) => panic!("{error}"),
    };
    let damage = recording.damage();
    let whole_until = recording.entries().last().map_or(64, |entry| entry.header.end(entry.off));
    assert!(damage.iter().all(|d| d.off >= whole_until), "behind the last whole block: {damage:?}");
    let torn = damage.iter().filter(|d| d.len > 0).count();
    assert!(torn <= 1 && damage.len() <= torn + usize::from(was_closed(&recording)), "{damage:?}");
    for (number, entry) in recording.entries().iter().enumerate() {
        assert_eq!(entry.header.sequence, number as u64);
        let payload = recording.payload(entry);
        assert!(payload.is_ok(), "{entry:?}: {payload:?}");
    }
    let (info, summary) = (json(path, "info"), json(path, "summary"));
    let closed = Value::from(recording.is_closed());
    assert_eq!((&info["closed"], &summary["closed"]), (&closed, &closed));
    assert_eq!(ok(path, &["info"]).contains("not closed"), !recording.is_closed());
    for view in [&info, &summary] {
        assert_eq!(view["damage"].as_array().map(Vec::len), Some(damage.len()), "{}", view["damage"]);
    }
    let remains = Remains { recording, summary, info };
    assert_eq!(remains.summary["samples_in_file"], remains.samples());
    assert_eq!(remains.summary["unnamed"]["stack_lost"], Value::Null, "the stack of a sample is missing");
    let processes = remains.summary["processes"].as_array().expect("a list");
    assert!(processes.iter().all(|process| process["comm"] != "?"), "the task of a sample is missing");
    Left::Some(Box::new(remains))
}

/// Returns true if the header says that the recording was closed, even if its end is missing.
fn was_closed(recording: &Recording) -> bool {
    recording.header().mark == EndMark::Closed
}

impl Remains {
    /// Counts the samples in whole blocks.
    pub(crate) fn samples(&self) -> u64 {
        self.of_kind(Kind::SAMPLES).map(|entry| u64::from(entry.header.items)).sum()
    }

    /// Returns when the last sample was taken.
    pub(crate) fn newest_ns(&self) -> Option<u64> {
        self.of_kind(Kind::SAMPLES).map(|entry| entry.header.last_ns).max()
    }

    /// Returns when the session began; `None` if its block is not there.
    pub(crate) fn start_ns(&self) -> Option<u64> {
        self.of_kind(Kind::SESSION).next().map(|_| number(&self.info["session"]["start_ns"]))
    }

    pub(crate) fn has_receipt(&self) -> bool {
        self.of_kind(Kind::RECEIPT).next().is_some()
    }

    fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &icecore_format::index::Entry> {
        self.recording.entries().iter().filter(move |entry| entry.header.kind == kind)
    }
}

/// Returns a number in a document.
pub(crate) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("a number: {value}"))
}

/// Returns a view as JSON.
fn json(path: &Path, view: &str) -> Value {
    serde_json::from_str(&ok(path, &[view, "--json"])).expect("the report prints JSON")
}

fn ok(path: &Path, view: &[&str]) -> String {
    let (code, out, err) = report(path, view);
    assert_eq!((code, err.as_str()), (0, ""), "{view:?}");
    out
}

fn assert_refused(path: &Path, words: &str) {
    for view in ["summary", "info"] {
        let (code, out, err) = report(path, &[view]);
        assert_eq!((code, out.as_str()), (2, ""));
        assert!(err.starts_with("error: cannot open recording `") && err.contains(words), "{err}");
    }
}

/// Runs the report inside this process; returns exit code, output and errors.
fn report(path: &Path, view: &[&str]) -> (u8, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut streams = Streams::plain(&mut out, &mut err);
    let mut args = vec!["icecore-report".into()];
    args.extend(view.iter().map(std::ffi::OsString::from));
    if view[0] == "summary" {
        // What this machine knows of the programs is no part of the recording, and takes long to read.
        let elsewhere = path.parent().expect("it lies in a folder");
        args.extend(["--sysroot".into(), elsewhere.into()]);
    }
    args.extend(["--threads".into(), "1".into(), path.into()]);
    let code = run(args, &mut streams);
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (code, text(out), text(err))
}
