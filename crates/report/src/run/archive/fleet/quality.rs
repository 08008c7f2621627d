//! `archive trend --by quality`: since when stacks and names are worse, and because of which image.

use icecore_analysis::changes::recordings::Search;
use icecore_analysis::compare::Point;
use icecore_archive::archive::Archive;
use icecore_archive::schema::RecordingRow;
use serde::Serialize;

use super::super::super::{Streams, emit};
use super::super::Found;
use super::super::listing::name;
use super::follow::{FALSE_ALARMS, Followed, Row, Service};
use super::kinds::{KINDS, Of, of_images};
use super::nights::{Night, Nights};
use super::sums::{self, Lack};
use crate::cli::{Global, QualityTrend};
use icecore_text::quantity::percent;
use icecore_text::{Page, Style};

/// How quality went.
#[derive(Debug, Serialize)]
struct Document {
    schema: &'static str,
    archive: String,
    false_alarms: f64,
    services: Vec<Service<Of>>,
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
        let find = |points: &[Point]| {
            let all = [points.to_vec()];
            Search::new(&all, &all, level).find(points).steps
        };
        let rows = rows.into_iter().filter_map(|(of, points)| Row::new(of, &points, of_service, find));
        document.services.push(Service::new(service, of_service, rows.collect()));
    }
    emit(global, streams, &document, |page| document.text(page))?;
    Ok(u8::from(options.strict && document.is_worse()))
}

impl Followed for Of {
    const TITLE: &'static str = "QUALITY";
    const CALLED: [&'static str; 2] = ["worse", "better"];

    fn called(&self) -> String {
        self.called()
    }

    fn shown(&self, share: f64) -> f64 {
        self.shown(share)
    }
}

impl Document {
    fn is_worse(&self) -> bool {
        self.services.iter().any(Service::is_worse)
    }

    fn text(&self, page: &mut Page) {
        self.services.iter().for_each(|service| service.text(page));
        let worse = if self.is_worse() { "" } else { "Nothing got worse more than chance explains. " };
        page.styled(
            Style::Dim,
            &format!("{worse}{} of services whose quality stays show a change", percent(self.false_alarms)),
        );
    }
}
