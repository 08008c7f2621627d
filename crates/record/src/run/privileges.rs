//! What a recording is when the kernel lets the recorder load no programs: one of its own user's processes, or none.

use anyhow::anyhow;

use crate::foreign::Door;
use crate::kernel::events;
use crate::kernel::unprivileged::{MAX_STACK_BYTES, Unprivileged};
use crate::settings::{Event, Options};
use crate::sys::perf;

/// A recording without privileges.
pub(super) struct Without {
    pub(super) options: Options,
    pub(super) events: Vec<Event>,
    pub(super) source: Unprivileged,
    /// What is missing, and how to get all.
    pub(super) note: String,
}

/// Chooses what can be recorded without programs, which the kernel has refused.
///
/// # Errors
/// If the user asked for something that needs them, or the kernel refuses events as well.
pub(super) fn without(options: &Options, refusal: anyhow::Error, door: Door) -> anyhow::Result<Without> {
    let options = match options.without_privileges(MAX_STACK_BYTES) {
        Ok(options) => options,
        Err(what) => {
            return Err(anyhow!(
                "{refusal:#}; {what} needs that: without privileges a command, or processes and threads of this user (-p, -t), can be sampled in user mode"
            ));
        }
    };
    let events = events::chosen_without_privileges(&options);
    let source = Unprivileged::new(&options, &events, door)?;
    let (why, remedy) = if perf::has_privileges() {
        (
            "the kernel forbids the sampling programs here (lockdown, a security module, a container)",
            "record outside of it",
        )
    } else {
        ("no CAP_BPF and CAP_PERFMON", perf::PRIVILEGES)
    };
    let note = format!(
        "{why}: processes of this user are sampled in user mode alone; time in the kernel, waits, counters of processes and functions of \
         interpreters are missing. For all of it {remedy}"
    );
    Ok(Without { options, events, source, note })
}
