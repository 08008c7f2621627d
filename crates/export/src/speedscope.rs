//! speedscope: JSON for the page of this name, and for tools that read its files.
//!
//! Each thread and event is a profile of its own, because a profile has one unit. Its samples are in the order of time. The page lays them side by
//! side by their weights, so that its time axis is that of weights.

use std::io::{self, Write};

use icecore_profile::map::Interned;
use icecore_profile::named::names::Names;
use icecore_text::clean::clean;
use serde::Serialize;

use crate::exported::{Exported, ExportedEvent, ExportedSample};
use crate::format::Format;
use crate::kept::Fact;

/// The format.
#[derive(Debug)]
pub struct Speedscope;

impl Format for Speedscope {
    fn name(&self) -> &'static str {
        "speedscope"
    }

    fn is_text(&self) -> bool {
        true
    }

    fn keeps(&self) -> &'static [Fact] {
        &[Fact::Threads, Fact::Hosts, Fact::Events, Fact::Units, Fact::Samples]
    }

    fn write(&self, of: &Exported<'_>, out: &mut dyn Write) -> io::Result<()> {
        let tracks = Tracks::new(of);
        write!(out, "{{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":")?;
        json(out, concat!("icecore ", env!("CARGO_PKG_VERSION")))?;
        write!(out, ",\"name\":")?;
        json(out, &*clean(name(of).as_bytes()))?;
        write!(out, ",\"activeProfileIndex\":{},\"shared\":{{\"frames\":[", tracks.heaviest(of))?;
        for position in 0..of.names().functions.len() {
            out.write_all(if position > 0 { b",\n" } else { b"\n" })?;
            json(out, &Frame::new(of.names(), position))?;
        }
        write!(out, "]}},\"profiles\":[")?;
        for (position, track) in tracks.all.iter().enumerate() {
            out.write_all(if position > 0 { b",\n" } else { b"\n" })?;
            track.write(of, out)?;
        }
        out.write_all(b"]}\n")
    }
}

/// A function. The page tells apart the frames of a file by their positions, so that functions of one name stay apart.
#[derive(Serialize)]
struct Frame<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    /// The line that declares it.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

impl<'a> Frame<'a> {
    fn new(names: &'a Names, position: usize) -> Self {
        let function = &names.functions[position];
        let file = function.declared.or(function.seen).map(|(file, _)| &*names.files[file as usize]);
        let line = function.declared.map(|(_, line)| line).filter(|line| *line > 0);
        Self { name: &function.name, file, line }
    }
}

/// The samples of a thread and event.
struct Track {
    /// A thread of this identity and name, a position in the profile's threads.
    thread: u32,
    /// A position in the exported events.
    event: usize,
    weight: u64,
    /// Positions in the profile's moments.
    moments: Vec<u32>,
}

/// All threads and events, in the order of their first samples.
struct Tracks {
    all: Vec<Track>,
}

impl Tracks {
    fn new(of: &Exported<'_>) -> Self {
        let mut keys = Interned::new();
        let mut all: Vec<Track> = Vec::new();
        for (position, ExportedSample { moment, row, .. }) in (0..).zip(of.samples()) {
            let Some(event) = of.event(row) else { continue };
            // A thread that moves between cgroups is several threads of the report.
            let thread = of.thread(row);
            let key = (thread.part, thread.tgid, thread.tid, &*thread.comm, event);
            let at = keys.intern(key) as usize;
            if at == all.len() {
                all.push(Track { thread: row.thread, event, weight: 0, moments: Vec::new() });
            }
            all[at].weight = all[at].weight.saturating_add(moment.weight);
            all[at].moments.push(position);
        }
        Self { all }
    }

    /// Returns the position of the heaviest profile of the first event that views show.
    fn heaviest(&self, of: &Exported<'_>) -> usize {
        let shown = of.events.iter().position(|event| event.is_usual).unwrap_or(0);
        let of_shown = self.all.iter().enumerate().filter(|(_, track)| track.event == shown);
        of_shown.rev().max_by_key(|(_, track)| track.weight).map_or(0, |(position, _)| position)
    }
}

impl Track {
    fn write(&self, of: &Exported<'_>, out: &mut dyn Write) -> io::Result<()> {
        let profile = &of.report.profile;
        let thread = &profile.threads[self.thread as usize];
        let event = &of.events[self.event];
        let (unit, is_unit) = unit(event);
        let host = of.host(thread).map(|host| format!("{host}: ")).unwrap_or_default();
        let in_unit = if is_unit { String::new() } else { format!(", {}", event.unit) };
        let name = format!("{host}{} (tid {}) {}{in_unit}", thread.comm, thread.tid, event.name);
        write!(out, "{{\"type\":\"sampled\",\"name\":")?;
        json(out, &name)?;
        write!(out, ",\"unit\":\"{unit}\",\"startValue\":0,\"endValue\":{},\"samples\":[", self.weight)?;
        let mut stack = Vec::new();
        for (position, moment) in self.moments.iter().enumerate() {
            out.write_all(if position > 0 { b"," } else { b"" })?;
            stack.clear();
            stack.extend(of.stack(of.sample(*moment).site).map(|frame| of.frame(frame).function));
            stack.reverse();
            json(out, &stack)?;
        }
        write!(out, "],\"weights\":[")?;
        for (position, moment) in self.moments.iter().enumerate() {
            let comma = if position > 0 { "," } else { "" };
            write!(out, "{comma}{}", profile.moments[*moment as usize].weight)?;
        }
        out.write_all(b"]}")
    }
}

/// Returns the unit of an event among those of the page, and whether it says all.
fn unit(event: &ExportedEvent) -> (&'static str, bool) {
    match &*event.unit {
        "nanoseconds" => ("nanoseconds", true),
        "bytes" => ("bytes", true),
        "count" => ("none", true),
        _ => ("none", false),
    }
}

/// Names the recording by its command and its hosts.
fn name(of: &Exported<'_>) -> String {
    let parts = &of.report.loaded.tables.parts;
    let commands = parts.iter().map(|part| part.session.command_line.join(" "));
    let command = commands.into_iter().find(|command| !command.is_empty());
    let hosts = parts.hosts().join(", ");
    command.map_or_else(|| hosts.clone(), |command| format!("{command} ({hosts})"))
}

fn json(out: &mut dyn Write, value: &(impl Serialize + ?Sized)) -> io::Result<()> {
    Ok(serde_json::to_writer(out, value)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use icecore_profile::named::names::Function;

    #[test]
    fn frames_have_whole_names_and_only_lines_of_declarations() {
        let functions = vec![
            Function { declared: Some((0, 7)), ..Function::new("a \"b\"\\;c") },
            Function { seen: Some((0, 9)), ..Function::new("a") },
            Function::new("a"),
        ];
        let names = Names { functions, files: vec!["x.c".into()], ..Names::default() };
        let mut out = Vec::new();
        (0..3).try_for_each(|at| json(&mut out, &Frame::new(&names, at))).expect("memory can be written");
        let expected = r#"{"name":"a \"b\"\\;c","file":"x.c","line":7}{"name":"a","file":"x.c"}{"name":"a"}"#;
        assert_eq!(String::from_utf8(out).expect("text"), expected);
    }
}
