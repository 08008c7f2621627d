//! Other programs on the machine do not cost the recorded processes samples or frames.

use std::collections::BTreeMap;
use std::process::{Child, Command};

use icecore_tests::machine::{Recorded, mapper, stacks_without_frames};

/// Programs that run beside a recording, and are killed after it.
struct Neighbours(Vec<Child>);

impl Neighbours {
    /// Starts programs that map executable memory all the time.
    fn mapping(number: usize) -> Self {
        let run = |_| Command::new(mapper()).arg("60").spawn().expect("it was compiled");
        Self((0..number).map(run).collect())
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Counts samples with the leaf `leaf` by how their stacks ended; `whole` counts those with all callers.
fn ends(recorded: &Recorded) -> BTreeMap<String, usize> {
    let mut ends = BTreeMap::new();
    let samples = recorded.samples(&["--comm", "stacks"]);
    for sample in samples.iter().filter(|sample| sample.names("user").first() == Some(&"leaf")) {
        let names = sample.names("user");
        let is_whole =
            names.starts_with(&["leaf", "b", "a", "chain", "main"]) && names.last() == Some(&"_start");
        *ends.entry(if is_whole { "whole" } else { sample.text("ended") }.to_owned()).or_default() += 1;
    }
    ends
}

#[test]
fn root_a_neighbour_that_maps_code_all_the_time_takes_no_callers_away() {
    let program = stacks_without_frames();
    let _neighbours = Neighbours::mapping(2);
    for options in [&["-F", "499", "-q"][..], &["-F", "499", "-q", "-a"]] {
        let all = |recorded: &Recorded| ends(recorded).values().sum::<usize>();
        let recorded = Recorded::until(
            |recorded| all(recorded) > 100 && recorded.lost()["stack_shortened"].is_null(),
            || Recorded::new(options, &[program.as_os_str(), "chain".as_ref(), "700".as_ref()]),
        );
        let (all, ends, lost) = (all(&recorded), ends(&recorded), recorded.lost());
        eprintln!("{options:?}: {ends:?}; lost {lost}");
        // If the recorder gets no CPU, it copies no stacks, or the program has ended before the recorder looks at it: then the
        // recording says so.
        let left_out = lost["stack_shortened"].as_u64().unwrap_or(0) as usize;
        let of = |end: &str| ends.get(end).copied().unwrap_or(0);
        let (whole, is_told) = (of("whole"), left_out + of("mappings_lost"));
        assert!(all > 100 && whole * 2 > all && (whole + is_told) * 100 >= all * 97, "{ends:?}; lost {lost}");
    }
}
