//! The pages: what is asked of a command, and how its document is shown.

use std::fmt::Write as _;

use icecore_page::{escaped, plain};
use icecore_text::quantity::{bytes, count, percent, things};
use serde_json::Value;

use super::super::fleet::{moment as as_typed, term};
use super::super::listing::moment;
use super::html::{Cell, Table, link, plot};
use super::query::Query;
use super::{Asking, Site};

/// The pages with forms, and how they are called.
const PAGES: [(&str, &str); 7] = [
    ("list", "Recordings"),
    ("search", "Search"),
    ("trend", "Functions over nights"),
    ("quality", "Quality over nights"),
    ("regressions", "Regressions"),
    ("outliers", "Outliers"),
    ("diff", "Differences"),
];
/// The rows of a table, at most.
const ROWS: usize = 500;
/// The nights on each side of a change that a difference shows.
const NIGHTS: usize = 7;

/// A field of a form: its name, and how it is called.
type Field = (&'static str, &'static str);

/// What a page shows below its form.
type Shown = Result<String, String>;

impl Site {
    /// Returns the page at a path; `None` if there is none.
    pub(in super::super) fn page(
        &self,
        path: &str,
        query: &Query,
        asking: &mut dyn Asking,
    ) -> Option<Vec<u8>> {
        let query = if path == "/" { &self.first } else { query };
        let (page, fields, shown): (_, &[Field], Shown) = match path.strip_prefix('/')? {
            "" | "list" => ("list", &[], list(query, asking)),
            "search" => {
                let fields = &[("function", "function"), ("image", "image"), ("build_id", "build-id")];
                ("search", fields, search(query, asking))
            }
            "trend" => ("trend", &[("rows", "rows"), ("event", "event")], trend(query, asking)),
            "quality" => ("quality", &[], quality(query, asking)),
            "regressions" => ("regressions", &[("from", "since release")], regressions(query, asking)),
            "outliers" => ("outliers", &[("by", "by")], outliers(query, asking)),
            "diff" => ("diff", &[("before", "before"), ("after", "after")], difference(query)),
            "page" => {
                let title = query.get("selection").unwrap_or(&self.archive);
                let title = format!("--title={title}");
                return Some(self.whole("list", view(query, (&["selection"], "html"), &[title], asking)));
            }
            "difference" => {
                return Some(self.whole("diff", view(query, (&["before", "after"], "diff"), &[], asking)));
            }
            _ => return None,
        };
        Some(self.plain(page, query, fields, shown))
    }

    /// The page that a view made, or one that says why there is none.
    fn whole(&self, page: &str, made: Result<Vec<u8>, String>) -> Vec<u8> {
        made.unwrap_or_else(|why| self.plain(page, &Query::default(), &[], Err(why)))
    }

    fn plain(&self, page: &str, query: &Query, fields: &[Field], shown: Shown) -> Vec<u8> {
        let (title, selecting) = (format!("{} - icecore", self.archive), query.selecting());
        let mut body = format!("<nav><h1>{}</h1>", escaped(&self.archive));
        for (path, called) in PAGES {
            let current = if path == page { " aria-current=\"page\"" } else { "" };
            let address = escaped(&selecting.address(path));
            write!(body, "<a href=\"{address}\"{current}>{called}</a>")
                .expect("bug: a text takes everything");
        }
        write!(body, "</nav>\n<form action=\"{page}\">").expect("bug: a text takes everything");
        let selecting: &[Field] = match page {
            "diff" => &[],
            "regressions" => &[("selection", "selection"), ("until", "until")],
            _ => &[("selection", "selection"), ("last", "last"), ("since", "since"), ("until", "until")],
        };
        for (name, called) in selecting.iter().chain(fields) {
            let (value, hint) = (escaped(query.get(name).unwrap_or_default()), hint(name));
            write!(
                body,
                "<label>{called} <input name=\"{name}\" value=\"{value}\" placeholder=\"{hint}\"></label>"
            )
            .expect("bug: a text takes everything");
        }
        let shown =
            shown.unwrap_or_else(|why| format!("<p class=\"error\" role=\"alert\">{}</p>\n", escaped(&why)));
        write!(body, "<button>show</button></form>\n<main>\n{shown}</main>\n")
            .expect("bug: a text takes everything");
        plain(&title, &body)
    }
}

