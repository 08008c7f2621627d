//! Samples more or less often, pauses, and goes on.
//!
//! In a pause the sampler takes no samples and reports no tasks, so that it costs next to nothing. What has happened meanwhile the tracker finds
//! out when it goes on.

use std::sync::Mutex;
use std::time::Instant;

use super::{Progress, Pump, Readers, keep};
use crate::kernel::feed::Feed;
use crate::sys::clock;
use crate::threads::chunk::Again;
use crate::threads::jitter::Varying;
use crate::threads::tempo::{Step, Tempo};

impl Pump<'_> {
    /// Takes a step: from now on the recorder samples so often.
    pub(super) fn change(
        &self,
        sampler: &mut Feed<'_>,
        taken: &Mutex<Vec<u8>>,
        seen: &mut Progress,
        readers: &mut Readers<'_>,
        (tempo, step): (&mut Tempo<'_>, Step),
        varying: &Varying,
    ) -> anyhow::Result<()> {
        let pauses = step.share == 0;
        if !pauses {
            sampler.sample_share(self.events, step.share);
        }
        let mut time_ns = clock::monotonic_ns();
        match (seen.is_paused, pauses) {
            (false, true) => {
                sampler.pause();
                self.queues.iter().for_each(|queue| queue.listen(false));
                self.read_accounts(true, taken, seen, readers);
                sampler.open_waits(&mut |record| keep(taken, record));
                // All samples are older than the pause.
                time_ns = clock::monotonic_ns();
                sampler.rest();
            }
            (true, false) => {
                self.queues.iter().for_each(|queue| queue.listen(true));
                time_ns = sampler.go_on(self.events)?;
                // Without programs, tasks are reported in pauses as well.
                if sampler.programs().is_some() {
                    let since_ns = clock::monotonic_ns();
                    seen.again = Some(Again { since_ns, tgids: (self.again)(sampler) });
                }
                readers.sweep.look(true, &mut |record| keep(taken, record));
                readers.census.begin_file();
            }
            _ => {}
        }
        varying.sample_share(step.share);
        seen.rates.push(step.at(time_ns));
        seen.pause(pauses, time_ns);
        tempo.taken(Instant::now());
        Ok(())
    }
}
