//! Which event of a session samples CPU time.

use super::{PID_BITS, Part, Parts};
use crate::recording::events::Meaning;

impl Parts {
    /// Returns the position in [`Parts::events`] of the event of a session that samples CPU time; `None` if none does. Of several
    /// the first counts, because each of them would account for all time.
    pub fn clock(&self, part: &Part) -> Option<u8> {
        let events = &part.session.events;
        let own = events.iter().position(|event| Meaning::of(event) == Meaning::CpuTime)?;
        Some(part.event(u8::try_from(own).ok()?))
    }

    /// Returns the session of a process or thread, by a number that is unique in the file.
    pub fn of_process(&self, number: u32) -> &Part {
        self.part(if self.len() == 1 { 0 } else { number >> PID_BITS })
    }

    /// Returns true if all samples of these events, positions in [`Parts::events`], are CPU time, and no time counts twice.
    pub fn are_clocks(&self, events: &[u8]) -> bool {
        let is_clock = |event: &u8| {
            self.events().get(usize::from(*event)).is_some_and(|event| Meaning::of(event) == Meaning::CpuTime)
        };
        let is_one = |part: &Part| {
            let own = 0..part.session.events.len().min(1 << u8::BITS);
            own.filter(|own| events.contains(&part.event(*own as u8))).count() <= 1
        };
        events.iter().all(is_clock) && self.iter().all(is_one)
    }
}
