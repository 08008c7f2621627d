//! `flame`: a flame graph as SVG, drawn by inferno.

pub(crate) mod file;
pub(crate) mod fit;

use std::convert::Infallible;
use std::path::PathBuf;

use inferno::flamegraph::color::{BackgroundColor, BasicPalette, Color, Palette, PaletteMap};
use inferno::flamegraph::{self, Options, TextTruncateDirection};
use serde::Serialize;

use super::events::weight_of_stacks;
use super::export::{Export, by_extension};
use super::folded::{Labels, MergedStacks};
use super::{Error, Needs, Result, Screen, Shown, View};
use crate::base::output::write_view;
use crate::base::shorten::{line, shorten};
use crate::base::term::path::shown;
use crate::base::term::quantity::{bytes, count, duration, things, utc};
use crate::cli::{Select, Weight};
use crate::profile::names::{Names, Side};
use crate::profile::pipeline::Report;
use crate::profile::tree::Root;
use crate::recording::load::clean;

/// The arguments of `flame`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "icecore-report flame [OPTIONS] <FILE>")]
#[command(after_help = "\
Examples:
  icecore-report flame demo.icecore                       writes demo.svg
  icecore-report flame demo.icecore -o - --comm cc1 > cc1.svg
  icecore-report flame demo.icecore --from 2 --to 3.5     one and a half seconds of it
  icecore-report flame demo.icecore --event cpu-clock,off-cpu    wall time: what ran, and what waited
  icecore-report flame demo.icecore --event off-cpu --wakers     who waits for whom

User frames are red, kernel frames orange, inlined ones aqua, unnamed ones grey. Click zooms, \
Ctrl-F searches.")]
pub struct Args {
    /// Where to write the SVG; `-`: stdout [default: the recording's name with .svg]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long)]
    pub force: bool,
    /// Draw widths by samples or period (their weight) [default: samples; period for waits, sizes and several events]
    #[arg(long, value_name = "WHAT", hide_possible_values = true)]
    pub weight: Option<Weight>,
    /// Begin stacks with the name of the process, the thread, or none
    #[arg(long, value_name = "WHAT", default_value = "process", hide_possible_values = true)]
    pub root: Root,
    /// Title of the graph
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// Put the stack of who ended each wait on top, leaf first, and then its name; shows off-cpu unless --event names others
    #[arg(long)]
    pub wakers: bool,
}

impl View for Args {
    fn needs(&self, _: &Select, _: u32) -> Needs {
        let needs = Needs::threads(self.root == Root::Thread).with_wakers(self.wakers);
        Needs { is_no_page: true, ..needs }
    }

    fn show(&self, shown: &Shown<'_>, screen: &mut Screen<'_>) -> Result<bool> {
        write(shown.report, self, screen)?;
        Ok(true)
    }
}

/// Frames narrower than this many pixels of 1,200 are not drawn, in percent of the width.
const MIN_WIDTH_PERCENT: f64 = 0.1 / 1200.0 * 100.0;

/// The width of a character divided by its height: 0.60 in the usual monospace fonts, and more by the space before the shortest
/// label, which has three characters. Labels must fit where no script measures them.
pub(crate) const FONT_WIDTH: f64 = 0.69;

/// The result of `flame`.
#[derive(Debug, Serialize)]
struct Written {
    schema: &'static str,
    file: String,
    file_bytes: u64,
    stacks: u64,
    samples: u64,
    total_weight: u64,
    unit: String,
    title: String,
}

/// A graph before it is drawn.
struct Graph<'a> {
    report: &'a Report<'a>,
    labels: Labels,
    drawn: fit::Drawn,
    title: &'a str,
    weight: Weight,
}

/// The formats of graphs. A file with an unknown extension gets the first one.
fn exports<'a>() -> [&'a dyn Export<Graph<'a>>; 1] {
    [&Svg]
}

struct Svg;

impl Export<Graph<'_>> for Svg {
    fn extension(&self) -> &'static str {
        "svg"
    }

    fn bytes(&self, graph: &Graph<'_>) -> Result<Vec<u8>> {
        let Graph { report, labels, drawn, title, weight } = graph;
        let mut colors = colors(&report.profile.names, labels, drawn.name_bytes);
        let lines = lines(&drawn.stacks, *weight);
        let subtitle: Vec<&str> =
            report.filtered.as_deref().into_iter().chain(drawn.left_out.as_deref()).collect();
        let subtitle = (!subtitle.is_empty()).then(|| subtitle.join(" · "));
        let unit = if *weight == Weight::Samples { "samples" } else { &report.profile.measure.unit };
        draw(&lines, title, subtitle.as_deref(), unit, &mut colors)
    }
}

