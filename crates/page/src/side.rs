//! One recording as columns.

use serde_json::{Value, json};

use super::columns::{Columns, Places};
use super::listing::{hottest, listings};
use super::moments::{Moments, Resolution};
use super::trie::{Ordered, order};
use super::{Numbered, PageCode, PageSide};
use icecore_analysis::counters::{Of, counted};
use icecore_format::records::{Language, WalkEnd};
use icecore_profile::map::{Interned, Map};
use icecore_profile::named::names::{Names, Side};
use icecore_profile::named::pipeline::Report;
use icecore_profile::named::waits::Waker;
use icecore_profile::named::{Profile, ProfileRow, Taken, Thread};
use icecore_profile::recording::events::{Meaning, is_drawn};
use icecore_profile::recording::load::clean;
use icecore_profile::recording::series::TOUCHING_NS;
use icecore_profile::recording::spans::Spans;
use icecore_text::name;

/// The most shorter forms of a name that a page has.
const MOST_FORMS: usize = 5;

/// Appends a recording to the columns; returns its part of the document, and how it numbers what it has.
pub(super) fn side(
    PageSide { report, summary, health }: &PageSide<'_>,
    code: &PageCode,
    columns: &mut Columns,
) -> (Value, Numbered) {
    let profile = &report.profile;
    let tables = &report.loaded.tables;
    let spans = Spans::new(tables, &report.loaded.filter);
    let span_ns = spans.hull_ns();
    let order_of_threads = ordered_threads(&profile.threads);
    let moments = Moments::new(profile, &order_of_threads, span_ns);
    let mut places = Places::new();
    let (stacks, taken) = rows(profile, &moments, &mut places, columns);
    let functions = names(&profile.names, &stacks, &mut places, columns);
    moments_of(&moments, &mut places, columns);
    let code = code_of_hottest(report, &moments, &functions, code, columns);
    let Resolution { unit_ns, begin_ns, is_rounded } = moments.resolution;
    let zero_ns = tables.parts.zero_ns();
    let document = json!({
        "file": report.loaded.path.display().to_string(),
        "summary": summary,
        "health": health,
        "filter": report.filtered,
        "unit_ns": unit_ns,
        "is_rounded": is_rounded,
        "begin_s": begin_ns.saturating_sub(zero_ns) as f64 / 1e9,
        "unsampled": unsampled(&spans, begin_ns, unit_ns),
        "length": span_ns.1.saturating_sub(begin_ns).div_ceil(unit_ns),
        "start_unix_ms": tables.parts.start_unix_ns() / 1_000_000,
        "events": events(report),
        "threads": threads(report, &order_of_threads),
        "waits": waits(profile),
        "taken": taken,
        "counters": counters(report, begin_ns, unit_ns),
        "code": code,
        "columns": places,
    });
    (document, Numbered { moments, functions })
}

/// Lists the code of the hottest functions.
fn code_of_hottest(
    report: &Report<'_>,
    moments: &Moments,
    functions: &[u32],
    code: &PageCode,
    columns: &mut Columns,
) -> Value {
    let Some(located) = report.located else { return Value::Null };
    let numbers: Map<u32, u32> = functions.iter().copied().zip(0..).collect();
    let hottest = hottest(report, &report.loaded.usual_events(), code.functions);
    let hottest: Vec<(u32, u32)> =
        hottest.into_iter().map(|function| (function, numbers[&function])).collect();
    listings((report, located), moments, &hottest, code, columns)
}

/// Orders threads by session, process and number, so that neighbours belong together.
fn ordered_threads(threads: &[Thread]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..threads.len() as u32).collect();
    order.sort_by_key(|position| {
        let thread = &threads[*position as usize];
        (thread.part, thread.tgid, thread.tid != thread.tgid, thread.tid)
    });
    order
}

/// Stores rows in the order of their first samples, and the stacks that they need.
fn rows(
    profile: &Profile,
    moments: &Moments,
    places: &mut Places,
    columns: &mut Columns,
) -> (Ordered, Vec<Value>) {
    let mut is_used = vec![false; profile.stacks.len()];
    let rows: Vec<&ProfileRow> = moments.rows.iter().map(|row| &profile.rows[*row as usize]).collect();
    rows.iter().for_each(|row| is_used[row.stack as usize] = true);
    let stacks = order(&profile.stacks, is_used);
    let mut ways: Interned<Taken> = Interned::new();
    let column: Vec<u32> = rows.iter().map(|row| stacks.position[row.stack as usize]).collect();
    places.insert("row_stack".into(), columns.steps(&column));
    places.insert("row_event".into(), columns.bytes_of(rows.iter().map(|row| row.event)));
    let column: Vec<u32> = rows.iter().map(|row| row.wait.map_or(0, |wait| wait + 1)).collect();
    places.insert("row_wait".into(), columns.numbers(&column));
    let column: Vec<u32> = rows.iter().map(|row| ways.intern(row.taken)).collect();
    places.insert("row_taken".into(), columns.numbers(&column));
    places.insert("stack_leaves".into(), columns.numbers(&stacks.leaves));
    let ways = ways.into_items();
    (stacks, ways.iter().map(way).collect())
}

