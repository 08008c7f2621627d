//! Names functions by symbol tables.

use std::sync::Arc;

use icecore_elf::{Svma, Symbol, SymbolTable, unversioned};
use object::read::ReadRef;
use rayon::prelude::*;

use super::strings::Strings;

/// A function around an address, or a symbol before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableSymbol {
    /// Demangled.
    pub(super) name: Arc<str>,
    pub(super) start: Svma,
    /// It has a size, and covers the address; without one it only is the nearest before it, in the same section.
    pub(super) is_sized: bool,
}

/// Finds the function of each address, which ascend; `None` if the file has no such table, or a broken one.
pub(super) fn look_up<'d>(
    file: impl ReadRef<'d>,
    table: SymbolTable,
    at: &[Svma],
    strings: &Strings,
) -> Option<Vec<Option<TableSymbol>>> {
    let around = table.around(file, at)?;
    // Neighbours mostly lie in one function, and making its name readable costs more than all else.
    let mut distinct: Vec<&Symbol<'_>> = around.iter().flatten().collect();
    distinct.dedup();
    let names = distinct.par_iter().map(|symbol| strings.name(unversioned(&symbol.name)));
    let names: Vec<Arc<str>> = names.collect();
    let mut next = distinct.into_iter().zip(names).peekable();
    let found = around.iter().map(|symbol| {
        let symbol = symbol.as_ref()?;
        while next.next_if(|(passed, _)| *passed != symbol).is_some() {}
        let (_, name) = next.peek()?;
        Some(TableSymbol { name: name.clone(), start: symbol.start, is_sized: symbol.len > 0 })
    });
    Some(found.collect())
}
