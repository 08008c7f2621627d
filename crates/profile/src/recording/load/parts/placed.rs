//! Puts the sessions of a file on one clock, and says which of them belong together.

use icecore_format::records::{EndReason, ReceiptV1, SessionV1};

use super::{Part, Parts};
use crate::recording::series::{Run, place};

impl Parts {
    /// Gives every part its place on the common clock.
    pub(super) fn settle_clock(&mut self) {
        if let [part] = &self.parts[..] {
            (self.zero_ns, self.start_unix_ns) = (part.session.start_ns, part.session.start_unix_ns);
            return;
        }
        let placed = place(&self.runs());
        let known = self.parts.iter().zip(&placed).filter(|(part, _)| part.is_dated());
        self.start_unix_ns = known.map(|(_, placed)| placed.start_ns).min().unwrap_or(0);
        self.zero_ns = self.parts.iter().map(Part::start_ns).max().unwrap_or(0);
        for (part, placed) in self.parts.iter_mut().zip(&placed) {
            // A session without a date begins with the earliest.
            let late_ns =
                if part.is_dated() { placed.start_ns.saturating_sub(self.start_unix_ns) } else { 0 };
            part.shift_ns = (self.zero_ns - part.start_ns()).saturating_add(late_ns);
            (part.boot, part.chain) = (placed.boot as u32, placed.chain as u32);
        }
    }

    /// Returns when each session ran, in the order of the file.
    pub fn runs(&self) -> Vec<Run<'_>> {
        self.parts.iter().map(Part::run).collect()
    }

    /// Returns the name of the host of a part if there are several hosts: else it says nothing.
    pub fn host_among(&self, part: u32) -> Option<&str> {
        (self.hosts.len() > 1).then(|| &*self.hosts[self.part(part).host])
    }

    /// Returns true if all sessions are of one host and have these values in common.
    pub fn are_alike<T: PartialEq>(&self, of: impl Fn(&SessionV1) -> T) -> bool {
        let mut each = self.parts.iter().map(|part| of(&part.session));
        let first = each.next();
        self.hosts.len() == 1 && each.all(|other| Some(&other) == first.as_ref())
    }
}

impl Part {
    fn run(&self) -> Run<'_> {
        let last_ns = self.last_sample_ns.unwrap_or(0);
        Run {
            host: &self.session.host,
            boot_id: &self.session.boot_id,
            start_ns: self.start_ns(),
            end_ns: self.receipt.as_ref().map_or(last_ns, |receipt| receipt.end_ns).max(self.start_ns()),
            start_unix_ns: self.session.start_unix_ns,
        }
    }

    /// Returns true if the recorder of this session went on with `next`, without a gap.
    pub fn goes_on_in(&self, next: &Self) -> bool {
        let (own, other) = (&self.session, &next.session);
        let is_one = (&own.host, &own.boot_id, &own.command_line)
            == (&other.host, &other.boot_id, &other.command_line);
        let is_rotated = |receipt: &ReceiptV1| {
            receipt.end_reason == EndReason::ROTATED && receipt.end_ns == other.start_ns
        };
        is_one && !own.boot_id.is_empty() && self.receipt.as_ref().is_some_and(is_rotated)
    }

    /// Returns the number of the first session of the same boot of the host; its own if that is unknown.
    pub fn boot(&self) -> u32 {
        self.boot
    }

    /// Returns the number of the first of those sessions of the boot that follow each other without a gap up to this one.
    pub fn chain(&self) -> u32 {
        self.chain
    }
}
