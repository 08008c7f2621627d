//! Draws stacks by inferno.

use std::convert::Infallible;

use inferno::flamegraph::color::{BackgroundColor, BasicPalette, Palette, PaletteMap};
use inferno::flamegraph::{self, Direction, Options, TextTruncateDirection};

use crate::cli::Weight;
use crate::views::{Error, Result};
use icecore_profile::named::merged::MergedStacks;
use icecore_text::shorten::line;

/// The width of a character divided by its height: 0.60 in the usual monospace fonts, and more by the space before the shortest
/// label, which has three characters. Labels must fit where no script measures them.
pub(crate) const FONT_WIDTH: f64 = 0.69;

/// Makes one line per stack, in the order of frames: a stack stands beside those that continue it.
pub(super) fn lines(stacks: &MergedStacks, weight: Weight) -> Vec<String> {
    let mut lines = Vec::with_capacity(stacks.lines());
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

/// How a graph is drawn.
pub(super) struct Picture<'a> {
    pub(super) title: &'a str,
    pub(super) subtitle: Option<String>,
    /// What widths count.
    pub(super) unit: &'a str,
    /// Pixels; `None`: the width of the window.
    pub(super) width: Option<u16>,
    /// Pixels.
    pub(super) row_height: u16,
    pub(super) grows_down: bool,
}

/// Draws lines as SVG.
///
/// # Errors
/// If inferno refuses them.
pub(super) fn draw(lines: &[String], picture: &Picture<'_>, colors: &mut PaletteMap) -> Result<Vec<u8>> {
    let mut options = Options::default();
    options.title = picture.title.to_owned();
    options.subtitle.clone_from(&picture.subtitle);
    options.image_width = picture.width.map(usize::from);
    options.frame_height = usize::from(picture.row_height);
    // A row of inferno's has 16 pixels for letters of 12.
    options.font_size = options.font_size.min(options.frame_height * 3 / 4);
    options.direction = if picture.grows_down { Direction::Inverted } else { Direction::Straight };
    options.count_name = picture.unit.to_owned();
    options.font_width = FONT_WIDTH;
    // `fit` has left out what is too narrow for this width.
    options.min_width = 0.0;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::flame::colors::{Colors, colors};
    use crate::views::flame::fit::{self, MIN_SHARE};
    use icecore_profile::named::fixture;
    use icecore_profile::named::merged::Labels;
    use icecore_profile::named::tree::Root;

    #[test]
    fn a_frame_is_drawn_once_whatever_its_neighbours_are_called() {
        let profile =
            fixture::profile(&[("main;f", 1), ("main;f2", 2), ("main;f;g", 3), ("main;f.cold;g", 4)]);
        let labels = Labels::own(&profile.names, true);
        let drawn = fit::drawn(MergedStacks::new(&profile, Root::None, &labels), MIN_SHARE);
        assert!(drawn.left_out.is_empty());
        let lines = lines(&drawn.stacks, Weight::Samples);
        assert_eq!(lines, ["main;f 1", "main;f;g 3", "main;f.cold;g 4", "main;f2 2"]);
        let picture = Picture {
            title: "t",
            subtitle: None,
            unit: "samples",
            width: None,
            row_height: 16,
            grows_down: false,
        };
        let mut colors = colors(&profile.names, &labels, drawn.name_bytes, Colors::Side);
        let svg = draw(&lines, &picture, &mut colors).expect("drawn");
        let svg = String::from_utf8(svg).expect("UTF-8");
        let drawn = |name: &str| svg.matches(&format!("<title>{name} (")).count();
        assert_eq!(["main", "f", "f2", "f.cold", "g"].map(drawn), [1, 1, 1, 1, 2]);
        assert!(svg.contains("<title>f (4 samples, 40.00%)"));
    }
}