/// Says how samples were taken.
fn way(taken: &Taken) -> Value {
    json!({
        "walked": taken.is_walked(),
        "rooted": taken.rooted,
        "guessed": taken.guessed,
        "cut": taken.is_walked() && matches!(taken.end, WalkEnd::DEPTH),
        "in_kernel": taken.in_kernel,
    })
}

/// Stores the frames of the stacks, and their functions, files and images; returns the functions, positions among the names.
fn names(names: &Names, stacks: &Ordered, places: &mut Places, columns: &mut Columns) -> Vec<u32> {
    let mut frames: Interned<u32> = Interned::new();
    let of_stacks: Vec<u32> = stacks.frames.iter().map(|frame| frames.intern(*frame)).collect();
    places.insert("stack_frame".into(), columns.numbers(&of_stacks));
    let frames: Vec<_> = frames.into_items().iter().map(|frame| names.frames[*frame as usize]).collect();
    let mut texts: Interned<Box<str>> = Interned::new();
    let mut text = |text: &str| texts.intern(clean(text.as_bytes()));
    let functions = by_name(names, frames.iter().map(|frame| frame.function));
    let position: Map<u32, u32> = functions.iter().copied().zip(0..).collect();
    let column: Vec<u32> = frames.iter().map(|frame| position[&frame.function]).collect();
    places.insert("frame_function".into(), columns.numbers(&column));
    let file = |file: &u32| &*names.files[*file as usize];
    let column: Vec<u32> =
        frames.iter().map(|frame| frame.file.as_ref().map_or(0, |it| text(file(it)) + 1)).collect();
    places.insert("frame_file".into(), columns.numbers(&column));
    let column: Vec<u32> = frames.iter().map(|frame| frame.line.unwrap_or(0)).collect();
    places.insert("frame_line".into(), columns.numbers(&column));
    places
        .insert("frame_inlined".into(), columns.bytes_of(frames.iter().map(|frame| u8::from(frame.inlined))));
    let numbered = functions;
    let functions: Vec<_> = numbered.iter().map(|function| &names.functions[*function as usize]).collect();
    let column: Vec<u32> = functions.iter().map(|function| text(&function.name)).collect();
    places.insert("function_name".into(), columns.numbers(&column));
    let column: Vec<u32> = functions.iter().flat_map(|function| forms(&function.name, &mut text)).collect();
    if column.iter().any(|form| *form > 0) {
        places.insert("function_forms".into(), columns.numbers(&column));
    }
    let image = |image: &u32| &*names.images[*image as usize].path;
    let column: Vec<u32> = functions
        .iter()
        .map(|function| function.image.as_ref().map_or(0, |it| text(image(it)) + 1))
        .collect();
    places.insert("function_image".into(), columns.numbers(&column));
    let column: Vec<u32> =
        functions.iter().map(|it| it.reason.map_or(0, |reason| text(&reason.to_string()) + 1)).collect();
    places.insert("function_reason".into(), columns.numbers(&column));
    let side = functions.iter().map(|function| match function.side {
        _ if function.is_marker() => 2,
        Side::Kernel => 1,
        Side::User => 0,
    });
    places.insert("function_side".into(), columns.bytes_of(side));
    if functions.iter().any(|function| function.language != Language::UNKNOWN) {
        let languages = functions.iter().map(|function| function.language.0);
        places.insert("function_language".into(), columns.bytes_of(languages));
    }
    let texts = texts.into_items();
    places.insert("text".into(), columns.texts(texts.iter().map(|text| &**text)));
    numbered
}

/// Lists shorter forms of a name, the longest first: positions among the texts, and 1 more; 0 if there are not so many. Of too many the
/// shortest are there.
fn forms(name: &str, text: &mut impl FnMut(&str) -> u32) -> [u32; MOST_FORMS] {
    let all = name::forms(name);
    let kept = all[all.len().saturating_sub(MOST_FORMS)..].iter();
    let mut positions = [0; MOST_FORMS];
    positions.iter_mut().zip(kept).for_each(|(position, form)| *position = text(form) + 1);
    positions
}

/// Lists distinct functions in the order of their names, in which the page draws them.
fn by_name(names: &Names, functions: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut distinct: Vec<u32> = functions.collect();
    distinct.sort_unstable();
    distinct.dedup();
    distinct.sort_by_key(|function| &names.functions[*function as usize].name);
    distinct
}

