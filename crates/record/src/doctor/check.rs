//! One check, and the verdict on all.

use serde::Serialize;

/// How well one thing serves a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// A recording lacks nothing because of it.
    Ok,
    /// It is there, and a recording lacks something all the same.
    Degraded,
    /// It is not there.
    Missing,
}

impl State {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Degraded => "degraded",
            Self::Missing => "missing",
        }
    }
}

/// What was found of one thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Check {
    pub(super) group: &'static str,
    pub(super) name: &'static str,
    pub(super) state: State,
    pub(super) found: String,
    /// What a recording lacks; `None` if nothing.
    pub(super) lacks: Option<String>,
    /// What to do about it; `None` if a recording lacks nothing, or nothing can be done.
    pub(super) remedy: Option<String>,
    /// There is no recording because of this.
    #[serde(skip)]
    pub(super) prevents: bool,
}

impl Check {
    pub(super) fn ok(name: &'static str, found: impl Into<String>) -> Self {
        let found = found.into();
        Self { group: "", name, state: State::Ok, found, lacks: None, remedy: None, prevents: false }
    }

    pub(super) fn degraded(name: &'static str, found: impl Into<String>, lacks: impl Into<String>) -> Self {
        Self { state: State::Degraded, lacks: Some(lacks.into()), ..Self::ok(name, found) }
    }

    pub(super) fn missing(name: &'static str, found: impl Into<String>, lacks: impl Into<String>) -> Self {
        Self { state: State::Missing, ..Self::degraded(name, found, lacks) }
    }

    pub(super) fn mended_by(self, remedy: impl Into<Option<String>>) -> Self {
        Self { remedy: remedy.into(), ..self }
    }

    /// Says that there is no recording because of this.
    pub(super) fn preventing(self) -> Self {
        Self { prevents: true, ..self }
    }
}

/// What this user can record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Can {
    /// All processes, and the kernel.
    Machine,
    /// A command, and processes of this user.
    OwnProcesses,
}

impl Can {
    /// Lists what this user can record.
    pub(super) fn of(verdict: Verdict, can_record_own: bool) -> Vec<Self> {
        match (verdict, can_record_own) {
            (Verdict::Ok | Verdict::Degraded, _) => vec![Self::Machine, Self::OwnProcesses],
            (Verdict::Impossible, true) => vec![Self::OwnProcesses],
            (Verdict::Impossible, false) => Vec::new(),
        }
    }
}

/// What all checks together say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    /// The whole machine can be recorded with all features.
    Ok,
    /// It can be recorded, and something is degraded or missing.
    Degraded,
    /// It cannot be recorded by this user.
    Impossible,
}

impl Verdict {
    pub(super) fn of(checks: &[Check]) -> Self {
        if checks.iter().any(|check| check.prevents) {
            Self::Impossible
        } else if checks.iter().any(|check| check.state != State::Ok) {
            Self::Degraded
        } else {
            Self::Ok
        }
    }

    pub(super) fn exit_code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Degraded => 1,
            Self::Impossible => 2,
        }
    }
}
