//! Says which filters match no sample of the recording, and what they could match.

use std::cmp::Reverse;

use icecore_format::index::Entry;
use icecore_text::glob::is_like;

use icecore_profile::map::Map;
use icecore_profile::named::NamePattern;
use icecore_profile::named::names::{Function, Names};
use icecore_profile::named::pipeline::{Loaded, Report};
use icecore_profile::recording::cgroups::is_below;
use icecore_profile::recording::events::ChosenEvents;
use icecore_profile::recording::filter::Filter;
use icecore_profile::stacks::fields::Fields;
use icecore_profile::stacks::hits::{self, Apart, Hits, Key, Selection};
use icecore_profile::stacks::locate::Located;
use icecore_profile::stacks::waits::WaitGroups;
use icecore_text::name::short;
use icecore_text::near::nearest;
use icecore_text::quantity::{count, things};

/// The most values that are listed.
const LISTED: usize = 6;
/// The most columns of a value in the list.
const LONGEST: usize = 40;

/// Describes each value of a filter that no sample of the whole recording has.
pub(crate) fn unmatched(report: &Report<'_>, located: &Located) -> Vec<String> {
    let filter = &report.loaded.filter;
    let Filter { comms, pids, tids, hosts, cgroups, cpus, .. } = filter;
    let is_by_sample =
        [comms, hosts, cgroups].iter().any(|list| !list.is_empty()) || !(pids.is_empty() && tids.is_empty());
    let mut said = Vec::new();
    if is_by_sample || !cpus.is_empty() {
        let all = All::new(report.loaded);
        said.extend(all.unmatched("of a thread or process called", comms, All::comms, is_like));
        said.extend(all.unmatched("of a process with the number", &texts(pids), All::pids, is_number));
        said.extend(all.unmatched("of a thread with the number", &texts(tids), All::tids, is_number));
        said.extend(all.unmatched("of a host called", hosts, All::hosts, |wanted, host| wanted == host));
        let is_in = |wanted: &str, path: &str| is_below(path, &[wanted.to_owned()]);
        said.extend(all.unmatched("of a cgroup called", cgroups, All::cgroups, is_in));
        for wanted in cpus {
            let is_of = |_: &str, cpu: &str| cpu.parse().is_ok_and(|cpu| wanted.has(cpu));
            said.extend(all.unmatched("of the CPU", &[wanted.to_string()], All::cpus, is_of));
        }
    }
    let patterns = &report.loaded.patterns;
    said.extend(patterns.focus.as_ref().and_then(|focus| out_of_focus(report, located, focus)));
    said.extend(patterns.language.as_ref().and_then(|it| out_of_language(&report.profile.names, it)));
    said
}

/// All samples of a recording, counted by what filters select.
struct All<'a> {
    loaded: &'a Loaded<'a>,
    hits: Hits,
}

impl<'a> All<'a> {
    fn new(loaded: &'a Loaded<'a>) -> Self {
        let (filter, events) = (Filter::default(), ChosenEvents::default());
        let selection = Selection { filter: &filter, events: &events, idle: None, ..loaded.selection() };
        let apart = Apart { threads: true, cpus: true, no_stacks: true, ..Apart::default() };
        let samples = |entry: &Entry| loaded.repaired.samples(loaded.recording, &loaded.tables, entry);
        Self {
            loaded,
            hits: hits::count(selection, apart, (&WaitGroups::default(), &Fields::default()), samples),
        }
    }

    /// Describes each wanted value that no sample has. `values` lists those of samples, `is` compares a wanted one with such a value.
    fn unmatched(
        &self,
        what: &str,
        wanted: &[String],
        values: impl Fn(&Self, &Key) -> Vec<String>,
        is: impl Fn(&str, &str) -> bool,
    ) -> Vec<String> {
        if wanted.is_empty() {
            return Vec::new();
        }
        let mut samples: Map<String, u64> = Map::default();
        for hit in &self.hits.rows {
            for value in values(self, &hit.key) {
                *samples.entry(value).or_default() += hit.samples;
            }
        }
        let known = by_samples(samples);
        let missing = wanted.iter().filter(|wanted| !known.iter().any(|value| is(wanted, value)));
        missing.map(|wanted| format!("no sample is {what} `{wanted}`{}", instead(wanted, &known))).collect()
    }

