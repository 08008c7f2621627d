//! `archive health --baseline`: whether stacks and names of some recordings are worse than those of others.

use std::collections::HashSet;

use icecore_analysis::changes::recordings::FEWEST;
use icecore_analysis::changes::recordings::sides::{Difference, Sides, accepted};
use icecore_analysis::compare::Point;
use icecore_archive::archive::Archive;
use icecore_archive::schema::RecordingRow;
use icecore_archive::{Id, Selection};
use serde::Serialize;

use super::super::super::{Streams, emit};
use super::super::Found;
use super::super::listing::name;
use super::kinds::{KINDS, Of, of_images};
use super::sums::{self, Lack, Places};
use crate::cli::{Baseline, Global};
use icecore_text::quantity::{percent, things};
use icecore_text::{Align, Page, Style, Table};

/// The accepted share of chance among what is called worse or better.
const FALSE_DISCOVERIES: f64 = 0.05;
/// Smaller differences are none, however sure.
const LEAST: f64 = 0.01;

/// What is worse, and what is better.
#[derive(Debug, Serialize)]
struct Document {
    schema: &'static str,
    archive: String,
    sessions: u64,
    baseline_sessions: u64,
    false_discoveries: f64,
    /// Smaller differences are neither worse nor better.
    least: f64,
    /// There are enough recordings to compare.
    is_enough: bool,
    worse: u64,
    rows: Vec<Row>,
}

/// A kind of quality.
#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    of: Of,
    baseline: f64,
    share: f64,
    /// `worse`, `better`, `same`; `untested`: it differs, and too little is known to say whether by chance.
    status: &'static str,
    p: Option<f64>,
}

/// Compares quality; returns the exit code.
pub(in super::super) fn baseline(
    archive: &Archive,
    options: &Baseline,
    global: &Global,
    streams: &mut Streams<'_>,
) -> anyhow::Result<u8> {
    let chosen = super::super::selection(options.chosen.selection.as_deref(), &options.chosen.began)?;
    let before: Selection = options.baseline.parse()?;
    let ones = Found::of(archive, &chosen)?.or_none(archive)?;
    let others = Found::of(archive, &before)?.or_none(archive)?;
    let is_one: HashSet<Id> = ones.listed.iter().map(|it| it.row.recording).collect();
    let rows: Vec<&RecordingRow> = ones
        .listed
        .iter()
        .map(|it| &it.row)
        .chain(others.listed.iter().map(|it| &it.row).filter(|row| !is_one.contains(&row.recording)))
        .filter(|row| row.samples > 0)
        .collect();
    let count = rows.iter().filter(|row| is_one.contains(&row.recording)).count();
    let mut document = Document {
        schema: "icecore.archive.baseline/1",
        archive: name(archive),
        sessions: count as u64,
        baseline_sessions: (rows.len() - count) as u64,
        false_discoveries: FALSE_DISCOVERIES,
        least: LEAST,
        is_enough: count > 0 && rows.len() - count + 1 >= FEWEST,
        worse: 0,
        rows: Vec::new(),
    };
    let place: Places = rows.iter().enumerate().map(|(group, row)| (row.recording, (0, group))).collect();
    let wholes = [rows.iter().map(|row| row.samples.unsigned_abs()).collect()];
    let may_be = |partition: &_| chosen.may_be_in(partition) || before.may_be_in(partition);
    let mut compared: Vec<(Of, Vec<Option<Point>>)> =
        KINDS.iter().map(|kind| (kind.of(), rows.iter().map(|row| kind.bad([*row])).collect())).collect();
    for lack in [Lack::Callers, Lack::Names] {
        let sums = sums::of_images(archive, may_be, (&wholes, &place), lack)?;
        let images = sums.iter().flat_map(|sums| of_images(lack, sums));
        compared.extend(images.map(|(of, points)| (of, points.into_iter().map(Some).collect())));
    }
    let differences: Vec<(Of, [f64; 2], Option<Difference>)> =
        compared.into_iter().filter_map(|(of, points)| difference(of, &points, count)).collect();
    let p: Vec<f64> = differences.iter().filter_map(|it| Some(it.2?.p)).collect();
    let tested = p.len() as u64;
    let accepted = accepted(p, tested, FALSE_DISCOVERIES);
    for (of, [others, share], difference) in differences {
        let status = match difference {
            _ if (share - others).abs() < LEAST => "same",
            None => "untested",
            Some(it) if !accepted.has(&it) => "same",
            Some(_) if share > others => "worse",
            Some(_) => "better",
        };
        document.worse += u64::from(status == "worse");
        let p = difference.map(|it| it.p);
        document.rows.push(Row { baseline: of.shown(others), share: of.shown(share), of, status, p });
    }
    emit(global, streams, &document, |page| document.text(page))?;
    Ok(u8::from(document.worse > 0 || (options.strict && !document.is_enough)))
}

/// Compares the first recordings with the others; `None` if neither side knows it. Also returns what is bad on both sides, the others first.
fn difference(of: Of, points: &[Option<Point>], ones: usize) -> Option<(Of, [f64; 2], Option<Difference>)> {
    let known: Vec<(bool, Point)> =
        points.iter().enumerate().filter_map(|(at, point)| Some((at < ones, (*point)?))).collect();
    let share = |is_one: bool| {
        let (mut bad, mut all) = (0.0, 0.0);
        for (_, point) in known.iter().filter(|(one, _)| *one == is_one) {
            bad += point.rate * point.whole;
            all += point.whole;
        }
        (all > 0.0).then(|| bad / all)
    };
    let shares = [share(false)?, share(true)?];
    let sides = Sides::new(vec![known.iter().map(|(_, point)| *point).collect()]);
    let difference = sides.difference(0, |at| known[at].0);
    Some((of, shares, difference))
}

impl Document {
    fn text(&self, page: &mut Page) {
        let (ones, others) = (things(self.sessions, "recording"), self.baseline_sessions);
        page.line(&format!("{ones} against {} of the baseline", things(others, "recording")));
        if !self.is_enough {
            let least = FEWEST - 1;
            page.styled(Style::Warn, &format!("too few to compare: the baseline takes {least} recordings"));
        }
        page.gap();
        let columns = [
            ("BASELINE", Align::Right),
            ("NOW", Align::Right),
            ("STATUS", Align::Left),
            ("QUALITY", Align::Left),
        ];
        let mut table = Table::of_names(0, &columns);
        for row in &self.rows {
            let cells = [percent(row.baseline), percent(row.share), row.status.to_owned(), row.of.called()];
            table.row(cells.to_vec());
        }
        page.table(&table);
        page.gap();
        if self.worse > 0 {
            let rows = things(self.worse, "row");
            page.styled(Style::Bad, &format!("worse than the baseline: {rows}"));
        } else if self.is_enough {
            page.styled(Style::Good, "not worse than the baseline");
        }
        let (least, chance) = (self.least * 100.0, percent(self.false_discoveries));
        page.styled(
            Style::Dim,
            &format!("worse and better: by {least} points or more, and more than chance explains ({chance} of them may be chance)"),
        );
    }
}
