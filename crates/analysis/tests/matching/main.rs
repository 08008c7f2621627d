//! The same sources built in two ways: no function is both new and gone.

mod builds;
mod code;
mod groups;
