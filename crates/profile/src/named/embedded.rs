//! Finds names that travel with the recording: functions of images, for readers without the files.

use std::sync::{Arc, OnceLock};

use icecore_elf::readable;
use icecore_format::records::Symbol;

use crate::map::Map;
use icecore_symbolize::image::FileOff;

/// How many symbols before an address may enclose it: real functions hardly ever overlap.
const LOOKED_BACK: usize = 16;

/// Symbols by image.
#[derive(Debug, Default)]
pub struct Embedded<'a> {
    /// Ordered by start and end.
    of_image: Map<u32, Vec<(&'a Symbol, Readable)>>,
}

/// A readable name. Few symbols are ever found, so it is made when one is.
type Readable = OnceLock<Arc<str>>;

impl<'a> Embedded<'a> {
    /// Sorts symbols; `image_of` maps an image id to a position.
    pub fn new(symbols: &'a [Symbol], image_of: impl Fn(u32) -> Option<u32>) -> Self {
        let mut of_image: Map<u32, Vec<(&Symbol, Readable)>> = Map::default();
        for symbol in symbols {
            if let Some(image) = image_of(symbol.image) {
                of_image.entry(image).or_default().push((symbol, Readable::new()));
            }
        }
        // Of two names for the same bytes the alphabetically first is used, whichever was recorded first.
        of_image
            .values_mut()
            .for_each(|list| list.sort_by_key(|(s, _)| (s.start, s.end, std::cmp::Reverse(&s.name))));
        Self { of_image }
    }

    /// Finds the readable name of the innermost function at an offset of an image.
    pub fn find(&self, image: u32, off: FileOff) -> Option<&Arc<str>> {
        let symbols = self.of_image.get(&image)?;
        let after = symbols.partition_point(|(symbol, _)| symbol.start <= off.0);
        let mut before = symbols[..after].iter().rev().take(LOOKED_BACK);
        let (symbol, name) = before.find(|(symbol, _)| off.0 < symbol.end)?;
        Some(name.get_or_init(|| readable(&symbol.name).into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_function_is_found_and_nothing_between_two() {
        let symbol = |start, end, name: &str| Symbol { image: 7, start, end, name: name.into() };
        let symbols =
            [symbol(10, 100, "outer"), symbol(20, 30, "b"), symbol(20, 30, "a"), symbol(200, 201, "x")];
        let embedded = Embedded::new(&symbols, |image| (image == 7).then_some(1));
        let name = |off| embedded.find(1, FileOff(off)).map(|name| name.to_string());
        assert_eq!(
            [9, 10, 20, 30, 100, 200, 201].map(name).map(Option::unwrap_or_default),
            ["", "outer", "a", "outer", "", "x", ""]
        );
        assert_eq!(embedded.find(7, FileOff(20)), None);
    }
}
