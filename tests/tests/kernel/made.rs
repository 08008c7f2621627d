//! Calls in JIT code, through real eBPF: the recorder reads the bytes before return addresses from the process, so that the report
//! tells a stale word from a return address.

use std::path::Path;

use icecore_tests::machine::{Recorded, Sample, made, report};

fn recorded(how: &str) -> Recorded {
    let command = [made().into_os_string(), how.into(), "1500".into()];
    Recorded::new(&["-F", "499", "-q"], &command)
}

/// Returns all samples of a file.
fn samples_of(path: &Path) -> Vec<Sample> {
    let text = report(&["samples".as_ref(), path.as_os_str(), "--json".as_ref()]);
    text.lines().map(|line| Sample(serde_json::from_str(line).expect("a JSON object a line"))).collect()
}

/// Returns the samples whose leaf is a function.
fn in_leaf(recorded: &Recorded, leaf: &str) -> Vec<Sample> {
    let mut samples = recorded.samples(&[]);
    samples.retain(|sample| sample.names("user").first() == Some(&leaf));
    assert!(samples.len() > 100, "{leaf}: {}", samples.len());
    samples
}

/// Returns for each frame of user space whether it is a guess.
fn guesses(sample: &Sample) -> Vec<bool> {
    let frames = sample.0["frames"].as_array().expect("a list");
    frames.iter().filter(|frame| frame["side"] == "user").map(|frame| frame["guessed"] == true).collect()
}

fn is_right(sample: &Sample, leaf: &str) -> bool {
    sample.names("user").starts_with(&[leaf, "middle", "outer", "run", "main"])
}

/// Returns the calls in JIT code that were checked, and those of them that the code does not make.
fn checked(recorded: &Recorded) -> (u64, u64) {
    let found = &recorded.json("health", &[])["impossible"];
    let rows = found["images"].as_array().expect("something was checked");
    let of = |key: &str| {
        rows.iter().filter(|row| row["image"].is_null()).filter_map(|row| row[key].as_u64()).sum()
    };
    (of("checked"), of("impossible"))
}

#[test]
fn root_direct_calls_between_pieces_of_made_code_are_proven() {
    let recorded = recorded("direct");
    let samples = in_leaf(&recorded, "leaf");
    let is_proven = |sample: &&Sample| is_right(sample, "leaf") && guesses(sample)[..3] == [false; 3];
    let proven = samples.iter().filter(is_proven).count();
    // These samples do not hit where the frame is being made or removed.
    assert!(proven * 100 >= samples.len() * 97, "{proven} of {}", samples.len());
    // The program calls through a pointer.
    assert!(samples.iter().all(|sample| guesses(sample).get(3) == Some(&true)), "`run` is a guess");
    let (all, impossible) = checked(&recorded);
    assert!(all >= 2 * proven as u64 && impossible == 0, "{impossible} of {all}");
    report(&["verify".as_ref(), recorded.path().as_os_str()]);
    // The rewritten recording says the same.
    let cut = recorded.path().with_extension("cut");
    report(&["cut".as_ref(), recorded.path().as_os_str(), "-o".as_ref(), cut.as_os_str()]);
    let again = samples_of(&cut);
    assert_eq!(again.iter().filter(is_proven).count(), proven);
}

#[test]
fn root_an_address_of_made_code_that_no_call_is_in_front_of_is_no_caller() {
    for how in ["inside", "first"] {
        let recorded = recorded(how);
        let samples = in_leaf(&recorded, "leaf");
        let right = samples.iter().filter(|sample| is_right(sample, "leaf")).count();
        println!("{how}: {right} of {} right", samples.len());
        // The first samples come before the first reading of an address, the last ones after its last reading.
        assert!(right * 100 >= samples.len() * 60, "{how}: {right} of {}", samples.len());
        let wrong = samples.iter().filter(|sample| !is_right(sample, "leaf"));
        assert!(
            wrong.into_iter().all(|sample| guesses(sample).contains(&true)),
            "{how}: what is wrong is marked"
        );
        assert_eq!(checked(&recorded).1, 0, "{how}");
    }
}

#[test]
fn root_code_that_is_replaced_makes_no_call_impossible() {
    let recorded = recorded("replaced");
    let samples = in_leaf(&recorded, "other");
    let right = samples.iter().filter(|sample| is_right(sample, "other")).count();
    assert!(right * 100 >= samples.len() * 99, "{right} of {}", samples.len());
    assert_eq!(checked(&recorded).1, 0);
    let first = in_leaf(&recorded, "leaf");
    let is_said = |sample: &Sample| is_right(sample, "leaf") || guesses(sample).contains(&true);
    assert!(first.iter().all(is_said), "what is wrong is marked");
}
