//! Finds on this machine what `-e` names: tracepoints, functions of the kernel, functions in files.

mod files;
mod functions;
mod programs;
mod refused;
mod statics;

use anyhow::{Context as _, bail, ensure};
use icecore_format::events::{self, kind};
use icecore_text::glob::{is_like, is_pattern};

use super::event::{self, Spot, Typed, What, is_clock, near};
use crate::proc::kallsyms;
use crate::settings::{Edge, Event, MAX_EVENTS, Place, Source, Take, Weight};
use crate::skeleton::types::limits;
use crate::sys::perf::{Counter, Rate};
use crate::sys::tracefs::{Field, Tracefs, Tracepoint};

/// What the command line says of all events.
#[derive(Debug, Clone, Copy)]
pub(super) struct Common {
    /// How often clocks and counters of the hardware are sampled.
    pub(super) rate: Rate,
    /// Sample user mode.
    pub(super) user: bool,
    /// Sample kernel mode.
    pub(super) kernel: bool,
}

/// Finds all events that were typed. The second list tells the user what was chosen for him.
///
/// # Errors
/// If one is misspelt, is not on this machine, or is given twice; if there are too many.
pub(super) fn find(typed: &[String], common: Common) -> anyhow::Result<(Vec<Event>, Vec<String>)> {
    let (mut events, mut notes): (Vec<Event>, _) = Default::default();
    for text in typed {
        let found = event::parse(text).and_then(|typed| common.find(typed, &mut notes));
        for event in found.with_context(|| format!("cannot record the event `{text}`"))? {
            let is_new = events.iter().all(|known| known.name != event.name);
            ensure!(is_new, "cannot record the event `{}` twice: leave out one -e", event.name);
            events.push(event);
        }
        ensure!(
            events.len() <= MAX_EVENTS,
            "cannot record {} events at once: the limit is {MAX_EVENTS}; name fewer, or narrow the pattern `{text}`",
            events.len()
        );
    }
    Ok((events, notes))
}

impl Common {
    fn find(self, Typed { name, what }: Typed, notes: &mut Vec<String>) -> anyhow::Result<Vec<Event>> {
        let (spot, take, unit) = match what {
            What::Counter(counter, rate) => return Ok(vec![self.counter(name, counter, rate)?]),
            What::Probe(spot, take, unit) => (spot, take, unit),
        };
        if matches!(spot, Spot::Tracepoint { .. } | Spot::Kernel { .. }) {
            ensure!(self.kernel, "it happens in kernel mode, which -U leaves out: leave out -U");
        } else {
            ensure!(self.user, "it happens in user mode, which -K leaves out: leave out -K");
        }
        let event = |name, place| Event { name, unit: unit.clone(), source: Source::Probe { place, take } };
        Ok(match spot {
            Spot::Tracepoint { category, name, weighed, sent } => {
                let tracefs = Tracefs::open()?;
                let found = tracepoints(&tracefs, Tracepoint { category, name })?;
                let event = |(at, id): (Tracepoint, u64)| {
                    let field = |name: &Option<String>, is_wanted: fn(Field) -> bool, wanted: &str| {
                        let name = name.as_deref();
                        name.map(|name| field(&tracefs, &at, name, is_wanted, wanted)).transpose()
                    };
                    let weight = field(&weighed, Field::is_integer, "integers")?.map(Weight::Field);
                    let found = field(&sent, |_| true, "integers and texts")?;
                    let take = Take { weight: weight.unwrap_or(take.weight), ..take };
                    let place = Place::Tracepoint { id, sent: sent.clone().zip(found) };
                    let (name, unit) = (format!("{}:{}", at.category, at.name), unit.clone());
                    Ok(Event { name, unit, source: Source::Probe { place, take } })
                };
                found.into_iter().map(event).collect::<anyhow::Result<_>>()?
            }
            Spot::Kernel { function, edge, hook } => {
                check_kernel(&function)?;
                vec![event(name, Place::Kernel { function, edge, hook })]
            }
            Spot::Functions { file, functions, off } => {
                let files = files::find(&file, notes)?;
                vec![event(name, user(functions::named(&files, &functions, off, notes)?, take)?)]
            }
            Spot::Returns { file, functions } => {
                let files = files::find(&file, notes)?;
                vec![event(name, functions::returning(&files, &functions, notes)?)]
            }
            Spot::Offset { file, off } => {
                let files = files::find(&file, notes)?;
                vec![event(name, user(functions::at(&files[0], off)?, take)?)]
            }
            Spot::Static { file, provider, probe } => {
                let files = files::find(&file, notes)?;
                vec![event(name, statics::named(&files, &provider, &probe, notes)?)]
            }
        })
    }

