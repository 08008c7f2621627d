//! Waits of kernel threads that have no work.
//!
//! Only `kthread` calls the main functions of kernel threads, and these wait for work themselves; work is done in functions that they
//! call. So a wait is one without work if the scheduler was called by the function that `kthread` has called:
//!
//! ```text
//! idle       ret_from_fork > kthread > worker_thread > schedule
//! working    ret_from_fork > kthread > worker_thread > process_one_work > wb_workfn > … > io_schedule
//! ```
//!
//! This does not prove that the work has not come meanwhile, nor that the compiler inlined no function of the work. A wait that no
//! signal can end is not idle: in this state threads wait for locks and disks.

use std::collections::HashSet;

use foldhash::fast::FixedState;
use icecore_elf::Avma;
use icecore_format::records::{EventMeaning, Location, Sample, Wait, WaitState};

use crate::map::Map;
use crate::recording::load::Tables;
use crate::stacks::kernel::KernelSymbols;

/// Functions by which main functions wait for work, where the compiler leaves them apart.
const WAITS_FOR_WORK: [&str; 8] = [
    "devtmpfs_work_loop",
    "irq_wait_for_interrupt",
    "khugepaged_wait_work",
    "kswapd_try_to_sleep",
    "nocb_cb_wait",
    "nocb_gp_wait",
    "rcu_tasks_one_gp",
    "__kthread_parkme",
];

/// How far a stack of a thread without work has come, from its root to its leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    Root,
    /// In the code with which threads begin.
    Begin,
    /// In the function that calls main functions, and that waits itself before it does.
    Kthread,
    Main,
    /// In a function by which the main function waits.
    WaitsForWork,
    Scheduler,
}

impl Depth {
    /// Goes on to the function that is called next, given by its name; `None` if a thread without work does not call it.
    pub(crate) fn call(self, name: &str) -> Option<Self> {
        // The compiler makes `f.constprop.0` of `f`.
        let name = name.split('.').next().unwrap_or(name);
        let schedules =
            ["schedule", "__schedule", "__traceiter_"].iter().any(|begin| name.starts_with(begin));
        match self {
            Self::Root | Self::Begin if name.starts_with("ret_from_fork") => Some(Self::Begin),
            // It starts the other ones.
            Self::Begin if name == "kthreadd" => Some(Self::Main),
            Self::Begin => (name == "kthread").then_some(Self::Kthread),
            Self::Root => None,
            _ if schedules => (!name.contains("uninterruptible")).then_some(Self::Scheduler),
            Self::Kthread => Some(Self::Main),
            Self::Main => WAITS_FOR_WORK.contains(&name).then_some(Self::WaitsForWork),
            Self::WaitsForWork | Self::Scheduler => None,
        }
    }

    /// Returns true if a thread that waits here has no work.
    pub(crate) fn is_idle(self) -> bool {
        !matches!(self, Self::Root | Self::Begin)
    }
}

/// Returns true if a thread without work waits in this state; also if the state is unknown.
fn is_without_work(state: WaitState) -> bool {
    matches!(state, WaitState::IDLE | WaitState::SLEEPING | WaitState::UNKNOWN)
}

/// Returns true if a wait of an event in a state may be one without work.
pub(crate) fn may_be_idle(event: EventMeaning, state: WaitState) -> bool {
    event == EventMeaning::OFF_CPU && is_without_work(state)
}

/// The waits of a recording without work.
#[derive(Debug)]
pub struct IdleWaits {
    /// Whether each event is `off-cpu`.
    are_waits: Vec<bool>,
    /// The kernel stacks of threads without work.
    stacks: Map<u32, Depth>,
    /// Time and task of waits in another state.
    others: HashSet<(u64, u32), FixedState>,
}

impl IdleWaits {
    /// Finds the stacks of threads without work. All nodes of stacks must be loaded.
    pub fn find(tables: &Tables) -> Self {
        let symbols = KernelSymbols::new(&tables.kernel_symbols);
        let mut stacks: Map<u32, Depth> = Map::default();
        for (id, node) in tables.nodes.iter() {
            let Location::Address(address) = node.location else { continue };
            let before = if node.parent == 0 { Some(Depth::Root) } else { stacks.get(&node.parent).copied() };
            let Some(before) = before else { continue };
            // An instruction after a call, as all frames of a thread that waits are.
            let at = Avma(address.saturating_sub(1));
            let name = symbols.find(tables.parts.of_node(id), at).map(|row| tables.text(row.name));
            stacks.extend(name.and_then(|name| Some((id, before.call(name)?))));
        }
        stacks.retain(|_, depth| depth.is_idle());
        let events = tables.parts.events();
        let are_waits: Vec<bool> =
            events.iter().map(|event| event.meaning == EventMeaning::OFF_CPU).collect();
        // A thread that was woken gets its CPU at one moment: the wait for that has a row of the same time.
        let is_wait = |row: &Wait| are_waits.get(usize::from(row.event)).copied().unwrap_or_default();
        let others = tables.waits.iter().filter(|row| is_wait(row) && !is_without_work(row.state));
        let others = others.map(|row| (row.time_ns, row.task)).collect();
        Self { are_waits, stacks, others }
    }

    /// Returns true if a sample is a wait without work.
    pub fn has(&self, sample: &Sample) -> bool {
        self.are_waits.get(usize::from(sample.event)).copied().unwrap_or_default()
            && self.stacks.contains_key(&sample.kernel_stack)
            && !self.others.contains(&(sample.time_ns, sample.task))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_of_the_kernel_is_idle_if_its_main_function_waits() {
        for (stack, expected) in [
            ("ret_from_fork_asm ret_from_fork kthread worker_thread", true),
            ("ret_from_fork_asm ret_from_fork kthread worker_thread schedule __schedule", true),
            ("ret_from_fork kthread rcu_gp_kthread schedule_timeout", true),
            ("ret_from_fork kthread kjournald2.constprop.0", true),
            ("ret_from_fork kthread rcu_tasks_kthread rcu_tasks_one_gp.isra.0", true),
            ("ret_from_fork kthread schedule_preempt_disabled", true),
            ("ret_from_fork kthreadd", true),
            ("ret_from_fork kthread worker_thread process_one_work wb_workfn", false),
            ("ret_from_fork kthread worker_thread mutex_lock", false),
            ("ret_from_fork kthread worker_thread schedule_timeout_uninterruptible", false),
            ("ret_from_fork kthread worker_thread wait_for_completion schedule_timeout", false),
            ("ret_from_fork kthread rcu_gp_kthread rcu_gp_fqs_loop", false),
            // A worker of io_uring, which is a thread of a program.
            ("ret_from_fork_asm ret_from_fork io_wq_worker", false),
            ("ret_from_fork_asm ret_from_fork", false),
            ("kthread worker_thread", false),
            ("entry_SYSCALL_64_after_hwframe do_syscall_64 kthread worker_thread", false),
            ("", false),
        ] {
            let depth = stack.split_whitespace().try_fold(Depth::Root, Depth::call);
            assert_eq!(depth.is_some_and(Depth::is_idle), expected, "{stack}");
        }
    }
}
