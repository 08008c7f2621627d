//! Colors the frames of flame graphs.

use inferno::flamegraph::color::{Color, PaletteMap};

use crate::views::kind::Kind;
use icecore_profile::named::merged::Labels;
use icecore_profile::named::names::{Frame, Names};
use icecore_text::shorten::shorten;

/// What the color of a frame shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Colors {
    /// Whether it is user code, kernel code, inlined, Python, Java, PHP, JavaScript or unnamed.
    Side,
    /// The same in colors that people of any color vision tell apart.
    Safe,
    /// Its image.
    Image,
}

/// Red, green, blue.
type Rgb = (u8, u8, u8);

const UNNAMED: Rgb = (185, 185, 185);
/// Shades of one color differ by less.
const SHADES: u32 = 24;

/// Colors frames; the shade depends only on the name. Frames of one label are drawn as one, and have the color of the last of them.
pub(super) fn colors(names: &Names, labels: &Labels, name_bytes: usize, by: Colors) -> PaletteMap {
    let mut colors = PaletteMap::default();
    for (number, frame) in (0..).zip(&names.frames) {
        let label = &*shorten(labels.of(number), name_bytes);
        if names.functions[frame.function as usize].is_marker() {
            continue;
        }
        let (r, g, b) = match by {
            Colors::Side => of_side(
                names,
                frame,
                [
                    (225, 90, 75),
                    (235, 145, 40),
                    (75, 190, 190),
                    (105, 145, 220),
                    (130, 180, 85),
                    (175, 125, 205),
                    (205, 200, 80),
                ],
            ),
            // Sky blue, orange, yellow, reddish purple, bluish green, blue and vermilion of Okabe and Ito's palette, "Color Universal Design".
            Colors::Safe => of_side(
                names,
                frame,
                [
                    (86, 180, 225),
                    (225, 155, 0),
                    (231, 225, 66),
                    (204, 121, 167),
                    (0, 158, 115),
                    (0, 114, 178),
                    (213, 94, 0),
                ],
            ),
            Colors::Image => of_image(names, frame),
        };
        let shade = (fnv(label) % SHADES) as u8;
        let [r, g, b] = [r, g, b].map(|part| part.saturating_add(shade));
        colors.insert(label, Color { r, g, b });
    }
    colors
}

fn of_side(
    names: &Names,
    frame: &Frame,
    [user, kernel, inlined, python, java, php, javascript]: [Rgb; 7],
) -> Rgb {
    match Kind::of(&names.functions[frame.function as usize]) {
        Kind::Unnamed => UNNAMED,
        Kind::Kernel => kernel,
        Kind::Python => python,
        Kind::Java => java,
        Kind::Php => php,
        Kind::JavaScript => javascript,
        Kind::User if frame.inlined => inlined,
        Kind::User => user,
    }
}

/// Returns the color of an image: one of the wheel by its path.
fn of_image(names: &Names, frame: &Frame) -> Rgb {
    let Some(image) = names.image(&names.functions[frame.function as usize]) else { return UNNAMED };
    // Six sectors, in each of which one part grows or shrinks from the darkest to the brightest.
    let (dark, bright) = (100_u8, 230_u8);
    let hue = fnv(&image.path) % 360;
    let part = (u32::from(bright - dark) * (hue % 60) / 60) as u8;
    let (grows, shrinks) = (dark + part, bright - part);
    match hue / 60 {
        0 => (bright, grows, dark),
        1 => (shrinks, bright, dark),
        2 => (dark, bright, grows),
        3 => (dark, shrinks, bright),
        4 => (grows, dark, bright),
        _ => (bright, dark, shrinks),
    }
}

/// FNV-1a: a hash that is the same on every machine and in every version.
fn fnv(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;
    use icecore_profile::named::fixture;

    #[test]
    fn frames_of_one_image_have_shades_of_one_color() {
        let profile = fixture::profile(&[("main;f;g", 1)]);
        let labels = Labels::own(&profile.names, true);
        let of = |by| {
            let colors = colors(&profile.names, &labels, 100, by);
            ["main", "f", "g"].map(|name| colors.get(name).expect("every function has a color"))
        };
        for by in [Colors::Side, Colors::Safe, Colors::Image] {
            let [a, b, c] = of(by);
            let near = |x: u8, y: u8| u32::from(x.abs_diff(y)) < SHADES;
            for other in [b, c] {
                assert!(
                    near(a.r, other.r) && near(a.g, other.g) && near(a.b, other.b),
                    "{by:?}: {a:?} {other:?}"
                );
            }
        }
        assert_ne!(of(Colors::Side)[0], of(Colors::Safe)[0]);
    }
}
