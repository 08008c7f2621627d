//! Opens a recording and yields named stacks.
//!
//! | room | what lives there |
//! |---|---|
//! | [`map`] | hash tables, and items with numbers |
//! | [`watch`] | the interface that follows the progress of long work |
//! | [`recording`] | a recording as tables: checked, filtered; address spaces and cgroups at any moment |
//! | [`stacks`] | samples as stacks of locations: counted, unwound, checked against the code |
//! | [`named`] | stacks with names; the pipeline from a file to a profile |
//!
//! A room uses rooms above it in this list, and none below. Every stage is a function of its input, keeps no state and gives the same
//! bytes for any number of threads. Nothing here prints, reads settings or knows a command line.

pub mod map;
pub mod named;
pub mod recording;
pub mod stacks;
pub mod watch;

/// Draws a random identity for a recording; from the kernel itself, because `/dev` may be empty.
///
/// # Errors
/// Those of getrandom(2).
pub fn random_uuid() -> std::io::Result<[u8; 16]> {
    let mut uuid = [0; 16];
    rustix::rand::getrandom(&mut uuid, rustix::rand::GetRandomFlags::empty())?;
    Ok(uuid)
}
