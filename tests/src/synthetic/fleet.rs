//! A fleet: hosts of two services that are recorded every night, with what changes known by construction.
//!
//! | what | since | is |
//! |---|---|---|
//! | `parse` of `web` | day 60, with release 1.5.0 | half as expensive again |
//! | `crc32` of `libz` | always | three times as expensive on the host `web-07`, which is sick |
//! | `libz` | always | an old build, in which stacks end, on every third host |
//! | `tcp_fast_path` of the kernel | always | only on hosts of Linux 6.12, every second one |
//!
//! The 61st night is day 60: days count from 0.

use std::fs;
use std::path::Path;

use icecore_format::Error;
use icecore_format::records::{
    Change, Counter, CounterValue, EndReason, EventV1, ImageKind, KernelSymbol, LabelV1, Location,
    NamedFrame, NamedFunction, NamedPlace, Origin, Owner, ReceiptV1, SessionV1, Symbol, Wait, WaitFlags,
    WaitState, WalkEnd, WokenBy,
};

use tempfile::TempDir;

use super::{Builder, KERNEL, START_NS, meaning, session};
use crate::inside::text;

/// The night from which on `parse` costs more.
pub const REGRESSION_DAY: u32 = 60;
/// The host whose `crc32` costs more.
pub const SICK_HOST: &str = "web-07";
/// The night of day 0, 2026-09-01 03:00 UTC, ns since 1970-01-01 UTC.
pub const FIRST_UNIX_NS: u64 = 1_788_231_600_000_000_000;

const DAY_NS: u64 = 86_400_000_000_000;
const MS: u64 = 1_000_000;
/// The period of a sample of CPU time, ns.
const PERIOD_NS: u64 = 10 * MS;

/// How large a fleet is.
#[derive(Debug, Clone, Copy)]
pub struct Fleet {
    /// The first night.
    pub first: u32,
    /// The night after the last one.
    pub days: u32,
    /// Hosts of each service.
    pub hosts: u32,
    /// Samples of CPU time of each recording.
    pub samples: u32,
}

/// The functions of a service's program, 0x100 bytes each.
const OWN: [&str; 6] = ["main", "serve", "handle", "parse", "render", "query"];
/// Those of libz.
const LIBZ: [&str; 2] = ["deflate", "crc32"];
/// Those of the kernel.
const IN_KERNEL: [&str; 7] = [
    "entry_SYSCALL_64",
    "vfs_read",
    "tcp_sendmsg",
    "tcp_fast_path",
    "schedule",
    "futex_wait_queue",
    "do_nanosleep",
];

/// The offset of a function in its image: it begins 0x1000 bytes behind the start.
fn at(function: usize) -> u64 {
    0x1000 + function as u64 * 0x100 + 0x10
}

fn kernel(name: &str) -> Location {
    let number = IN_KERNEL.iter().position(|known| *known == name).expect("bug: an unknown function");
    Location::Address(KERNEL + number as u64 * 0x100 + 0x10)
}

impl Fleet {
    /// Writes all recordings, `SERVICE-HOST-DAY.icecore`, into a folder; returns how many.
    ///
    /// # Errors
    /// The errors of the writer.
    pub fn write(self, folder: &Path) -> Result<u32, Error> {
        for day in self.first..self.days {
            for service in ["web", "db"] {
                for host in 0..self.hosts {
                    let name = format!("{service}-{host:02}-{day:03}.icecore");
                    self.night(service, host, day).write(&folder.join(name), true)?;
                }
            }
        }
        Ok((self.days - self.first) * 2 * self.hosts)
    }

    /// Makes a folder with all recordings in `fleet`, and an archive of them in `archive`.
    pub fn archived(self) -> TempDir {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir(dir.path().join("fleet")).expect("made");
        self.write(&dir.path().join("fleet")).expect("written");
        text(dir.path(), "archive DIR/archive add DIR/fleet");
        dir
    }

