//! The kernel's own functions that run at tracepoints: below the function that has the tracepoint, they call the sampler.
//!
//! ```text
//! do_syscall_64 > syscall_trace_enter > perf_syscall_enter                       Linux 6.18
//! try_to_wake_up > __traceiter_sched_waking > perf_trace_sched_wakeup_template > perf_trace_run_bpf_submit > …
//! ```
//!
//! Whether a stack shows them depends on how the compiler laid out the kernel. They say nothing about the traced program, so stacks of
//! tracepoints begin with the function that has the tracepoint.

use icecore_elf::Avma;
use icecore_format::block::Kind;
use icecore_format::events;
use icecore_format::read::Recording;
use icecore_format::records::{Location, Sample, SessionV1};

use crate::map::Map;
use crate::recording::load::Tables;
use crate::stacks::kernel::KernelSymbols;

/// What the names of such functions begin with.
///
/// # Source   kernel/trace/trace_syscalls.c, kernel/trace/bpf_trace.c, kernel/events/core.c, include/linux/tracepoint.h,
/// include/trace/perf.h, kernel/bpf/trampoline.c, kernel/bpf/stackmap.c
const BEGINNINGS: [&str; 17] = [
    "perf_syscall_enter",
    "perf_syscall_exit",
    "perf_call_bpf_enter",
    "perf_call_bpf_exit",
    "perf_trace_",
    "perf_tp_event",
    "trace_call_bpf",
    "__traceiter_",
    "__do_trace_",
    "__bpf_trace_",
    "bpf_trace_run",
    "bpf_prog_",
    "bpf_trampoline_",
    "bpf_dispatcher_",
    "__bpf_prog_",
    "bpf_get_stack",
    "__bpf_get_stack",
];

/// Returns true if a function runs only because a tracepoint is watched.
fn is_tracing(name: &str) -> bool {
    BEGINNINGS.iter().any(|begin| name.starts_with(begin))
}

/// Returns true if a recording has events that are tracepoints.
pub(crate) fn has_tracepoints(recording: &Recording) -> bool {
    let sessions = recording.entries().iter().filter(|entry| entry.header.kind == Kind::SESSION);
    let has_some = |entry| {
        let payload = recording.payload(entry).ok()?;
        let session = payload.view::<SessionV1>().ok()?;
        Some(session.events.iter().any(|event| events::is_tracepoint(&event.name)))
    };
    sessions.into_iter().any(|entry| has_some(entry).unwrap_or_default())
}

/// Where stacks of tracepoints end in functions of tracing.
#[derive(Debug)]
pub struct Tracing {
    /// Whether each event is a tracepoint.
    are_tracepoints: Vec<bool>,
    /// The stacks that end in functions of tracing, and the same stacks without these.
    shown: Map<u32, u32>,
}

impl Tracing {
    /// Finds the stacks. All nodes must be loaded.
    pub(crate) fn find(tables: &Tables) -> Self {
        let are_tracepoints = tables.parts.events().iter().map(|event| events::is_tracepoint(&event.name));
        let are_tracepoints: Vec<bool> = are_tracepoints.collect();
        let mut shown: Map<u32, u32> = Map::default();
        if !are_tracepoints.contains(&true)
            || !tables.kernel_symbols.iter().any(|(_, row)| is_tracing(tables.text(row.name)))
        {
            return Self { are_tracepoints, shown };
        }
        let symbols = KernelSymbols::new(&tables.kernel_symbols);
        // A caller comes before its callees. A stack of nothing else stays as it is.
        for (id, node) in tables.nodes.iter().filter(|(_, node)| node.parent != 0) {
            let Location::Address(address) = node.location else { continue };
            let function = symbols.find(tables.parts.of_node(id), Avma(address.saturating_sub(1)));
            if function.is_some_and(|row| is_tracing(tables.text(row.name))) {
                let caller = shown.get(&node.parent).copied().unwrap_or(node.parent);
                shown.insert(id, caller);
            }
        }
        Self { are_tracepoints, shown }
    }

    /// Returns the kernel stack of a sample without functions of tracing.
    pub(crate) fn shown(&self, sample: &Sample) -> u32 {
        let is_at_one = self.are_tracepoints.get(usize::from(sample.event)).copied().unwrap_or_default();
        let shown = self.shown.get(&sample.kernel_stack).filter(|_| is_at_one);
        shown.copied().unwrap_or(sample.kernel_stack)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_tracing_are_told_by_the_names_of_all_kernels() {
        for name in [
            "perf_syscall_enter",
            "perf_trace_run_bpf_submit",
            "perf_trace_sched_switch",
            "perf_trace_sys_exit.isra.0",
            "trace_call_bpf",
            "bpf_prog_6deef7357e7b4530_tracepoint_by_loop",
            "__traceiter_sys_exit",
            "__do_trace_sched_waking",
            "bpf_get_stack_raw_tp",
        ] {
            assert!(is_tracing(name), "{name}");
        }
        for name in [
            "syscall_trace_enter",
            "trace_kmalloc_caller",
            "perf_event_task_tick",
            "__schedule",
            "bpf_map_update_elem",
        ] {
            assert!(!is_tracing(name), "{name}");
        }
    }
}
