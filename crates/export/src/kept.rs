//! What a recording has, and a format may keep or lose.

use icecore_analysis::counters::counted;
use icecore_format::records::WalkEnd;
use icecore_profile::stacks::locate::CodeLocation;

use crate::exported::Exported;

/// One thing that a recording has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fact {
    /// Functions that were inlined, as frames that are marked as such.
    Inlined,
    /// Source files and lines.
    Lines,
    /// The files that code is in.
    Images,
    /// The build-ids of these files.
    BuildIds,
    /// Addresses of code.
    Addresses,
    /// Which code is the kernel's.
    Sides,
    /// When each sample was taken.
    Times,
    /// On which CPU each sample was taken.
    Cpus,
    /// Threads.
    Threads,
    /// Processes.
    Processes,
    /// Cgroups.
    Cgroups,
    /// Hosts, if there are several.
    Hosts,
    /// Several events, each with its unit.
    Events,
    /// The unit of weights.
    Units,
    /// The numbers of samples beside their weights.
    Samples,
    /// For what threads waited, and what ended the waits.
    Waits,
    /// Counters of the machine, of processes and of cgroups.
    Counters,
    /// The verdict on the data, its reasons, and losses.
    Verdict,
    /// Which stacks are incomplete.
    Incomplete,
    /// Which stacks have a frame that was guessed.
    Guesses,
    /// Values of fields of tracepoints.
    Fields,
    /// Statistical bounds of shares, and how often checked stacks were wrong.
    Bounds,
}

impl Fact {
    /// All facts, in the order in which they are listed.
    pub const ALL: [Self; 22] = [
        Self::Inlined,
        Self::Lines,
        Self::Images,
        Self::BuildIds,
        Self::Addresses,
        Self::Sides,
        Self::Times,
        Self::Cpus,
        Self::Threads,
        Self::Processes,
        Self::Cgroups,
        Self::Hosts,
        Self::Events,
        Self::Units,
        Self::Samples,
        Self::Waits,
        Self::Counters,
        Self::Verdict,
        Self::Incomplete,
        Self::Guesses,
        Self::Fields,
        Self::Bounds,
    ];

    /// Returns the name in `--json`; these names never change.
    pub fn code(self) -> &'static str {
        match self {
            Self::Inlined => "inlined",
            Self::Lines => "lines",
            Self::Images => "images",
            Self::BuildIds => "build_ids",
            Self::Addresses => "addresses",
            Self::Sides => "sides",
            Self::Times => "times",
            Self::Cpus => "cpus",
            Self::Threads => "threads",
            Self::Processes => "processes",
            Self::Cgroups => "cgroups",
            Self::Hosts => "hosts",
            Self::Events => "events",
            Self::Units => "units",
            Self::Samples => "samples",
            Self::Waits => "waits",
            Self::Counters => "counters",
            Self::Verdict => "verdict",
            Self::Incomplete => "incomplete",
            Self::Guesses => "guesses",
            Self::Fields => "fields",
            Self::Bounds => "bounds",
        }
    }

    /// Describes it for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Inlined => "which functions are inlined",
            Self::Lines => "source files and lines",
            Self::Images => "the files of code",
            Self::BuildIds => "build-ids",
            Self::Addresses => "addresses of code",
            Self::Sides => "which code is the kernel's",
            Self::Times => "the time of each sample",
            Self::Cpus => "the CPU of each sample",
            Self::Threads => "threads",
            Self::Processes => "processes",
            Self::Cgroups => "cgroups",
            Self::Hosts => "hosts",
            Self::Events => "several events",
            Self::Units => "units",
            Self::Samples => "numbers of samples beside weights",
            Self::Waits => "kinds of waits, and who ended them",
            Self::Counters => "counters",
            Self::Verdict => "verdict and losses",
            Self::Incomplete => "which stacks are incomplete",
            Self::Guesses => "which frames were guessed",
            Self::Fields => "fields of tracepoints",
            Self::Bounds => "bounds of shares, and the audit of stacks",
        }
    }

    /// Returns true if what is exported has it.
    fn is_in(self, of: &Exported<'_>) -> bool {
        let report = of.report;
        let (loaded, profile) = (report.loaded, &report.profile);
        let parts = &loaded.tables.parts;
        match self {
            Self::Inlined => profile.names.frames.iter().any(|frame| frame.inlined),
            Self::Lines => profile.names.frames.iter().any(|frame| frame.line.is_some()),
            Self::Images => !of.locator.images.is_empty(),
            Self::BuildIds => of.locator.images.iter().any(|image| !image.build_id.is_empty()),
            Self::Addresses => {
                let has_one = |place: &CodeLocation| {
                    matches!(place, CodeLocation::Image(..) | CodeLocation::Kernel(..))
                };
                of.located.places.iter().any(has_one)
            }
            Self::Sides => of.located.places.iter().any(|place| matches!(place, CodeLocation::Kernel(..))),
            Self::Hosts => parts.hosts().len() > 1,
            Self::Events => of.events.len() > 1,
            Self::Cgroups => profile.threads.iter().any(|it| loaded.cgroups.path(it.cgroup).is_some()),
            Self::Waits => !profile.waits.is_empty(),
            Self::Counters => !counted(&loaded.selection()).is_empty(),
            Self::Incomplete => profile.taken(|it| it.is_walked() && !it.rooted).samples > 0,
            Self::Guesses => profile.guessed().samples > 0,
            Self::Fields => !loaded.tables.fields.is_empty(),
            Self::Bounds => profile.taken(|taken| taken.end != WalkEnd::NONE).samples > 0,
            Self::Times | Self::Cpus | Self::Threads | Self::Processes | Self::Units | Self::Samples => true,
            Self::Verdict => true,
        }
    }
}

/// Lists what is exported and the format does not keep.
pub fn lost(of: &Exported<'_>, keeps: &[Fact]) -> Vec<Fact> {
    Fact::ALL.into_iter().filter(|fact| !keeps.contains(fact) && fact.is_in(of)).collect()
}
