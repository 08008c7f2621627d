//! Assembly without unwind tables, through real eBPF: the report reads its callers from the code, and never shows a caller that
//! the code does not call.

use std::path::Path;

use icecore_tests::machine::{Recorded, guesses, guesses_without_symbols};

/// Parts of `tests/programs/guesses.c`, and the functions on the stack.
const PARTS: [(&str, &[&str]); 4] = [
    ("stale", &["stale", "stale_caller", "main"]),
    ("pushed", &["pushed", "pushed_caller", "main"]),
    ("middle", &["spin", "middle", "outer", "main"]),
    ("pointer", &["stale", "pointer_caller", "main"]),
];

fn recorded(program: &Path, part: &str) -> Recorded {
    let command = [program.as_os_str(), part.as_ref(), "1000".as_ref()];
    Recorded::without_loss(&["-F", "499", "-q"], &command)
}

/// Returns how many calls were checked, and how many of them the code does not make.
fn calls(recorded: &Recorded) -> (u64, u64) {
    let found = &recorded.json("health", &[])["impossible"];
    // The view has no such row if no stack has a caller.
    let number = |key: &str| found.get(key).map_or(0, |number| number.as_u64().expect("a number"));
    (number("checked"), number("impossible"))
}

#[test]
fn root_assembly_without_unwind_rules_has_its_callers() {
    for (part, chain) in PARTS {
        let recorded = recorded(&guesses(), part);
        let mut samples = recorded.samples(&[]);
        samples.retain(|sample| sample.names("user").first() == Some(&chain[0]));
        assert!(samples.len() > 30, "{part}: {}", samples.len());
        // One stack was seen that ended early, on a busy machine; why is not known. Such a stack must say that it is incomplete.
        let (whole, cut): (Vec<_>, Vec<_>) =
            samples.iter().partition(|sample| sample.names("user").starts_with(chain));
        let is_honest = cut.iter().all(|sample| {
            chain.starts_with(&sample.names("user")) && sample.0["incomplete"] == serde_json::json!(true)
        });
        assert!(is_honest && cut.len() * 100 <= whole.len(), "{part}: {:?}", cut.first());
        for sample in whole {
            let frames = sample.0["frames"].as_array().expect("a list");
            assert!(frames.iter().all(|frame| frame.get("guessed").is_none()), "{part}: {}", sample.0);
        }
        let (checked, impossible) = calls(&recorded);
        assert!(checked > 100 && impossible == 0, "{part}: {impossible} of {checked}");
    }
}

#[test]
fn root_no_caller_is_shown_that_the_code_does_not_call() {
    for (part, chain) in PARTS {
        let recorded = recorded(&guesses_without_symbols(), part);
        // The report cannot read from the code who calls through a pointer: such a stack ends, and none of its calls is checked.
        let is_read = part != "pointer";
        let (checked, impossible) = calls(&recorded);
        assert!(impossible == 0 && (checked > 100 || !is_read), "{part}: {impossible} of {checked}");
        let whole = recorded.samples(&[]).into_iter().filter(|sample| {
            // These are `__libc_start_call_main`, `__libc_start_main`, `_start`.
            sample.names("user").len() == chain.len() + 3
        });
        let rooted = recorded.json("health", &[])["rooted_share"].as_f64().expect("walked");
        let whole = whole.count();
        println!("{part} without symbols: {whole} whole, {rooted:.3} rooted");
        assert_eq!(whole > 30, is_read, "{part}: {whole}");
    }
}

#[test]
fn root_a_walk_that_skips_callers_holds_impossible_calls() {
    // A walk along frame pointers skips the caller of `middle`, and only the code shows that.
    let command = [guesses().into_os_string(), "middle".into(), "1000".into()];
    let recorded = Recorded::new(&["-F", "499", "-q", "--unwind", "fp"], &command);
    let health = recorded.json("health", &[]);
    assert!(health["impossible_share"].as_f64() > Some(0.8), "{}", health["impossible_share"]);
    assert_eq!(health["verdict"], "misleading");
    let row = &health["impossible"]["images"][0];
    assert_eq!(row["by"], "frame_pointers");
    assert!(row["image"].as_str().is_some_and(|image| image.ends_with("/guesses")), "{row}");
    let problems = health["problems"].as_array().expect("a list");
    assert!(problems.iter().any(|it| it.as_str().is_some_and(|it| it.contains("record with --unwind auto"))));
}
