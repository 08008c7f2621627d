//! What is said about a command line that makes no sense.

use std::ffi::OsString;

use clap::CommandFactory;
use clap::error::ErrorKind;

use super::commands::Cli;
use crate::base::meant::of_others;
use crate::cli::When;
use crate::recording::load::clean;

/// The text for an error of the parser, and whether it is one: `--help` and `--version` are not.
pub(super) fn text(error: &clap::Error, args: &[OsString], color: bool) -> (String, bool) {
    if let Some(text) = unknown_command(error, args) {
        return (text, true);
    }
    let text = error.render();
    let text = if color { text.ansi().to_string() } else { text.to_string() };
    (text, error.use_stderr())
}

/// Looks for `--color` in a command line, which may be one that cannot be parsed.
pub(super) fn is_colored(args: &[OsString], color: bool) -> bool {
    let mut color = color;
    for (position, arg) in args.iter().enumerate() {
        let when = match arg.to_str() {
            Some("--color") => args.get(position + 1).and_then(|when| when.to_str()),
            arg => arg.and_then(|arg| arg.strip_prefix("--color=")),
        };
        match when.and_then(|when| <When as clap::ValueEnum>::from_str(when, false).ok()) {
            Some(When::Always) => color = true,
            Some(When::Never) => color = false,
            _ => {}
        }
    }
    color
}

/// A second word that fits nowhere: the first was meant to be a command, and is none.
fn unknown_command(error: &clap::Error, args: &[OsString]) -> Option<String> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let is_flag = |arg: &&OsString| ["--json", "--quiet", "-q"].iter().any(|flag| arg.as_os_str() == *flag);
    let word = args.iter().skip(1).find(|arg| !is_flag(arg))?;
    let word = word.to_str().filter(|word| !word.starts_with('-') && !word.contains(['/', '.']))?;
    let commands = Cli::command();
    let names: Vec<&str> = commands.get_subcommands().map(clap::Command::get_name).collect();
    if names.contains(&word) {
        return None;
    }
    if let Some(meant) = of_others(word) {
        return Some(format!("error: there is no command `{word}`: {meant}\n"));
    }
    let meant = names.iter().find(|name| distance(word, name) <= 2);
    let meant = meant.map_or_else(|| "see --help".to_owned(), |name| format!("did you mean `{name}`?"));
    Some(format!("error: there is no command `{}`: {meant}\n", clean(word.as_bytes())))
}

/// Counts the letters to insert, delete or replace until two words are equal (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.chars().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[row.len() - 1]
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn said(line: &[&str], color: bool) -> String {
        let args: Vec<OsString> = std::iter::once(&"icecore-report").chain(line).map(Into::into).collect();
        let error = Cli::try_parse_from(&args).expect_err("makes no sense");
        let (text, failed) = text(&error, &args, is_colored(&args, color));
        assert!(failed);
        text
    }

    #[test]
    fn a_misspelt_command_is_told_from_a_file() {
        let topp = said(&["topp", "x.icecore"], false);
        assert_eq!(topp, "error: there is no command `topp`: did you mean `top`?\n");
        assert_eq!(
            said(&["frobnicate", "x"], false),
            "error: there is no command `frobnicate`: see --help\n"
        );
        assert!(said(&["flamegraph", "x"], false).ends_with("use `flame`\n"));
        assert!(said(&["report", "x"], false).contains("icecore-report FILE"));
        for line in [&["x.icecore", "y.icecore"][..], &["top", "x", "y"], &["top", "x", "--frob"]] {
            assert!(said(line, false).contains("unexpected argument"), "{line:?}");
        }
    }

    #[test]
    fn color_is_as_wanted_even_if_the_line_makes_no_sense() {
        for (line, color, expected) in [
            (&["top", "--frob"][..], true, true),
            (&["top", "--frob", "--color", "never"], true, false),
            (&["top", "--frob", "--color=always"], false, true),
            (&["top", "--frob"], false, false),
        ] {
            assert_eq!(said(line, color).contains('\x1b'), expected, "{line:?}");
        }
    }

    #[test]
    fn distances_count_letters() {
        for (a, b, letters) in [("topp", "top", 1), ("tpo", "top", 2), ("", "top", 3), ("flame", "flame", 0)]
        {
            assert_eq!((distance(a, b), distance(b, a)), (letters, letters), "{a} {b}");
        }
    }
}
