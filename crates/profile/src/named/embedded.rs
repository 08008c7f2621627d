//! Finds functions that travel with the recording, for readers without the files.

use std::sync::{Arc, OnceLock};

use icecore_format::records::Symbol;

use crate::map::Map;
use icecore_symbolize::image::{FileOff, Svma};

/// How many symbols before an address may enclose it: real functions hardly ever overlap.
const LOOKED_BACK: usize = 16;

/// Symbols by image.
#[derive(Debug, Default)]
pub struct Embedded<'a> {
    /// Ordered by start and end.
    of_image: Map<u32, Vec<(&'a Symbol, Prepared)>>,
}

/// Few symbols are ever found, so each is prepared when it is.
type Prepared = OnceLock<EmbeddedSymbol>;

/// A function that the recording has.
#[derive(Debug)]
pub struct EmbeddedSymbol {
    /// Offset of its first byte, in the file of the image.
    pub start: FileOff,
    /// Address of its first byte.
    pub address: Svma,
    /// Address of the function of which this is a part.
    pub whole: Svma,
    /// Its names; `None` if the recording only has its extent.
    pub named: Option<icecore_symbolize::Symbol>,
}

impl EmbeddedSymbol {
    fn new(symbol: &Symbol) -> Self {
        let (address, whole) = (Svma(symbol.address), Svma(symbol.whole));
        let names: Vec<Box<[u8]>> = symbol.names.iter().map(|name| name[..].into()).collect();
        let file = String::from_utf8_lossy(&symbol.file);
        let file = Some(Arc::from(file)).filter(|file: &Arc<str>| !file.is_empty());
        let named = (!names.is_empty()).then_some(icecore_symbolize::Symbol { names, whole, file });
        Self { start: FileOff(symbol.start), address, whole, named }
    }
}

impl<'a> Embedded<'a> {
    /// Sorts symbols; `image_of` maps an image id to a position.
    pub fn new(symbols: &'a [Symbol], image_of: impl Fn(u32) -> Option<u32>) -> Self {
        let mut of_image: Map<u32, Vec<(&Symbol, Prepared)>> = Map::default();
        for symbol in symbols {
            if let Some(image) = image_of(symbol.image) {
                of_image.entry(image).or_default().push((symbol, Prepared::new()));
            }
        }
        // Of two rows for the same bytes the one with the alphabetically first names is used, whichever was recorded first.
        of_image
            .values_mut()
            .for_each(|list| list.sort_by_key(|(s, _)| (s.start, s.end, std::cmp::Reverse(&s.names))));
        Self { of_image }
    }

    /// Finds the innermost function at an offset of an image.
    pub fn find(&self, image: u32, off: FileOff) -> Option<&EmbeddedSymbol> {
        let symbols = self.of_image.get(&image)?;
        let after = symbols.partition_point(|(symbol, _)| symbol.start <= off.0);
        let mut before = symbols[..after].iter().rev().take(LOOKED_BACK);
        let (symbol, prepared) = before.find(|(symbol, _)| off.0 < symbol.end)?;
        Some(prepared.get_or_init(|| EmbeddedSymbol::new(symbol)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_function_is_found_and_nothing_between_two() {
        let symbol = |start, end, name: &str| Symbol::new(7, start..end, name);
        let symbols =
            [symbol(10, 100, "outer"), symbol(20, 30, "b"), symbol(20, 30, "a"), symbol(200, 201, "x")];
        let embedded = Embedded::new(&symbols, |image| (image == 7).then_some(1));
        let name = |off| {
            let found = embedded.find(1, FileOff(off))?.named.as_ref()?;
            Some(String::from_utf8_lossy(&found.names[0]).into_owned())
        };
        assert_eq!(
            [9, 10, 20, 30, 100, 200, 201].map(name).map(Option::unwrap_or_default),
            ["", "outer", "a", "outer", "", "x", ""]
        );
        assert!(embedded.find(7, FileOff(20)).is_none());
    }

    #[test]
    fn an_extent_without_a_name_is_found() {
        let row = Symbol {
            image: 7,
            start: 16,
            end: 48,
            address: 0x1010,
            whole: 0x1010,
            names: vec![],
            file: vec![],
        };
        let rows = [row];
        let embedded = Embedded::new(&rows, |_| Some(0));
        let found = embedded.find(0, FileOff(47)).expect("it is inside");
        assert!(found.named.is_none() && found.whole == Svma(0x1010));
    }
}
