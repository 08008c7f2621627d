//! `archive regressions`: since when functions cost more.

use std::collections::HashSet;
use std::ops::Range;

use anyhow::bail;
use icecore_analysis::changes::recordings::{SHORTEST, Search};
use icecore_analysis::compare::SHOWN_AT;
use icecore_archive::archive::Archive;
use icecore_archive::select::Moment;
use rayon::prelude::*;
use serde::Serialize;

use super::super::super::{Streams, emit};
use super::super::listing::{moment, name};
use super::command::{Difference, term, terms};
use super::nights::{Night, Nights, RELEASE};
use super::sums::OfEvent;
use crate::cli::{Global, Regressions, Sort};
use icecore_profile::named::names::short;
use icecore_text::quantity::{percent, things};
use icecore_text::{Align, Page, Style, Table};

/// The highest probability that a service without a change shows any.
const FALSE_ALARMS: f64 = 0.05;
/// The nights on each side of the command that shows a step.
const SHOWN_BY: usize = 7;

/// What costs more.
#[derive(Debug, Serialize)]
struct Document {
    schema: &'static str,
    archive: String,
    event: String,
    unit: String,
    sort: &'static str,
    /// The probability that a service in which nothing changed shows any row.
    false_alarms: f64,
    services: Vec<Service>,
    row_count: u64,
    rows: Vec<Row>,
}

/// The nights of a service that were searched.
#[derive(Debug, Serialize)]
struct Service {
    service: String,
    nights: u64,
    sessions: u64,
    functions: u64,
    /// The first night of those that were asked for, µs since 1970-01-01 UTC; `None` if there is none.
    since_unix_us: Option<i64>,
    /// The nights from then on.
    nights_since: u64,
    /// There are enough nights for a step.
    is_enough: bool,
    /// Steps that would be found in 8 of 10 cases, in functions of some shares.
    detectable: Vec<Detectable>,
}

#[derive(Debug, Serialize)]
struct Detectable {
    share: f64,
    /// In the middle of the nights, and in the last three.
    middle: Option<f64>,
    end: Option<f64>,
}

/// A function that costs more.
#[derive(Debug, Serialize)]
struct Row {
    service: String,
    function: String,
    image: Option<String>,
    /// The first night, µs since 1970-01-01 UTC.
    since_unix_us: i64,
    /// The release of that night, and the one before; empty if no label says it.
    release: String,
    release_before: String,
    before: f64,
    after: f64,
    p: f64,
    #[serde(flatten)]
    difference: Difference,
}

/// Finds what costs more; returns the exit code.
pub(in super::super) fn regressions(
    archive: &Archive,
    options: &Regressions,
    global: &Global,
    streams: &mut Streams<'_>,
) -> anyhow::Result<u8> {
    let selection: icecore_archive::Selection = options.selection.as_deref().unwrap_or_default().parse()?;
    let selection = selection.between(None, options.until.map(|until| until.0));
    let (nights, sums) = Nights::with_functions(archive, &selection, &options.followed)?;
    let since = since(&nights, options.since.as_deref())?;
    let mut document = Document {
        schema: "icecore.archive.regressions/1",
        archive: name(archive),
        event: sums.first().map_or_else(String::new, |it| it.event.clone()),
        unit: sums.first().map_or_else(String::new, |it| it.unit.clone()),
        sort: if options.followed.sort == Sort::Own { "self" } else { "total" },
        false_alarms: FALSE_ALARMS,
        services: Vec::new(),
        row_count: 0,
        rows: Vec::new(),
    };
    for (((service, nights), since), sums) in nights.services.iter().zip(since).zip(&sums) {
        document.service((service, nights), since, sums, options);
    }
    let size = |row: &Row| row.after - row.before;
    document.rows.sort_by(|a, b| size(b).total_cmp(&size(a)).then_with(|| a.function.cmp(&b.function)));
    document.row_count = document.rows.len() as u64;
    document.rows.truncate(if options.rows == 0 { usize::MAX } else { options.rows });
    emit(global, streams, &document, |page| document.text(page))?;
    Ok(u8::from(options.strict && document.row_count > 0))
}