fn moments_of(moments: &Moments, places: &mut Places, columns: &mut Columns) {
    let Moments { samples, threads, .. } = moments;
    places.insert("thread_begin".into(), columns.steps(threads));
    let column = |of: fn(&super::moments::Sample) -> u32| samples.iter().map(of).collect::<Vec<u32>>();
    places.insert("sample_time".into(), columns.steps(&column(|sample| sample.time)));
    places.insert("sample_row".into(), columns.steps(&column(|sample| sample.row)));
    // Columns of which all values are alike are not worth a byte for each sample.
    for (name, of, usual) in [
        ("sample_cpu", (|sample| u32::from(sample.cpu)) as fn(&super::moments::Sample) -> u32, 0),
        ("sample_lasted", |sample| sample.lasted, 0),
        ("sample_late", |sample| sample.late, 0),
        ("sample_weight", |sample| sample.weight as u32, 0),
        ("sample_weight_high", |sample| (sample.weight >> 32) as u32, 0),
        ("sample_number", |sample| sample.number, 1),
    ] {
        let column = column(of);
        if column.iter().any(|value| *value != usual) {
            places.insert(name.into(), columns.numbers(&column));
        }
    }
}

fn threads(report: &Report<'_>, order: &[u32]) -> Vec<Value> {
    let loaded = report.loaded;
    let parts = &loaded.tables.parts;
    let thread = |position: &u32| {
        let thread = &report.profile.threads[*position as usize];
        let host = parts.host_among(thread.part);
        json!({
            "tgid": thread.tgid,
            "tid": thread.tid,
            "comm": clean(thread.comm.as_bytes()),
            "process": clean(thread.process.as_bytes()),
            "host": host.map(|host| clean(host.as_bytes())),
            "cgroup": loaded.cgroups.path(thread.cgroup).map(|path| clean(path.as_bytes())),
        })
    };
    order.iter().map(thread).collect()
}

/// Describes events; the page shows at first those that other views show.
fn events(report: &Report<'_>) -> Vec<Value> {
    let loaded = report.loaded;
    let events = loaded.tables.parts.events();
    let usual = loaded.usual_events();
    let event = |(position, event): (u8, &icecore_format::records::EventV1)| {
        json!({
            "name": clean(event.name.as_bytes()),
            "unit": clean(event.unit.as_bytes()),
            "is_shown": usual.has(position),
            "is_wait": Meaning::of(event) == Meaning::Wait,
            "is_of_cpu": Meaning::of(event).is_of_cpu(),
            "is_drawn": is_drawn(event),
        })
    };
    (0..=u8::MAX).zip(events).map(event).collect()
}

fn waits(profile: &Profile) -> Vec<Value> {
    let wait = |wait: &icecore_profile::named::waits::RowWait| {
        let waker = match &wait.waker {
            Waker::Thread(thread) => {
                format!("{} {}/{}", clean(thread.comm.as_bytes()), thread.tgid, thread.tid)
            }
            other => other.words().unwrap_or("unknown").to_owned(),
        };
        json!({ "kind": clean(wait.kind.name().as_bytes()), "waker": waker })
    };
    profile.waits.iter().map(wait).collect()
}

/// When no session sampled, from the begin of the first to the end of the last: pairs of begin and end, in units.
fn unsampled(spans: &Spans, begin_ns: u64, unit_ns: u64) -> Vec<[f64; 2]> {
    let ((first, last), ran) = (spans.hull_ns(), spans.ran_ns());
    let from = [first].into_iter().chain(ran.iter().map(|ran| ran.1));
    let to = ran.iter().map(|ran| ran.0).chain([last]);
    let at = |ns: u64| ns.saturating_sub(begin_ns) as f64 / unit_ns as f64;
    from.zip(to).filter(|(from, to)| to - from > TOUCHING_NS).map(|(from, to)| [at(from), at(to)]).collect()
}

/// The values of the counters of machines and processes: pairs of a time in units and a value.
fn counters(report: &Report<'_>, begin_ns: u64, unit_ns: u64) -> Vec<Value> {
    let mut all = Vec::new();
    let parts = &report.loaded.tables.parts;
    for counted in counted(&report.loaded.selection()) {
        let host = parts.host_among(counted.part).map(|host| clean(host.as_bytes()));
        let owner = match &counted.of {
            Of::Machine => json!(null),
            Of::Process { tgid, comm } => json!({ "tgid": tgid, "comm": clean(comm.as_bytes()) }),
            Of::Cgroup { path } => json!({ "cgroup": clean(path.as_bytes()) }),
        };
        for (counter, values) in &counted.values {
            let (Some(unit), Some(growth)) = (counter.unit(), counter.growth()) else { continue };
            let values: Vec<(f64, u64)> = values
                .iter()
                .map(|(time_ns, value)| ((*time_ns as f64 - begin_ns as f64) / unit_ns as f64, *value))
                .collect();
            all.push(json!({
                "owner": owner,
                "host": host,
                "name": counter.name(),
                "unit": unit,
                "is_sum": growth == icecore_format::records::Growth::Sum,
                "values": values,
            }));
        }
    }
    all
}