/// Draws the graph, and says what it wrote; on stdout it writes only the graph.
fn write(report: &Report<'_>, options: &Args, screen: &mut Screen<'_>) -> Result<()> {
    let to_stdout = options.output.as_ref().is_some_and(|path| path.as_os_str() == "-");
    if to_stdout && screen.json {
        let why = "cannot write both the graph and JSON to stdout: name a file with -o";
        return Err(Error::Refused(why.to_owned()));
    }
    let whole = report.profile.whole();
    if whole.samples == 0 {
        let why = if report.filtered.is_some() { ": the filters leave none" } else { "" };
        return Err(Error::Refused(format!("cannot draw a graph of no samples{why}")));
    }
    let title = options.title.as_ref().map_or_else(|| title(report), |title| clean(title.as_bytes()).into());
    let labels = Labels::own(&report.profile.names, true);
    let merged = MergedStacks::new(&report.profile, options.root, &labels);
    let stacks = merged.len() as u64;
    let weight = weight_of_stacks(options.weight, &report.profile.measure);
    let graph = Graph { report, labels, drawn: fit::drawn(merged), title: &title, weight };
    let path = options.output.clone().unwrap_or_else(|| file::default_name(report.loaded.path, "svg"));
    let exports = exports();
    let content = by_extension(&exports, &path).unwrap_or(exports[0]).bytes(&graph)?;
    if to_stdout {
        screen.out.write_all(&content)?;
        return Ok(screen.out.flush()?);
    }
    write_view(&path, options.force, &[report.loaded.path], &content)?;
    let written = Written {
        schema: "icecore.flame/1",
        file: path.display().to_string(),
        file_bytes: content.len() as u64,
        stacks,
        samples: whole.samples,
        total_weight: whole.weight,
        unit: report.profile.measure.unit.clone(),
        title: title.clone(),
    };
    let size = bytes(written.file_bytes);
    let (samples, stacks) = (things(whole.samples, "sample"), count(stacks));
    let file = shown(&path);
    screen.emit(&written, |page| {
        page.line(&format!(
            "wrote {file} ({size}): {samples}, {stacks} distinct stacks; open it in a browser"
        ));
    })
}

/// Makes one line per stack, in the order of frames: a stack stands beside those that continue it.
fn lines(stacks: &MergedStacks, weight: Weight) -> Vec<String> {
    let mut lines = Vec::with_capacity(stacks.len());
    let handed = stacks.each(|frames, amount| {
        let mut text = String::new();
        line(frames, &mut text);
        let number = if weight == Weight::Samples { amount.samples } else { amount.weight };
        text.push_str(&format!(" {number}"));
        lines.push(text);
        Ok::<(), Infallible>(())
    });
    match handed {
        Ok(()) => lines,
        Err(never) => match never {},
    }
}

fn draw(
    lines: &[String],
    title: &str,
    filtered: Option<&str>,
    unit: &str,
    colors: &mut PaletteMap,
) -> Result<Vec<u8>> {
    let mut options = Options::default();
    options.title = title.to_owned();
    options.subtitle = filtered.map(str::to_owned);
    options.count_name = unit.to_owned();
    options.font_width = FONT_WIDTH;
    options.min_width = MIN_WIDTH_PERCENT;
    // Only the names of processes, and what separates the stacks of wakers, have no color in the map.
    options.colors = Palette::Basic(BasicPalette::Yellow);
    options.deterministic = true;
    options.palette_map = Some(colors);
    options.bgcolors = Some(BackgroundColor::Grey);
    options.text_truncate_direction = TextTruncateDirection::Right;
    // inferno orders lines as text, where `f2` lies between `f` and `f;g`, so that it would draw `f` in two pieces. It draws a
    // chart in the given order, from its end.
    options.flame_chart = true;
    let mut svg = Vec::new();
    let drawn = flamegraph::from_lines(&mut options, lines.iter().rev().map(String::as_str), &mut svg);
    drawn.map_err(|error| Error::Refused(format!("cannot draw flame graph: {error}")))?;
    Ok(svg)
}

/// Colors frames by their kind; the shade depends only on the name.
fn colors(names: &Names, labels: &Labels, name_bytes: usize) -> PaletteMap {
    let mut colors = PaletteMap::default();
    for (number, frame) in (0..).zip(&names.frames) {
        let label = &*shorten(labels.of(number), name_bytes);
        let function = &names.functions[frame.function as usize];
        if function.is_marker() {
            continue;
        }
        let (r, g, b): (u8, u8, u8) = match (function.reason, function.side, frame.inlined) {
            (Some(_), _, _) => (185, 185, 185),
            (None, Side::Kernel, _) => (235, 145, 40),
            (None, Side::User, true) => (75, 190, 190),
            (None, Side::User, false) => (225, 90, 75),
        };
        let shade = (fnv(label) % 24) as u8;
        colors.insert(
            label,
            Color { r: r.saturating_add(shade), g: g.saturating_add(shade), b: b.saturating_add(shade) },
        );
    }
    colors
}

/// FNV-1a: a hash that is the same on every machine and in every version.
fn fnv(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

fn title(report: &Report<'_>) -> String {
    let parts = &report.loaded.tables.parts;
    let (first, last) = report.profile.span_ns().unwrap_or_default();
    let begin = parts.start_unix_ns().saturating_add(first.saturating_sub(parts.zero_ns()));
    let samples = things(report.profile.whole().samples, "sample");
    let length = duration(last.saturating_sub(first));
    format!("{} · {} · {length} · {samples}", parts.hosts().join(", "), utc(begin))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::fixture;
    use crate::profile::tree::Root;

    #[test]
    fn a_frame_is_drawn_once_whatever_its_neighbours_are_called() {
        let profile =
            fixture::profile(&[("main;f", 1), ("main;f2", 2), ("main;f;g", 3), ("main;f.cold;g", 4)]);
        let labels = Labels::own(&profile.names, true);
        let drawn = fit::drawn(MergedStacks::new(&profile, Root::None, &labels));
        assert_eq!(drawn.left_out, None);
        let lines = lines(&drawn.stacks, Weight::Samples);
        assert_eq!(lines, ["main;f 1", "main;f;g 3", "main;f.cold;g 4", "main;f2 2"]);
        let svg = draw(&lines, "t", None, "samples", &mut colors(&profile.names, &labels, drawn.name_bytes))
            .expect("drawn");
        let svg = String::from_utf8(svg).expect("UTF-8");
        let drawn = |name: &str| svg.matches(&format!("<title>{name} (")).count();
        assert_eq!(["main", "f", "f2", "f.cold", "g"].map(drawn), [1, 1, 1, 1, 2]);
        assert!(svg.contains("<title>f (4 samples, 40.00%)"));
    }
}
