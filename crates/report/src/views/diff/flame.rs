//! Draws a differential flame graph as SVG, through inferno: frames that grew are red, frames that shrank are blue.
//!
//! One width per frame cannot show both sides. So one file has two graphs: the upper one has the widths of AFTER, the lower one
//! has the widths of BEFORE and shows frames that are gone. The user can zoom and search the upper one. Both are as wide as the
//! window.
//!
//! Widths are inclusive; colors are not: the color of a frame shows its own time in this very stack, without its callees. So the
//! places that changed stand out, and not everything below them. Functions whose change may be chance stay grey; otherwise the
//! brightest color would be that of the largest difference, even if it is chance.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use inferno::flamegraph::color::BackgroundColor;
use inferno::flamegraph::{self, FuncFrameAttrsMap, Options, TextTruncateDirection};

use crate::views::flame::FONT_WIDTH;
use crate::views::{Error, Result};
use icecore_analysis::matching::function;
use icecore_profile::map::Map;

/// The weight of everything, in parts: inferno takes whole numbers.
const WHOLE: f64 = 1e6;
/// The name of such a part.
const PART: &str = "ppm";
/// The width in pixels where no script runs; inferno's default. With scripts both graphs follow the width of the window.
const WIDTH: usize = 1200;
/// Makes the second graph follow the window, and cuts its labels to their frames, as inferno's script does for the first.
const FOLLOW: &str = r#"<script type="text/ecmascript"><![CDATA[
        var init_above = init;
        init = function(evt) {
            init_above(evt);
            var before = document.getElementById("frames-before");
            var follow = function() {
                before.parentNode.setAttribute("width", svg.width.baseVal.value);
                before.setAttribute("width", svg.width.baseVal.value - xpad * 2);
                update_text_for_elements(before.children);
            };
            window.addEventListener('resize', follow);
            // Behind what inferno does likewise.
            setTimeout(follow, 0);
        };
]]></script>"#;
/// Frames narrower than this many pixels are not drawn, in percent of the width.
const MIN_WIDTH_PERCENT: f64 = 0.1 / WIDTH as f64 * 100.0;
/// The class of functions whose change may be chance, and their color.
const CHANCE: &str = "chance";
const GREY: &str = "rgb(225,225,225)";
/// Marks after names in folded stacks: a function of the kernel, an inlined function, one that was found by a guess.
const ANNOTATIONS: [&str; 3] = ["_[k]", "_[i]", "_[?]"];

/// What the graphs show.
#[derive(Debug, Clone, Copy)]
pub struct Picture<'a> {
    /// The title above both graphs.
    pub title: &'a str,
    /// The filters of both sides.
    pub filtered: Option<&'a str>,
    /// Keys of the functions that changed; all others stay grey. `None` if that is unknown: then all have colors.
    pub changed: Option<&'a HashSet<String>>,
    /// Each side is a whole, whatever its weights add up to. Otherwise the weights of both sides have one meaning, and the larger
    /// side is the whole.
    pub as_shares: bool,
}

/// Draws both graphs. A side consists of stacks, root first, with `;` between their labels, and their weights.
///
/// Labels with the same [`function`] key become one frame, with the shortest of their names. A caller that knows more about equal
/// functions must give them one label.
///
/// # Errors  if a side has no weight
pub fn draw(before: &[(String, f64)], after: &[(String, f64)], picture: Picture<'_>) -> Result<Vec<u8>> {
    let sums = [before, after].map(|side| side.iter().map(|(_, weight)| weight).sum::<f64>());
    for (sum, side) in sums.iter().zip(["before", "after"]) {
        if !(sum.is_finite() && *sum > 0.0) {
            let text = format!("cannot draw a graph of a difference: there are no samples {side}");
            return Err(Error::Refused(text));
        }
    }
    let wholes = if picture.as_shares { sums } else { [sums[0].max(sums[1]); 2] };
    let labels = KeyLabels::new([before, after]);
    let stacks = stacks(&labels, [before, after], wholes);
    let classes = picture.changed.map_or_else(String::new, |changed| labels.classes(changed));
    let (mut now, mut then) = (Vec::new(), Vec::new());
    for (stack, [before, after]) in &stacks {
        now.push(format!("{stack} {before} {after}"));
        then.push(format!("{stack} {after} {before}"));
    }
    let above = graph(&now, picture, &classes, false)?;
    let below = graph(&then, Picture { title: "widths: before", filtered: None, ..picture }, &classes, true)?;
    stacked(&above, &below).ok_or_else(|| foreign("put two flame graphs into one file"))
}

