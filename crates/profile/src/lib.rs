//! Opens a recording and yields named stacks.
//!
//! ```
//! use icecore_profile::{Loaded, Recording, Search};
//!
//! # let hex = std::fs::read_to_string("../../tests/corpus/v1-closed.hex")?.replace('\n', "");
//! # let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16);
//! # let file = tempfile::NamedTempFile::new()?;
//! # std::fs::write(&file, (0..hex.len()).step_by(2).map(byte).collect::<Result<Vec<_>, _>>()?)?;
//! # let (path, mut printed) = (file.path(), Vec::new());
//! let recording = Recording::open(path)?;
//! let search = Search::default();
//! let profile = Loaded::whole(path, &recording, &search).profile();
//! for row in &profile.rows {
//!     let names: Vec<&str> = profile.walk(row.stack).map(|stack| &*profile.function(stack).name).collect();
//!     println!("{} {}", row.samples, names.join(" < "));
//!     # printed.push(format!("{} {}", row.samples, names.join(" < ")));
//! }
//! # assert_eq!(printed[0], "1 vfs_read < [kernel]+0xffffffff81003fff");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | room | what lives there |
//! |---|---|
//! | [`map`] | hash tables, and items with numbers |
//! | [`watch`] | the interface that follows the progress of long work |
//! | [`recording`] | a recording as tables: checked, filtered; address spaces and cgroups at any moment |
//! | [`stacks`] | samples as stacks of locations: counted, unwound, checked against the code |
//! | [`named`] | stacks with names; the pipeline from a file to a profile |
//! | [`live`] | a recording while it is written: the functions of the last seconds |
//!
//! A room uses rooms above it in this list, and none below. Every stage but `live` is a function of its input, keeps no state and gives the same
//! bytes for any number of threads. Nothing here prints, reads settings or knows a command line.

pub mod live;
pub mod map;
pub mod named;
pub mod recording;
pub mod stacks;
pub mod watch;

pub use icecore_format::read::Recording;
pub use icecore_symbolize::image::Search;
pub use named::Profile;
pub use named::pipeline::Loaded;

/// Draws a random identity for a recording; from the kernel itself, because `/dev` may be empty.
///
/// # Errors
/// Those of getrandom(2).
pub fn random_uuid() -> std::io::Result<[u8; 16]> {
    let mut uuid = [0; 16];
    rustix::rand::getrandom(&mut uuid, rustix::rand::GetRandomFlags::empty())?;
    Ok(uuid)
}