/// What may be typed into a field.
fn hint(field: &str) -> &'static str {
    match field {
        "selection" => "host=web* release=1.4.*",
        "before" => "release=1.4.2",
        "after" => "release=1.5.0",
        "last" => "7d",
        "since" | "until" => "2026-09-01",
        "function" => "parse*",
        "image" => "*libz*",
        "from" => "1.5.0",
        "by" => "host",
        "rows" => "25",
        _ => "",
    }
}

/// Text of a document.
fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row[key].as_str().unwrap_or_default()
}

fn rows<'a>(document: &'a Value, key: &str) -> &'a [Value] {
    document[key].as_array().map_or(&[], |rows| rows)
}

fn time(row: &Value, key: &str) -> String {
    row[key].as_i64().map_or_else(|| "-".to_owned(), moment)
}

fn number(value: &Value) -> String {
    value.as_u64().map_or_else(|| "-".to_owned(), count)
}

/// Leads to the page of one recording.
fn of_recording(row: &Value) -> Cell {
    let uuid = text(row, "uuid");
    Cell::link(&Query::default().with("selection", uuid).address("page"), uuid.get(..8).unwrap_or(uuid))
}

fn words(fixed: &[&str], more: Vec<String>) -> Vec<String> {
    fixed.iter().map(|word| (*word).to_owned()).chain(more).collect()
}

/// A note on rows that are left out.
fn left_out(shown: usize, all: usize) -> String {
    if shown < all {
        format!(
            "<p class=\"faint\">{} of {} shown: select fewer</p>\n",
            count(shown as u64),
            things(all as u64, "row")
        )
    } else {
        String::new()
    }
}

fn list(query: &Query, asking: &mut dyn Asking) -> Shown {
    let document = asking.document(&words(&["list"], query.words(&["selection"])?))?;
    let all = rows(&document, "rows");
    let mut shown = format!("<p>{}", things(all.len() as u64, "session"));
    if !all.is_empty() {
        shown +=
            &format!(" &middot; {}", link(&query.selecting().address("page"), "all of them as one page"));
    }
    shown += "</p>\n";
    let columns = [
        "BEGAN", "HOST", "SERVICE", "RELEASE", "#SAMPLES", "VERDICT", "#ROOTED", "#NAMED", "#LOST", "#SIZE",
        "UUID",
    ];
    let mut table = Table::new(&columns);
    for row in all.iter().rev().take(ROWS) {
        let verdict = escaped(text(row, "verdict"));
        table.row([
            Cell::text(&time(row, "start_unix_us")),
            Cell::text(text(row, "host")),
            Cell::text(text(row, "service")),
            Cell::text(text(&row["labels"], "release")),
            Cell::number(&number(&row["samples"])),
            Cell::html(format!("<span class=\"verdict {verdict}\">{verdict}</span>")),
            Cell::share(&row["rooted_share"]),
            Cell::share(&row["named_share"]),
            Cell::share(&row["lost_share"]),
            Cell::number(&row["file_bytes"].as_u64().map_or_else(String::new, bytes)),
            of_recording(row),
        ]);
    }
    Ok(shown + &left_out(all.len().min(ROWS), all.len()) + &table.done())
}

fn search(query: &Query, asking: &mut dyn Asking) -> Shown {
    let fields = [("function", "--function"), ("image", "--image"), ("build_id", "--build-id")];
    let fields = fields.iter().filter_map(|(name, option)| Some(format!("{option}={}", query.get(name)?)));
    let fields: Vec<String> = fields.collect();
    if fields.is_empty() {
        return Ok(
            "<p>Which recordings have a function or an image? Type its name; * and ? stand for others.</p>\n"
                .to_owned(),
        );
    }
    let mut asked = words(&["search", "-n", &ROWS.to_string()], query.words(&["selection"])?);
    asked.extend(fields);
    let document = asking.document(&asked)?;
    let columns =
        ["#SELF", "#TOTAL", "#SAMPLES", "UUID", "BEGAN", "HOST", "EVENT", "BUILD-ID", "IMAGE", "FUNCTION"];
    let mut table = Table::new(&columns);
    for row in rows(&document, "rows") {
        table.row([
            Cell::share(&row["self_share"]),
            Cell::share(&row["total_share"]),
            Cell::number(&number(&row["samples"])),
            of_recording(row),
            Cell::text(&time(row, "start_unix_us")),
            Cell::text(text(row, "host")),
            Cell::text(text(row, "event")),
            Cell::name(text(row, "build_id").get(..12).unwrap_or_default()),
            Cell::name(text(row, "image")),
            Cell::name(text(row, "function")),
        ]);
    }
    let all = document["row_count"].as_u64().unwrap_or(0) as usize;
    Ok(format!("<p>{}</p>\n", things(all as u64, "row")) + &left_out(all.min(ROWS), all) + &table.done())
}

