//! Recordings for the tests of the page in `tests/page/`, with stacks that are hard to draw or to name.

use icecore_format::limits::MAX_FRAMES;
use icecore_format::records::{
    Change, EndReason, ImageKind, NameTable, NamedFrame, NamedFunction, NamedPlace, Origin, RateCause,
    RateChange, ReceiptV1, Symbol, WalkEnd,
};

use super::{Builder, EVENTS, PERIOD_NS, START_NS, waiting};

const MS: u64 = 1_000_000;
/// Where [`waiting()`] and the programs here are mapped, and from which offset of their file.
const CODE: u64 = 0x1_0000;
const CODE_OFF: u64 = 0x1000;

/// Names that would be markup, a property of every object, or unreadable, if the page did not treat them as text.
pub const HOSTILE_NAMES: [&str; 9] = [
    "</script><img src=x onerror=alert(1)>",
    "<!--<script>",
    "\"'`${alert(1)}&amp;",
    "\u{202e}gnp.exe",
    "\x1b]0;title\x07\r\n",
    "__proto__",
    "constructor",
    "toString",
    "/(?:/",
];

/// Makes [`waiting()`] with all of its events and with names; a process `server` also recurses: `main → even → odd → even → odd …`,
/// between two and nine calls deep, 100 samples of 1 ms.
pub fn busy() -> Builder {
    let mut b = waiting(&EVENTS.map(|(name, ..)| name));
    name_functions(&mut b, 0, ["main", "work", "read", "even", "odd"].map(str::as_bytes));
    let server = b.task(9, 9, "server");
    for n in 0..100u64 {
        let calls = (0..n % 8 + 2).rev().map(|call| CODE + 0x310 + call % 2 * 0x100);
        let stack: Vec<u64> = calls.chain([CODE + 0x50]).collect();
        let sample = b.sample(n * 5 * MS + 500_000, 1, server, &stack, &[]);
        // Every other one has all of its callers.
        sample.user_end = if n % 2 == 0 { WalkEnd::BY_TABLES } else { WalkEnd::UNREADABLE };
    }
    // The kernel's account agrees.
    for row in b.cpu_times.iter_mut().filter(|row| row.tgid == 9) {
        (row.ran_ns, row.user_ns) = (100 * MS, 100 * MS);
    }
    b.receipt = Some(ReceiptV1 { samples: b.samples.len() as u64, ..ending() });
    b
}

/// Makes two stacks: one of 12,286 frames, and one of half as many that has the same outer frames.
pub fn deep() -> Builder {
    let (mut b, image, task) = program("deep");
    // Each address is in a function and in two that were inlined into it.
    let texts = (0..24).map(|number| format!("level{number:02}").into_bytes().into()).collect();
    let functions = (0..24).map(|name| NamedFunction { name, ..NamedFunction::default() }).collect();
    let frames = (0..24).map(|function| NamedFrame { function, file: None, line: 0 }).collect();
    let place = |number: usize| NamedPlace {
        calls: None,
        image,
        file_off: CODE_OFF + 0xf + number as u64 * 0x100,
        address: 0,
        start: 0,
        frames: number * 3..number * 3 + 3,
    };
    b.names = NameTable { places: (0..8).map(place).collect(), frames, functions, texts };
    let stack: Vec<u64> = (0..u64::from(MAX_FRAMES)).map(|depth| CODE + 0x10 + depth % 8 * 0x100).collect();
    b.sample(MS, 0, task, &stack, &[]);
    b.sample(2 * MS, 0, task, &stack[stack.len() / 2..], &[]);
    b
}

/// Makes one function with 5,000 callees, of which the first takes as much time as all others together.
pub fn wide() -> Builder {
    let (mut b, image, task) = program("wide");
    let mut symbol = |start: u64, len: u64, name: String| {
        let start = CODE_OFF + start;
        b.symbols.push(Symbol::new(image, start..start + len, name));
    };
    symbol(0, 8, "main".to_owned());
    (1..=5_000).for_each(|number| symbol(number * 8, 8, format!("callee{number:04}")));
    for number in 1..=5_000 {
        let sample = b.sample(number * 100_000, 0, task, &[CODE + number * 8 + 1, CODE + 2], &[]);
        sample.weight = if number == 1 { 4_999 * PERIOD_NS } else { PERIOD_NS };
    }
    b
}

