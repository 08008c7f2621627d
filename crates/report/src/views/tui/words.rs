//! Filters and amounts in words.

use super::Facts;
use icecore_analysis::explore::Explorer;
use icecore_analysis::explore::filters::{Filters, Rule, Subject, Verb};
use icecore_analysis::explore::selected::Selected;
use icecore_text::quantity::{things, weight};

/// Returns what 100 % is.
pub(super) fn whole(facts: &Facts, selected: &Selected) -> String {
    let samples = things(selected.whole.samples, "sample");
    let of = match &*selected.unit {
        "samples" => samples,
        unit => format!("{} in {samples}", weight(selected.whole.weight, unit)),
    };
    let chosen = (0..=u8::MAX).zip(&facts.events).filter(|(event, _)| selected.filters.has_event(*event));
    let chosen: Vec<&str> = chosen.map(|(_, event)| &*event.name).collect();
    let others = facts.events.len() - chosen.len();
    let others = if others > 0 { format!(" ({others} more in 7)") } else { String::new() };
    format!(
        "100% is {of} of {}{others}",
        if chosen.is_empty() { "no event".into() } else { chosen.join(", ") }
    )
}

/// Returns a moment in seconds after the start.
pub(super) fn seconds(facts: &Facts, ns: u64) -> String {
    let after_s = (i128::from(ns) - i128::from(facts.zero_ns)) as f64 / 1e9;
    format!("{after_s:.3}")
}

/// Returns a range of time.
pub(super) fn range(facts: &Facts, (from_ns, to_ns): (u64, u64)) -> String {
    format!("{}–{} s", seconds(facts, from_ns), seconds(facts, to_ns))
}

/// Lists the active filters: those by time and event first.
pub(super) fn filters(facts: &Facts, explorer: &Explorer<'_>, filters: &Filters) -> Vec<String> {
    let mut words = Vec::new();
    if let Some(range_ns) = filters.range_ns {
        words.push(format!("time {}", range(facts, range_ns)));
    }
    if !is_usual(facts, filters) {
        let chosen = (0..=u8::MAX).zip(&facts.events).filter(|(event, _)| filters.has_event(*event));
        let chosen: Vec<&str> = chosen.map(|(_, event)| &*event.name).collect();
        words.push(format!("events {}", if chosen.is_empty() { "none".into() } else { chosen.join(",") }));
    }
    words.extend(filters.rules.iter().map(|rule| self::rule(facts, explorer, rule)));
    words
}

/// Returns true if the events are those that are selected at first.
pub(super) fn is_usual(facts: &Facts, filters: &Filters) -> bool {
    let chosen = (0..=u8::MAX).map(|event| filters.has_event(event));
    chosen.zip(&facts.events).all(|(is_chosen, event)| is_chosen == event.is_usual)
}

/// Returns a rule in words.
fn rule(facts: &Facts, explorer: &Explorer<'_>, Rule { verb, subject }: &Rule) -> String {
    let verb = match verb {
        Verb::Only => "only",
        Verb::Without => "without",
        Verb::Hide => "hide",
    };
    format!("{verb} {}", self::subject(facts, explorer, subject))
}

/// Returns a subject in words.
pub(super) fn subject(facts: &Facts, explorer: &Explorer<'_>, subject: &Subject) -> String {
    match subject {
        Subject::Process(number) => {
            let process = &facts.processes[*number as usize];
            format!("process {} {}", process.id, process.name)
        }
        Subject::Thread(number) => {
            let thread = &facts.threads[*number as usize];
            format!("thread {} {}", thread.id, thread.name)
        }
        Subject::Wait(kind) => format!("waits {}", explorer.kinds[*kind as usize].name()),
        Subject::Function(function) => explorer.name(*function).to_owned(),
        Subject::Image(image) => format!("image {}", explorer.image(*image).unwrap_or("[no image]")),
        Subject::Matching(matching) => format!("/{}/", matching.pattern),
    }
}

/// Returns the unit of rates of time.
pub(super) fn rate_unit(facts: &Facts, selected: &Selected, event: Option<u8>) -> String {
    let is_of = |other: u8| event.map_or(selected.filters.has_event(other), |event| event == other);
    let mut chosen = (0..=u8::MAX).zip(&facts.events).filter(|(other, _)| is_of(*other));
    let unit = match event {
        Some(event) => facts.events.get(usize::from(event)).map_or("samples", |event| &event.unit),
        None => &selected.unit,
    };
    match unit {
        "ns" if chosen.all(|(_, event)| event.is_cpu_time) => "CPUs".to_owned(),
        "ns" => "threads".to_owned(),
        "" => "samples/s".to_owned(),
        unit => format!("{unit}/s"),
    }
}
