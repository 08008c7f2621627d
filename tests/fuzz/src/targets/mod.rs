//! One file per parser. A target takes bytes, and panics if a promise is broken.

pub mod dwarf;
pub mod edit;
pub mod functions;
pub mod image;
pub mod import;
pub mod import_named;
pub mod imported;
pub mod jit;
pub mod kallsyms;
mod lines;
pub mod notes;
pub mod proc;
pub mod recording;
pub mod report;
pub mod stack;
pub mod stripped;
pub mod tables;
pub mod unwind;
pub mod views;
pub mod wire;

/// A parser under attack.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// One execution.
    pub run: fn(&[u8]),
    /// Inputs that it understands.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets.
pub const ALL: [Target; 25] = [
    Target { name: "recording", run: recording::run, seeds: recording::seeds },
    Target { name: "report", run: report::run, seeds: report::seeds },
    Target { name: "image", run: image::run, seeds: image::seeds },
    Target { name: "dwarf", run: dwarf::run, seeds: dwarf::seeds },
    Target { name: "stripped", run: stripped::run, seeds: stripped::seeds },
    Target { name: "wire", run: wire::run, seeds: wire::seeds },
    Target { name: "proc", run: proc::run, seeds: proc::seeds },
    Target { name: "kallsyms", run: kallsyms::run, seeds: kallsyms::seeds },
    Target { name: "notes", run: notes::run, seeds: notes::seeds },
    Target { name: "functions", run: functions::run, seeds: functions::seeds },
    Target { name: "tables", run: tables::run, seeds: tables::seeds },
    Target { name: "jit", run: jit::run, seeds: jit::seeds },
    Target { name: "edit", run: edit::run, seeds: edit::seeds },
    Target { name: "import", run: import::run, seeds: import::seeds },
    Target { name: "folded", run: import_named::run, seeds: import_named::folded },
    Target { name: "pprof", run: import_named::run, seeds: import_named::pprof },
    Target { name: "firefox", run: import_named::run, seeds: import_named::firefox },
    Target { name: "simpleperf", run: import_named::run, seeds: import_named::simpleperf },
    Target { name: "unwind", run: unwind::run, seeds: unwind::seeds },
    Target { name: "stack", run: stack::run, seeds: stack::seeds },
    Target { name: "diff", run: views::diff, seeds: views::diff_seeds },
    Target { name: "timeline", run: views::timeline, seeds: views::timeline_seeds },
    Target { name: "trend", run: views::trend, seeds: views::trend_seeds },
    Target { name: "depth", run: views::depth, seeds: views::depth_seeds },
    Target { name: "imported", run: imported::run, seeds: imported::seeds },
];

/// Finds a target by its name.
pub fn find(name: &str) -> Option<Target> {
    ALL.into_iter().find(|target| target.name == name)
}

/// What every execution may hold, whatever its input, bytes.
const FREE_BYTES: usize = 4 << 20;
