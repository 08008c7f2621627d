//! Services over nights: the share of each row in each night, and since when it is another one.

use icecore_analysis::changes::recordings::{SHORTEST, Step};
use icecore_analysis::compare::Point;
use serde::Serialize;

use super::super::listing::moment;
use super::nights::Night;
use icecore_text::chart::chart;
use icecore_text::quantity::{percent, things};
use icecore_text::{Align, Page, Style, Table};

/// The highest probability that a service that stays as it is shows any change.
pub(super) const FALSE_ALARMS: f64 = 0.05;
/// The characters of a line.
const WIDTH: usize = 48;

/// What a row is of.
pub(super) trait Followed: Serialize {
    /// The title of the column that names it.
    const TITLE: &'static str;
    /// How a change is called: upward, and downward.
    const CALLED: [&'static str; 2];

    /// What it is, in words.
    fn called(&self) -> String;

    /// A share as it is shown, of the one that is followed.
    fn shown(&self, share: f64) -> f64 {
        share
    }
}

/// The nights of a service.
#[derive(Debug, Serialize)]
pub(super) struct Service<O> {
    pub(super) service: String,
    pub(super) nights: Vec<NightRow>,
    /// There are enough nights for a change.
    is_enough: bool,
    pub(super) rows: Vec<Row<O>>,
}

/// A night.
#[derive(Debug, Serialize)]
pub(super) struct NightRow {
    begin_unix_us: i64,
    release: String,
    sessions: u64,
    samples: u64,
}

/// What is followed.
#[derive(Debug, Serialize)]
pub(super) struct Row<O> {
    #[serde(flatten)]
    of: O,
    /// Of each night; `None`: no recording knows it.
    shares: Vec<Option<f64>>,
    pub(super) changes: Vec<Change>,
}

/// A change.
#[derive(Debug, Serialize)]
pub(super) struct Change {
    /// The position of the first night that shows it.
    at: usize,
    since_unix_us: i64,
    release: String,
    before: f64,
    after: f64,
    pub(super) worse: bool,
    p: f64,
}

impl<O: Followed> Row<O> {
    /// Takes the points of a row and the steps that `find` finds in those that are known; `None` if no night knows it.
    pub(super) fn new(
        of: O,
        points: &[Option<Point>],
        nights: &[Night],
        find: impl FnOnce(&[Point]) -> Vec<Step>,
    ) -> Option<Self> {
        let known: Vec<usize> = (0..points.len()).filter(|night| points[*night].is_some()).collect();
        let row: Vec<Point> = points.iter().copied().flatten().collect();
        if row.is_empty() {
            return None;
        }
        let changes = find(&row).into_iter().map(|step| {
            let (at, [before, after]) =
                (known[step.at], [step.before, step.after].map(|share| of.shown(share)));
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

impl<O: Followed> Service<O> {
    pub(super) fn new(service: &str, nights: &[Night], rows: Vec<Row<O>>) -> Self {
        let night = |night: &Night| NightRow {
            begin_unix_us: night.begin_us,
            release: night.release.clone(),
            sessions: night.sessions,
            samples: night.samples,
        };
        Self {
            service: service.to_owned(),
            is_enough: nights.len() >= 2 * SHORTEST,
            rows,
            nights: nights.iter().map(night).collect(),
        }
    }

    pub(super) fn is_worse(&self) -> bool {
        self.rows.iter().flat_map(|row| &row.changes).any(|change| change.worse)
    }

    pub(super) fn text(&self, page: &mut Page) {
        let sessions = self.nights.iter().map(|night| night.sessions).sum();
        let of = [things(self.nights.len() as u64, "night"), things(sessions, "recording")];
        page.styled(Style::Bold, &format!("{}: {}", self.service, of.join(", ")));
        if !self.is_enough {
            let least = 2 * SHORTEST;
            page.styled(Style::Warn, &format!("no change can be found: it takes {least} nights"));
        }
        self.rows(page);
        page.gap();
    }

    fn rows(&self, page: &mut Page) {
        let columns = [
            ("FIRST", Align::Right),
            ("LAST", Align::Right),
            ("LOWEST", Align::Right),
            ("HIGHEST", Align::Right),
            ("TREND", Align::Left),
            (O::TITLE, Align::Left),
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
        let mut changes: Vec<(&Row<O>, &Change)> = changes.collect();
        changes.sort_by_key(|(_, change)| change.at);
        for (row, change) in changes {
            let release = match &*change.release {
                "" => String::new(),
                release => format!(" ({release})"),
            };
            let how = O::CALLED[usize::from(!change.worse)];
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