/// Returns the first night of each service that counts: the first of a release, or from a moment on.
fn since(nights: &Nights, typed: Option<&str>) -> anyhow::Result<Vec<Option<usize>>> {
    let Some(typed) = typed else { return Ok(nights.services.iter().map(|_| Some(0)).collect()) };
    let first = |is_it: &dyn Fn(&Night) -> bool| -> Vec<Option<usize>> {
        nights.services.iter().map(|(_, nights)| nights.iter().position(is_it)).collect()
    };
    let of_release = first(&|night| night.release == typed);
    if of_release.iter().any(Option::is_some) {
        return Ok(of_release);
    }
    if let Ok(Moment(since)) = typed.parse() {
        return Ok(first(&|night| night.last_us >= since));
    }
    let all = nights.services.iter().flat_map(|(_, nights)| nights);
    let mut releases: Vec<&str> = all.map(|night| &*night.release).filter(|name| !name.is_empty()).collect();
    releases.dedup();
    match &releases[..] {
        [] => bail!(
            "no selected recording has the label `{RELEASE}`: record with --label {RELEASE}=VERSION, or use --since with a date"
        ),
        [.., last] => bail!(
            "no selected recording is of the release `{typed}`, and it is no moment; the last release is `{last}`"
        ),
    }
}

impl Document {
    fn service(
        &mut self,
        (service, nights): (&str, &[Night]),
        since: Option<usize>,
        OfEvent { sums, .. }: &OfEvent,
        options: &Regressions,
    ) {
        let points = sums.points();
        let search = Search::new(&points, &points, FALSE_ALARMS);
        let found: Vec<_> = points.par_iter().map(|row| search.find(row)).collect();
        let detectable = SHOWN_AT.map(|share| {
            let found = search.detectable_at(share);
            Detectable { share, middle: found.map(|it| it.middle), end: found.and_then(|it| it.end) }
        });
        self.services.push(Service {
            service: service.to_owned(),
            nights: nights.len() as u64,
            sessions: nights.iter().map(|night| night.sessions).sum(),
            functions: sums.rows.len() as u64,
            since_unix_us: since.map(|since| nights[since].begin_us),
            nights_since: since.map_or(0, |since| nights.len() - since) as u64,
            is_enough: search.is_possible(),
            detectable: detectable.into(),
        });
        let Some(since) = since else { return };
        for (row, found) in sums.rows.iter().zip(found) {
            let steps = found.steps.iter().filter(|step| step.at >= since && step.after > step.before);
            for step in steps {
                let (before, first) = (&nights[step.at - 1], &nights[step.at]);
                self.rows.push(Row {
                    service: service.to_owned(),
                    function: row.name.clone(),
                    image: row.image.clone(),
                    since_unix_us: first.begin_us,
                    release: first.release.clone(),
                    release_before: before.release.clone(),
                    before: step.before,
                    after: step.after,
                    p: step.p,
                    difference: self.difference(service, nights, step.at, options),
                });
            }
        }
    }

    /// Compares the nights before a step with those after it, unless these were pruned.
    fn difference(&self, service: &str, nights: &[Night], at: usize, options: &Regressions) -> Difference {
        let (first, before) = (&nights[at], &nights[at - 1]);
        let is_of_release = first.release != before.release && !before.release.is_empty();
        let side = |of: Range<usize>, release: &str| {
            let mut of_side = vec![term("service", "=", service)];
            if is_of_release {
                of_side.push(term(RELEASE, "=", release));
            }
            of_side.push(term("began", ">=", &super::command::moment(nights[of.start].begin_us)));
            let next_us = nights[of].iter().map(|night| night.last_us).max().unwrap_or(0) / 1_000_000 + 1;
            of_side.push(term("began", "<", &super::command::moment(next_us * 1_000_000)));
            terms(options.selection.as_deref(), &of_side)
        };
        let sides = [at.saturating_sub(SHOWN_BY)..at, at..(at + SHOWN_BY).min(nights.len())];
        let is_stored = |of: &Range<usize>| nights[of.clone()].iter().any(|night| night.is_stored);
        let sort = if options.followed.sort == Sort::Own { "" } else { " --sort total" };
        if !sides.iter().all(is_stored) {
            return Difference::default();
        }
        let [of_before, of_after] = sides;
        let (before, after) = (side(of_before, &before.release), side(of_after, &first.release));
        Difference::new(&self.archive, &before, &after, sort)
    }

