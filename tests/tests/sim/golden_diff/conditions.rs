//! `--fail-on`, comparisons that are refused, and files that `-o` writes.

use icecore_format::records::{EventMeaning, EventV1, SessionV1};
use icecore_tests::inside::{report, run_in};
use icecore_tests::synthetic::session;

use super::{Service, USUAL, folder};

#[test]
fn a_condition_that_holds_is_exit_code_1_and_what_others_cause_never_counts() {
    let dir = folder();
    USUAL.write(dir.path(), "before");
    let functions = &[("compress", 800), ("parse", 300), ("hash", 200), ("send", 90), ("log", 10)];
    Service { functions, seed: 5, ..USUAL }.write(dir.path(), "after");
    let code = |conditions: &[&str]| {
        let conditions: Vec<&str> =
            conditions.iter().flat_map(|condition| ["--fail-on", condition]).collect();
        run_in(dir.path(), &[&["diff", "DIR/before", "DIR/after"], &conditions[..]].concat()).0
    };
    // The share of `parse` fell by 8 points, but only because that of `compress` rose by 17.
    for (condition, expected) in [
        ("self>2%", 1),
        ("self>16%", 1),
        ("self>19%", 0),
        ("self<-2%", 0),
        ("total>2%", 1),
        ("self_ratio>1.3", 1),
        ("self_ratio>1.5", 0),
        ("whole>1%", 0),
    ] {
        assert_eq!(code(&[condition]), expected, "{condition}");
    }
    assert_eq!(code(&["self<-2%", "self>2%"]), 1, "any of several");
    let (_, out, _) = run_in(dir.path(), &["diff", "DIR/before", "DIR/after", "--fail-on", "self>2%"]);
    assert!(out.ends_with("failed: self>2% holds for compress\n"), "{out}");
}

#[test]
fn what_cannot_be_compared_is_refused_with_the_remedy() {
    let dir = folder();
    USUAL.write(dir.path(), "a");
    let (name, unit, meaning) = ("page-faults".into(), "faults".into(), EventMeaning::OCCURRENCE);
    let faults = EventV1 { name, unit, frequency_hz: 0, period: 1, meaning };
    let mut other = USUAL.recorded();
    other.session = Some(SessionV1 { events: vec![faults], ..session() });
    other.write(&dir.path().join("faults"), true).expect("written");
    let refused = |args: &[&str]| {
        let (code, out, err) = run_in(dir.path(), args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}");
        err
    };
    for (args, text) in [
        (
            &["diff", "DIR/a"][..],
            "cannot compare one recording with nothing: name a second one, or stretches of it with --slice",
        ),
        (&["diff"], "cannot compare nothing: name two recordings, BEFORE and AFTER"),
        (
            &["diff", "DIR/a", "DIR/a", "--slice", "1..2", "--against", "2..3"],
            "cannot compare stretches of two recordings",
        ),
        (&["diff", "DIR/a", "--slice", "2..1", "--against", "2..3"], "it ends before it begins"),
        (
            &["diff", "DIR/a", "DIR/faults"],
            "cannot compare ns with faults: the recordings sample different events",
        ),
        (
            &["diff", "DIR/a", "DIR/a", "--unit", "work"],
            "cannot tell how much work was done: say it with --work-before",
        ),
        (
            &["diff", "DIR/a", "DIR/a", "--fail-on", "wall>5%"],
            "cannot check `wall>5%`: not all recordings are whole runs of a command; check `whole`, or record",
        ),
        (
            &["diff", "DIR/a", "DIR/a", "--comm", "nobody"],
            "cannot compare `a`: it has no samples: the filters leave none",
        ),
        (
            &["diff", "DIR/a", "DIR/a", "--fail-on", "selfish"],
            "use self>2%, total<-5%, self_ratio>1.2, whole>5%, cpu>5% or wall>5%",
        ),
        (&["diff", "DIR/a", "DIR/a", "-o", "DIR/x.png"], "unsupported file extension; use .svg or .md"),
        (&["diff", "DIR/a", "DIR/none"], "cannot open recording `none`"),
        (&["diff", "-", "-"], "cannot read two recordings from stdin"),
        (&["trend", "DIR/none"], "cannot open recording `none`"),
        (
            &["trend", "DIR/a", "--order", "label:version"],
            "no recording has it (icecore-record --label version=VALUE)",
        ),
    ] {
        let err = refused(args);
        assert!(err.contains(text), "{args:?}: {err}");
    }
    // No part of the file remains, and no recording is overwritten.
    let err = refused(&["diff", "DIR/a", "DIR/faults", "-o", "DIR/a"]);
    assert!(err.contains("cannot compare"), "{err}");
    assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 2);
}

#[test]
fn files_are_written_as_their_names_ask() {
    let dir = folder();
    USUAL.write(dir.path(), "before.icecore");
    let functions = &[("compress", 800), ("parse", 300), ("hash", 200), ("send", 90), ("more", 10)];
    Service { functions, seed: 5, ..USUAL }.write(dir.path(), "after.icecore");
    let sides = ["diff", "DIR/before.icecore", "DIR/after.icecore", "-o"];
    for name in ["x.md", "x.svg"] {
        let (code, _, err) = run_in(dir.path(), &[&sides[..], &[&format!("DIR/{name}")]].concat());
        assert!(code == 0 && err.starts_with(&format!("wrote {name} (")), "{code} {err}");
    }
    let path = format!("{}/", dir.path().display());
    let text =
        |name: &str| std::fs::read_to_string(dir.path().join(name)).expect("written").replace(&path, "");
    assert_eq!(text("x.md"), report(dir.path(), &[&sides[..3], &["--markdown"]].concat()));
    // `log` has another name now.
    let svg = text("x.svg");
    assert!(svg.contains("compress (") && svg.contains("more (") && !svg.contains("log ("), "{svg}");
}
