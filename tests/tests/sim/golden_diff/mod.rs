//! `diff` and `trend` of synthetic recordings, as text, Markdown and JSON, at one and at several threads.
//!
//! `INSTA_UPDATE=always cargo test -p icecore-tests --test sim -- golden_diff::` rewrites `tests/golden/`.
//!
//! | room | what it checks |
//! |---|---|
//! | [`rates`] | which functions changed: shares, CPU time and work |
//! | [`builds`] | functions of two builds, and images without names |
//! | [`conditions`] | `--fail-on`, refusals, and files that are written |
//! | [`runs`] | several recordings: whole runs, sides of several, a trend |

mod builds;
mod conditions;
mod rates;
mod runs;

use std::collections::BTreeMap;
use std::path::Path;

use icecore_format::records::{Change, EndReason, ImageKind, Origin, ReceiptV1, Symbol};
use icecore_tests::inside::report;
use icecore_tests::synthetic::{Builder, START_NS};
use serde_json::Value;

fn json(dir: &Path, args: &[&str]) -> Value {
    serde_json::from_str(&report(dir, &[args, &["--json"]].concat())).expect("JSON")
}

/// A service: its image, its sampling, and its functions with the time that each takes.
#[derive(Clone, Copy)]
struct Service<'a> {
    image: &'a str,
    hz: u64,
    seconds: u64,
    seed: u32,
    functions: &'a [(&'a str, u32)],
}

const USUAL: Service<'_> = Service {
    image: "/srv/1.2/bin/service",
    hz: 1000,
    seconds: 8,
    seed: 1,
    functions: &[("compress", 400), ("parse", 300), ("hash", 200), ("send", 90), ("log", 10)],
};

impl Service<'_> {
    /// Records the service: at every sample a random function runs.
    fn recorded(&self) -> Builder {
        let mut b = Builder::default();
        b.block_len = 500;
        let image = b.image(ImageKind::FILE, self.image);
        b.change(1_000, Change::FOUND, 100, 1, "service");
        b.map(2_000, 100, 0x1_0000, image, Origin::SCAN);
        let names = ["main"].into_iter().chain(self.functions.iter().map(|(name, _)| *name));
        let start = |position: u64| 0x1000 + position * 0x100;
        let starts: BTreeMap<&str, u64> = names.clone().zip((0..).map(start)).collect();
        for (start, name) in (0..).map(start).zip(names) {
            let of = name.split('.').next().and_then(|of| starts.get(of));
            let whole = of.copied().unwrap_or(start);
            b.symbols.push(Symbol { whole, ..Symbol::new(image, start..start + 0x100, name.as_bytes()) });
        }
        self.goes_on(&mut b, 0);
        b
    }

    /// Continues with other times for the same functions.
    fn goes_on(&self, b: &mut Builder, from_s: u64) {
        let task = b.task(100, 100, "service");
        let whole: u32 = self.functions.iter().map(|(_, weight)| weight).sum();
        let mut random = self.seed;
        let period_ns = 1_000_000_000 / self.hz;
        for tick in 0..self.hz * self.seconds {
            random = random.wrapping_mul(1_103_515_245).wrapping_add(12_345);
            let mut at = (random >> 8) % whole;
            let function = self.functions.iter().position(|(_, weight)| {
                let is_here = at < *weight;
                at = at.wrapping_sub(*weight);
                is_here
            });
            let function = function.expect("weights add up") as u64 + 1;
            let stack = [0x1_0000 + function * 0x100 + 0x10, 0x1_0050];
            b.sample(from_s * 1_000_000_000 + tick * period_ns, 0, task, &stack, &[]).weight = period_ns;
        }
        b.receipt = Some(ReceiptV1 {
            end_ns: START_NS + (from_s + self.seconds) * 1_000_000_000,
            end_reason: EndReason::DURATION,
            exit_code: -1,
            samples: b.samples.len() as u64,
            ..ReceiptV1::default()
        });
    }

    fn write(&self, dir: &Path, name: &str) {
        self.recorded().write(&dir.join(name), true).expect("written");
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

/// Returns the names of the rows with a status.
fn with_status<'a>(diff: &'a Value, status: &str) -> Vec<&'a str> {
    let rows = diff["rows"].as_array().expect("rows");
    rows.iter().filter(|row| row["status"] == status).filter_map(|row| row["name"].as_str()).collect()
}

fn row<'a>(diff: &'a Value, name: &str) -> &'a Value {
    diff["rows"].as_array().expect("rows").iter().find(|row| row["name"] == name).expect("a row of that name")
}