fn trend(query: &Query, asking: &mut dyn Asking) -> Shown {
    let mut asked = words(&["trend", "--by=night"], query.words(&["selection"])?);
    if let Some(rows) = query.get("rows") {
        asked.push(format!("--rows={rows}"));
    }
    if let Some(event) = query.get("event") {
        asked.push(format!("--event={event}"));
    }
    let document = asking.document(&asked)?;
    let of = format!(
        "<p class=\"faint\">{} of {}, by night; each plot begins at 0</p>\n",
        escaped(text(&document, "sort")),
        escaped(text(&document, "event"))
    );
    Ok(of
        + &nights(&document, query, |row| match row["image"].as_str() {
            Some(image) => Cell::name(&format!("{} ({image})", text(row, "function"))),
            None => Cell::name(text(row, "function")),
        }))
}

fn quality(query: &Query, asking: &mut dyn Asking) -> Shown {
    let document = asking.document(&words(&["trend", "--by=quality"], query.words(&["selection"])?))?;
    Ok(nights(&document, query, |row| {
        let build_id = row["build_id"].as_str().and_then(|id| id.get(..12)).unwrap_or_default();
        let parts = [text(row, "quality"), text(row, "image"), build_id];
        Cell::name(&parts.map(str::trim).join(" "))
    }))
}

/// Shows services over nights; `named` says what a row is of.
fn nights(document: &Value, query: &Query, named: impl Fn(&Value) -> Cell) -> String {
    let mut shown = String::new();
    for service in rows(document, "services") {
        let nights = rows(service, "nights");
        let sessions: u64 = nights.iter().filter_map(|night| night["sessions"].as_u64()).sum();
        let of = [things(nights.len() as u64, "night"), things(sessions, "session")].join(", ");
        shown += &format!("<h2>{}: {of}</h2>\n", escaped(text(service, "service")));
        if service["is_enough"] == false {
            shown += "<p class=\"error\">There are too few nights to find a change.</p>\n";
        }
        let mut table = Table::new(&["#FIRST", "#LAST", "OVER NIGHTS", "CHANGED", "WHAT"]);
        for row in rows(service, "rows") {
            let shares: Vec<Option<f64>> = rows(row, "shares").iter().map(Value::as_f64).collect();
            let changes = rows(row, "changes");
            let at = |change: &Value| change["at"].as_u64().unwrap_or(0) as usize;
            let marks: Vec<(usize, bool)> =
                changes.iter().map(|change| (at(change), change["worse"] == true)).collect();
            let share = |share: Option<&Option<f64>>| {
                Cell::number(&share.copied().flatten().map_or_else(|| "-".to_owned(), percent))
            };
            let changed = changes.iter().map(|change| {
                let class = if change["worse"] == true { "worse" } else { "better" };
                let sizes = ["before", "after"].map(|key| percent(change[key].as_f64().unwrap_or(0.0)));
                let sides = sides(query, text(service, "service"), nights, at(change));
                let what = format!(
                    "{} {}: {}",
                    time(change, "since_unix_us"),
                    text(change, "release"),
                    sizes.join(" → ")
                );
                format!(
                    "<span class=\"{class}\">{}</span> {}<br>",
                    escaped(&what),
                    link(&sides.address("difference"), "difference")
                )
            });
            let cells = [
                share(shares.first()),
                share(shares.last()),
                Cell::html(plot(&shares, &marks)),
                Cell::html(changed.collect()),
                named(row),
            ];
            table.row(cells);
        }
        shown += &table.done();
    }
    shown
}

/// The selections of some nights before a change, and of some from it on.
fn sides(query: &Query, service: &str, nights: &[Value], at: usize) -> Query {
    let begin =
        |night: usize| nights.get(night).and_then(|night| night["begin_unix_us"].as_i64()).map(as_typed);
    let selection = |from: Option<String>, to: Option<String>| {
        let service = term("service", "=", service);
        let typed = query.get("selection").map(str::to_owned);
        let since = from.map(|from| format!("began>={from}"));
        let until = to.map(|to| format!("began<{to}"));
        let terms: Vec<String> = typed.into_iter().chain([service]).chain(since).chain(until).collect();
        terms.join(" ")
    };
    let before = selection(begin(at.saturating_sub(NIGHTS)), begin(at));
    let after = selection(begin(at), begin(at + NIGHTS));
    Query::default().with("before", &before).with("after", &after)
}

