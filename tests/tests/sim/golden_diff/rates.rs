//! Tests which functions changed, and which only have another share of a whole that changed.

use icecore_tests::inside::{golden, report};

use super::{Service, USUAL, folder, json, row, with_status};

#[test]
fn the_same_service_at_another_rate_and_for_another_time_shows_no_change() {
    let dir = folder();
    USUAL.write(dir.path(), "before");
    Service { hz: 100, seconds: 31, seed: 9, ..USUAL }.write(dir.path(), "after");
    golden(dir.path(), "diff_same", &["diff", "DIR/before", "DIR/after"]);
    for options in [
        &["--unit", "cpu"][..],
        &["--sort", "total"],
        &["--by", "image"],
        &["--by", "stack"],
        &["--by", "thread"],
    ] {
        let diff = json(dir.path(), &[&["diff", "DIR/before", "DIR/after"], options].concat());
        assert_eq!(
            (&diff["changed"], diff["rows"].as_array().map(Vec::is_empty)),
            (&0.into(), Some(false)),
            "{options:?}"
        );
    }
    let itself = json(dir.path(), &["diff", "DIR/before", "DIR/before"]);
    assert!(
        itself["rows"]
            .as_array()
            .expect("rows")
            .iter()
            .all(|row| row["delta"] == 0.0 && row["status"] == "same")
    );
}

#[test]
fn where_the_whole_changed_and_no_share_did_it_is_told_where_to_look() {
    let dir = folder();
    USUAL.write(dir.path(), "before");
    let mut twice = USUAL.recorded();
    Service { seed: 5, ..USUAL }.goes_on(&mut twice, 0);
    twice.write(&dir.path().join("after"), true).expect("written");
    let sides = ["diff", "DIR/before", "DIR/after"];
    let told = report(dir.path(), &sides);
    let hint = "the whole changed, though: --unit cpu compares CPU time, not shares; --by image and --by process have larger rows";
    assert!(
        told.contains("No significant change in 5 functions, but in the whole: +100.0%.")
            && told.contains(hint),
        "{told}"
    );
    let told = report(dir.path(), &[&sides[..], &["--unit", "cpu"]].concat());
    assert!(told.contains(" of 5 functions changed") && !told.contains("the whole changed"), "{told}");
}

#[test]
fn what_takes_more_is_told_from_what_only_has_a_smaller_share_of_more() {
    let dir = folder();
    USUAL.write(dir.path(), "before");
    let functions = &[("compress", 800), ("parse", 300), ("hash", 200), ("send", 90), ("log", 10)];
    Service { functions, seed: 5, hz: 499, ..USUAL }.write(dir.path(), "after");
    let sides = ["diff", "DIR/before", "DIR/after"];
    golden(dir.path(), "diff_grew", &sides);
    golden(dir.path(), "diff_grew_all", &[&sides[..], &["--all"]].concat());
    golden(dir.path(), "diff_grew.md", &[&sides[..], &["--markdown", "-n", "1"]].concat());
    golden(dir.path(), "diff_grew.json", &[&sides[..], &["--json"]].concat());
    golden(
        dir.path(),
        "diff_grew_work",
        &[&sides[..], &["--work-before", "400", "--work-after", "200"]].concat(),
    );
    let diff = json(dir.path(), &sides);
    assert_eq!(with_status(&diff, "grew"), ["compress"]);
    assert_eq!(with_status(&diff, "diluted"), ["parse", "hash", "send", "log"]);
    let found = row(&diff, "compress");
    let number = |key: &str| found[key].as_f64().expect("a number");
    let truth = 800.0 / 1400.0 - 0.4;
    assert!(number("low") < truth && truth < number("high") && number("detectable") < truth, "{found}");
    // With the sides swapped, everything is swapped.
    let back = json(dir.path(), &["diff", "DIR/after", "DIR/before"]);
    assert_eq!(with_status(&back, "shrank"), ["compress"]);
    assert!((row(&back, "compress")["delta"].as_f64().expect("a number") + number("delta")).abs() < 1e-12);
}

#[test]
fn a_spike_is_compared_with_the_calm_of_the_same_recording() {
    let dir = folder();
    let mut calm = Service { seconds: 6, ..USUAL }.recorded();
    let functions = &[("compress", 400), ("parse", 300), ("hash", 900), ("send", 90), ("log", 10)];
    Service { seconds: 2, functions, ..USUAL }.goes_on(&mut calm, 6);
    calm.write(&dir.path().join("both"), true).expect("written");
    golden(dir.path(), "diff_spike", &["diff", "DIR/both", "--slice", "6..", "--against", "..6"]);
    let none = json(dir.path(), &["diff", "DIR/both", "--slice", "3..6", "--against", "..3"]);
    assert_eq!(none["changed"], 0);
}

#[test]
fn where_nearly_all_changed_it_is_told_that_shares_do_not_tell_why() {
    let dir = folder();
    let ambiguous = "shares do not tell which of them changed";
    for (name, own) in [("a", 600), ("b", 300)] {
        let functions = &[("own", own), ("copies", 400)];
        Service { functions, seed: own, ..USUAL }.write(dir.path(), name);
    }
    let shares = report(dir.path(), &["diff", "DIR/a", "DIR/b"]);
    assert!(shares.contains("2 of 2 functions changed") && shares.contains(ambiguous), "{shares}");
    // The service does 600 jobs at first, and 600 · 10/7 when each job takes 7/10 of the time.
    let work = ["diff", "DIR/a", "DIR/b", "--work-before", "600", "--work-after", "857"];
    let work = report(dir.path(), &work);
    assert!(work.contains("1 of 2 functions changed") && !work.contains(ambiguous), "{work}");
    USUAL.write(dir.path(), "c");
    let grown = &[("compress", 520), ("parse", 300), ("hash", 200), ("send", 90), ("log", 10)];
    Service { functions: grown, seed: 2, ..USUAL }.write(dir.path(), "d");
    let clear = report(dir.path(), &["diff", "DIR/c", "DIR/d"]);
    assert!(clear.contains("compress") && !clear.contains(ambiguous), "{clear}");
}
