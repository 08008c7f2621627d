//! A recording as tables: opened, loaded, checked, filtered; its address spaces and cgroups at any moment.
//!
//! | module | what lives there |
//! |---|---|
//! | [`load`] | tables of everything but samples; what is damaged, counted |
//! | [`filter`], [`events`] | which samples are wanted; what events mean |
//! | [`spaces`], [`cgroups`], [`spans`] | address spaces and cgroups, replayed to any moment; when sessions ran |
//! | [`rates`] | how often a recorder sampled, and when it paused |
//! | [`series`] | sessions one after the other: their order, their common clock, gaps between them |
//! | `files` | files of images that travel with the recording |
//! | [`code`], [`sources`] | code of functions, and source files, that travel with the recording |
//! | [`losses`], [`damage`] | what is missing; stretches that cannot be used |
//! | [`verify`](mod@verify), [`counted`] | everything in a file checked; samples compared with what receipts say |

pub mod cgroups;
pub mod code;
pub mod counted;
pub mod damage;
pub mod events;
pub(crate) mod files;
pub mod filter;
pub mod load;
pub mod losses;
pub mod rates;
pub mod series;
pub mod sources;
pub mod spaces;
pub mod spans;
pub mod verify;

pub use files::EmbeddedFiles;
