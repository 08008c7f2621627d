//! Conditions that ask for the history (`--when`).

use std::time::Duration;

use icecore_format::records::Counter;

/// What must hold.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// As the user wrote it.
    pub text: String,
    pub metric: Metric,
    pub compare: Compare,
    /// In the unit of the metric.
    pub value: f64,
    /// For so long, at each reading of the counters.
    pub lasts: Duration,
}

/// What is compared. Patterns are those of names of processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Metric {
    /// The CPU time of the machine, percent of all CPUs.
    Cpu,
    /// The CPU time of one process, percent of one CPU.
    CpuOf(String),
    /// The memory of the machine that is not available to programs, percent.
    Memory,
    /// The resident memory of one process, bytes.
    RssOf(String),
    /// A pressure of the machine, percent of the time.
    Pressure(Counter),
    /// The longest time in which a thread was ready and had no CPU, seconds.
    RunDelay,
    /// What a process left when it ended, as a shell shows it: its exit code, or 128 and the number of the signal.
    ExitOf(String),
}

/// How a value is compared with that of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compare {
    Above,
    AtLeast,
    Below,
    AtMost,
    Equal,
    Not,
}

impl Compare {
    /// Compares.
    pub(crate) fn holds(self, value: f64, with: f64) -> bool {
        match self {
            Self::Above => value > with,
            Self::AtLeast => value >= with,
            Self::Below => value < with,
            Self::AtMost => value <= with,
            // Only exit codes are compared so, which are whole numbers.
            Self::Equal => (value - with).abs() < 0.5,
            Self::Not => (value - with).abs() >= 0.5,
        }
    }
}

impl Metric {
    /// Returns true if readings of counters have it.
    pub(crate) fn is_counted(&self) -> bool {
        !matches!(self, Self::RunDelay | Self::ExitOf(_))
    }
}
