//! `flame`: a flame graph as SVG, drawn by inferno.

mod colors;
mod draw;
pub(crate) mod file;
pub(crate) mod fit;

use std::path::PathBuf;

use serde::Serialize;

use super::events::weight_of_stacks;
use super::export::{Export, by_extension};
use super::rates::no_samples;
use super::{Error, Needs, Result, Screen, Shown, View};
use crate::base::output::write_view;
use crate::cli::{Select, Weight, root};
pub use colors::Colors;
pub(crate) use draw::FONT_WIDTH;
use draw::{Picture, draw, lines};
use icecore_profile::named::merged::{Labels, MergedStacks, Shape};
use icecore_profile::named::pipeline::Report;
use icecore_profile::named::tree::Root;
use icecore_profile::recording::load::clean;
use icecore_text::Style;
use icecore_text::path::shown;
use icecore_text::quantity::{bytes, count, duration, things, utc};

/// The arguments of `flame`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "icecore-report flame [OPTIONS] [FILE]...")]
#[command(after_help = "\
Examples:
  icecore-report flame demo.icecore                       writes demo.svg
  icecore-report flame demo.icecore -o - --comm cc1 > cc1.svg
  icecore-report flame demo.icecore --from 2 --to 3.5     one and a half seconds of it
  icecore-report flame demo.icecore --event cpu-clock,off-cpu    wall time: CPU and waits
  icecore-report flame demo.icecore --event off-cpu --wakers     who waits for whom
  icecore-report flame demo.icecore --inverted --icicle   from hot functions down to callers
  icecore-report flame demo.icecore --collapse            deep recursion as one frame

User frames are red, kernel frames orange, inlined ones aqua, those of Python blue, of Java green, of PHP violet, of JavaScript olive, unnamed ones grey; \
--colors safe makes them sky blue, orange, yellow, purple, green, blue, vermilion and grey, which differ in any color vision. Click zooms, Ctrl-F searches. The picture is at most 16,000 \
pixels high, which browsers can draw: the middle of deeper stacks is left out, and the output says so.")]
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
    /// Begin stacks with the name of the process, the thread, the field of a tracepoint (top --by field), or none
    #[arg(long, value_name = "WHAT", default_value = "process", hide_possible_values = true, value_parser = root())]
    pub root: Root,
    /// Title of the graph
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// Draw the roots at the top
    #[arg(long)]
    pub icicle: bool,
    /// Begin at the leaves: above each function are its callers
    #[arg(long, visible_alias = "reverse")]
    pub inverted: bool,
    /// Draw a function that calls itself directly once
    #[arg(long)]
    pub collapse: bool,
    /// Color frames by side (user, kernel, inlined, unnamed), safe (the same in colors for any color vision) or image
    #[arg(long, value_name = "WHAT", default_value = "side", hide_possible_values = true)]
    pub colors: Colors,
    /// Width of the picture in pixels [default: that of the window]
    #[arg(long, value_name = "PX", value_parser = clap::value_parser!(u16).range(200..=32_000))]
    pub width: Option<u16>,
    /// Height of a frame in pixels
    #[arg(long, value_name = "PX", default_value_t = 16, value_parser = clap::value_parser!(u16).range(6..=64))]
    pub height: u16,
    /// Draw at most this many frames of a stack [default: as many as fit into 16,000 pixels]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(8..=16_384))]
    pub max_depth: Option<u32>,
    /// Put the stack and the name of the thread that ended each wait on top of its stack; shows off-cpu unless --event names others
    #[arg(long)]
    pub wakers: bool,
}

impl View for Args {
    fn needs(&self, _: &Select, _: u32) -> Needs {
        let needs = Needs::root(self.root).with_wakers(self.wakers);
        Needs { is_no_page: true, ..needs }
    }

    fn show(&self, shown: &Shown<'_>, screen: &mut Screen<'_>) -> Result<bool> {
        write(shown.report, self, screen)?;
        Ok(true)
    }
}

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
    /// Frames of the deepest stack that is drawn.
    depth: u32,
    /// Samples whose stacks are deeper: a part of their frames is left out.
    cut_samples: u64,
    /// Frames that are too narrow to be drawn, without those above them.
    narrow_frames: u64,
}

/// A graph before it is drawn.
struct Graph<'a> {
    report: &'a Report<'a>,
    labels: Labels,
    drawn: fit::Drawn,
    title: &'a str,
    weight: Weight,
    options: &'a Args,
}

