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
    assert_eq!(cli.source.file, Some("a.icecore".into()));
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
    for bad in [["--focus", "("], ["--from", "x"], ["--cpu", "3-1"], ["--min-percent", "200"]] {
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
