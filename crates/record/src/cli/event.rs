//! The text of an event (`-e`): what was typed, before anybody looks for it on this machine. docs/EVENTS.md has the grammar.

use anyhow::{bail, ensure};
use icecore_format::events::{self, kind};
use icecore_text::glob::is_pattern;

use crate::settings::{Edge, Hook, Take, Weight};
use crate::sys::perf::{Counter, Rate};

/// An event as it was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Typed {
    /// Without options, by its usual name.
    pub(super) name: String,
    pub(super) what: What,
}

/// What makes the event happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What {
    /// A counter, and its own rate if it has one.
    Counter(Counter, Option<Rate>),
    /// A probe, which of its hits are sampled, and the unit of their weights.
    Probe(Spot, Take, String),
}

/// Where a probe lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Spot {
    /// Tracepoints; both parts may have wildcards.
    Tracepoint {
        category: String,
        name: String,
        /// The field by which hits are weighed.
        weighed: Option<String>,
        /// The field that samples have.
        sent: Option<String>,
    },
    /// The begin of a function of the kernel, or its return.
    Kernel { function: String, edge: Edge, hook: Hook },
    /// Functions of a file, which may have wildcards, and how many bytes after their first ones.
    Functions { file: String, functions: String, off: u64 },
    /// The returns of functions of a file, which may have wildcards.
    Returns { file: String, functions: String },
    /// An offset in a file.
    Offset { file: String, off: u64 },
    /// Static probes of a file; their provider and their name may have wildcards.
    Static { file: String, provider: String, probe: String },
}

/// The options of counters, and of everything else.
const COUNTER_KEYS: [&str; 2] = ["count", "freq"];
const PROBE_KEYS: [&str; 5] = ["every", "weight", "min", "unit", "field"];
const KINDS: [&str; 8] =
    ["tracepoint", "uprobe", "uretprobe", "usdt", "kprobe", "kretprobe", "fentry", "fexit"];
/// The shortest time from one sample of a clock to the next, ns; as `-c` has it.
const MIN_CLOCK_NS: u64 = 20_000;
const MAX_COUNT: u64 = 1_000_000_000_000;
const MAX_HZ: u64 = 50_000;
/// The number of arguments that a function gets in registers.
const MAX_ARGUMENT: u8 = 6;
const MAX_UNIT_LEN: usize = 32;
/// How similar a name is that is suggested, 0 to 1, and how many are.
const NEAR: f64 = 0.8;
const MAX_NEAR: usize = 3;

/// Parses `EVENT[,KEY=VALUE]…`.
///
/// # Errors
/// The wrong word, and what to write instead.
pub(super) fn parse(text: &str) -> anyhow::Result<Typed> {
    let (event, keys) = split(text)?;
    let (head, rest) = event.split_once(':').unwrap_or((event, ""));
    if !["uprobe", "uretprobe"].contains(&head)
        && let Some((_, second)) = event.split_once(',')
    {
        bail!("`{second}` is no KEY=VALUE; give each event an -e of its own");
    }
    let is_probe = KINDS.contains(&head);
    if !is_probe && let Some((name, counter)) = counter(event)? {
        keys.allow("a counter", &COUNTER_KEYS)?;
        let rate = own_rate(&keys, &counter)?;
        return Ok(Typed { name, what: What::Counter(counter, rate) });
    }
    let (name, spot) = match head {
        "uprobe" => (event.to_owned(), user(rest)?),
        "kprobe" | "kretprobe" | "fentry" | "fexit" => (event.to_owned(), kernel(head, rest)?),
        "tracepoint" => (rest.to_owned(), tracepoint(rest)?),
        "usdt" => (event.to_owned(), static_probe(rest)?),
        "uretprobe" => (event.to_owned(), returns(rest)?),
        _ if event.contains('/') => bail!("events of one PMU are not supported; give their number: r01c2"),
        _ if event.contains(':') => (event.to_owned(), tracepoint(event)?),
        _ => {
            let kinds = KINDS.iter().map(|kind| (*kind).into());
            let names =
                events::all().map(|(name, _)| name).chain(events::aliases().map(Into::into)).chain(kinds);
            bail!("there is no event `{event}` (docs/EVENTS.md lists all){}", near(event, names))
        }
    };
    keys.allow("a probe", &PROBE_KEYS)?;
    let spot = with_fields(spot, &keys)?;
    let (take, unit) = take(&keys, &spot)?;
    Ok(Typed { name, what: What::Probe(spot, take, unit) })
}