/// The highest picture, pixels: more is larger than the textures of most graphics cards, and than sixteen screens.
const MOST_HEIGHT: u32 = 16_000;
/// The pixels of a picture that are no frames of stacks: titles, buttons, the root.
const MARGINS: u32 = 300;
/// The width of a picture before a script fits it to the window, pixels.
const USUAL_WIDTH: u16 = 1200;

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
        let Graph { report, labels, drawn, title, weight, options } = graph;
        let mut colors = colors::colors(&report.profile.names, labels, drawn.name_bytes, options.colors);
        let shape = [
            (options.inverted, "leaves first, then their callers"),
            (options.collapse, "direct recursion drawn once"),
        ];
        let shape = shape.into_iter().filter(|(is_so, _)| *is_so).map(|(_, text)| text.to_owned());
        let left_out = drawn.left_out.iter().cloned();
        let guessed = super::guessed(report);
        let subtitle: Vec<String> =
            report.filtered.iter().cloned().chain(shape).chain(left_out).chain(guessed).collect();
        let picture = Picture {
            title,
            subtitle: (!subtitle.is_empty()).then(|| subtitle.join(" · ")),
            unit: if *weight == Weight::Samples { "samples" } else { &report.profile.measure.unit },
            width: options.width,
            row_height: options.height,
            grows_down: options.icicle,
        };
        draw(&lines(&drawn.stacks, *weight), &picture, &mut colors)
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
        return Err(Error::Refused(format!("cannot draw a graph of {}", no_samples(report))));
    }
    let title = options.title.as_ref().map_or_else(|| title(report), |title| clean(title.as_bytes()).into());
    let labels = Labels::own(&report.profile.names, true);
    let shape = Shape {
        collapse: options.collapse,
        max_depth: options.max_depth.unwrap_or((MOST_HEIGHT - MARGINS) / u32::from(options.height)),
        ..Shape::of(options.root)
    };
    let min_share = 0.1 / f64::from(options.width.unwrap_or(USUAL_WIDTH));
    let merged = if options.inverted {
        MergedStacks::from_leaves(&report.profile, &labels, shape, min_share)
    } else {
        MergedStacks::shaped(&report.profile, &labels, shape)
    };
    let (stacks, cut_samples) = (merged.lines() as u64, merged.cut_samples);
    let weight = weight_of_stacks(options.weight, &report.profile.measure);
    let drawn = fit::drawn(merged, min_share);
    let (depth, narrow_frames) = (drawn.stacks.depth(), drawn.stacks.narrow_frames);
    let left_out = drawn.left_out.clone();
    let graph = Graph { report, labels, drawn, title: &title, weight, options };
    let path = options.output.clone().unwrap_or_else(|| file::default_name(report.loaded.path, "svg"));
    let exports = exports();
    let content = by_extension(&exports, &path).unwrap_or(exports[0]).bytes(&graph)?;
    if to_stdout {
        screen.warn(graph.drawn.left_out.iter().map(|text| format!("not all is drawn: {text}")));
        screen.out.write_all(&content)?;
        return Ok(screen.out.flush()?);
    }
    write_view(&path, options.force, &report.loaded.files(), &content)?;
    let written = Written {
        schema: "icecore.flame/1",
        file: path.display().to_string(),
        file_bytes: content.len() as u64,
        stacks,
        samples: whole.samples,
        total_weight: whole.weight,
        unit: report.profile.measure.unit.clone(),
        title: title.clone(),
        depth,
        cut_samples,
        narrow_frames,
    };
    let size = bytes(written.file_bytes);
    let (samples, stacks) = (things(whole.samples, "sample"), count(stacks));
    let file = shown(&path);
    screen.emit(&written, |page| {
        page.line(&format!(
            "wrote {file} ({size}): {samples}, {stacks} distinct stacks; open it in a browser"
        ));
        if !left_out.is_empty() {
            page.styled(Style::Warn, &format!("not all is drawn: {}", left_out.join("; ")));
        }
        if narrow_frames > 0 {
            let frames = things(narrow_frames, "frame");
            let text = format!("{frames} narrower than a tenth of a pixel not drawn, with what is above");
            page.styled(Style::Dim, &text);
        }
    })
}

fn title(report: &Report<'_>) -> String {
    let parts = &report.loaded.tables.parts;
    let (first, last) = report.profile.span_ns().unwrap_or_default();
    let begin = parts.start_unix_ns().saturating_add(first.saturating_sub(parts.zero_ns()));
    let samples = things(report.profile.whole().samples, "sample");
    let length = duration(last.saturating_sub(first));
    format!("{} · {} · {length} · {samples}", parts.hosts().join(", "), utc(begin))
}
