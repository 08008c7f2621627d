//! Samples as stacks of addresses: counts, unwinds and checks them, and finds each address in an image.
//!
//! | module | what lives there |
//! |---|---|
//! | [`fields`] | fields of tracepoints |
//! | `idle` | waits of kernel threads without work |
//! | `selection`, [`hits`] | samples, filtered and made distinct |
//! | [`repair`](mod@repair) | unwinds stacks of code without frame pointers |
//! | `counters` | values of counters, filtered |
//! | `calls` | calls in machine code, and stacks that they rule out |
//! | [`locate`](mod@locate), [`kernel`] | addresses as places in images and in the kernel |
//! | `machinery` | functions of interpreters that run for functions of their languages |
//! | `tracing` | functions of the kernel that only run because a tracepoint is watched |
//! | [`mounts`] | the mount namespace of recorded paths |
//! | [`unwind_tables`] | the unwind tables in the files of an image |
//! | [`waits`] | what rows of waits say of samples; kinds of waits |
//! | `weigh` | how many samples hit each image |

pub mod calls;
mod counters;
pub mod fields;
pub mod hits;
pub(crate) mod idle;
pub mod kernel;
pub mod locate;
pub(crate) mod machinery;
pub mod mounts;
pub mod repair;
mod selection;
pub(crate) mod tracing;
pub mod unwind_tables;
pub mod waits;
pub(crate) mod weigh;
