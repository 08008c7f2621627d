//! Shared code of the tests of icecore.
//!
//! | room | what lives there |
//! |---|---|
//! | [`bucket`] | an object store on loopback |
//! | [`corpus`] | recordings of every released version, as text |
//! | [`elsewhere`] | other machines: the report in an empty root folder |
//! | [`inside`] | the report inside the test's process, and its snapshots |
//! | [`machine`] | programs run on this machine: the recorder, the report, targets |
//! | [`synthetic`] | recordings made up of known facts |
//! | [`listed`] | a compiled program, and a recording of it |

pub mod bucket;
pub mod corpus;
pub mod elsewhere;
pub mod exports;
pub mod inside;
pub mod listed;
pub mod machine;
pub mod synthetic;