/// Merges the stacks of both sides, each with its parts before and after. A stack comes before those that continue it.
fn stacks(labels: &KeyLabels<'_>, sides: [&[(String, f64)]; 2], wholes: [f64; 2]) -> Vec<(String, [u64; 2])> {
    let mut merged: BTreeMap<Vec<&str>, [f64; 2]> = BTreeMap::new();
    for (side, stacks) in sides.into_iter().enumerate() {
        for (stack, weight) in stacks {
            let stack = stack.split(';').map(|label| labels.shown(label)).collect();
            merged.entry(stack).or_default()[side] += weight / wholes[side] * WHOLE;
        }
    }
    // Rounding carries the rest over to the next stack, so that sums are right.
    let mut exact = [0.0; 2];
    let parts = |weights: [f64; 2]| {
        [0, 1].map(|side| {
            let begin = exact[side];
            exact[side] += weights[side];
            (exact[side].round() - f64::round(begin)) as u64
        })
    };
    let values: Vec<[u64; 2]> = merged.values().copied().map(parts).collect();
    let stacks = merged.into_keys().map(|stack| stack.join(";"));
    stacks.zip(values).filter(|(_, parts)| *parts != [0, 0]).collect()
}

/// Knows which name stands for all names with one key.
struct KeyLabels<'s> {
    key_of: Map<&'s str, String>,
    shown: Map<String, Cow<'s, str>>,
}

