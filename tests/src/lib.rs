//! What the tests of icecore share.
//!
//! | room | what lives there |
//! |---|---|
//! | [`machine`] | programs run on this machine: the recorder, the report, targets |
//! | [`synthetic`] | recordings made up of known facts |

pub mod machine;
pub mod synthetic;