    /// Makes the recording of one night of one host.
    pub fn night(self, service: &str, host: u32, day: u32) -> Builder {
        let name = format!("{service}-{host:02}");
        let mut random =
            Random(u64::from(day) << 32 | u64::from(host) << 8 | u64::from(service.as_bytes()[0]));
        let new = service == "web" && day >= REGRESSION_DAY;
        let mut b = Builder { uuid: Some(random.uuid()), ..Builder::default() };
        let release = if new { "1.5.0" } else { "1.4.2" };
        let requests = 1000 + u64::from(host) * 10;
        b.session = Some(self.session(service, host, day, [release, &requests.to_string()]));
        let [program, libz] = images(&mut b, service, release, host);
        let task = b.task(7, 7, service);
        b.change(1_000, Change::FOUND, 7, 1, service);
        b.map(2_000, 7, 0x1_0000, program, Origin::SCAN);
        b.map(2_000, 7, 0x10_0000, libz, Origin::SCAN);
        b.cgroup(1_500, 7, &format!("/system.slice/{service}.service"));
        let own = |function: &str| {
            let number = OWN.iter().position(|known| *known == function).expect("bug: an unknown function");
            Location::Image { image: program, file_off: at(number) }
        };
        let of_libz = |number: usize| Location::Image { image: libz, file_off: at(number) };
        let below = [own("handle"), own("serve"), own("main")];
        let inlined = Location::Image { image: program, file_off: at(3) + 0x20 };
        // What a sample hits: its weight among all, its stack, and its kernel stack.
        let (parse, crc32) = (if new { 300 } else { 200 }, if name == SICK_HOST { 120 } else { 40 });
        let fast = host.is_multiple_of(2);
        let sends = if fast {
            vec![kernel("tcp_fast_path"), kernel("tcp_sendmsg")]
        } else {
            vec![kernel("tcp_sendmsg")]
        };
        let entry = kernel("entry_SYSCALL_64");
        let heavy = if service == "web" { own("render") } else { own("query") };
        let kinds: [(u64, Vec<Location>, Vec<Location>); 7] = [
            (parse, vec![own("parse")], vec![]),
            (100, vec![inlined], vec![]),
            (250, vec![heavy], vec![]),
            (120, vec![of_libz(0), heavy], vec![]),
            (crc32, vec![of_libz(1), of_libz(0), heavy], vec![]),
            (90, vec![], vec![kernel("vfs_read"), entry]),
            (110, vec![heavy], [sends, vec![entry]].concat()),
        ];
        let all: u64 = kinds.iter().map(|kind| kind.0).sum();
        for number in 0..self.samples {
            let mut drawn = random.below(all);
            let kind = kinds.iter().find(|kind| {
                drawn < kind.0 || {
                    drawn -= kind.0;
                    false
                }
            });
            let (_, user, in_kernel) = kind.expect("bug: drawn below the sum");
            // In the old build the walk goes no further than libz.
            let is_cut = host.is_multiple_of(3) && user.contains(&of_libz(0));
            let whole = if is_cut { &below[..0] } else { &below[..] };
            let user: Vec<Location> = if is_cut {
                user.iter().filter(|frame| **frame != heavy).copied().collect()
            } else {
                [user, whole].concat()
            };
            let (user_stack, kernel_stack) = (b.stack_at(&user), b.stack_at(in_kernel));
            let sample = b.sample(u64::from(number) * PERIOD_NS + MS, (number % 4) as u16, task, &[], &[]);
            (sample.user_stack, sample.kernel_stack, sample.weight) = (user_stack, kernel_stack, PERIOD_NS);
            sample.user_end = if is_cut { WalkEnd::NO_RULES } else { WalkEnd::BY_TABLES };
            sample.kernel_end = if in_kernel.is_empty() { WalkEnd::NONE } else { WalkEnd::ROOT };
        }
        self.waits(&mut b, task, below, &mut random);
        self.end(&mut b);
        b
    }

    fn session(self, service: &str, host: u32, day: u32, [release, requests]: [&str; 2]) -> SessionV1 {
        let label = |(key, value): (&str, &str)| LabelV1 { key: key.into(), value: value.into() };
        let labels = [("service", service), ("release", release), ("requests", requests)].map(label);
        let event = |name: &str, frequency_hz, period| EventV1 {
            name: name.into(),
            unit: "ns".into(),
            frequency_hz,
            period,
            meaning: meaning(name),
        };
        SessionV1 {
            host: format!("{service}-{host:02}"),
            kernel_release: if host.is_multiple_of(2) { "6.12.9" } else { "6.6.70" }.into(),
            kernel_build_id: vec![if host.is_multiple_of(2) { 0x12 } else { 0x06 }; 20],
            start_unix_ns: FIRST_UNIX_NS + u64::from(day) * DAY_NS + u64::from(host) * 1_000 * MS,
            cpus: (0..4).collect(),
            events: vec![event("cpu-clock", 100, 0), event("off-cpu", 0, MS)],
            labels: labels.into(),
            notes: vec![],
            ..session()
        }
    }

