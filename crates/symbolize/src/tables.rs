//! Names functions by symbol tables.

use std::sync::Arc;

use icecore_elf::{Beginnings, Svma, Symbol as ElfSymbol, SymbolTable};
use object::read::ReadRef;

use super::symbol::Symbol;

/// Finds the function of each address, which ascend; `None` if the file has no such table, or a broken one.
pub(super) fn look_up<'d>(
    file: impl ReadRef<'d>,
    table: SymbolTable,
    at: &[Svma],
    beginnings: Beginnings<'_>,
) -> Option<Vec<Option<Arc<Symbol>>>> {
    let around = table.around(file, at, beginnings)?;
    let mut found: Vec<Option<Arc<Symbol>>> = Vec::with_capacity(around.len());
    let mut last: Option<(ElfSymbol<'_>, Arc<Symbol>)> = None;
    for symbol in around {
        let Some(symbol) = symbol else {
            found.push(None);
            continue;
        };
        // Neighbours mostly lie in one function.
        let is_same = |(known, _): &&(ElfSymbol<'_>, Arc<Symbol>)| *known == symbol;
        let known = last.as_ref().filter(is_same).map(|(_, known)| known.clone());
        let new = known.unwrap_or_else(|| Arc::new(of_table(&symbol)));
        found.push(Some(new.clone()));
        last = Some((symbol, new));
    }
    Some(found)
}

fn of_table(symbol: &ElfSymbol<'_>) -> Symbol {
    let names = [&*symbol.name].into_iter().chain(symbol.aliases.iter().copied());
    let file = symbol.file.map(|file| String::from_utf8_lossy(file).into());
    Symbol { names: names.map(Box::from).collect(), whole: symbol.whole, file }
}