fn regressions(query: &Query, asking: &mut dyn Asking) -> Shown {
    // Nights before are the measure: `since` is no selection there.
    let mut selecting = Query::default();
    for name in ["selection", "until"] {
        if let Some(value) = query.get(name) {
            selecting = selecting.with(name, value);
        }
    }
    let mut asked = words(&["regressions", "-n", &ROWS.to_string()], selecting.words(&["selection"])?);
    if let Some(from) = query.get("from") {
        asked.push(format!("--since={from}"));
    }
    let document = asking.document(&asked)?;
    let mut shown = String::new();
    for service in rows(&document, "services") {
        let enough = if service["is_enough"] == false { ": too few nights to find a change" } else { "" };
        let nights = things(service["nights"].as_u64().unwrap_or(0), "night");
        shown += &format!("<p>{}: {nights}{enough}</p>\n", escaped(text(service, "service")));
    }
    let mut table = Table::new(&["#BEFORE", "#AFTER", "SINCE", "RELEASE", "SERVICE", "FUNCTION", ""]);
    for row in rows(&document, "rows") {
        table.row([
            Cell::share(&row["before"]),
            Cell::share(&row["after"]),
            Cell::text(&time(row, "since_unix_us")),
            Cell::text(&[text(row, "release_before"), text(row, "release")].join(" → ")),
            Cell::text(text(row, "service")),
            Cell::name(text(row, "function")),
            shown_by(&Query::default(), row),
        ]);
    }
    if rows(&document, "rows").is_empty() {
        return Ok(shown + "<p>Nothing costs more by more than chance explains.</p>\n");
    }
    Ok(shown + &table.done())
}

fn outliers(query: &Query, asking: &mut dyn Asking) -> Shown {
    let mut asked = words(&["outliers", "-n", &ROWS.to_string()], query.words(&["selection"])?);
    if let Some(by) = query.get("by") {
        asked.push(format!("--by={by}"));
    }
    let document = asking.document(&asked)?;
    let mut shown = String::new();
    for group in rows(&document, "groups") {
        let enough = if group["is_enough"] == false { ": too few to tell who differs" } else { "" };
        let members = number(&group["members"]);
        shown += &format!(
            "<p>{}: {members} compared by {}{enough}</p>\n",
            escaped(text(group, "service")),
            escaped(text(&document, "by"))
        );
    }
    if rows(&document, "rows").is_empty() {
        return Ok(shown + "<p>Nobody differs from the others by more than chance explains.</p>\n");
    }
    let mut table = Table::new(&["#SHARE", "#OTHERS", "SERVICE", "WHO", "FUNCTION", ""]);
    for row in rows(&document, "rows") {
        table.row([
            Cell::share(&row["share"]),
            Cell::share(&row["others"]),
            Cell::text(text(row, "service")),
            Cell::text(text(row, "member")),
            Cell::name(text(row, "function")),
            shown_by(query, row),
        ]);
    }
    Ok(shown + &table.done())
}

/// Leads to what shows a difference, in the times of a query; says why if nothing does.
fn shown_by(query: &Query, row: &Value) -> Cell {
    let sides = ["before_selection", "after_selection"].map(|key| row[key].as_str());
    let [Some(before), Some(after)] = sides else { return Cell::text("recordings were pruned") };
    let query = query.selecting().with("before", before).with("after", after);
    Cell::link(&query.address("difference"), "difference")
}

fn difference(query: &Query) -> Shown {
    if query.get("before").is_none() || query.get("after").is_none() {
        return Ok("<p>Which recordings shall be compared? Type two selections.</p>\n".to_owned());
    }
    query.words(&["before", "after"])?;
    let address = query.address("difference");
    Ok(format!("<p>{}</p>\n", link(&address, "the difference of both, as a page")))
}

/// Makes the page of a view of the selections in these fields.
fn view(
    query: &Query,
    (selections, view): (&[&str], &str),
    options: &[String],
    asking: &mut dyn Asking,
) -> Result<Vec<u8>, String> {
    asking.page(&words(&[view], [&query.words(selections)?, options].concat()))
}
