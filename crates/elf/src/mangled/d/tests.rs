use std::time::{Duration, Instant};

use super::*;

#[test]
fn names_are_written_as_cppfilt_writes_them() {
    for (raw, name) in [("_D3app6worker3runFkZv", "app.worker.run(uint)"), ("_Dmain", "D main")] {
        assert_eq!(written(raw, true).as_deref(), Some(name), "{raw}");
    }
    assert_eq!(written("_D3app6worker3runFkZv", false).as_deref(), Some("app.worker.run"));
}

#[test]
fn names_of_others_stay() {
    for raw in [
        "_D",
        "_D3",
        "_D3ap",
        "_D3app",
        "_DYNAMIC",
        "_Dx",
        "_D3appFZ",
        "_D3fooZZ",
        "_D99999999999999999999a",
        "_D3é",
    ] {
        assert_eq!(written(raw, true), None, "{raw}");
    }
}

#[test]
fn hostile_names_end_soon() {
    let doubled = (0..60).fold("_D1a1bFS1c".to_owned(), |name, _| name + "DFQcQeZv");
    for raw in [
        format!("_D1aF{}", "A".repeat(100_000)),
        format!("_D{}", "1a".repeat(100_000)),
        format!("_D1aF{}", "PF".repeat(100_000)),
        format!("_D{}Z", "__T".repeat(100_000)),
        format!("_D1a{}", "5__T1aS".repeat(1_000)),
        format!("_D1aF{}Zv", "HQbQb".repeat(10_000)),
        format!("_D{}", "1".repeat(10_000)),
        format!("_D8__T1aS{}", "1".repeat(10_000)),
        doubled,
    ] {
        let begun = Instant::now();
        assert!(written(&raw, true).is_none_or(|name| name.len() <= MAX_LEN));
        assert!(begun.elapsed() < Duration::from_secs(2), "{}…", &raw[..20]);
    }
}
