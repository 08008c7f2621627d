//! `archive outliers`: which hosts differ from the others of their service, and by which functions.

use std::collections::{BTreeMap, HashSet};

use icecore_analysis::changes::recordings::sides::{Outlier, Sides, accepted};
use icecore_analysis::compare::SHOWN_AT;
use icecore_archive::archive::{Archive, Listed};
use serde::Serialize;

use super::super::super::{Streams, emit};
use super::super::Found;
use super::super::listing::{name, service};
use super::command::{Difference, term, terms};
use super::sums::{Dailies, OfEvent, Places, of_functions};
use crate::cli::{Global, Outliers, Sort};
use icecore_profile::named::names::short;
use icecore_text::quantity::{count, percent, things};
use icecore_text::{Align, Page, Style, Table};

/// What differs.
#[derive(Debug, Serialize)]
struct Document {
    schema: &'static str,
    archive: String,
    by: String,
    event: String,
    unit: String,
    sort: &'static str,
    /// The accepted share of chance among the rows.
    false_discoveries: f64,
    /// The largest probability that was accepted.
    threshold: f64,
    /// Comparisons of one member with the others of its group, by one function.
    tested: u64,
    groups: Vec<Group>,
    row_count: u64,
    rows: Vec<Row>,
}

/// The members that are compared with each other.
#[derive(Debug, Serialize)]
struct Group {
    service: String,
    members: u64,
    sessions: u64,
    functions: u64,
    /// There are enough members to compare one with the others.
    is_enough: bool,
    /// What would be found in 8 of 10 cases, in functions of some shares.
    detectable: Vec<Detectable>,
}

#[derive(Debug, Serialize)]
struct Detectable {
    share: f64,
    difference: Option<f64>,
}

/// A member that differs by a function.
#[derive(Debug, Serialize)]
struct Row {
    service: String,
    member: String,
    function: String,
    image: Option<String>,
    share: f64,
    /// The share of the others.
    others: f64,
    /// The interval of the difference.
    low: f64,
    high: f64,
    p: f64,
    #[serde(flatten)]
    difference: Difference,
}

/// The members of a group, and their sessions.
struct Members<'f> {
    names: Vec<&'f str>,
    sessions: u64,
}

/// The members of each service.
type Groups<'f> = BTreeMap<&'f str, Members<'f>>;

/// Finds the members of each service; also says to which group and member a session belongs.
fn members<'f>(found: &'f Found, by: &str) -> (Groups<'f>, Places) {
    let member = |listed: &Listed| {
        let text = |text| found.index.text(text);
        match by {
            "host" => text(listed.row.host),
            "recording" => text(listed.row.uuid),
            "kernel" => text(listed.row.kernel),
            label => {
                let key = label.strip_prefix("label:").unwrap_or(label);
                listed.row.labels.iter().find(|it| text(it.0) == key).map_or("", |it| text(it.1))
            }
        }
    };
    let mut groups = Groups::new();
    for listed in &found.listed {
        let none = || Members { names: Vec::new(), sessions: 0 };
        let group = groups.entry(service(found, &listed.row)).or_insert_with(none);
        group.sessions += 1;
        group.names.push(member(listed));
    }
    for group in groups.values_mut() {
        group.names.sort_unstable();
        group.names.dedup();
    }
    let place = |listed: &Listed| {
        let service = service(found, &listed.row);
        let set = groups.keys().position(|name| *name == service)?;
        Some((set, groups[service].names.binary_search(&member(listed)).ok()?))
    };
    let of = found.listed.iter().filter_map(|listed| Some((listed.row.recording, place(listed)?))).collect();
    (groups, of)
}

/// Finds what differs; returns the exit code.
pub(in super::super) fn outliers(
    archive: &Archive,
    options: &Outliers,
    global: &Global,
    streams: &mut Streams<'_>,
) -> anyhow::Result<u8> {
    let selection = super::super::selection(options.chosen.selection.as_deref(), &options.chosen.began)?;
    let found = Found::of(archive, &selection)?.or_none(archive)?;
    let (groups, of) = members(&found, &options.by);
    let sets: Vec<usize> = groups.values().map(|group| group.names.len()).collect();
    let wanted = (options.event.as_deref(), options.sort);
    let sums = of_functions(
        archive,
        |partition| selection.may_be_in(partition),
        (&sets, &of),
        wanted,
        Dailies::default(),
    )?;
    let Some(sums) = sums else { anyhow::bail!("no selected recording has samples of this event") };
    let sides: Vec<Sides> = sums.iter().map(|it| Sides::new(it.sums.points())).collect();
    let level = options.false_discoveries / 100.0;
    let all: Vec<Vec<Vec<Outlier>>> = sides
        .iter()
        .zip(&sums)
        .map(|(sides, it)| (0..it.sums.rows.len()).map(|row| sides.outliers(row)).collect())
        .collect();
    let p = all.iter().flatten().flatten().map(|it| it.difference.p).collect();
    let accepted = accepted(p, sides.iter().map(Sides::tested).sum(), level);
    let mut document = Document {
        schema: "icecore.archive.outliers/1",
        archive: name(archive),
        by: options.by.clone(),
        event: sums.first().map_or_else(String::new, |it| it.event.clone()),
        unit: sums.first().map_or_else(String::new, |it| it.unit.clone()),
        sort: if options.sort == Sort::Own { "self" } else { "total" },
        false_discoveries: level,
        threshold: accepted.threshold,
        tested: accepted.tested,
        groups: Vec::new(),
        row_count: 0,
        rows: Vec::new(),
    };
    for (((service, group), sides), (of_group, OfEvent { sums, .. })) in
        groups.iter().zip(&sides).zip(all.iter().zip(&sums))
    {
        let detectable = SHOWN_AT
            .map(|share| Detectable { share, difference: sides.detectable(share, accepted.threshold) });
        document.groups.push(Group {
            service: (*service).to_owned(),
            members: group.names.len() as u64,
            sessions: group.sessions,
            functions: sums.rows.len() as u64,
            is_enough: sides.is_possible(),
            detectable: detectable.into(),
        });
        for (row, outliers) in sums.rows.iter().zip(of_group) {
            for Outlier { at, difference } in outliers.iter().filter(|it| accepted.has(&it.difference)) {
                let (low, high) = accepted.interval(difference);
                let member = group.names[*at];
                document.rows.push(Row {
                    service: (*service).to_owned(),
                    member: member.to_owned(),
                    function: row.name.clone(),
                    image: row.image.clone(),
                    share: difference.share,
                    others: difference.others,
                    low,
                    high,
                    p: difference.p,
                    difference: document.difference(service, member, options),
                });
            }
        }
    }
    let size = |row: &Row| (row.share - row.others).abs();
    document.rows.sort_by(|a, b| size(b).total_cmp(&size(a)).then_with(|| a.function.cmp(&b.function)));
    document.row_count = document.rows.len() as u64;
    document.rows.truncate(if options.rows == 0 { usize::MAX } else { options.rows });
    emit(global, streams, &document, |page| document.text(page))?;
    Ok(u8::from(options.strict && document.row_count > 0))
}