    fn counter(self, name: String, counter: Counter, rate: Option<Rate>) -> anyhow::Result<Event> {
        let (user, kernel) = (counter.user && self.user, counter.kernel && self.kernel);
        ensure!(
            user || kernel,
            "its modifier excludes the mode that -U or -K chooses: leave out one of them"
        );
        let unit = events::unit(counter.kind, counter.config, &name).into_owned();
        ensure!(
            kernel || !matches!(&*unit, "context-switches" | "cpu-migrations"),
            "it happens in kernel mode only: leave out `:u` and -U"
        );
        // Faults and switches are so rare that at the rate of a clock most would be missed.
        let usual =
            if counter.kind == kind::SOFTWARE && !is_clock(&counter) { Rate::Period(1) } else { self.rate };
        let counter = Counter { user, kernel, ..counter };
        Ok(Event { name, unit, source: Source::Counter { counter, rate: rate.unwrap_or(usual) } })
    }
}

/// Checks that the hits of a probe have arguments, if these are weighed.
fn user(place: Place, take: Take) -> anyhow::Result<Place> {
    let are_entries = matches!(place, Place::User { edge: Edge::Entry, .. });
    ensure!(
        are_entries || take.weight == Weight::One,
        "`weight`: only the first instruction of a function has its arguments; leave out +OFF or the weight"
    );
    Ok(place)
}

/// Finds the numbers of tracepoints by a name that may have wildcards.
fn tracepoints(tracefs: &Tracefs, typed: Tracepoint) -> anyhow::Result<Vec<(Tracepoint, u64)>> {
    let Tracepoint { category, name } = &typed;
    if !is_pattern(category)
        && !is_pattern(name)
        && let Some(id) = tracefs.id(&typed)?
    {
        return Ok(vec![(typed, id)]);
    }
    let all = tracefs.all()?;
    let mut found = Vec::new();
    for at in all.iter().filter(|at| is_like(category, &at.category) && is_like(name, &at.name)) {
        found.extend(tracefs.id(at)?.map(|id| (at.clone(), id)));
    }
    if found.is_empty() {
        if !all.iter().any(|at| is_like(category, &at.category)) {
            let categories = all.iter().map(|at| at.category.as_str().into());
            let known = categories.chain(events::all().map(|(name, _)| name));
            bail!("there is no counter and no category of tracepoints `{category}`{}", near(category, known));
        }
        let names = all.iter().filter(|at| is_like(category, &at.category)).map(|at| at.name.as_str());
        bail!("`{category}` has no tracepoint `{name}`{}", near(name, names));
    }
    Ok(found)
}

/// Finds a field of a tracepoint, which must be one of those that are `wanted`.
fn field(
    tracefs: &Tracefs,
    at: &Tracepoint,
    name: &str,
    is_wanted: fn(Field) -> bool,
    wanted: &str,
) -> anyhow::Result<Field> {
    let fields = tracefs.fields(at)?;
    let Tracepoint { category, name: of } = at;
    let place = |(_, place): &(String, Option<Field>)| place.filter(|field| is_wanted(*field));
    let usable = || {
        let names = fields.iter().filter(|field| place(field).is_some()).map(|(name, _)| name.as_str());
        names.collect::<Vec<_>>().join(", ")
    };
    match fields.iter().find(|(field, _)| field == name).map(place) {
        Some(Some(field)) => {
            let end = u32::from(field.off) + if field.is_integer() { u32::from(field.size) } else { 1 };
            ensure!(
                end <= limits::REPORTED_LEN.0,
                "the field `{name}` of `{category}:{of}` lies behind the first {} bytes, which the sampler reads",
                limits::REPORTED_LEN.0
            );
            Ok(field)
        }
        Some(None) => {
            bail!("the field `{name}` of `{category}:{of}` is not one of its {wanted}: {}", usable())
        }
        None => bail!("`{category}:{of}` has no field `{name}`; its {wanted} are {}", usable()),
    }
}