    /// Returns the names of the thread and of its process.
    fn comms(&self, key: &Key) -> Vec<String> {
        let task = self.loaded.tables.task(key.task);
        let thread = self.loaded.tables.text(task.comm);
        let process = self.loaded.selection().process_name(&task, key.space).to_owned();
        if process == thread { vec![process] } else { vec![process, thread.to_owned()] }
    }

    fn pids(&self, key: &Key) -> Vec<String> {
        let task = self.loaded.tables.task(key.task);
        let name = self.loaded.selection().process_name(&task, key.space).to_owned();
        vec![format!("{} ({name})", self.loaded.tables.parts.pid(task.tgid))]
    }

    fn tids(&self, key: &Key) -> Vec<String> {
        let tables = &self.loaded.tables;
        let task = tables.task(key.task);
        vec![format!("{} ({})", tables.parts.pid(task.tid), tables.text(task.comm))]
    }

    fn hosts(&self, key: &Key) -> Vec<String> {
        let parts = &self.loaded.tables.parts;
        vec![parts.part(parts.of_task(key.task)).session.host.clone()]
    }

    fn cgroups(&self, key: &Key) -> Vec<String> {
        self.loaded.cgroups.path(key.cgroup).map(str::to_owned).into_iter().collect()
    }

    fn cpus(&self, key: &Key) -> Vec<String> {
        vec![key.cpu.to_string()]
    }
}

/// Says that no function matches `--focus`, and what would; `None` if one does.
fn out_of_focus(report: &Report<'_>, located: &Located, focus: &NamePattern) -> Option<String> {
    let names = &report.profile.names;
    if focus.of(names).contains(&true) {
        return None;
    }
    let mut samples: Map<String, u64> = Map::default();
    for (hit, leaf) in report.loaded.hits.rows.iter().zip(&located.leaves) {
        let place = located.spots.get(*leaf as usize).filter(|_| *leaf != 0).map(|spot| spot.place);
        let frame = place.and_then(|place| names.of_places.of(place as usize).first().copied());
        if let Some(frame) = frame {
            *samples.entry(names.function(frame).name.to_string()).or_default() += hit.samples;
        }
    }
    let others = focus.ignoring_case().of(names).iter().filter(|is_match| **is_match).count();
    let so = match (nearest_function(focus, names), others) {
        (_, 1..) => format!(": {} would with --ignore-case", things(others as u64, "function")),
        (Some(near), 0) => format!("; did you mean `{near}`?"),
        (None, 0) => listed(&by_samples(samples)),
    };
    Some(format!("no function matches --focus `{focus}`{so}"))
}

/// Says that no function is of a language, and of which others some are; `None` if one is.
fn out_of_language(names: &Names, wanted: &str) -> Option<String> {
    let mut functions: Map<String, u64> = Map::default();
    for language in names.functions.iter().filter_map(Function::language_name) {
        *functions.entry(language).or_default() += 1;
    }
    let known = by_samples(functions);
    if known.iter().any(|language| language == wanted) {
        return None;
    }
    let there = match known[..] {
        [] => ", and none of another one that it takes".to_owned(),
        _ => format!(": some are of {}", known.join(", ")),
    };
    Some(format!("no function of the chosen samples is of --language {wanted}{there}"))
}

/// Refuses a pattern that is no regular expression and no name of a function either.
pub(crate) fn refuse_broken(report: &Report<'_>) -> anyhow::Result<()> {
    let names = &report.profile.names;
    let Some((option, pattern)) = report.loaded.patterns.broken(names) else { return Ok(()) };
    let near = nearest_function(pattern, names);
    let so = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
    anyhow::bail!("no function is named --{option} `{pattern}`, and it is no regular expression{so}")
}

