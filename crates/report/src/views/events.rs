//! What views say about events: which of them they leave out, and that some cannot be added.

use crate::cli::Weight;
use icecore_profile::named::Measure;
use icecore_profile::named::pipeline::Report;
use icecore_profile::recording::events::{EventChoice, Meaning, listed};
use icecore_text::quantity::things;

/// Says that samples of events with different units were counted, and how to see one of them.
pub(crate) fn mixed(report: &Report<'_>) -> Option<String> {
    let (events, seen) = (report.loaded.tables.parts.events(), &report.loaded.hits.seen);
    let shown = seen.events.iter().filter_map(|seen| events.get(usize::from(seen.event)));
    seen.is_mixed(events).then(|| {
        format!(
            "several events with different units, so that every sample counts as one: --event NAME shows one of {}",
            listed(shown)
        )
    })
}

/// Says that waits were left out because nobody asked for them, and how to see them.
pub(crate) fn unshown(report: &Report<'_>) -> Option<String> {
    let loaded = report.loaded;
    // Whoever names events knows which ones, and views of waits show nothing else.
    if loaded.filter.events != EventChoice::Usual {
        return None;
    }
    let events = loaded.tables.parts.events();
    let of = |meaning: Meaning| {
        let seen = &loaded.hits.seen.unshown;
        let seen = seen.iter().filter_map(|seen| Some((events.get(usize::from(seen.event))?, seen.samples)));
        let (found, samples): (Vec<_>, Vec<u64>) =
            seen.filter(|(event, _)| Meaning::of(event) == meaning).unzip();
        let names: Vec<&str> = found.into_iter().map(|event| &*event.name).collect();
        (names.join(","), samples.into_iter().sum::<u64>())
    };
    let ((waits, number), (wakers, woken)) = (of(Meaning::Wait), of(Meaning::Waker));
    let clocks = loaded.events.of(events).filter(|(_, event)| Meaning::of(event) == Meaning::CpuTime);
    let clocks: Vec<&str> = clocks.map(|(_, event)| &*event.name).collect();
    match (number, woken) {
        (0, 0) => None,
        (0, _) => {
            Some(format!("{} not shown: --event {wakers} (the stacks that ended waits)", are(woken, "waker")))
        }
        _ => {
            let wall = match clocks[..] {
                [clock] => format!("--event {clock},{waits} for wall time"),
                _ => format!("--event {waits}"),
            };
            Some(format!("{} not shown ({wall})", are(number, "wait")))
        }
    }
}

fn are(number: u64, thing: &str) -> String {
    format!("{} {}", things(number, thing), if number == 1 { "is" } else { "are" })
}

/// Returns the weight of a stack that counts: the one that was asked for; else its samples, unless these weigh very differently.
pub(crate) fn weight_of_stacks(asked: Option<Weight>, measure: &Measure) -> Weight {
    asked.unwrap_or(if measure.is_uneven { Weight::Period } else { Weight::Samples })
}