    fn text(&self, page: &mut Page) {
        for it in &self.services {
            let of = [
                things(it.nights, "night"),
                things(it.sessions, "recording"),
                things(it.functions, "function"),
            ];
            let since = match it.since_unix_us {
                Some(_) if it.nights_since == it.nights => String::new(),
                Some(since) => {
                    format!("; asked for {}, from {}", things(it.nights_since, "night"), moment(since))
                }
                None => "; none of those that were asked for".to_owned(),
            };
            page.line(&format!("{}: {}; {} of {}{since}", it.service, of.join(", "), self.sort, self.event));
            if !it.is_enough {
                let least = 2 * SHORTEST;
                page.styled(
                    Style::Warn,
                    &format!("  too few nights: a step takes {SHORTEST} before and after it, {least} in all"),
                );
            } else if it.nights_since > 0 && it.nights_since < SHORTEST as u64 {
                let short = format!("  a step shows in {SHORTEST} nights: compare earlier with diff");
                page.styled(Style::Warn, &short);
            }
        }
        page.gap();
        if self.rows.is_empty() {
            page.line("No function costs more than chance explains.");
        } else {
            self.table(page);
            page.gap();
            page.styled(
                Style::Dim,
                &format!("shares of all that was sampled: what shrinks makes the rest grow. {} of services without a change show a row", percent(self.false_alarms)),
            );
        }
        for it in self.services.iter().filter(|it| it.is_enough) {
            let found = |at: &Detectable| {
                Some(format!("{} at a share of {}", percent(at.middle?), percent(at.share)))
            };
            let found: Vec<String> = it.detectable.iter().filter_map(found).collect();
            if !found.is_empty() {
                let service = &it.service;
                page.styled(
                    Style::Dim,
                    &format!(
                        "{service}: a step in the middle is found in 8 of 10 cases if it is so large: {}",
                        found.join(", ")
                    ),
                );
            }
        }
        let mut seen = HashSet::new();
        let commands: Vec<&str> = self
            .rows
            .iter()
            .filter_map(|row| row.difference.command.as_deref())
            .filter(|it| seen.insert(*it))
            .collect();
        if !commands.is_empty() {
            page.gap();
            commands.iter().for_each(|command| page.line(command));
        }
        if (self.rows.len() as u64) < self.row_count {
            page.gap();
            page.line(&format!(
                "{} of {} shown: -n 0 shows all",
                self.rows.len(),
                things(self.row_count, "row")
            ));
        }
    }

    fn table(&self, page: &mut Page) {
        let columns = [
            ("BEFORE", Align::Right),
            ("AFTER", Align::Right),
            ("SINCE", Align::Left),
            ("RELEASE", Align::Left),
            ("SERVICE", Align::Left),
            ("IMAGE", Align::Left),
            ("FUNCTION", Align::Left),
        ];
        let mut table = Table::of_names(0, &columns);
        for row in &self.rows {
            let release = match (&*row.release_before, &*row.release) {
                ("", "") => "-".to_owned(),
                (before, release) if before == release => release.to_owned(),
                (before, release) => format!("{before} -> {release}"),
            };
            table.row(vec![
                percent(row.before),
                percent(row.after),
                moment(row.since_unix_us),
                release,
                row.service.clone(),
                short(row.image.as_deref().unwrap_or("-")).to_owned(),
                row.function.clone(),
            ]);
        }
        page.table(&table);
    }
}
