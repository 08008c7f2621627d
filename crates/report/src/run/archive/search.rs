//! `archive search`: which recordings have a function or an image.

use std::collections::HashMap;

use icecore_archive::archive::{Archive, Listed};
use icecore_archive::dataset::Error;
use icecore_archive::schema::{FunctionRow, ImageRow};
use icecore_archive::{Id, Partition, Pool, Text};
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
    let looking = Looking { options, found: &found, sessions };
    let may_be = |partition: &_| selection.may_be_in(partition);
    let hits: Vec<Vec<Hit>> = if options.function.is_some() {
        archive.map::<FunctionRow, _>(may_be, |pool, _, rows| looking.functions(&pool, rows))?
    } else {
        let images = |mut pool: Pool, partition: &Partition, images| {
            let functions = archive.rows::<FunctionRow>(partition, &mut pool)?;
            Ok(looking.images(&pool, images, &functions))
        };
        archive.map::<ImageRow, _>(may_be, images)?.into_iter().collect::<Result<_, Error>>()?
    };
    let mut rows: Vec<Hit> = hits.into_iter().flatten().collect();
    rows.sort_by(|a, b| b.total_share.total_cmp(&a.total_share).then_with(|| a.key().cmp(&b.key())));
    let row_count = rows.len() as u64;
    rows.truncate(if options.rows == 0 { usize::MAX } else { options.rows });
    let hits = Hits { schema: "icecore.archive.search/1", archive: name(archive), row_count, rows };
    emit(global, streams, &hits, |page| hits.text(page))?;
    Ok(0)
}

impl Hit {
    /// What orders hits that weigh the same.
    fn key(&self) -> impl Ord + '_ {
        (self.start_unix_us, &self.uuid, &self.function, &self.event)
    }
}

/// What the functions of a session and an event weigh together.
type Wholes = HashMap<(Id, Text), i64>;

/// What is looked for.
struct Looking<'a> {
    options: &'a Search,
    found: &'a Found,
    sessions: HashMap<Id, &'a Listed>,
}

impl Looking<'_> {
    /// Finds functions.
    fn functions(&self, pool: &Pool, functions: Vec<FunctionRow>) -> Vec<Hit> {
        let wholes = Self::wholes(&functions);
        let rows = functions.into_iter().filter(|row| !row.inlined);
        self.hits(pool, rows.map(Candidate::from), &wholes)
    }

    /// Finds images; `functions` are those of the same sessions.
    fn images(&self, pool: &Pool, images: Vec<ImageRow>, functions: &[FunctionRow]) -> Vec<Hit> {
        self.hits(pool, images.into_iter().map(Candidate::from), &Self::wholes(functions))
    }

    /// Adds up what shares are of.
    fn wholes(functions: &[FunctionRow]) -> Wholes {
        let mut wholes = Wholes::new();
        for row in functions.iter().filter(|row| !row.inlined) {
            *wholes.entry((row.recording, row.event.0)).or_default() += row.own.0;
        }
        wholes
    }

    fn hits(&self, pool: &Pool, candidates: impl Iterator<Item = Candidate>, wholes: &Wholes) -> Vec<Hit> {
        // Each text is compared once.
        let mut known: HashMap<(usize, Text), bool> = HashMap::new();
        let patterns = [&self.options.function, &self.options.image, &self.options.build_id];
        let mut is = |number: usize, text: Option<Text>| match (patterns[number], text) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(pattern), Some(text)) => {
                *known.entry((number, text)).or_insert_with(|| is_like(pattern, pool.text(text)))
            }
        };
        candidates
            .filter(|it| self.sessions.contains_key(&it.session))
            .filter(|it| is(0, it.function) && is(1, it.image) && is(2, it.build_id))
            .map(|it| self.hit(it, pool, wholes))
            .collect()
    }

    fn hit(&self, it: Candidate, pool: &Pool, wholes: &Wholes) -> Hit {
        let Listed { row, .. } = self.sessions[&it.session];
        let text = |text: Option<Text>| text.map(|text| pool.text(text).to_owned());
        let whole = it.event.and_then(|event| wholes.get(&(it.session, event.0))).copied().unwrap_or(0);
        let index = &self.found.index;
        Hit {
            uuid: index.text(row.uuid).to_owned(),
            host: index.text(row.host).to_owned(),
            service: service(self.found, row).to_owned(),
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
    }
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