/// Checks that the kernel has a function, if it shows any.
fn check_kernel(function: &str) -> anyhow::Result<()> {
    let known = kallsyms::names();
    ensure!(
        known.is_empty() || known.iter().any(|name| name == function),
        "the kernel has no function `{function}`{}",
        near(function, known.iter())
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Common = Common { rate: Rate::Frequency(99), user: true, kernel: true };

    fn found(typed: &[&str], common: Common) -> Result<Vec<Event>, String> {
        let typed: Vec<String> = typed.iter().map(|text| (*text).to_owned()).collect();
        find(&typed, common).map(|(events, _)| events).map_err(|error| format!("{error:#}"))
    }

    fn rate(typed: &str) -> Rate {
        match &found(&[typed], ALL).expect("a counter")[0].source {
            Source::Counter { rate, .. } => *rate,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_rare_events_are_all_sampled() {
        for name in ["cycles", "cpu-clock", "task-clock:u", "LLC-load-misses", "r1c2"] {
            assert_eq!(rate(name), ALL.rate, "{name}");
        }
        for name in ["page-faults", "cs", "major-faults:u"] {
            assert_eq!(rate(name), Rate::Period(1), "{name}");
        }
        assert_eq!(rate("page-faults,freq=10"), Rate::Frequency(10));
        assert_eq!(found(&["task-clock:u"], ALL).expect("a counter")[0].unit, "ns");
    }

    #[test]
    fn modes_of_the_command_line_hold_for_all_events() {
        let user = Common { kernel: false, ..ALL };
        let events = found(&["cycles", "page-faults:u"], user).expect("both happen in user mode");
        for event in events {
            assert!(
                matches!(event.source, Source::Counter { counter, .. } if counter.user && !counter.kernel)
            );
        }
        for (typed, common) in [
            ("cycles:k", user),
            ("cs", user),
            ("sched:sched_switch", user),
            ("uprobe:sh:main", Common { user: false, ..ALL }),
            ("uretprobe:sh:main", Common { user: false, ..ALL }),
            ("usdt:libc:libc:setjmp", Common { user: false, ..ALL }),
        ] {
            assert!(found(&[typed], common).is_err_and(|error| error.contains("leave out")), "{typed}");
        }
    }

    #[test]
    fn one_event_is_recorded_once() {
        let twice = found(&["cs", "cycles", "context-switches,count=5"], ALL).expect_err("twice");
        assert!(twice.contains("`context-switches` twice: leave out one -e"), "{twice}");
        let wrong = found(&["cycels"], ALL).expect_err("misspelt");
        assert!(wrong.starts_with("cannot record the event `cycels`: "), "{wrong}");
    }

    #[test]
    fn functions_of_the_kernel_are_checked_if_it_shows_them() {
        let known = kallsyms::names();
        if known.iter().any(|name| name == "vfs_read") {
            assert!(found(&["kprobe:vfs_read"], ALL).is_ok());
            let message = found(&["kprobe:vfs_raed"], ALL).expect_err("misspelt");
            assert!(message.contains("`vfs_raed`; did you mean"), "{message}");
        }
    }

    #[test]
    fn root_tracepoints_are_found_by_name_and_by_pattern() {
        let events = found(&["sched:sched_process_*", "tracepoint:sched:sched_switch"], ALL).expect("known");
        assert!(events.len() > 3 && events.iter().all(|event| event.unit == "events"));
        let names: Vec<&str> = events.iter().map(|event| event.name.as_str()).collect();
        assert!(names.contains(&"sched:sched_process_exec") && names.contains(&"sched:sched_switch"));
        for (typed, expected) in [
            ("sched:sched_swich", "`sched` has no tracepoint `sched_swich`; did you mean `sched_switch`"),
            ("shced:sched_switch", "`shced`; did you mean `sched`"),
            ("cycels:u", "`cycels`; did you mean `cycles`"),
            ("*:*", "the limit is 64"),
        ] {
            let error = found(&[typed], ALL).expect_err(typed);
            assert!(error.contains(expected), "{typed}: {error}");
        }
    }
}
