//! Downloads debug files and images by their build-id, if the user asked for it. The only room that uses a network.
//!
//! ```text
//! settings ─► fetch: images, most sampled first ─► several threads ─► client ─► cache ─► (image: found among downloads)
//! ```
//!
//! Nothing that comes is believed before its build-id is the one that was asked for. A server that fails costs its
//! answers and one warning, never the report.

mod budget;
mod cache;
mod client;
mod fetch;
mod settings;

pub use budget::Budget;
pub use cache::Cache;
pub use fetch::{Fetched, Wish, fetch};
pub use settings::{Settings, SettingsError};

/// What a server is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Artifact {
    /// A file with DWARF.
    Debuginfo,
    /// The image itself.
    Executable,
}

impl Artifact {
    /// The last part of its address, and its name in the cache.
    pub fn name(self) -> &'static str {
        match self {
            Self::Debuginfo => "debuginfo",
            Self::Executable => "executable",
        }
    }
}