    /// Waits for locks and for time: half as many as samples.
    fn waits(self, b: &mut Builder, task: u32, below: [Location; 3], random: &mut Random) {
        let wait = |on: &str| [kernel("schedule"), kernel(on), kernel("entry_SYSCALL_64")];
        for number in 0..u64::from(self.samples) / 2 {
            let time_ns = number * 2 * PERIOD_NS + 5 * MS;
            let lasted_ns = MS + random.below(3) * MS;
            let stacks = match random.below(4) {
                0 => wait("do_nanosleep"),
                _ => wait("futex_wait_queue"),
            };
            let (user, in_kernel) = (b.stack_at(&below), b.stack_at(&stacks));
            let sample = b.sample(time_ns, (number % 4) as u16, task, &[], &[]);
            (sample.user_stack, sample.kernel_stack, sample.weight) = (user, in_kernel, lasted_ns);
            (sample.user_end, sample.kernel_end, sample.event) = (WalkEnd::BY_TABLES, WalkEnd::ROOT, 1);
            let time_ns = sample.time_ns;
            b.waits.push(Wait {
                time_ns,
                task,
                event: 1,
                state: WaitState::SLEEPING,
                flags: WaitFlags::default(),
                woken_by: WokenBy::SOFT_INTERRUPT,
                began_ns: time_ns - lasted_ns,
                ended_ns: time_ns,
                waker_task: None,
                waker_time_ns: 0,
            });
        }
    }

    fn end(self, b: &mut Builder) {
        let len_ns = u64::from(self.samples) * PERIOD_NS + 10 * MS;
        for (time_ns, value) in [(START_NS, 0), (START_NS + len_ns, len_ns / 2)] {
            for counter in [Counter::CPU_USER, Counter::CPU_IDLE] {
                b.counters.push(CounterValue { time_ns, owner: Owner::Machine, counter, value });
            }
        }
        b.receipt = Some(ReceiptV1 {
            end_ns: START_NS + len_ns,
            end_reason: EndReason::DURATION,
            samples: b.samples.len() as u64,
            user_cpu_ns: 20 * MS,
            kernel_cpu_ns: 30 * MS,
            bpf_ns: 5 * MS,
            ..ReceiptV1::default()
        });
    }
}

/// Adds the service's program and libz, with their functions; the builds follow from the release, and from the host.
fn images(b: &mut Builder, service: &str, release: &str, host: u32) -> [u32; 2] {
    let program = b.image(ImageKind::FILE, &format!("/opt/{service}/bin/{service}"));
    let libz = b.image(ImageKind::FILE, "/usr/lib/libz.so.1");
    let digit = if release == "1.5.0" { 0x15 } else { 0x14 };
    b.images[program as usize].build_id = [[service.as_bytes()[0]; 10], [digit; 10]].concat();
    b.images[libz as usize].build_id = vec![if host.is_multiple_of(3) { 0x0d } else { 0x1e }; 20];
    for (image, functions) in [(program, &OWN[..]), (libz, &LIBZ[..])] {
        for (number, name) in functions.iter().enumerate() {
            let start = at(number) - 0x10;
            b.symbols.push(Symbol::new(image, start..start + 0x100, *name));
        }
    }
    for (start, name) in (KERNEL..).step_by(0x100).zip(IN_KERNEL) {
        let name = b.string(name);
        b.kernel_symbols.push(KernelSymbol { start, end: start + 0x100, name, module: 0 });
    }
    // In `parse`, `scan` is inlined.
    let texts = ["scan", "parse", "/src/parse.c"];
    b.names.texts = texts.iter().map(|text| text.as_bytes().into()).collect();
    b.names.functions = [0, 1].map(|name| NamedFunction { name, ..NamedFunction::default() }).to_vec();
    b.names.functions[1].start = at(3) - 0x10;
    let frame = |(function, line)| NamedFrame { function, file: Some(2), line };
    b.names.frames = [(0, 12), (1, 40)].map(frame).to_vec();
    let file_off = at(3) + 0x20;
    b.names.places.push(NamedPlace {
        image: program,
        file_off,
        address: file_off,
        start: 0,
        frames: 0..2,
        calls: None,
    });
    [program, libz]
}

/// A generator of numbers that are the same every time (a linear congruence).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn uuid(&mut self) -> [u8; 16] {
        std::array::from_fn(|_| self.below(256) as u8)
    }
}