/// Makes one thread that is sampled each millisecond from 0 to 500 ms and from 1,500 to 1,800 ms; meanwhile, and then until the
/// end at 2 s, the recorder pauses.
pub fn paused() -> Builder {
    let (mut b, image, task) = program("worker");
    name_functions(&mut b, image, [&b"work"[..]]);
    for ms in (0..500).chain(1_500..1_800) {
        b.sample(ms * MS + MS / 2, 0, task, &[CODE + 0x10], &[]).weight = MS;
    }
    let row = |ms: u64, share: u32| RateChange {
        time_ns: START_NS + ms * MS,
        share,
        cause: RateCause::DUTY,
        measured: 0,
        limit: 0,
    };
    b.rates = vec![row(500, 0), row(1_500, RateChange::WHOLE), row(1_800, 0)];
    b
}

/// Makes samples of functions with [`HOSTILE_NAMES`], one that has no name, and one whose name has 10,000 characters; the program has the first
/// of these names.
pub fn hostile() -> Builder {
    let (mut b, image, task) = program(HOSTILE_NAMES[0]);
    let long = "x".repeat(10_000);
    let names: Vec<&[u8]> =
        HOSTILE_NAMES.iter().map(|name| name.as_bytes()).chain([long.as_bytes()]).collect();
    name_functions(&mut b, image, names.iter().copied());
    for n in 0..110u64 {
        let leaf = CODE + 0x10 + n % 11 * 0x100;
        b.sample(n * 10 * MS, 0, task, &[leaf, CODE + 0x10 + n % 3 * 0x100], &[]);
    }
    b
}

/// Makes a program before and after a change: `slow` takes twice as long afterwards, `gone` and `new` are only on one side.
pub fn changed() -> [Builder; 2] {
    let side = |slow: u64, other: &str| {
        let (mut b, image, task) = program("app");
        name_functions(&mut b, image, ["main", "same", "slow", other].map(str::as_bytes));
        let mut at_ns = 0;
        for round in 0..100u64 {
            for leaf in [0x110u64; 6].into_iter().chain((0..slow).map(|_| 0x210)).chain([0x310]) {
                at_ns += MS + round % 7 * 1_000;
                b.sample(at_ns, 0, task, &[CODE + leaf, CODE + 0x50], &[]);
            }
        }
        b.receipt = Some(ReceiptV1 { samples: b.samples.len() as u64, ..ending() });
        b
    };
    [side(3, "gone"), side(6, "new")]
}

/// Begins a recording of one process, whose number is 100.
fn program(name: &str) -> (Builder, u32, u32) {
    let mut b = Builder::default();
    let image = b.image(ImageKind::FILE, &format!("/no/such/bin/{}", name.replace('/', "|")));
    let task = b.task(100, 100, name);
    b.change(1_000, Change::FOUND, 100, 1, name);
    b.map(2_000, 100, CODE, image, Origin::SCAN);
    b.receipt = Some(ending());
    (b, image, task)
}

/// Gives names to functions of 0x100 bytes each.
fn name_functions<'n>(b: &mut Builder, image: u32, names: impl IntoIterator<Item = &'n [u8]>) {
    let starts = (CODE_OFF..).step_by(0x100);
    let symbol = |(start, name): (u64, &[u8])| Symbol::new(image, start..start + 0x100, name);
    b.symbols.extend(starts.zip(names).map(symbol));
}

fn ending() -> ReceiptV1 {
    let end_ns = START_NS + 2_000 * MS;
    ReceiptV1 { end_ns, end_reason: EndReason::DURATION, exit_code: 0, ..Default::default() }
}
