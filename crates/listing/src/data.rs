//! Names data that code refers to: objects of the image, and slots in which the loader puts addresses of other files.

use std::collections::BTreeMap;
use std::sync::Arc;

use icecore_elf::{Svma, readable, unversioned};
use object::{Object, ObjectSymbol, ObjectSymbolTable, RelocationTarget, SymbolKind};

/// Finds the names of the data at addresses, which ascend, and the distances from where it begins.
///
/// # Cost   one pass over the symbols and dynamic relocations; none without addresses
pub(super) fn data(file: &[u8], at: &[Svma]) -> BTreeMap<Svma, (Arc<str>, u64)> {
    let Some(elf) = object::File::parse(file).ok().filter(|_| !at.is_empty()) else { return BTreeMap::new() };
    let mut names = BTreeMap::new();
    for symbol in
        elf.symbols().chain(elf.dynamic_symbols()).filter(|symbol| symbol.kind() == SymbolKind::Data)
    {
        let (start, len) = (symbol.address(), symbol.size());
        let first = at.partition_point(|at| at.0 < start);
        let held = at[first..].iter().take_while(|at| at.0 - start < len);
        if let Some(name) = symbol.name_bytes().ok().filter(|name| !name.is_empty()) {
            for at in held {
                names.entry(*at).or_insert((named(name), at.0 - start));
            }
        }
    }
    names.extend(slots(&elf, at).into_iter().flatten());
    names
}

fn slots<'e>(
    elf: &'e object::File<'_>,
    at: &'e [Svma],
) -> Option<impl Iterator<Item = (Svma, (Arc<str>, u64))> + 'e> {
    let symbols = elf.dynamic_symbol_table()?;
    let slot = move |(slot, relocation): (u64, object::Relocation)| {
        at.binary_search(&Svma(slot)).ok()?;
        let RelocationTarget::Symbol(index) = relocation.target() else { return None };
        let symbol = symbols.symbol_by_index(index).ok()?;
        let name = symbol.name_bytes().ok().filter(|name| !name.is_empty())?;
        Some((Svma(slot), (named(name), 0)))
    };
    Some(elf.dynamic_relocations()?.filter_map(slot))
}

fn named(name: &[u8]) -> Arc<str> {
    readable(unversioned(name)).into()
}
