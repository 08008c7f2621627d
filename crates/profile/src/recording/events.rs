//! What the events of a recording mean, and which of them a view shows.
//!
//! | meaning | a sample of it |
//! |---|---|
//! | CPU time | stands for CPU time: only from these the report concludes what ran how long |
//! | cycles | was taken while a CPU ran, and stands for its cycles |
//! | off-CPU time, run delay | is a wait: a thread did not run for so long |
//! | waker | is the stack that ended a wait, and weighs as much as the wait |
//! | duration | is the time that a function took, with all that it called and waited for |
//! | any other, or unknown | is something that happened: a page fault, a call of a function |

use icecore_format::records::{EventMeaning, EventV1};
use icecore_text::glob::is_like;

/// What samples of an event tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// CPU time.
    CpuTime,
    /// Cycles of CPUs.
    Cycles,
    /// Time in which threads waited.
    Wait,
    /// Who ended waits.
    Waker,
    /// Times of functions; they overlap each other, CPU time and waits.
    Duration,
    /// Anything else.
    Other,
}

impl Meaning {
    /// Returns the meaning of an event.
    pub fn of(event: &EventV1) -> Self {
        match event.meaning {
            EventMeaning::CPU_TIME => Self::CpuTime,
            EventMeaning::CYCLES => Self::Cycles,
            EventMeaning::OFF_CPU | EventMeaning::RUN_DELAY => Self::Wait,
            EventMeaning::WAKER => Self::Waker,
            EventMeaning::DURATION => Self::Duration,
            _ => Self::Other,
        }
    }

    /// Returns true if samples are taken while a CPU runs, at a rate.
    pub fn is_of_cpu(self) -> bool {
        matches!(self, Self::CpuTime | Self::Cycles)
    }

    /// Returns true if views do not show the samples beside those of other events, unless they are asked for.
    pub fn is_of_waiting(self) -> bool {
        matches!(self, Self::Wait | Self::Waker)
    }
}

/// Returns true if samples of an event are drawn from more that happened, so that shares of them are estimates.
pub fn is_drawn(event: &EventV1) -> bool {
    match Meaning::of(event) {
        Meaning::CpuTime | Meaning::Cycles => true,
        Meaning::Wait | Meaning::Waker => false,
        Meaning::Duration | Meaning::Other => event.frequency_hz > 0 || event.period != 1,
    }
}

/// Which events are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum EventChoice {
    /// All.
    #[default]
    All,
    /// All but waits and wakers if the recording has other events; otherwise all but wakers. Time in which threads sleep would drown
    /// the rest. No times of functions if the recording has CPU time, of which they may be a part.
    Usual,
    /// Waits.
    Waits,
    /// Waits that somebody has to end: not those for a CPU.
    Blocked,
    /// Those with one of these names, in which `*` and `?` are wildcards.
    Named(Vec<String>),
}

impl EventChoice {
    /// Finds the wanted ones among the events of a recording.
    pub fn among(&self, events: &[EventV1]) -> ChosenEvents {
        let has = |which: fn(Meaning) -> bool| events.iter().any(|event| which(Meaning::of(event)));
        let has_others = has(|meaning| !meaning.is_of_waiting());
        let has_waits = has(|meaning| meaning == Meaning::Wait);
        let is_wanted = |event: &EventV1| match (self, Meaning::of(event)) {
            (Self::All, _) => true,
            (Self::Waits, meaning) => meaning == Meaning::Wait,
            (Self::Blocked, _) => event.meaning == EventMeaning::OFF_CPU,
            (Self::Named(names), _) => names.iter().any(|name| is_like(name, &event.name)),
            (Self::Usual, Meaning::Wait) => !has_others,
            (Self::Usual, Meaning::Waker) => !has_others && !has_waits,
            (Self::Usual, Meaning::Duration) => !has(|meaning| meaning == Meaning::CpuTime),
            (Self::Usual, _) => true,
        };
        // A damaged recording may have samples of events that it does not describe.
        let has_all = match self {
            Self::Waits | Self::Blocked => false,
            Self::Named(names) => names.iter().any(|name| name == ANY),
            Self::All | Self::Usual => true,
        };
        let mut chosen = ChosenEvents { is_chosen: [has_all; EVENTS] };
        for (slot, event) in chosen.is_chosen.iter_mut().zip(events) {
            *slot = is_wanted(event);
        }
        chosen
    }

    /// Returns true if these are waits, and no event of a recording is one.
    pub fn are_missing(&self, events: &[EventV1]) -> bool {
        matches!(self, Self::Waits | Self::Blocked)
            && !events.iter().any(|event| Meaning::of(event) == Meaning::Wait)
    }

    /// Returns the first name that no event of a recording has.
    pub fn unknown<'n>(&'n self, events: &[EventV1]) -> Option<&'n str> {
        let Self::Named(names) = self else { return None };
        let is_unknown =
            |name: &&String| *name != ANY && !events.iter().any(|event| is_like(name, &event.name));
        names.iter().find(is_unknown).map(String::as_str)
    }

    /// The names, as they were typed; none if no event was asked for.
    pub fn names(&self) -> &[String] {
        match self {
            Self::Named(names) => names,
            _ => &[],
        }
    }
}

/// The pattern of every event.
const ANY: &str = "*";
/// How many events samples can name.
pub const EVENTS: usize = 1 << u8::BITS;

