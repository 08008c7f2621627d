//! The command line of `icecore-record doctor`.

use std::ffi::OsString;

use super::args::command;

/// The first argument of this command. `icecore-record -- doctor` records a program of this name.
const NAME: &str = "doctor";

/// Says what this user can record on this machine, what is missing, and the command that mends it
///
/// It loads the sampling programs and opens the events of a recording as `icecore-record -a --off-cpu` does, attaches none, and changes
/// nothing. What is degraded or missing has two more lines: what a recording lacks because of it, and the remedy.
#[derive(Debug, clap::Parser)]
#[command(
    name = "icecore-record doctor",
    max_term_width = 100,
    after_help = "\
Examples:
  icecore-record doctor
  sudo icecore-record doctor                 what root could record
  icecore-record doctor --json               for scripts (docs/JSON.md)

Exit codes: 0 if the whole machine can be recorded with all features, 1 if it can be recorded and something is degraded or missing, 2 \
if this user cannot record it here."
)]
pub struct Args {
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Parses the command line if it is that of this command; prints help or the error if it cannot be parsed.
///
/// # Errors
/// The exit code: 2, or 0 for `--help`.
pub fn parse(args: impl Iterator<Item = OsString>) -> Option<Result<Args, u8>> {
    command(NAME, args)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn only_the_first_word_names_the_command() {
        Args::command().debug_assert();
        let parse = |line: &str| parse(line.split(' ').map(OsString::from));
        assert!(parse("icecore-record doctor --json").is_some_and(|args| args.is_ok_and(|args| args.json)));
        assert!(parse("icecore-record -- doctor").is_none() && parse("icecore-record").is_none());
    }
}
