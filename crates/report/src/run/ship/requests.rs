//! Answers requests to ship, one after the other: a path on stdin, a document on stdout, each on one line. The first document has no file, and
//! says that the destination can be meant.
//!
//! Each file is shipped by a process of its own, so that this one stays small and ends only with its input.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead as _};
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::super::Streams;
use super::{Document, Row};

/// This very program, even if another one has taken its place.
const OWN: &str = "/proc/self/exe";

/// Answers until stdin ends; returns the exit code.
pub(super) fn answer(hello: &Document, streams: &mut Streams<'_>) -> anyhow::Result<u8> {
    let mut say = |document: &Value| -> io::Result<()> {
        writeln!(streams.out, "{document}")?;
        streams.out.flush()
    };
    say(&serde_json::to_value(hello)?)?;
    for path in io::stdin().lock().split(b'\n') {
        let path = OsString::from_vec(path?);
        let shipped = match shipped(&hello.to, &path) {
            Ok(document) => document,
            Err(error) => {
                let path = Path::new(&path).display().to_string();
                let row = Row { path, error: Some(error), ..Row::default() };
                let (schema, to) = (hello.schema, hello.to.clone());
                serde_json::to_value(Document { schema, to, files: vec![row] })?
            }
        };
        say(&shipped)?;
    }
    Ok(0)
}

/// Ships one file; returns what the process says, or why it says nothing.
fn shipped(to: &str, path: &OsStr) -> Result<Value, String> {
    let mut command = Command::new(OWN);
    // Programs of the machine need its CPUs.
    command.args(["ship", "--json", "--threads", "1", "--", to]).arg(path).stdin(Stdio::null());
    let Output { status, stdout, stderr } =
        command.output().map_err(|error| format!("cannot start a process: {error}"))?;
    serde_json::from_slice(&stdout).map_err(|_| {
        let said = String::from_utf8_lossy(&stderr);
        let last = said.lines().rfind(|line| !line.trim().is_empty());
        last.map_or_else(|| format!("its process has ended with {status}"), str::to_owned)
    })
}
