//! Downloads debug files and images by their build-id, if the user requests it. No other room uses a network.
//!
//! ```text
//! settings ─► fetch: images, most sampled first ─► several threads ─► client ─► cache ─► (image: found among downloads)
//! ```
//!
//! It checks the build-id of a download before anything else uses the file. A server that fails costs its answers and one
//! warning, never the report.

mod budget;
mod cache;
mod client;
mod fetch;
mod settings;

pub use budget::Budget;
pub use cache::Cache;
pub use fetch::{Fetched, Wish, fetch};
pub use settings::{Settings, SettingsError};

/// The kind of a download.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Artifact {
    /// A file with DWARF.
    Debuginfo,
    /// The image itself.
    Executable,
}

impl Artifact {
    /// The last part of its URL, and its name in the cache.
    pub fn name(self) -> &'static str {
        match self {
            Self::Debuginfo => "debuginfo",
            Self::Executable => "executable",
        }
    }
}
