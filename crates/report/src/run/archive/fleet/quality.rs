//! `archive trend --by quality`: since when stacks and names are worse, and because of which image.

use icecore_analysis::changes::recordings::{SHORTEST, Search};
use icecore_analysis::compare::Point;
use icecore_archive::archive::Archive;
use icecore_archive::schema::RecordingRow;
use serde::Serialize;

use super::super::super::{Streams, emit};
use super::super::Found;
use super::super::listing::{moment, name};
use super::kinds::{KINDS, Of, of_images};
use super::nights::{Night, Nights};
use super::sums::{self, Lack};
use crate::cli::{Global, QualityTrend};
use icecore_text::chart::chart;
use icecore_text::quantity::{percent, things};
use icecore_text::{Align, Page, Style, Table};

/// The highest probability that a service whose quality stays shows any change.
const FALSE_ALARMS: f64 = 0.05;
/// The characters of a line.
const WIDTH: usize = 48;

/// How quality went.
#[derive(Debug, Serialize)]
struct Document {
    schema: &'static str,
    archive: String,
    false_alarms: f64,
    services: Vec<Service>,
}

/// The nights of a service.
#[derive(Debug, Serialize)]
struct Service {
    service: String,
    nights: Vec<NightRow>,
    /// There are enough nights for a change.
    is_enough: bool,
    rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct NightRow {
    begin_unix_us: i64,
    release: String,
    sessions: u64,
    samples: u64,
}

/// A kind of quality.
#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    of: Of,
    /// Of each night; `None`: no recording knows it.
    shares: Vec<Option<f64>>,
    changes: Vec<Change>,
}

#[derive(Debug, Serialize)]
struct Change {
    /// The position of the first night that shows it.
    at: usize,
    since_unix_us: i64,
    release: String,
    before: f64,
    after: f64,
    worse: bool,
    p: f64,
}

/// Follows quality; returns the exit code.
pub(in super::super) fn trend(
    archive: &Archive,
    options: &QualityTrend,
    global: &Global,
    streams: &mut Streams<'_>,
) -> anyhow::Result<u8> {
    let selection = super::super::selection(options.chosen.selection.as_deref(), &options.chosen.began)?;
    let found = Found::of(archive, &selection)?.or_none(archive)?;
    let nights = Nights::of_sessions(&found);
    let samples = |(_, nights): &(String, Vec<Night>)| nights.iter().map(|night| night.samples).collect();
    let wholes: Vec<Vec<u64>> = nights.services.iter().map(samples).collect();
    let may_be = |partition: &_| selection.may_be_in(partition);
    let lacks = [Lack::Callers, Lack::Names]
        .map(|lack| Ok((lack, sums::of_images(archive, may_be, (&wholes, &nights.of), lack)?)));
    let lacks = lacks.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    let mut document = Document {
        schema: "icecore.archive.quality/1",
        archive: name(archive),
        false_alarms: FALSE_ALARMS,
        services: Vec::new(),
    };
    for (set, (service, of_service)) in nights.services.iter().enumerate() {
        let mut of_night: Vec<Vec<&RecordingRow>> = vec![Vec::new(); of_service.len()];
        for row in found.listed.iter().map(|it| &it.row) {
            if let Some((_, night)) = nights.of.get(&row.recording).filter(|(of, _)| *of == set) {
                of_night[*night].push(row);
            }
        }
        let kinds = KINDS.iter().map(|kind| {
            let bad = |night: &Vec<&RecordingRow>| kind.bad(night.iter().copied());
            (kind.of(), of_night.iter().map(bad).collect::<Vec<Option<Point>>>())
        });
        let images = lacks.iter().flat_map(|(lack, sums)| of_images(*lack, &sums[set]));
        let images = images.map(|(of, points)| (of, points.into_iter().map(Some).collect()));
        let rows: Vec<(Of, Vec<Option<Point>>)> = kinds.chain(images).collect();
        let level = FALSE_ALARMS / rows.len() as f64;
        let rows = rows.into_iter().filter_map(|(of, points)| Row::new(of, &points, of_service, level));
        let night = |night: &Night| NightRow {
            begin_unix_us: night.begin_us,
            release: night.release.clone(),
            sessions: night.sessions,
            samples: night.samples,
        };
        document.services.push(Service {
            service: service.clone(),
            is_enough: of_service.len() >= 2 * SHORTEST,
            rows: rows.collect(),
            nights: of_service.iter().map(night).collect(),
        });
    }
    emit(global, streams, &document, |page| document.text(page))?;
    Ok(u8::from(options.strict && document.is_worse()))
}