impl<'s> KeyLabels<'s> {
    fn new(sides: [&'s [(String, f64)]; 2]) -> Self {
        let mut labels = Self { key_of: Map::default(), shown: Map::default() };
        for label in sides.into_iter().flatten().flat_map(|(stack, _)| stack.split(';')) {
            if labels.key_of.contains_key(label) {
                continue;
            }
            let (name, annotation) = divided(label);
            let key = function(name).into_owned() + annotation;
            // An address means nothing that is true for both sides.
            let name = if key.contains("+?") { Cow::Owned(key.clone()) } else { Cow::Borrowed(label) };
            let shown = labels.shown.entry(key.clone()).or_insert_with(|| name.clone());
            if (name.len(), &name) < (shown.len(), &*shown) {
                *shown = name;
            }
            labels.key_of.insert(label, key);
        }
        labels
    }

    fn shown(&self, label: &str) -> &str {
        let key = &self.key_of[label];
        &self.shown[key]
    }

    /// Lists the grey labels in the form that inferno reads.
    fn classes(&self, changed: &HashSet<String>) -> String {
        let grey = self.shown.iter().filter(|(key, _)| !changed.contains(divided(key).0));
        grey.map(|(_, label)| format!("{label}\tclass={CHANCE}\n")).collect()
    }
}

/// Splits a label into name and mark.
fn divided(label: &str) -> (&str, &str) {
    let annotation = ANNOTATIONS.into_iter().find(|annotation| label.ends_with(annotation)).unwrap_or("");
    label.split_at(label.len() - annotation.len())
}

/// Draws one graph, whose widths are the second numbers of the lines. With `is_before` these are the widths before, and colors
/// are reversed, so that blue means the same in both graphs. `classes` lists the grey functions.
fn graph(lines: &[String], picture: Picture<'_>, classes: &str, is_before: bool) -> Result<String> {
    let mut options = Options::default();
    options.title = picture.title.to_owned();
    let colors = match picture.changed {
        Some(_) => "widths: after; red grew, blue shrank, grey may be chance or only follow from others",
        None => "widths: after; red grew, blue shrank, and may be chance",
    };
    let widths = (!is_before).then_some(colors);
    let subtitle: Vec<&str> = widths.into_iter().chain(picture.filtered).collect();
    options.subtitle = (!subtitle.is_empty()).then(|| subtitle.join(" · "));
    options.count_name = PART.to_owned();
    options.font_width = FONT_WIDTH;
    options.min_width = MIN_WIDTH_PERCENT;
    options.negate_differentials = is_before;
    options.no_javascript = is_before;
    options.func_frameattrs = FuncFrameAttrsMap::from_reader(classes.as_bytes())?;
    options.bgcolors = Some(BackgroundColor::Grey);
    // inferno orders lines as text, where `f.g` lies between `f` and `f;g`, so that it would draw `f` in two pieces. It draws a
    // chart in the given order, from its end.
    options.flame_chart = true;
    options.text_truncate_direction = TextTruncateDirection::Right;
    let mut svg = Vec::new();
    let drawn = flamegraph::from_lines(&mut options, lines.iter().rev().map(String::as_str), &mut svg);
    drawn.map_err(|error| Error::Refused(format!("cannot draw flame graph: {error}")))?;
    // The width of a frame includes its callees, the difference does not. inferno has no option for the words between them.
    let own = |svg: String, begin: &str| svg.replace(&format!("%; {begin}"), &format!("%; itself {begin}"));
    let svg = String::from_utf8(svg).map_err(|_| foreign("draw the graph of a difference"))?;
    let svg = ["+", "-", "0.00%)"].into_iter().fold(svg, own);
    greyed(&svg).ok_or_else(|| foreign("color the graph of a difference"))
}

/// Greys functions whose change may be chance: inferno colors every frame of a difference by its size, whatever palette it gets.
/// A style would hide what the search of the graph finds.
fn greyed(svg: &str) -> Option<String> {
    let opening = format!("<g class=\"{CHANCE}\">");
    let mut pieces = svg.split(&opening);
    let mut greyed = pieces.next()?.to_owned();
    for piece in pieces {
        let (head, rest) = piece.split_once("fill=\"")?;
        let (_, rest) = rest.split_once('"')?;
        greyed.extend(["<g>", head, "fill=\"", GREY, "\"", rest]);
    }
    Some(greyed)
}

/// Puts the second graph below the first, as a part that the script of the first ignores: inferno draws one graph in a file, with
/// a title and controls that no option removes.
fn stacked(above: &str, below: &str) -> Option<Vec<u8>> {
    let [height, below_height] = [height(above)?, height(below)?];
    let total = height + below_height;
    let (_, frames) = below.split_once("</script>")?;
    // The script finds elements by their names, which belong to the first graph.
    let frames = frames
        .replace("<svg id=\"frames\"", "<svg id=\"frames-before\"")
        .replace("<text id=\"title\"", "<text class=\"title\"");
    let frames =
        ["details", "unzoom", "search", "matched"].into_iter().try_fold(frames, |frames, control| {
            let (begin, rest) = frames.split_once(&format!("<text id=\"{control}\""))?;
            Some(format!("{begin}{}", rest.split_once("</text>")?.1))
        })?;
    let head = format!("height=\"{height}\" onload=\"init(evt)\" viewBox=\"0 0 {WIDTH} {height}\"");
    let new_head = format!("height=\"{total}\" onload=\"init(evt)\" viewBox=\"0 0 {WIDTH} {total}\"");
    let (before_head, after_head) = above.split_once(&head)?;
    let above = [before_head, &new_head, after_head].concat();
    let style = ".title { text-anchor:middle; font-size:17px; }\n</style>";
    let above = above.replacen("</style>", style, 1);
    let body = above.strip_suffix("</svg>")?;
    let below = format!("<svg y=\"{height}\" width=\"{WIDTH}\" height=\"{below_height}\">{frames}");
    Some(format!("{body}{FOLLOW}{below}</svg>").into_bytes())
}

/// Returns the height of a graph in pixels.
fn height(svg: &str) -> Option<usize> {
    let (_, rest) = svg.split_once(" height=\"")?;
    let (height, _) = rest.split_once('"')?;
    height.parse().ok()
}

/// Returns the error of an edit of inferno's output.
fn foreign(edit: &str) -> Error {
    Error::Refused(format!("cannot {edit}: inferno draws otherwise than expected"))
}

#[cfg(test)]
mod tests;