/// Which events of a recording are wanted, by their positions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenEvents {
    is_chosen: [bool; EVENTS],
}

impl Default for ChosenEvents {
    fn default() -> Self {
        Self { is_chosen: [true; EVENTS] }
    }
}

impl ChosenEvents {
    /// Returns true if an event is wanted; `event` is its position.
    pub fn has(&self, event: u8) -> bool {
        self.is_chosen[usize::from(event)]
    }

    /// Lists the wanted ones among the events of the recording.
    pub fn of<'e>(&self, events: &'e [EventV1]) -> impl Iterator<Item = (u8, &'e EventV1)> {
        (0..=u8::MAX).zip(events).filter(|(position, _)| self.has(*position))
    }

    /// Returns whether waits or wakers, and whether other events are wanted of a recording: they cannot be compared with each other.
    pub fn kinds(&self, events: &[EventV1]) -> (bool, bool) {
        let any =
            |is_waiting| self.of(events).any(|(_, event)| Meaning::of(event).is_of_waiting() == is_waiting);
        (any(true), any(false))
    }
}

/// Lists events with their units, for people: `cpu-clock (ns), page-faults (events)`.
pub fn listed<'e>(events: impl IntoIterator<Item = &'e EventV1>) -> String {
    /// The most that are named.
    const NAMED: usize = 12;
    let each = |event: &EventV1| match &*event.unit {
        "" => event.name.clone(),
        unit => format!("{} ({unit})", event.name),
    };
    let mut names: Vec<String> = events.into_iter().map(each).collect();
    let more = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    let more = if more > 0 { format!(" and {more} more (icecore-report info)") } else { String::new() };
    format!("{}{more}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, meaning: EventMeaning) -> EventV1 {
        EventV1 { name: name.into(), unit: "ns".into(), frequency_hz: 0, period: 1, meaning }
    }

    /// An event whose name says its meaning.
    fn known(name: &str) -> EventV1 {
        event(
            name,
            match name {
                "cpu-clock" => EventMeaning::CPU_TIME,
                "off-cpu" => EventMeaning::OFF_CPU,
                "run-delay" => EventMeaning::RUN_DELAY,
                "waker" => EventMeaning::WAKER,
                _ => EventMeaning::DURATION,
            },
        )
    }

    fn kept(choice: &EventChoice, names: &[&str]) -> Vec<bool> {
        let events: Vec<EventV1> = names.iter().map(|name| known(name)).collect();
        let chosen = choice.among(&events);
        (0..names.len() as u8).map(|position| chosen.has(position)).collect()
    }

    #[test]
    fn no_name_tells_what_an_event_means() {
        let file = "uprobe:/bin/cpu-clock:off-cpu";
        assert_eq!(Meaning::of(&event(file, EventMeaning::DURATION)), Meaning::Duration);
        assert_eq!(Meaning::of(&event("x", EventMeaning::RUN_DELAY)), Meaning::Wait);
        for unknown in [EventMeaning::UNKNOWN, EventMeaning(900)] {
            assert_eq!(Meaning::of(&event("cpu-clock", unknown)), Meaning::Other);
        }
    }

    #[test]
    fn waits_are_left_out_beside_others_and_wakers_beside_waits() {
        let usual = EventChoice::Usual;
        assert_eq!(
            kept(&usual, &["cpu-clock", "off-cpu", "run-delay", "waker", "time_of_x"]),
            [true, false, false, false, false]
        );
        assert_eq!(kept(&usual, &["time_of_x", "off-cpu", "time_of_y"]), [true, false, true]);
        assert_eq!(kept(&usual, &["off-cpu", "run-delay", "waker"]), [true, true, false]);
        assert_eq!(kept(&usual, &["waker"]), [true]);
        assert_eq!(kept(&EventChoice::All, &["cpu-clock", "waker"]), [true, true]);
        let waits = EventChoice::Waits;
        assert_eq!(kept(&waits, &["cpu-clock", "off-cpu", "waker", "run-delay"]), [false, true, false, true]);
        assert_eq!(kept(&EventChoice::Blocked, &["cpu-clock", "off-cpu", "run-delay"]), [false, true, false]);
        assert!(EventChoice::Blocked.are_missing(&[known("cpu-clock")]));
        assert!(waits.are_missing(&[known("waker")]) && !waits.are_missing(&[known("off-cpu")]));
        assert!(usual.among(&[]).has(7), "events that the recording does not describe");
    }

    #[test]
    fn names_may_have_wildcards_and_each_must_be_there() {
        let named = |names: &[&str]| EventChoice::Named(names.iter().map(|name| (*name).into()).collect());
        let all = ["cpu-clock", "uprobe:a", "uprobe:b"];
        assert_eq!(kept(&named(&["uprobe:*"]), &all), [false, true, true]);
        assert_eq!(kept(&named(&["cpu-clock", "*:b"]), &all), [true, false, true]);
        let events = all.map(known);
        assert_eq!(named(&["cpu-clock", "cpu"]).unknown(&events), Some("cpu"));
        assert_eq!(named(&["*"]).unknown(&[]), None);
        assert!(named(&["x", "*"]).among(&[]).has(200), "events that the recording does not describe");
        assert_eq!(EventChoice::Usual.unknown(&events), None);
        assert!(!named(&["cpu-clock"]).among(&events).has(200));
        assert_eq!(listed(&events[..2]), "cpu-clock (ns), uprobe:a (ns)");
    }
}
