//! After a recorder, a disk or a machine fails, the recording has every whole block and states what is missing.
//!
//! | room | what fails |
//! |---|---|
//! | [`kill`] | the recorder, at random moments and at every write |
//! | [`disk`] | the disk: full, limited, broken |
//! | [`torn`] | the machine: a file cut off, or with zeros at its end |
//! | [`live`] | nothing: a recording is read while it is written |

mod disk;
mod kill;
mod live;
mod remains;
mod torn;

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use icecore_tests::machine::{churn, record};

/// How many recorders run at once.
const LANES: u64 = 4;

/// Waits until no other of these tests runs, in this process or another: they load the machine, and some measure time. The lock
/// is held as long as the file is open.
fn alone() -> File {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("crash.lock");
    let file = File::create(path).expect("a folder for the files of tests");
    file.lock().expect("a file system with locks");
    file
}

/// How long rows wait before they are written when many blocks are wanted: as short as the recorder allows.
const FLUSH_NS: u64 = 100_000_000;

/// Returns the recorder with `--quiet`, many blocks, and this rate, for this process.
fn record_often(hz: &str, process: &Churn, path: &Path) -> Command {
    let mut recorder = record();
    recorder.args(["-q", "--flush", "0.1", "-F", hz, "-p", &process.0.id().to_string()]);
    recorder.arg("-o").arg(path).stderr(Stdio::piped());
    recorder
}

/// One of the programs of `tests/programs/churn.c`; killed at the end.
struct Churn(Child);

impl Churn {
    fn start(name: &str) -> Self {
        Self(Command::new(churn()).arg(name).spawn().expect("it was just compiled"))
    }
}

impl Drop for Churn {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a function for the numbers from `first` on, several at once, until it returns `None`; collects the other results.
fn in_lanes<T: Send>(first: u64, act: impl Fn(u64) -> Option<T> + Sync) -> Vec<T> {
    let next = AtomicU64::new(first);
    let lane = || std::iter::from_fn(|| act(next.fetch_add(1, Ordering::Relaxed))).collect::<Vec<T>>();
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES).map(|_| scope.spawn(lane)).collect();
        lanes.into_iter().flat_map(|lane| lane.join().expect("it says above what is wrong")).collect()
    })
}

/// Random numbers, the same for the same seed (xorshift64*).
struct Random(u64);

impl Random {
    /// Returns one of many sequences of one seed.
    fn new(seed: u64, number: u64) -> Self {
        Self((seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).max(1))
    }

    /// Returns a number below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % end.max(1)
    }
}

/// Prints what was tried if the test fails meanwhile.
struct Trying(String);

impl Drop for Trying {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("it failed at: {}", self.0);
        }
    }
}
