//! A recording as tables: opened, loaded, checked, filtered; its address spaces and cgroups at any moment.
//!
//! | module | what lives there |
//! |---|---|
//! | [`load`] | tables of everything but samples; what is damaged, counted |
//! | [`filter`], [`events`] | which samples are wanted; what events mean |
//! | [`spaces`], [`cgroups`], [`spans`] | address spaces and cgroups, replayed to any moment; when sessions ran |
//! | `files` | files of images that travel with the recording |
//! | `losses` | what is missing |
//! | [`verify`](mod@verify), [`repair`], `counted` | everything in a file checked; a whole file made of what is whole |

pub mod cgroups;
pub mod counted;
pub mod events;
pub(crate) mod files;
pub mod filter;
pub mod load;
pub mod losses;
pub mod repair;
pub mod sources;
pub mod spaces;
pub mod spans;
pub mod verify;

pub use files::EmbeddedFiles;