/// Returns the name that is nearest to what was typed as a name.
pub(crate) fn nearest_function<'n>(typed: &NamePattern, names: &'n Names) -> Option<&'n str> {
    let typed = typed.text().trim_matches(['^', '$']);
    // People type names without parameters.
    let bare = |name: &'n str| name.split_once('(').map_or(name, |(bare, _)| bare);
    let all = || names.functions.iter().filter(|it| it.reason.is_none()).flat_map(|it| it.names());
    let found = nearest(typed, all().map(bare)).filter(|near| !near.is_empty() && *near != typed)?;
    all().find(|name| bare(name) == found)
}

/// Orders values by their samples, the most frequent first.
fn by_samples(samples: Map<String, u64>) -> Vec<String> {
    let mut known: Vec<(Reverse<u64>, String)> =
        samples.into_iter().map(|(value, samples)| (Reverse(samples), value)).collect();
    known.sort_unstable();
    known.into_iter().map(|(_, value)| value).collect()
}

/// Lists the most frequent values.
fn listed(known: &[String]) -> String {
    let listed = known.iter().take(LISTED).map(|value| short(value, LONGEST)).collect::<Vec<_>>().join(", ");
    match known.len().saturating_sub(LISTED) {
        _ if known.is_empty() => ": there is none".to_owned(),
        0 => format!(": all are of {listed}"),
        more => format!(": most are of {listed}, and {} more", count(more as u64)),
    }
}

/// Lists the most frequent values, and asks whether the nearest one was meant.
fn instead(wanted: &str, known: &[String]) -> String {
    let there = listed(known);
    // Of numbers, none is meant for another one.
    let is_number = wanted.chars().all(|c| c.is_ascii_digit() || c == '-');
    match nearest(wanted, known.iter().map(String::as_str)).filter(|_| !is_number) {
        Some(near) => format!("{there}; did you mean `{near}`?"),
        None => there,
    }
}

fn texts(numbers: &[u32]) -> Vec<String> {
    numbers.iter().map(u32::to_string).collect()
}

/// Returns true if a value begins with this number.
fn is_number(wanted: &str, value: &str) -> bool {
    value.split(' ').next() == Some(wanted)
}

#[cfg(test)]
mod tests {
    use icecore_format::records::Language;
    use icecore_profile::named::fixture;

    use super::*;

    #[test]
    fn the_most_frequent_values_are_listed_and_the_nearest_is_suggested() {
        let samples = ["ld", "make", "cc1", "as"].into_iter().zip([1, 9, 50, 9]);
        let known = by_samples(samples.map(|(name, samples)| (name.to_owned(), samples)).collect());
        assert_eq!(known, ["cc1", "as", "make", "ld"]);
        assert_eq!(instead("mkae", &known), ": all are of cc1, as, make, ld; did you mean `make`?");
        assert_eq!(instead("postgres", &known), ": all are of cc1, as, make, ld");
        assert_eq!(instead("x", &[]), ": there is none");
    }

    #[test]
    fn a_language_of_no_function_is_told_with_those_that_are_there() {
        let mut names = fixture::profile(&[("a;b;c;d", 1)]).names;
        let none =
            "no function of the chosen samples is of --language java, and none of another one that it takes";
        assert_eq!(out_of_language(&names, "java").as_deref(), Some(none));
        let languages = [Language::PHP, Language::PYTHON, Language::PYTHON];
        names.functions.iter_mut().zip(languages).for_each(|(function, it)| function.language = it);
        assert_eq!(out_of_language(&names, "php"), None);
        let java = "no function of the chosen samples is of --language java: some are of python, php";
        assert_eq!(out_of_language(&names, "java").as_deref(), Some(java));
    }

    #[test]
    fn of_many_values_a_handful_is_listed_and_no_number_is_suggested() {
        let known: Vec<String> = (1000..1010).map(|pid| pid.to_string()).collect();
        let text = ": most are of 1000, 1001, 1002, 1003, 1004, 1005, and 4 more";
        assert_eq!(instead("1010", &known), text);
    }
}
