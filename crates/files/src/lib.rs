//! Which folders of this machine a program believes, and which links it follows when it writes.
//!
//! | room | what lives there |
//! |---|---|
//! | `way` | a path as the kernel follows it: every folder and every link |
//! | [`private`] | folders that nobody but this user and root can change |
//! | [`output`] | where a file that was asked for is written |
//!
//! Any user may lay a link into `/tmp`, and a program that runs as root may have the `HOME` of another user. What such a user has
//! prepared must neither be believed nor written through.

pub mod output;
pub mod private;
mod way;
