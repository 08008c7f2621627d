use clap::CommandFactory;

use super::*;

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn a_file_alone_is_its_summary() {
    let cli =
        Cli::try_parse_from(["x", "--json", "a.icecore", "--pid", "1,2", "--pid", "3"]).expect("parses");
    assert_eq!(cli.source.files, ["a.icecore"].map(std::path::PathBuf::from));
    assert_eq!(cli.source.select.which.pid, [1, 2, 3]);
    assert!(cli.command.is_none() && cli.global.json);
}

#[test]
fn options_of_every_command_may_stand_on_either_side() {
    for line in [["x", "--json", "top", "f"], ["x", "top", "f", "--json"]] {
        let cli = Cli::try_parse_from(line).expect("parses");
        assert!(cli.global.json && matches!(cli.command, Some(Command::Top(_))));
    }
}

#[test]
fn bad_values_are_refused() {
    for bad in [["--from", "x"], ["--cpu", "3-1"], ["--min-percent", "200"]] {
        assert!(Cli::try_parse_from(["x", "tree", "f", bad[0], bad[1]]).is_err(), "{bad:?}");
    }
    assert!(Cli::try_parse_from(["x", "top", "f", "--user", "--kernel"]).is_err());
}

#[test]
fn info_looks_for_files_only_to_show_their_sources() {
    let options = [
        ["--symbols", "d"],
        ["--debug-dir", "d"],
        ["--sysroot", "d"],
        ["--map", "/a=/b"],
        ["--debuginfod", "http://x"],
        ["--debuginfod-budget", "1M"],
    ];
    let options = options.iter().map(|pair| &pair[..]).chain([&["--no-cache"][..], &["--no-debuginfod"]]);
    for option in options {
        let line = [&["x", "info", "f"], option].concat();
        let error = Cli::try_parse_from(&line).expect_err("it would be ignored").to_string();
        assert!(error.contains("--symbol-source"), "{error}");
        assert!(Cli::try_parse_from([&line[..], &["--symbol-source"]].concat()).is_ok(), "{option:?}");
    }
    assert!(Cli::try_parse_from(["x", "info", "f"]).is_ok());
}

/// Returns the lines that a terminal of this width has room to continue, and the examples that it breaks.
fn broken(mut render: impl FnMut(usize) -> String, width: usize) -> Vec<String> {
    let (help, wide) = (render(width), render(1_000));
    let is_text = |line: &str| line.starts_with(|first: char| first.is_alphanumeric());
    let has_room = |line: &str, next: &str| {
        let word = next.split(' ').next().unwrap_or_default();
        is_text(line) && is_text(next) && line.chars().count() + 1 + word.chars().count() <= width
    };
    let lines: Vec<&str> = help.lines().collect();
    let forced = lines.windows(2).filter(|pair| has_room(pair[0], pair[1])).map(|pair| pair[0].to_owned());
    let examples = wide.lines().skip_while(|line| *line != "Examples:").skip(1);
    let examples = examples.take_while(|line| !line.is_empty()).filter(|line| !lines.contains(line));
    forced.chain(examples.map(str::to_owned)).collect()
}

#[test]
fn help_of_every_command_fits_a_terminal_of_100_columns() {
    let mut cli = Cli::command();
    // The commands get the global options.
    cli.build();
    let commands: Vec<_> = cli.get_subcommands().cloned().chain([cli.clone()]).collect();
    for command in commands {
        let render = |width| command.clone().max_term_width(0).term_width(width).render_help().to_string();
        assert_eq!(broken(render, 100), [""; 0], "{}", command.get_name());
    }
}
