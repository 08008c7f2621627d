//! Files and memory of others: whatever users of this machine can put there, and file systems whose servers may never answer (FUSE, NFS).
//!
//! ```text
//! tracker, judge, tables, jit ── Door ──request──► reader (a process) ──► open, stat, read
//!                                  │ ◄──answer────────┘
//!                                  └─ no answer in time: the reader is killed, nobody waits for it, another one is started
//! ```
//!
//! A system call on such a file can wait for ever, and then not even SIGKILL ends its process. So the recorder makes none: processes do,
//! for which nobody waits. What the recorder holds of a file is an `O_PATH` descriptor, which asks no file system anything, not even when
//! it is closed. A device that has not answered is not asked again, and nor is a process: while it maps memory over a file whose server does not
//! answer, whoever reads its memory or its `/proc/PID/maps` waits with it.
//!
//! This room is the only one that opens files of others (a test looks for further ones): without blocking, so that no lease and no pipe
//! holds it up; regular files alone; and never through a link that a user could have put there.

mod devices;
mod door;
mod file;
pub(crate) mod memory;
mod processes;
mod reader;
mod request;

pub use door::{Door, Keeper};
pub(crate) use file::{ForeignFile, Mapped, Reading};
pub use processes::{Process, Scan};
pub(crate) use request::Meta;