/// Options, in the order in which they were typed.
struct Keys<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Keys<'a> {
    fn value(&self, key: &str) -> Option<&'a str> {
        self.0.iter().find_map(|(typed, value)| (*typed == key).then_some(*value))
    }

    fn number(&self, key: &str, least: u64, most: u64) -> anyhow::Result<Option<u64>> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let number = value.parse().ok().filter(|number| (least..=most).contains(number));
        let most = if most == u64::MAX { String::new() } else { format!(" to {most}") };
        ensure!(number.is_some(), "`{key}={value}`: give a whole number from {least}{most}");
        Ok(number)
    }

    fn allow(&self, what: &str, known: &[&str]) -> anyhow::Result<()> {
        for (at, (key, _)) in self.0.iter().enumerate() {
            ensure!(known.contains(key), "`{key}` is no option of {what}, which has {}", known.join(", "));
            ensure!(!self.0[..at].iter().any(|(before, _)| before == key), "`{key}` is given twice");
        }
        Ok(())
    }
}

/// Splits options from an event. Names of C++ have commas, too.
fn split(text: &str) -> anyhow::Result<(&str, Keys<'_>)> {
    let (mut event, mut keys) = (text, Vec::new());
    while let Some((before, last)) = event.rsplit_once(',') {
        match last.split_once('=') {
            Some((key, value)) if !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_lowercase()) => {
                keys.push((key, value));
            }
            None if COUNTER_KEYS.contains(&last) || PROBE_KEYS.contains(&last) => {
                bail!("`{last}` needs a value: {last}=VALUE");
            }
            _ => break,
        }
        event = before;
    }
    keys.reverse();
    ensure!(!event.is_empty(), "the name of the event is missing: EVENT[,KEY=VALUE]…");
    Ok((event, Keys(keys)))
}

/// Parses `NAME[:MODIFIERS]`; `None` if there is no such counter.
fn counter(event: &str) -> anyhow::Result<Option<(String, Counter)>> {
    let (name, modifiers) = event.split_once(':').map_or((event, None), |(name, rest)| (name, Some(rest)));
    let Some((kind, config)) = events::find(name).or_else(|| raw(name)) else { return Ok(None) };
    let (mut user, mut kernel, mut precise) = (false, false, 0);
    ensure!(modifiers != Some(""), "`{event}`: the modifiers are missing: u, k, p");
    for modifier in modifiers.unwrap_or_default().chars() {
        match modifier {
            'u' => user = true,
            'k' => kernel = true,
            'p' if precise < 3 => precise += 1,
            'p' => bail!("`{event}`: the highest precision is ppp"),
            other => {
                bail!("`{other}` is no modifier; there are u (user mode), k (kernel mode), p, pp and ppp")
            }
        }
    }
    let is_both = user == kernel;
    let counter = Counter { kind, config, precise, user: user || is_both, kernel: kernel || is_both };
    Ok(Some((format!("{}{}", events::usual(name), &event[name.len()..]), counter)))
}

/// Parses `r01c2`.
fn raw(name: &str) -> Option<(u32, u64)> {
    let digits =
        name.strip_prefix('r').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    Some((kind::RAW, u64::from_str_radix(digits, 16).ok()?))
}

fn own_rate(keys: &Keys<'_>, counter: &Counter) -> anyhow::Result<Option<Rate>> {
    let least = if is_clock(counter) { MIN_CLOCK_NS } else { 1 };
    let count = keys.number("count", least, MAX_COUNT)?.map(Rate::Period);
    let hz = keys.number("freq", 1, MAX_HZ)?.map(Rate::Frequency);
    ensure!(count.is_none() || hz.is_none(), "`count` and `freq` exclude each other: leave out one");
    Ok(count.or(hz))
}

/// Returns true if the counter counts nanoseconds.
pub(super) fn is_clock(counter: &Counter) -> bool {
    events::unit(counter.kind, counter.config, "") == "ns"
}

