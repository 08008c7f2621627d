//! Opens the perf events that run the sampler on every CPU, and the queues of mapping reports.

use std::os::fd::OwnedFd;

use anyhow::{Context as _, bail};

use crate::proc;
use crate::settings::Options;
use crate::sys::perf::{self, Event, Rate};
use crate::sys::queue::Queue;

/// Opens one sampling event per CPU: cycles if the machine can count them, a timer otherwise.
pub(crate) fn open_sampling(
    options: &Options,
    notes: &mut Vec<String>,
) -> anyhow::Result<(Event, Vec<OwnedFd>)> {
    if let Rate::Frequency(hz) = options.rate {
        check_rate(hz)?;
    }
    let open =
        |event: Event, cpu: u32| perf::open_sampling(event, cpu, options.rate, options.user, options.kernel);
    let first = options.cpus.first().copied().unwrap_or(0);
    let event = match open(perf::CYCLES, first).map_err(|error| error.raw_os_error()) {
        Err(Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV)) => {
            notes.push(
                "no counter of CPU cycles here (usual in virtual machines): sampling by cpu-clock".to_owned(),
            );
            perf::CPU_CLOCK
        }
        _ => perf::CYCLES,
    };
    let mut events = Vec::with_capacity(options.cpus.len());
    for cpu in &options.cpus {
        match open(event, *cpu) {
            Ok(fd) => events.push(fd),
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {
                notes.push(format!("CPU {cpu} went offline and is not sampled"));
            }
            Err(error) => {
                let remedy = perf::explain_open(&error);
                return Err(error).context(format!("cannot sample `{}` on CPU {cpu}: {remedy}", event.name));
            }
        }
    }
    Ok((event, events))
}

fn check_rate(hz: u64) -> anyhow::Result<()> {
    let name = "/proc/sys/kernel/perf_event_max_sample_rate";
    let limit = std::fs::read_to_string(name).ok().and_then(|text| text.trim().parse::<u64>().ok());
    match limit {
        Some(limit) if hz > limit => bail!(
            "cannot sample at {hz} Hz: kernel.perf_event_max_sample_rate is {limit}; lower -F, or raise the limit with sysctl"
        ),
        _ => Ok(()),
    }
}

/// Opens the mapping queue of every CPU, also of those that are not sampled.
pub(crate) fn open_queues() -> anyhow::Result<Vec<Queue>> {
    let open = |cpu: u32| match perf::open_mappings(cpu) {
        Ok(event) => {
            Some(Queue::map(event).with_context(|| format!("cannot map the queue of mappings of CPU {cpu}")))
        }
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => None,
        Err(error) => {
            let remedy = perf::explain_open(&error);
            Some(Err(error).context(format!("cannot watch mappings on CPU {cpu}: {remedy}")))
        }
    };
    proc::cpus::online()?.into_iter().filter_map(open).collect()
}
