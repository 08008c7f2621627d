//! `archive search`: which recordings have a function or an image.

use std::collections::HashMap;

use icecore_archive::archive::{Archive, Listed};
use icecore_archive::schema::{FunctionRow, ImageRow};
use icecore_archive::{Id, Pool, Text};
use serde::Serialize;

use super::super::{Streams, emit};
use super::Found;
use super::listing::{moment, name, service};
use crate::cli::{Global, Search};
use icecore_text::glob::is_like;
use icecore_text::quantity::{count, percent, ratio, things};
use icecore_text::{Align, Page, Table};

/// A function or an image of a session, by one event.
#[derive(Debug, Serialize)]
struct Hit {
    uuid: String,
    host: String,
    service: String,
    start_unix_us: i64,
    /// `None` if images are searched.
    function: Option<String>,
    image: Option<String>,
    build_id: Option<String>,
    /// `None`: the image was mapped, and no sample hit it.
    event: Option<String>,
    unit: Option<String>,
    #[serde(rename = "self")]
    own: i64,
    total: i64,
    self_share: f64,
    total_share: f64,
    samples: i64,
}

/// What was found.
#[derive(Debug, Serialize)]
struct Hits {
    schema: &'static str,
    archive: String,
    /// The number of all rows; `rows` may have fewer.
    row_count: u64,
    rows: Vec<Hit>,
}

/// A row of a table, as far as a search looks at it.
struct Candidate {
    session: Id,
    function: Option<Text>,
    image: Option<Text>,
    build_id: Option<Text>,
    event: Option<(Text, Text)>,
    own: i64,
    total: i64,
    samples: i64,
}

impl From<FunctionRow> for Candidate {
    fn from(row: FunctionRow) -> Self {
        let (session, event, code) = (row.recording, Some(row.event), row.code);
        let (function, image, build_id) = (Some(code.function), code.image, code.build_id);
        let (own, (total, samples)) = (row.own.0, row.total);
        Self { session, function, image, build_id, event, own, total, samples }
    }
}

impl From<ImageRow> for Candidate {
    fn from(row: ImageRow) -> Self {
        let (session, event, build_id) = (row.recording, row.event, row.build_id);
        let (own, (total, samples)) = (row.own.0, row.total);
        Self { session, function: None, image: Some(row.image), build_id, event, own, total, samples }
    }
}

/// Finds functions or images; the heaviest first.
pub(super) fn search(
    archive: &Archive,
    options: &Search,
    global: &Global,
    streams: &mut Streams<'_>,
) -> anyhow::Result<u8> {
    let selection = super::selection(options.chosen.selection.as_deref(), &options.chosen.began)?;
    let found = Found::of(archive, &selection)?;
    let sessions: HashMap<Id, &Listed> = found.listed.iter().map(|it| (it.row.recording, it)).collect();
    let mut pool = Pool::default();
    let mut candidates: Vec<Candidate> = Vec::new();
    // What shares are of.
    let mut wholes: HashMap<(Id, Text), i64> = HashMap::new();
    let may_be = |partition: &_| selection.may_be_in(partition);
    archive.each::<FunctionRow>(may_be, &mut pool, |_, _, rows| {
        for row in rows.into_iter().filter(|row| !row.inlined && sessions.contains_key(&row.recording)) {
            *wholes.entry((row.recording, row.event.0)).or_default() += row.own.0;
            if options.function.is_some() {
                candidates.push(row.into());
            }
        }
    })?;
    if options.function.is_none() {
        archive.each::<ImageRow>(may_be, &mut pool, |_, _, rows| {
            let rows = rows.into_iter().filter(|row| sessions.contains_key(&row.recording));
            candidates.extend(rows.map(Candidate::from));
        })?;
    }
    let is = |pattern: &Option<String>, text: Option<Text>| {
        let matches = |pattern: &String| text.is_some_and(|text| is_like(pattern, pool.text(text)));
        pattern.as_ref().is_none_or(matches)
    };
    candidates.retain(|it| {
        is(&options.function, it.function)
            && is(&options.image, it.image)
            && is(&options.build_id, it.build_id)
    });
    let hit = |it: Candidate| {
        let Listed { row, .. } = sessions[&it.session];
        let text = |text: Option<Text>| text.map(|text| pool.text(text).to_owned());
        let whole = it.event.and_then(|event| wholes.get(&(it.session, event.0))).copied().unwrap_or(0);
        Hit {
            uuid: found.index.text(row.uuid).to_owned(),
            host: found.index.text(row.host).to_owned(),
            service: service(&found, row).to_owned(),
            start_unix_us: row.span_us.0,
            function: text(it.function),
            image: text(it.image),
            build_id: text(it.build_id),
            event: text(it.event.map(|event| event.0)),
            unit: text(it.event.map(|event| event.1)),
            own: it.own,
            total: it.total,
            self_share: ratio(it.own as f64, whole as f64),
            total_share: ratio(it.total as f64, whole as f64),
            samples: it.samples,
        }
    };
    let mut rows: Vec<Hit> = candidates.into_iter().map(hit).collect();
    rows.sort_by(|a, b| {
        let key = |it: &Hit| (it.start_unix_us, it.uuid.clone(), it.function.clone(), it.event.clone());
        b.total_share.total_cmp(&a.total_share).then_with(|| key(a).cmp(&key(b)))
    });
    let row_count = rows.len() as u64;
    rows.truncate(if options.rows == 0 { usize::MAX } else { options.rows });
    let hits = Hits { schema: "icecore.archive.search/1", archive: name(archive), row_count, rows };
    emit(global, streams, &hits, |page| hits.text(page))?;
    Ok(0)
}

impl Hits {
    fn text(&self, page: &mut Page) {
        let columns = [
            ("SELF", Align::Right),
            ("TOTAL", Align::Right),
            ("SAMPLES", Align::Right),
            ("UUID", Align::Left),
            ("BEGAN", Align::Left),
            ("HOST", Align::Left),
            ("EVENT", Align::Left),
            ("BUILD-ID", Align::Left),
            ("IMAGE", Align::Left),
            ("FUNCTION", Align::Left),
        ];
        let mut table = Table::of_names(0, &columns);
        for row in &self.rows {
            let word = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
            let build_id = row.build_id.as_ref().map(|digits| digits.chars().take(12).collect());
            table.row(vec![
                percent(row.self_share),
                percent(row.total_share),
                count(row.samples.unsigned_abs()),
                row.uuid.chars().take(8).collect(),
                moment(row.start_unix_us),
                row.host.clone(),
                word(&row.event),
                word(&build_id),
                word(&row.image),
                word(&row.function),
            ]);
        }
        if !self.rows.is_empty() {
            page.table(&table);
            page.gap();
        }
        let shown = if (self.rows.len() as u64) < self.row_count {
            format!("{} of {} shown", self.rows.len(), things(self.row_count, "row"))
        } else {
            things(self.row_count, "row")
        };
        page.line(&shown);
    }
}
