//! callgrind: functions, lines and calls, as the profiler of Valgrind writes them. KCachegrind, QCachegrind and callgrind_annotate read it.
//!
//! These programs take what a function's callers say for its total, and add its own cost only if nobody calls it. So a sample counts once for
//! each function on its stack: where the function is entered first. Calls of a function that runs already are not written. Processes call the
//! outermost functions, so that each function has a caller.
//!
//! ```text
//! main ◄─ f ◄─ g ◄─ f     calls [process x] → main, main → f, f → g; own cost of f
//! ```
//!
//! callgrind_annotate takes functions of one name and one file for one function; those of which no file is known have their image in its place
//! if several have one name. KCachegrind shows the sums of functions that call each other in both orders as those of a cycle, unless its
//! detection of cycles is off.

mod graph;

use std::io::{self, Write};

use icecore_profile::Profile;
use icecore_text::clean::clean;
use icecore_text::shorten::shorten;

use crate::exported::{Exported, ExportedEvent};
use crate::format::Format;
use crate::kept::Fact;
use graph::{Graph, Spot, Subjects};

/// The format.
#[derive(Debug)]
pub struct Callgrind;

impl Format for Callgrind {
    fn name(&self) -> &'static str {
        "callgrind"
    }

    fn version(&self) -> Option<&'static str> {
        Some("1")
    }

    fn is_text(&self) -> bool {
        true
    }

    fn keeps(&self) -> &'static [Fact] {
        &[Fact::Lines, Fact::Images, Fact::Processes, Fact::Events, Fact::Units, Fact::Verdict]
    }

    fn write(&self, of: &Exported<'_>, out: &mut dyn Write) -> io::Result<()> {
        // Programs show the first one.
        let (usual, others): (Vec<_>, Vec<_>) = of.events.iter().partition(|event| event.is_usual);
        let events: Vec<&ExportedEvent> = usual.into_iter().chain(others).collect();
        let profile = &of.report.profile;
        let positions: Vec<u8> = events.iter().map(|event| event.event).collect();
        out.write_all(head(of, &events).as_bytes())?;
        let totals: String = events.iter().map(|event| format!(" {}", event.amount.weight)).collect();
        writeln!(out, "summary:{totals}")?;
        body(profile, &positions, out)?;
        writeln!(out, "\ntotals:{totals}")
    }
}

/// KCachegrind knows a file by a line that names its events in the first bytes.
const HEAD_BYTES: usize = 2047;
/// The longest line of a head.
const LINE_BYTES: usize = 512;

/// Composes the head. What has no room before the line of the events follows as comments.
fn head(of: &Exported<'_>, events: &[&ExportedEvent]) -> String {
    let session = of.report.loaded.tables.parts.iter().next().map(|part| &part.session);
    let command = session.map(|session| session.command_line.join(" ")).filter(|command| !command.is_empty());
    let mut lines = vec!["desc: calls: each number of calls= is one of samples, not of calls".to_owned()];
    lines.extend(command.map(|command| format!("cmd: {command}")));
    let names = event_names(events.iter().map(|event| &*event.name));
    let long = |(name, event): (&String, &&ExportedEvent)| {
        format!("event: {name} : {} ({})", event.name, event.unit)
    };
    lines.extend(names.iter().zip(events).map(long));
    lines.extend(of.remarks().iter().map(|remark| format!("desc: {remark}")));
    composed(&lines, &names.join(" "))
}

fn composed(lines: &[String], events: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut head = format!("# callgrind format\nversion: 1\ncreator: icecore-{version}\npositions: line\n");
    let last = format!("events: {events}\n");
    let mut room = HEAD_BYTES.saturating_sub(head.len() + last.len());
    let mut comments = String::new();
    for line in lines {
        let line = clean(line.as_bytes());
        let short = shorten(&line, LINE_BYTES);
        match room.checked_sub(short.len() + 1) {
            Some(left) => {
                room = left;
                head.push_str(&format!("{short}\n"));
            }
            None => comments.push_str(&format!("# {short}\n")),
        }
    }
    head + &last + &comments
}

/// Names events as these programs can read them: words of letters, digits and underscores, no two alike.
fn event_names<'a>(events: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for event in events {
        let mut name: String =
            event.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
            name.insert(0, 'e');
        }
        while names.contains(&name) {
            name.push('_');
        }
        names.push(name);
    }
    names
}

/// Writes all functions, their own costs by line, and their calls.
fn body(profile: &Profile, events: &[u8], out: &mut dyn Write) -> io::Result<()> {
    let graph = Graph::new(profile, events);
    let subjects = Subjects::new(profile, graph.processes());
    let mut names = Written::default();
    let (mut before, mut file) = (None, 0);
    for (spot, samples, costs) in graph.sorted() {
        let own_file = subjects.file(spot.node);
        if before != Some(spot.node) {
            before = Some(spot.node);
            file = own_file;
            writeln!(out)?;
            names.subject(["ob", "fl", "fn"], &subjects, spot.node, out)?;
        }
        let Spot { file: line_file, line, callee, .. } = spot;
        let line_file = line_file.map_or(own_file, |it| subjects.source(it));
        if line_file != file {
            file = line_file;
            let prefix = if file == own_file { "fe" } else { "fi" };
            names.file(prefix, &subjects, file, out)?;
        }
        if let Some(callee) = callee {
            names.subject(["cob", "cfi", "cfn"], &subjects, callee, out)?;
            writeln!(out, "calls={samples} {}", subjects.line(callee))?;
        }
        write!(out, "{line}")?;
        costs.iter().try_for_each(|cost| write!(out, " {cost}"))?;
        writeln!(out)?;
    }
    Ok(())
}

/// The names that the file has already: later, their numbers stand for them.
#[derive(Default)]
struct Written {
    objects: Vec<bool>,
    files: Vec<bool>,
    functions: Vec<bool>,
}

impl Written {
    /// Writes object, file and name of a function, after these prefixes.
    fn subject(
        &mut self,
        [object, file, function]: [&str; 3],
        of: &Subjects<'_>,
        node: u32,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let at = of.object(node);
        named(&mut self.objects, object, (at, &of.object_name(at)), out)?;
        self.file(file, of, of.file(node), out)?;
        named(&mut self.functions, function, (node, &of.name(node)), out)
    }

    fn file(&mut self, prefix: &str, of: &Subjects<'_>, file: u32, out: &mut dyn Write) -> io::Result<()> {
        named(&mut self.files, prefix, (file, &of.file_name(file)), out)
    }
}

/// Writes a number, and the first time the name that it stands for.
fn named(
    written: &mut Vec<bool>,
    prefix: &str,
    (number, name): (u32, &str),
    out: &mut dyn Write,
) -> io::Result<()> {
    let at = number as usize;
    if at >= written.len() {
        written.resize(at + 1, false);
    }
    let number = at + 1;
    if std::mem::replace(&mut written[at], true) {
        return writeln!(out, "{prefix}=({number})");
    }
    writeln!(out, "{prefix}=({number}) {}", if name.trim().is_empty() { "???" } else { name })
}

#[cfg(test)]
mod tests;
