//! Runs the commands that make recordings of recordings: opens inputs, creates the output, prints what was done. One file a command.
//!
//! Every command writes a new file, whole or not at all, and never changes a file that it reads.

pub(super) mod compact;
pub(super) mod cut;
pub(super) mod import;
pub(super) mod merge;
pub(super) mod pack;
pub(super) mod repair;

use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use icecore_edit::Error;
use icecore_edit::compact::Redaction;
use icecore_format::write::Writer;
use serde::Serialize;

use crate::base::output;
use crate::cli;
use icecore_profile::random_uuid;
use icecore_profile::recording::damage::DamageRow;
use icecore_text::path::shown;
use icecore_text::quantity::things;
use icecore_text::{Page, Style};

/// Only the owner may read a recording: it reveals what ran here.
const MODE: u32 = 0o600;

/// A recording that was written, for people and `--json`.
#[derive(Debug, Serialize)]
struct Written<T> {
    schema: &'static str,
    file: String,
    file_bytes: u64,
    #[serde(flatten)]
    made: T,
}

impl<T> Written<T> {
    /// Returns the path for people.
    fn shown(&self) -> String {
        shown(Path::new(&self.file))
    }
}

/// Writes a recording made of `inputs`, of which `fill` writes the blocks.
///
/// # Errors
/// If the output is an input or cannot be written, or exists and may not be replaced; errors of `fill`.
fn write<T>(
    schema: &'static str,
    to: &cli::Output,
    inputs: &[&Path],
    fill: impl FnOnce(&mut Writer) -> anyhow::Result<T>,
) -> anyhow::Result<Written<T>> {
    let path = &to.output;
    let create = || format!("cannot create `{}`", path.display());
    refuse(to, inputs).with_context(create)?;
    let uuid = random_uuid()?;
    output::replace(path, inputs, MODE, |file| -> anyhow::Result<Written<T>> {
        let mut writer = Writer::create(file.try_clone()?, uuid).with_context(create)?;
        let write = || format!("cannot write `{}`", path.display());
        let made = fill(&mut writer).map_err(|error| match error.downcast_ref() {
            Some(icecore_format::Error::Io(_)) => error.context(write()),
            _ => error,
        })?;
        let file_bytes = writer.finish().with_context(write)?;
        Ok(Written { schema, file: path.display().to_string(), file_bytes, made })
    })
    .map_err(|error| match error.downcast::<std::io::Error>() {
        // An error of the file system, not of `fill`.
        Ok(error) => anyhow!(error).context(create()),
        Err(other) => other,
    })
}

/// Reads how texts are replaced by pseudonyms.
pub(super) fn redaction(options: &cli::Redacted) -> anyhow::Result<Redaction> {
    let key = match &options.redact_key {
        Some(path) => {
            std::fs::read(path).with_context(|| format!("cannot read the key `{}`", path.display()))?
        }
        None => Vec::new(),
    };
    Ok(Redaction::new(&options.redact, &key))
}

/// Refuses an output that is an input, that exists and may not be replaced, or that cannot be a file.
fn refuse(to: &cli::Output, inputs: &[&Path]) -> anyhow::Result<()> {
    if to.output.as_os_str() == "-" {
        bail!("a recording that is made of others is a file: name one with -o");
    }
    Ok(output::refuse(&to.output, to.force, inputs)?)
}

/// Says what failed on which input; of an error of the output, [`write()`] says it.
fn cannot(what: &str, input: &Path, error: Error) -> anyhow::Error {
    match error {
        Error::Format(error @ icecore_format::Error::Io(_)) => anyhow!(error),
        error => anyhow!(error).context(format!("cannot {what} `{}`", input.display())),
    }
}

/// Describes for people what the output lacks.
fn left_out_text(left_out_blocks: u64, damage: &[DamageRow], page: &mut Page) {
    if left_out_blocks > 0 {
        let blocks = things(left_out_blocks, "block");
        page.styled(Style::Warn, &format!("{blocks} of unknown kinds skipped"));
    }
    if let Some(first) = damage.first() {
        let parts = things(damage.len() as u64, "part");
        let text = format!("damaged: {parts} skipped; at byte {}: {}", first.offset, first.cause);
        page.styled(Style::Bad, &text);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn to(output: &Path, force: bool) -> cli::Output {
        cli::Output { output: output.to_owned(), force }
    }

    fn made(
        to: &cli::Output,
        inputs: &[&Path],
        fill: impl FnOnce(&mut Writer) -> anyhow::Result<()>,
    ) -> anyhow::Result<Written<()>> {
        write("", to, inputs, fill)
    }

    fn refusal(result: anyhow::Result<Written<()>>) -> String {
        format!("{:#}", result.expect_err("refused"))
    }

    #[test]
    fn what_is_there_is_replaced_only_if_forced_and_whole() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("x.icecore");
        made(&to(&path, false), &[], |_| Ok(())).expect("free");
        let mode = std::fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let before = std::fs::read(&path).expect("there");
        let text = refusal(made(&to(&path, false), &[], |_| Ok(())));
        assert!(text.starts_with("cannot create `/") && text.contains("--force"), "{text}");
        assert_eq!(refusal(made(&to(&path, true), &[], |_| bail!("no more"))), "no more");
        assert_eq!(std::fs::read(&path).expect("there"), before);
        made(&to(&path, true), &[], |_| Ok(())).expect("forced");
        assert_ne!(std::fs::read(&path).expect("there"), before, "another UUID");
        assert_eq!(std::fs::read_dir(dir.path()).expect("ours").count(), 1, "nothing is left behind");
    }

    #[test]
    fn no_input_is_written_over_and_nothing_but_files_is_written() {
        let dir = tempfile::tempdir().expect("a directory");
        let [first, second] = ["a", "b"].map(|name| dir.path().join(name));
        for path in [&first, &second] {
            std::fs::write(path, "precious").expect("written");
        }
        for path in [&first, &second] {
            let text = refusal(made(&to(path, true), &[&first, &second], |_| Ok(())));
            assert!(text.contains("this is the recording itself"), "{text}");
            assert_eq!(std::fs::read(path).expect("there"), b"precious");
        }
        for (path, why) in [("/dev/null", "not a regular file"), ("/tmp", "a folder"), ("-", "is a file")] {
            let text = refusal(made(&to(Path::new(path), true), &[], |_| Ok(())));
            assert!(text.contains(why), "{text}");
        }
        let text = refusal(made(&to(Path::new("/no/such/x"), false), &[], |_| Ok(())));
        assert_eq!(text, "cannot create `/no/such/x`: No such file or directory (os error 2)");
    }
}