impl Document {
    /// Compares a member with the others.
    fn difference(&self, service: &str, member: &str, options: &Outliers) -> Difference {
        let key = if self.by == "recording" { "uuid" } else { &self.by };
        let typed = options.chosen.selection.as_deref();
        // Those without the label are those of which no text is its value.
        let (member, own, others) = if member.is_empty() { ("*", "!=", "=") } else { (member, "=", "!=") };
        let side = |compared| terms(typed, &[term("service", "=", service), term(key, compared, member)]);
        let (since, until) = super::super::times(&options.chosen.began);
        let times = [since.map(|us| ("since", us)), until.map(|us| ("until", us))].into_iter().flatten();
        let times: String =
            times.map(|(name, us)| format!(" --{name} {}", super::command::moment(us))).collect();
        Difference::new(&self.archive, &side(others), &side(own), &times)
    }

    fn text(&self, page: &mut Page) {
        let members = match &*self.by {
            "host" => "host".to_owned(),
            by => by.strip_prefix("label:").unwrap_or(by).to_owned(),
        };
        for group in &self.groups {
            let of = [
                things(group.members, &members),
                things(group.sessions, "recording"),
                things(group.functions, "function"),
            ];
            page.line(&format!("{}: {}; {} of {}", group.service, of.join(", "), self.sort, self.event));
            if !group.is_enough {
                page.styled(Style::Warn, "  too few to say who is the exception: it takes five");
            }
        }
        page.gap();
        if self.rows.is_empty() {
            page.line("Nobody differs from the others more than chance explains.");
        } else {
            self.table(page);
            page.gap();
            let accepted = percent(self.false_discoveries);
            page.styled(
                Style::Dim,
                &format!(
                    "of {}, {accepted} may be chance; INTERVAL holds the difference in points",
                    things(self.row_count, "row")
                ),
            );
        }
        for group in self.groups.iter().filter(|group| group.is_enough) {
            let found = |it: &Detectable| {
                Some(format!("{} at a share of {}", percent(it.difference?), percent(it.share)))
            };
            let found: Vec<String> = group.detectable.iter().filter_map(found).collect();
            if !found.is_empty() {
                let service = &group.service;
                page.styled(
                    Style::Dim,
                    &format!(
                        "{service}: a difference is found in 8 of 10 cases if it is so large: {}",
                        found.join(", ")
                    ),
                );
            }
        }
        let mut commands: Vec<&str> =
            self.rows.iter().filter_map(|row| row.difference.command.as_deref()).collect();
        let mut seen = HashSet::new();
        commands.retain(|command| seen.insert(*command));
        if !commands.is_empty() {
            page.gap();
            commands.iter().for_each(|command| page.line(command));
        }
        if (self.rows.len() as u64) < self.row_count {
            page.gap();
            page.line(&format!("{} of {} shown: -n 0 shows all", self.rows.len(), count(self.row_count)));
        }
    }

    fn table(&self, page: &mut Page) {
        let columns = [
            ("SHARE", Align::Right),
            ("OTHERS", Align::Right),
            ("INTERVAL", Align::Left),
            ("SERVICE", Align::Left),
            (if self.by == "host" { "HOST" } else { "MEMBER" }, Align::Left),
            ("IMAGE", Align::Left),
            ("FUNCTION", Align::Left),
        ];
        let mut table = Table::of_names(0, &columns);
        for row in &self.rows {
            let member = match &*row.member {
                "" => "(without)",
                uuid if self.by == "recording" => &uuid[..uuid.len().min(8)],
                member => member,
            };
            table.row(vec![
                percent(row.share),
                percent(row.others),
                super::interval(row.low, row.high),
                row.service.clone(),
                member.to_owned(),
                short(row.image.as_deref().unwrap_or("-")).to_owned(),
                row.function.clone(),
            ]);
        }
        page.table(&table);
    }
}
