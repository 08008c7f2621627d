//! What this machine, its kernel and this user offer to a recording, and the remedies for what is missing.
//!
//! ```text
//!  gather: /proc, /sys, a trial ──► facts ──► checks (pure) ──► verdict ──► page, or JSON
//! ```
//!
//! Nothing here is recorded, attached or changed. Whether there can be a recording is not concluded from settings: the trial loads the
//! programs and opens the events of one. Settings explain what came of it.

mod check;
mod checks;
mod facts;
mod gather;
mod page;
mod remedy;
#[cfg(test)]
mod tests;
mod trial;

use std::io::{self, IsTerminal as _, Write as _};

use anyhow::Context as _;
use icecore_text::Page;
use icecore_text::door::{Door, Kind};
use serde::Serialize;

use crate::cli::doctor::Args;
use check::{Can, Check, Verdict};

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Document<'a> {
    schema: &'static str,
    verdict: Verdict,
    can: &'a [Can],
    checks: &'a [Check],
}

/// Prints what a recording can have here. Returns the exit code.
///
/// # Errors
/// If `/proc` cannot be read, or nobody takes the text.
pub fn doctor(args: &Args) -> anyhow::Result<u8> {
    let facts = gather::facts()?;
    let checks = checks::checks(&facts);
    let verdict = Verdict::of(&checks);
    let can = Can::of(verdict, facts.can_record_own());
    let is_styled =
        io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let (text, kind) = match (args.json, is_styled) {
        (true, _) => (document(&checks, verdict, &can)?, Kind::Json),
        (false, true) => (page::page(Page::new(true), &checks, verdict, &can), Kind::Styled),
        (false, false) => (page::page(Page::new(false), &checks, verdict, &can), Kind::Plain),
    };
    Door::new(io::stdout(), kind).write_all(text.as_bytes()).context("cannot write to stdout")?;
    Ok(verdict.exit_code())
}

fn document(checks: &[Check], verdict: Verdict, can: &[Can]) -> anyhow::Result<String> {
    let document = Document { schema: "icecore.doctor/1", verdict, can, checks };
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}
