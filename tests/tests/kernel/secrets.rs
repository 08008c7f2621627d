//! A recording holds addresses of code and nothing else of the memory of a program: no secret of the stack, of registers, of the heap, of the
//! environment, or of memory that is writable and executable.

use std::path::Path;
use std::process::Command;

use icecore_format::read::Recording;
use icecore_tests::machine::{Recorded, secrets, secrets_with_frames, text};

/// So many bytes in a row of a secret are a part of it; an address that looks like one has at most 6.
const PART: usize = 7;

/// Returns the parts of secrets that the blocks of a recording hold.
fn found(recording: &Path, secrets: &[String]) -> Vec<String> {
    let recording = Recording::open(recording).expect("a recording");
    let parts: Vec<&[u8]> = secrets.iter().flat_map(|secret| secret.as_bytes().windows(PART)).collect();
    let parts: std::collections::HashSet<&[u8]> = parts.into_iter().collect();
    let mut found = Vec::new();
    for entry in recording.entries() {
        let payload = recording.payload(entry).expect("a whole block");
        for window in payload.as_bytes().windows(PART).filter(|window| parts.contains(window)) {
            found.push(format!("{:?}: {:?}", entry.header.kind, String::from_utf8_lossy(window)));
        }
    }
    found
}

#[test]
fn root_no_secret_of_a_program_is_in_its_recording() {
    for program in [secrets(), secrets_with_frames()] {
        let printed = Command::new(&program).arg("print").output().expect("it runs");
        let secrets: Vec<String> = text(&printed.stdout).lines().map(str::to_owned).collect();
        assert!(secrets.len() == 8 && secrets.iter().all(|secret| secret.len() == 16), "{secrets:?}");
        let file = std::fs::read(&program).expect("there");
        let has =
            |secret: &String| file.windows(PART).any(|window| window == &secret.as_bytes()[5..5 + PART]);
        assert!(!secrets.iter().any(has), "the program makes them");
        // What is embedded comes from files, and is the same however stacks are walked.
        for (unwind, embed) in [("auto", "hits"), ("copy", "none"), ("dwarf", "sections"), ("fp", "all")] {
            let options = ["-F", "997", "-q", "--audit", "1", "--unwind", unwind, "--embed", embed];
            let recorded = Recorded::new(&options, &[program.as_os_str()]);
            let samples = recorded.samples(&[]);
            let is_inside = |sample: &&icecore_tests::machine::Sample| sample.has("spin");
            assert!(samples.iter().filter(is_inside).count() > 200, "{unwind} {embed}: {}", samples.len());
            let found = found(&recorded.path(), &secrets);
            assert!(found.is_empty(), "{unwind} {embed}: {found:?}");
        }
        // The search finds what is there.
        let argument = Recorded::new(&["-F", "997", "-q"], &[program.as_os_str(), secrets[0].as_ref()]);
        assert!(!found(&argument.path(), &secrets).is_empty(), "command lines are recorded");
    }
}
