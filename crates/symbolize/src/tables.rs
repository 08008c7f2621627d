//! Names functions by symbol tables.

use std::sync::Arc;

use icecore_elf::{Svma, Symbol as ElfSymbol, SymbolTable};
use object::read::ReadRef;

use super::symbol::Symbol;

/// A function around an address, or a symbol before it.
#[derive(Debug, Clone)]
pub(crate) struct TableSymbol {
    pub(super) symbol: Arc<Symbol>,
    pub(super) start: Svma,
    /// It has a size, and covers the address; without one it only is the nearest before it, in the same section.
    pub(super) is_sized: bool,
}

/// Finds the function of each address, which ascend; `None` if the file has no such table, or a broken one.
pub(super) fn look_up<'d>(
    file: impl ReadRef<'d>,
    table: SymbolTable,
    at: &[Svma],
) -> Option<Vec<Option<TableSymbol>>> {
    let around = table.around(file, at)?;
    let mut found: Vec<Option<TableSymbol>> = Vec::with_capacity(around.len());
    let mut last: Option<(ElfSymbol<'_>, TableSymbol)> = None;
    for symbol in around {
        let Some(symbol) = symbol else {
            found.push(None);
            continue;
        };
        // Neighbours mostly lie in one function.
        let is_same = |(known, _): &&(ElfSymbol<'_>, TableSymbol)| *known == symbol;
        let known = last.as_ref().filter(is_same).map(|(_, known)| known.clone());
        let new = known.unwrap_or_else(|| TableSymbol::new(&symbol));
        found.push(Some(new.clone()));
        last = Some((symbol, new));
    }
    Some(found)
}

impl TableSymbol {
    fn new(symbol: &ElfSymbol<'_>) -> Self {
        let names = [&*symbol.name].into_iter().chain(symbol.aliases.iter().copied());
        let file = symbol.file.map(|file| String::from_utf8_lossy(file).into());
        let names = names.map(Box::from).collect();
        let of_table = Symbol { names, whole: symbol.whole, file };
        Self { symbol: of_table.into(), start: symbol.start, is_sized: symbol.len > 0 }
    }
}