impl Row {
    /// Finds the changes of a row; `None` if no night knows it.
    fn new(of: Of, points: &[Option<Point>], nights: &[Night], level: f64) -> Option<Self> {
        let known: Vec<usize> = (0..points.len()).filter(|night| points[*night].is_some()).collect();
        let row: Vec<Point> = points.iter().copied().flatten().collect();
        if row.is_empty() {
            return None;
        }
        let all = [row];
        let search = Search::new(&all, &all, level);
        let changes = search.find(&all[0]).steps.into_iter().map(|step| {
            let (at, [before, after]) = (known[step.at], [step.before, step.after].map(|bad| of.shown(bad)));
            Change {
                at,
                since_unix_us: nights[at].begin_us,
                release: nights[at].release.clone(),
                before,
                after,
                worse: step.after > step.before,
                p: step.p,
            }
        });
        let changes = changes.collect();
        let shares = points.iter().map(|point| point.map(|point| of.shown(point.rate))).collect();
        Some(Self { of, shares, changes })
    }
}

impl Document {
    fn is_worse(&self) -> bool {
        let rows = self.services.iter().flat_map(|service| &service.rows);
        rows.flat_map(|row| &row.changes).any(|change| change.worse)
    }

    fn text(&self, page: &mut Page) {
        for service in &self.services {
            let sessions = service.nights.iter().map(|night| night.sessions).sum();
            let of = [things(service.nights.len() as u64, "night"), things(sessions, "recording")];
            page.styled(Style::Bold, &format!("{}: {}", service.service, of.join(", ")));
            if !service.is_enough {
                let least = 2 * SHORTEST;
                page.styled(Style::Warn, &format!("no change can be found: it takes {least} nights"));
            }
            service.text(page);
            page.gap();
        }
        let worse = if self.is_worse() { "" } else { "Nothing got worse more than chance explains. " };
        page.styled(
            Style::Dim,
            &format!("{worse}{} of services whose quality stays show a change", percent(self.false_alarms)),
        );
    }
}

impl Service {
    fn text(&self, page: &mut Page) {
        let columns = [
            ("FIRST", Align::Right),
            ("LAST", Align::Right),
            ("LOWEST", Align::Right),
            ("HIGHEST", Align::Right),
            ("TREND", Align::Left),
            ("QUALITY", Align::Left),
        ];
        let mut table = Table::of_names(0, &columns);
        for row in &self.rows {
            let shares: Vec<f64> = row.shares.iter().copied().flatten().collect();
            let (Some(first), Some(last)) = (shares.first(), shares.last()) else { continue };
            let highest = shares.iter().copied().fold(0.0, f64::max);
            let lowest = shares.iter().copied().fold(f64::INFINITY, f64::min);
            let each = shares.len().div_ceil(WIDTH).max(1);
            let means: Vec<f64> =
                shares.chunks(each).map(|part| part.iter().sum::<f64>() / part.len() as f64).collect();
            let line = chart(&means, highest, 1).concat();
            let cells =
                [percent(*first), percent(*last), percent(lowest), percent(highest), line, row.of.called()];
            table.row(cells.to_vec());
        }
        page.table(&table);
        let changes = self.rows.iter().flat_map(|row| row.changes.iter().map(move |change| (row, change)));
        let mut changes: Vec<(&Row, &Change)> = changes.collect();
        changes.sort_by_key(|(_, change)| change.at);
        for (row, change) in changes {
            let release = match &*change.release {
                "" => String::new(),
                release => format!(" ({release})"),
            };
            let how = if change.worse { "worse" } else { "better" };
            let style = if change.worse { Style::Bad } else { Style::Good };
            page.styled(
                style,
                &format!(
                    "since {}{release} {how}: {} {} -> {}",
                    moment(change.since_unix_us),
                    row.of.called(),
                    percent(change.before),
                    percent(change.after)
                ),
            );
        }
    }
}
