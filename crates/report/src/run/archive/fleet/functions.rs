//! `archive trend --by night`: the functions of each service over nights, and since when they cost more or less.

use icecore_analysis::changes::recordings::Search;
use icecore_archive::archive::Archive;
use rayon::prelude::*;
use serde::Serialize;

use super::super::super::{Streams, emit};
use super::super::listing::name;
use super::follow::{FALSE_ALARMS, Followed, Row, Service};
use super::nights::Nights;
use crate::cli::{Global, NightTrend, Sort};
use icecore_profile::named::names::short;
use icecore_text::quantity::percent;
use icecore_text::{Page, Style};

/// How functions went.
#[derive(Debug, Serialize)]
struct Document {
    schema: &'static str,
    archive: String,
    event: String,
    unit: String,
    sort: &'static str,
    false_alarms: f64,
    services: Vec<Service<Function>>,
}

/// A function.
#[derive(Debug, Serialize)]
struct Function {
    function: String,
    image: Option<String>,
}

impl Followed for Function {
    const TITLE: &'static str = "FUNCTION";
    const CALLED: [&'static str; 2] = ["more", "less"];

    fn called(&self) -> String {
        let image = self.image.as_deref().map_or_else(String::new, |image| format!(" ({})", short(image)));
        format!("{}{image}", self.function)
    }
}

/// Follows functions; returns the exit code.
pub(in super::super) fn trend_by_night(
    archive: &Archive,
    options: &NightTrend,
    global: &Global,
    streams: &mut Streams<'_>,
) -> anyhow::Result<u8> {
    let selection = super::super::selection(options.chosen.selection.as_deref(), &options.chosen.began)?;
    let (nights, sums) = Nights::with_functions(archive, &selection, &options.followed)?;
    let mut document = Document {
        schema: "icecore.archive.nights/1",
        archive: name(archive),
        event: sums.first().map_or_else(String::new, |it| it.event.clone()),
        unit: sums.first().map_or_else(String::new, |it| it.unit.clone()),
        sort: if options.followed.sort == Sort::Own { "self" } else { "total" },
        false_alarms: FALSE_ALARMS,
        services: Vec::new(),
    };
    for ((service, nights), of_event) in nights.services.iter().zip(sums) {
        let points = of_event.sums.points();
        let search = Search::new(&points, &points, FALSE_ALARMS);
        let steps: Vec<_> = points.par_iter().map(|row| search.find(row).steps).collect();
        let rows =
            of_event.sums.rows.into_iter().zip(points).zip(steps).filter_map(|((row, points), steps)| {
                let of = Function { function: row.name, image: row.image };
                let points: Vec<_> = points.into_iter().map(Some).collect();
                Row::new(of, &points, nights, |_| steps)
            });
        let most = if options.rows == 0 { usize::MAX } else { options.rows };
        // The heaviest, and those that changed.
        let rows = rows.enumerate().filter(|(position, row)| *position < most || !row.changes.is_empty());
        let rows = rows.map(|(_, row)| row).collect();
        document.services.push(Service::new(service, nights, rows));
    }
    emit(global, streams, &document, |page| document.text(page))?;
    Ok(u8::from(options.strict && document.services.iter().any(Service::is_worse)))
}

impl Document {
    fn text(&self, page: &mut Page) {
        self.services.iter().for_each(|service| service.text(page));
        let is_changed = |service: &Service<Function>| service.rows.iter().any(|row| !row.changes.is_empty());
        let none = if self.services.iter().any(is_changed) {
            ""
        } else {
            "Nothing changed more than chance explains. "
        };
        page.styled(
            Style::Dim,
            &format!(
                "{none}{} of services that stay as they are show a change; shares are of {}, {}",
                percent(self.false_alarms),
                self.event,
                self.sort
            ),
        );
    }
}
