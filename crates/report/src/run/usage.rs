//! What is said about a command line that makes no sense.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use clap::error::ErrorKind;

use super::commands::Cli;
use crate::base::did_you_mean::of_others;
use crate::cli::When;
use icecore_profile::recording::load::clean;
use icecore_text::near::nearest;

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
    if Cli::command().get_subcommands().any(|command| command.get_name() == word) {
        return None;
    }
    if let Some(meant) = of_others(word) {
        return Some(format!("error: there is no command `{word}`: {meant}\n"));
    }
    let meant = meant(word).unwrap_or_else(|| "see --help".to_owned());
    Some(format!("error: there is no command `{}`: {meant}\n", clean(word.as_bytes())))
}

/// Asks whether a word is meant for a command; `None` if it is like none.
fn meant(word: &str) -> Option<String> {
    let commands = Cli::command();
    let near = nearest(word, commands.get_subcommands().map(clap::Command::get_name))?;
    Some(format!("did you mean `{near}`?"))
}

/// Returns what files may be meant for of which one does not exist: the first for a command, another one for a command that must stand
/// first.
pub(super) fn meant_command(files: &[PathBuf]) -> Option<String> {
    let (first, others) = files.split_first()?;
    if others.is_empty() {
        return lone_command(first);
    }
    let missing = |file: &PathBuf| {
        let word = file.to_str().filter(|word| !word.contains(['/', '.']) && !file.exists())?;
        Some(word.to_owned())
    };
    if let Some(word) = missing(first) {
        let meant = of_others(&word).map(str::to_owned).or_else(|| meant(&word));
        return Some(format!(
            "there is no command `{word}`: {}",
            meant.unwrap_or_else(|| "see --help".into())
        ));
    }
    let is_command = |word: &String| Cli::command().get_subcommands().any(|it| it.get_name() == word);
    let command = others.iter().filter_map(missing).find(is_command)?;
    Some(format!(
        "there is no file `{command}`: write the command before its files, icecore-report {command} …"
    ))
}

/// Returns what a file that does not exist may be meant for: a command, given alone.
fn lone_command(file: &Path) -> Option<String> {
    let word = file.to_str().filter(|word| !word.contains(['/', '.']) && !file.exists())?;
    let meant = meant(word).filter(|_| of_others(word).is_none())?;
    Some(format!("there is no file and no command `{word}`: {meant}"))
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

    fn meant(words: &[&str]) -> Option<String> {
        meant_command(&words.iter().map(PathBuf::from).collect::<Vec<_>>())
    }

    #[test]
    fn a_misspelt_command_is_told_from_a_file() {
        assert_eq!(
            meant(&["topp", "x.icecore"]).as_deref(),
            Some("there is no command `topp`: did you mean `top`?")
        );
        assert_eq!(
            meant(&["frobnicate", "x"]).as_deref(),
            Some("there is no command `frobnicate`: see --help")
        );
        for (word, command) in
            [("flme", "flame"), ("Tree", "tree"), ("healt", "health"), ("sumary", "summary")]
        {
            let text = meant(&[word, "x", "y"]).expect("it is like a command");
            assert!(text.ends_with(&format!("did you mean `{command}`?")), "{text}");
            let alone = meant(&[word]).expect("it is like a command");
            assert!(alone.contains(&format!("`{word}`: did you mean `{command}`?")), "{alone}");
        }
        assert_eq!((meant(&["recording"]), meant(&["flme.icecore"]), meant(&[])), (None, None, None));
        assert!(meant(&["flamegraph", "x"]).is_some_and(|text| text.ends_with("use `flame`")));
        assert!(meant(&["report", "x"]).is_some_and(|text| text.contains("icecore-report FILE")));
        assert_eq!(meant(&["x.icecore", "y.icecore", "z"]), None);
        assert!(meant(&["x.icecore", "top"]).is_some_and(|text| text.contains("write the command before")));
        for line in [&["verify", "x", "y"][..], &["top", "x", "--frob"]] {
            assert!(said(line, false).contains("unexpected argument"), "{line:?}");
        }
        assert_eq!(
            said(&["topp", "--frob"], false),
            "error: there is no command `topp`: did you mean `top`?\n"
        );
    }

    #[test]
    fn a_misspelt_option_is_told_from_its_like() {
        for (option, like) in
            [("--focsu", "--focus"), ("--perent-limit", "--percent-limit"), ("--wdie", "--wide")]
        {
            let text = said(&["tree", "x", option, "1"], false);
            assert!(text.contains(&format!("'{like}'")), "{text}");
        }
        let text = said(&["top", "x", "--by", "functoin"], false);
        assert!(text.contains("'function'"), "{text}");
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
}
