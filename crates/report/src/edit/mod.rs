//! Makes recordings from recordings.
//!
//! | room | what lives there |
//! |---|---|
//! | [`merge`] | joins several recordings: copies blocks unchanged |
//! | [`pack`] | adds what this machine knows about the code |
//! | [`cut`] | selects samples, and encodes the rows that they need |
//! | [`compact`] | unwinds stacks, and drops the memory from which they were unwound |
//! | `excerpt` | the common part of `cut` and `compact` |
//! | [`import`] | makes a recording from a file of `perf record` |
//! | [`repair`] | recovers the intact blocks of a damaged recording |
//!
//! Every command writes a new file, whole or not at all, and never changes a file that it reads.

pub mod compact;
pub mod cut;
mod excerpt;
pub mod import;
pub mod merge;
pub mod pack;
pub mod repair;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use icecore_format::records::{EventV1, NamesV1, SessionV1};
use icecore_format::write::Writer;

use crate::base::output;
use crate::cli;
use icecore_profile::named::found::Draft;
use icecore_profile::random_uuid;

/// Only the owner may read a recording: it reveals what ran here.
const MODE: u32 = 0o600;

/// Writes a recording made of `inputs`; returns what `fill` returns, and the length of the file in bytes.
///
/// # Errors
/// If the output is an input or cannot be written, or exists and may not be replaced; errors of `fill`.
fn write<T>(
    to: &cli::Output,
    inputs: &[&Path],
    fill: impl FnOnce(&mut Writer) -> anyhow::Result<T>,
) -> anyhow::Result<(T, u64)> {
    let path = &to.output;
    let create = || format!("cannot create `{}`", path.display());
    refuse(to, inputs).with_context(create)?;
    let uuid = random_uuid()?;
    let mode = Some(Permissions::from_mode(MODE));
    // All inputs were checked: the output replaces none of them.
    let input = inputs.first().copied().unwrap_or(Path::new(""));
    output::replace(path, input, mode, |file| -> anyhow::Result<(T, u64)> {
        let mut writer = Writer::create(file.try_clone()?, uuid).with_context(create)?;
        let write = || format!("cannot write `{}`", path.display());
        let told = fill(&mut writer).map_err(|error| match error.downcast_ref() {
            Some(icecore_format::Error::Io(_)) => error.context(write()),
            _ => error,
        })?;
        let len = writer.finish().with_context(write)?;
        Ok((told, len))
    })
    .map_err(|error| match error.downcast::<std::io::Error>() {
        // An error of the file system, not of `fill`.
        Ok(error) => anyhow!(error).context(create()),
        Err(other) => other,
    })
}

/// Refuses an output that is an input, that exists and may not be replaced, or that cannot be a file.
fn refuse(to: &cli::Output, inputs: &[&Path]) -> anyhow::Result<()> {
    if to.output.as_os_str() == "-" {
        bail!("a recording that is made of others is a file: name one with -o");
    }
    Ok(output::refuse(&to.output, to.force, inputs)?)
}

/// Writes collected names, if they fill a block or are the last.
fn append_names(writer: &mut Writer, draft: &mut Draft, is_last: bool) -> anyhow::Result<()> {
    match (draft.is_full() || is_last).then(|| draft.take()).flatten() {
        Some(table) => Ok(writer.append(&NamesV1::from_table(&table)).map(drop)?),
        None => Ok(()),
    }
}

/// Replaces a missing session block, so that the blocks after it do not join the session before it.
fn unknown_session(note: &str) -> SessionV1 {
    // An event of unknown unit, so that samples have an event to refer to.
    let events = vec![EventV1 { name: "?".into(), ..EventV1::default() }];
    SessionV1 { events, notes: vec![note.to_owned()], ..SessionV1::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(output: &Path, force: bool) -> cli::Output {
        cli::Output { output: output.to_owned(), force }
    }

    fn refusal(result: anyhow::Result<((), u64)>) -> String {
        format!("{:#}", result.expect_err("refused"))
    }

    #[test]
    fn what_is_there_is_replaced_only_if_forced_and_whole() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("x.icecore");
        write(&to(&path, false), &[], |_| Ok(())).expect("free");
        let mode = std::fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let before = std::fs::read(&path).expect("there");
        let text = refusal(write(&to(&path, false), &[], |_| Ok(())));
        assert!(text.starts_with("cannot create `/") && text.contains("--force"), "{text}");
        assert_eq!(refusal(write(&to(&path, true), &[], |_| bail!("no more"))), "no more");
        assert_eq!(std::fs::read(&path).expect("there"), before);
        write(&to(&path, true), &[], |_| Ok(())).expect("forced");
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
            let text = refusal(write(&to(path, true), &[&first, &second], |_| Ok(())));
            assert!(text.contains("this is the recording itself"), "{text}");
            assert_eq!(std::fs::read(path).expect("there"), b"precious");
        }
        for (path, why) in [("/dev/null", "not a regular file"), ("/tmp", "a folder"), ("-", "is a file")] {
            let text = refusal(write(&to(Path::new(path), true), &[], |_| Ok(())));
            assert!(text.contains(why), "{text}");
        }
        let text = refusal(write(&to(Path::new("/no/such/x"), false), &[], |_| Ok(())));
        assert_eq!(text, "cannot create `/no/such/x`: No such file or directory (os error 2)");
    }
}
