//! Tests JIT code, which perf maps and jitdump files of its process name.
//!
//! | room | what it checks |
//! |---|---|
//! | [`perf_maps`] | maps that come late, are replaced, or belong to a parent; two processes with code at one address |
//! | [`roots`] | processes with a root folder and process ids of their own |
//! | [`hostile`] | files that the recorder must not believe |
//! | [`programs`] | jitdump files, Node.js and Python |
//! | [`recordings`] | names in recordings that were packed, cut and merged |
//! | [`unframed`] | stacks through code that keeps no frame pointers |

mod hostile;
mod perf_maps;
mod programs;
mod recordings;
mod roots;
#[cfg(target_arch = "x86_64")]
mod unframed;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use icecore_tests::machine::{Recorded, Sample, jit};
use serde_json::Value;

/// The addresses at which `tests/programs/jit.c` makes its code.
const FIRST: u64 = 0x1000_0000;
const SECOND: u64 = FIRST + 0x1_0000;
const OPTIONS: [&str; 3] = ["-F", "997", "-q"];

/// Returns the leaves of samples in the code of `tests/programs/jit.c`.
fn leaves(samples: &[Sample]) -> Vec<&Value> {
    let leaf = |sample: &Sample| sample.0["frames"].as_array().and_then(|frames| frames.first().cloned());
    let is_made =
        |leaf: &Value| leaf["address"].as_u64().is_some_and(|at| (FIRST..SECOND + 0x100).contains(&at));
    samples
        .iter()
        .filter(|sample| leaf(sample).is_some_and(|leaf| is_made(&leaf)))
        .map(|s| &s.0["frames"][0])
        .collect()
}

/// Returns how often each name is that of a leaf in JIT code; unnamed ones under their reason, in brackets.
fn names(samples: &[Sample]) -> BTreeMap<String, usize> {
    let mut names = BTreeMap::new();
    for leaf in leaves(samples) {
        let name = match (&leaf["name"], &leaf["reason"]) {
            (Value::String(name), Value::Null) => name.clone(),
            (_, reason) => format!("[{}]", reason.as_str().unwrap_or("?")),
        };
        *names.entry(name).or_default() += 1;
    }
    names
}

/// Asserts that nearly all JIT code has one of these names, and that each name occurs often.
fn assert_named(names: &BTreeMap<String, usize>, expected: &[&str]) {
    let all: usize = names.values().sum();
    let of = |name: &&str| names.get(*name).copied().unwrap_or(0);
    assert!(all > 40 && expected.iter().all(|name| of(name) * 5 > all), "{names:?}");
    assert!(expected.iter().map(of).sum::<usize>() * 100 >= all * 98, "{names:?}");
}

fn recorded(how: &str) -> Recorded {
    let program = jit();
    Recorded::new(&OPTIONS, &[program.as_os_str(), how.as_ref(), "900".as_ref()])
}

/// Waits until `look` finds something; panics after a minute.
fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "it did not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}
