//! Every target for a moment, on any compiler. `make fuzz` takes its time, and knows coverage.

use std::time::Duration;

use icecore_fuzz::drive::drive;
use icecore_fuzz::targets::ALL;

/// One test, one target after the other: the memory of an execution is measured.
#[test]
fn no_mutated_input_makes_a_parser_panic_hang_or_eat_memory() {
    let seed = std::env::var("ICECORE_FUZZ_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    for target in ALL {
        let executions = drive(target, Duration::from_millis(2500), seed);
        println!("{}: {executions} executions from seed {seed}", target.name);
        assert!(executions > 20, "{}: only {executions} executions", target.name);
    }
}
