//! The beginning of sampling, which `--delay` puts off.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::{Progress, Pump, Reason, take_into};
use crate::kernel::events::Opened;
use crate::kernel::feed::Feed;
use crate::sys::child::Started;
use crate::sys::clock;
use crate::threads::chunk::Chunk;

/// When sampling begins.
pub enum Begin {
    /// It began at this moment, ns `CLOCK_MONOTONIC`.
    Began(u64),
    /// It begins at this moment, ns `CLOCK_MONOTONIC`, with these events.
    At(u64, Vec<Opened>),
}

/// What the recorder does now.
#[derive(Debug, Clone, Copy)]
pub enum Phase {
    /// It waits until sampling begins.
    Until(Instant),
    /// It has sampled since this moment.
    Since(Instant),
}

impl Pump<'_> {
    /// Waits until sampling has begun, follows tasks and mappings meanwhile, and returns when it began, ns `CLOCK_MONOTONIC`. If the
    /// recording ends before, returns when sampling was to begin, and the reason.
    pub(super) fn begin(
        &self,
        sampler: &mut Feed<'_>,
        begin: Begin,
        seen: &mut Progress,
        command: Option<&mut Started>,
    ) -> anyhow::Result<(u64, Option<Reason>)> {
        let (at_ns, opened) = match begin {
            Begin::Began(began_ns) => {
                self.pass_on(Chunk { has_file: true, began_ns: Some(began_ns), ..Chunk::default() });
                return Ok((began_ns, None));
            }
            Begin::At(at_ns, opened) => (at_ns, opened),
        };
        self.pass_on(Chunk { has_file: true, ..Chunk::default() });
        if let Some(reason) = self.wait_until(sampler, at_ns, seen, command)? {
            return Ok((at_ns, Some(reason)));
        }
        sampler.arm_sampling(self.events, opened)?;
        let began_ns = clock::monotonic_ns();
        self.pass_on(Chunk { began_ns: Some(began_ns), ..Chunk::default() });
        Ok((began_ns, None))
    }

    /// The tracker ends only after the sender was dropped, unless it panicked: joining it shows that.
    fn pass_on(&self, chunk: Chunk) {
        let _ = self.chunks.send(chunk);
    }

    fn wait_until(
        &self,
        sampler: &Feed<'_>,
        at_ns: u64,
        seen: &mut Progress,
        mut command: Option<&mut Started>,
    ) -> anyhow::Result<Option<Reason>> {
        let until = Instant::now() + Duration::from_nanos(at_ns.saturating_sub(clock::monotonic_ns()));
        let taken = Mutex::new(Vec::new());
        let ring = sampler.ring(take_into(&taken))?;
        while Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now());
            ring.wait(left.min(seen.look_in()));
            self.drain(sampler, &ring, &taken, seen, &|| self.is_over(Some(until)));
            (self.show)(Phase::Until(until));
            let reason = self.reason_to_end(sampler, None, command.as_deref_mut())?;
            if reason.is_some() {
                return Ok(reason);
            }
        }
        Ok(None)
    }
}