/// Parses `PATH:FUNCTION[+OFF]` and `PATH:0xOFFSET`.
fn user(rest: &str) -> anyhow::Result<Spot> {
    let (file, spot) = rest.split_once(':').unwrap_or((rest, ""));
    ensure!(!file.is_empty() && !spot.is_empty(), "give file and function: uprobe:PATH:FUNCTION");
    let file = file.to_owned();
    if spot.starts_with("0x") {
        let Some(off) = number(spot) else { bail!("`{spot}` is no offset; give hexadecimal digits: 0x1a2b") };
        return Ok(Spot::Offset { file, off });
    }
    // The plus of `operator+` is no offset.
    let split = spot.rsplit_once('+').and_then(|(functions, off)| Some((functions, number(off)?)));
    let (functions, off) = split.unwrap_or((spot, 0));
    ensure!(
        off == 0 || !is_pattern(functions),
        "`+{off}` needs one function: leave it out, or write the name without * and ?"
    );
    Ok(Spot::Functions { file, functions: functions.to_owned(), off })
}

/// Parses `PATH:FUNCTION`.
fn returns(rest: &str) -> anyhow::Result<Spot> {
    match user(rest) {
        Ok(Spot::Functions { file, functions, off: 0 }) => Ok(Spot::Returns { file, functions }),
        Ok(_) => bail!("`{rest}`: only functions return; leave out the offset: uretprobe:PATH:FUNCTION"),
        Err(_) => bail!("give file and function: uretprobe:PATH:FUNCTION"),
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Parses `PATH:PROVIDER:NAME`.
fn static_probe(rest: &str) -> anyhow::Result<Spot> {
    let parts: Vec<&str> = rest.split(':').collect();
    match parts[..] {
        [file, provider, probe] if parts.iter().all(|part| !part.is_empty()) => {
            let (file, provider, probe) = (file.to_owned(), provider.to_owned(), probe.to_owned());
            Ok(Spot::Static { file, provider, probe })
        }
        _ => bail!("give file, provider and name: usdt:PATH:PROVIDER:NAME"),
    }
}

/// Parses the FUNCTION of `kprobe`, `kretprobe`, `fentry` or `fexit`.
fn kernel(kind: &str, function: &str) -> anyhow::Result<Spot> {
    ensure!(!function.is_empty(), "give a function: {kind}:FUNCTION");
    ensure!(!is_pattern(function), "`{function}`: {kind} takes one function, without * and ?");
    ensure!(!function.contains('+'), "`{function}`: {kind} takes functions without +OFF");
    let edge = if ["kretprobe", "fexit"].contains(&kind) { Edge::Return } else { Edge::Entry };
    let hook = if ["fentry", "fexit"].contains(&kind) { Hook::Call } else { Hook::Kprobe };
    Ok(Spot::Kernel { function: function.to_owned(), edge, hook })
}

fn tracepoint(typed: &str) -> anyhow::Result<Spot> {
    match typed.split_once(':') {
        Some((category, name)) if !category.is_empty() && !name.is_empty() => {
            let (category, name) = (category.to_owned(), name.to_owned());
            Ok(Spot::Tracepoint { category, name, weighed: None, sent: None })
        }
        _ => bail!("`{typed}` is no tracepoint; give category and name: sched:sched_switch"),
    }
}

/// Returns which hits of a probe are sampled, and their unit.
fn take(keys: &Keys<'_>, spot: &Spot) -> anyhow::Result<(Take, String)> {
    let weight = match keys.value("weight") {
        None => Weight::One,
        Some(typed) => weight(typed, spot)?,
    };
    let has_field = matches!(spot, Spot::Tracepoint { weighed: Some(_), .. });
    for key in ["min", "unit"].into_iter().filter(|_| weight == Weight::One && !has_field) {
        ensure!(keys.value(key).is_none(), "`{key}` needs a weight: add weight=arg1");
    }
    let usual = match weight {
        Weight::One if !has_field => events::UNIT,
        Weight::One
        | Weight::Field(_)
        | Weight::Argument(_)
        | Weight::ArgumentInt(_)
        | Weight::Returned
        | Weight::ReturnedInt => "value",
        Weight::Duration => "ns",
    };
    let unit = keys.value("unit").unwrap_or(usual);
    ensure!(
        weight != Weight::Duration || unit == "ns",
        "`unit={unit}`: durations are in ns; leave out the unit"
    );
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_/".contains(&byte);
    ensure!(
        (1..=MAX_UNIT_LEN).contains(&unit.len()) && unit.bytes().all(is_plain),
        "`unit={unit}`: give up to {MAX_UNIT_LEN} letters, digits, - _ /"
    );
    let every = keys.number("every", 1, u64::from(u32::MAX))?.unwrap_or(1);
    let min = keys.number("min", 0, u64::MAX)?.unwrap_or(0);
    Ok((Take { every, weight, min }, unit.to_owned()))
}

/// Adds the fields of a tracepoint: what weighs its hits, and what its samples have.
fn with_fields(spot: Spot, keys: &Keys<'_>) -> anyhow::Result<Spot> {
    let field = |key: &str| {
        let field = keys.value(key);
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        ensure!(
            field.is_none_or(|field| !field.is_empty() && field.bytes().all(is_name)),
            "`{key}={}`: give a field of the tracepoint",
            field.unwrap_or_default()
        );
        Ok(field.map(str::to_owned))
    };
    match spot {
        Spot::Tracepoint { category, name, .. } => {
            Ok(Spot::Tracepoint { category, name, weighed: field("weight")?, sent: field("field")? })
        }
        spot => {
            ensure!(keys.value("field").is_none(), "`field`: only tracepoints have fields; leave it out");
            Ok(spot)
        }
    }
}

/// Parses what a hit weighs: arguments are known where functions begin, and what they return at their end.
fn weight(typed: &str, spot: &Spot) -> anyhow::Result<Weight> {
    let at_return = match typed {
        "retval" => Some(Weight::Returned),
        "retval32" => Some(Weight::ReturnedInt),
        "duration" => Some(Weight::Duration),
        _ => None,
    };
    let (number, of): (&str, fn(u8) -> Weight) = match typed.strip_suffix(":int") {
        Some(number) => (number, Weight::ArgumentInt),
        None => (typed, Weight::Argument),
    };
    let argument = number.strip_prefix("arg").and_then(|number| number.parse().ok());
    match (spot, at_return, argument) {
        // Its place is found when the tracepoint is.
        (Spot::Tracepoint { weighed: Some(_), .. }, ..) => Ok(Weight::One),
        (Spot::Tracepoint { .. } | Spot::Static { .. }, ..) => {
            bail!("`weight`: hits of usdt have no arguments here; use uprobe, or leave it out")
        }
        (Spot::Kernel { edge: Edge::Return, hook: Hook::Call, .. }, Some(Weight::Duration), _) => {
            bail!("`weight=duration`: fexit does not know when the function began; use kretprobe:FUNCTION")
        }
        (Spot::Returns { .. } | Spot::Kernel { edge: Edge::Return, .. }, Some(weight), _) => Ok(weight),
        (Spot::Returns { .. } | Spot::Kernel { edge: Edge::Return, .. }, None, _) => {
            bail!(
                "`weight={typed}`: a return has retval, retval32 (of functions that return int) and duration"
            )
        }
        (_, Some(_), _) => {
            let at_return = if let Spot::Kernel { .. } = spot { "kretprobe:" } else { "uretprobe:PATH:" };
            bail!("`weight={typed}` is known when a function returns: use {at_return}FUNCTION")
        }
        (_, None, Some(number @ 1..=MAX_ARGUMENT)) => Ok(of(number)),
        _ => bail!("`weight={typed}`: give an argument: arg1 to arg{MAX_ARGUMENT}, arg1:int if it is an int"),
    }
}

/// Writes which names a wrong one may be meant for, as the end of a sentence; empty if none is similar.
pub(super) fn near(word: &str, names: impl Iterator<Item = impl AsRef<str>>) -> String {
    let mut near: Vec<(f64, String)> = Vec::new();
    for name in names {
        let name = name.as_ref();
        let likeness = strsim::jaro_winkler(&word.to_lowercase(), &name.to_lowercase());
        if likeness >= NEAR && near.iter().all(|(_, known)| known != name) {
            let at = near.partition_point(|(other, _)| *other >= likeness);
            near.insert(at, (likeness, name.to_owned()));
            near.truncate(MAX_NEAR);
        }
    }
    let near: Vec<String> = near.into_iter().map(|(_, name)| format!("`{name}`")).collect();
    if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(" or ")) }
}

#[cfg(test)]
mod tests;
