//! The panes: what the lower part of the screen can show, in which order, and where the cursor is.

/// What the lower part of the screen shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pane {
    Functions,
    Tree,
    Callers,
    Processes,
    Threads,
    Images,
    Events,
    Waits,
    Filters,
}

impl Pane {
    /// All panes, in the order of their keys.
    pub(super) const ALL: [Self; 9] = [
        Self::Functions,
        Self::Tree,
        Self::Callers,
        Self::Processes,
        Self::Threads,
        Self::Images,
        Self::Events,
        Self::Waits,
        Self::Filters,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Functions => "functions",
            Self::Tree => "tree",
            Self::Callers => "callers",
            Self::Processes => "processes",
            Self::Threads => "threads",
            Self::Images => "images",
            Self::Events => "events",
            Self::Waits => "waits",
            Self::Filters => "filters",
        }
    }
}

/// What orders rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    Own,
    Total,
    Name,
}

/// Where the cursor of a pane is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place {
    pub(super) cursor: usize,
    pub(super) top: usize,
}
