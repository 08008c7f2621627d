//! Kernel symbols that samples need, version 1.

use rkyv::{Archive, Serialize};

use super::packed::Packed;
use super::{payload, references};
use crate::kind::Kind;

/// One kernel function that was hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelSymbol {
    /// First address.
    pub start: u64,
    /// Address after the last byte: where the next symbol begins.
    pub end: u64,
    /// Name, a string id.
    pub name: u32,
    /// Module, a string id; 0 for the kernel proper.
    pub module: u32,
}

references!(KernelSymbol { start: plain, end: plain, name: id(Strings), module: id(Strings) });

/// Kernel symbols of the recorded machine, each written once, when an address inside is first seen.
#[derive(Debug, Default, Archive, Serialize)]
pub struct KernelSymbolsV1 {
    /// First addresses, as differences from the row before; signs folded.
    pub start: Packed,
    /// Lengths in bytes.
    pub len: Packed,
    /// Names, string ids.
    pub name: Packed,
    /// Modules, string ids.
    pub module: Packed,
}

payload!(
    KernelSymbolsV1, ArchivedKernelSymbolsV1, Kind::KERNEL_SYMBOLS, 1,
    count start, same len, same name, same module
);

impl KernelSymbolsV1 {
    /// Builds the columns.
    pub fn from_rows(rows: &[KernelSymbol]) -> Self {
        Self {
            start: Packed::steps(rows.iter().map(|r| r.start)),
            len: rows.iter().map(|r| r.end.saturating_sub(r.start)).collect(),
            name: rows.iter().map(|r| r.name).collect(),
            module: rows.iter().map(|r| r.module).collect(),
        }
    }
}

impl ArchivedKernelSymbolsV1 {
    /// Lists the symbols in the order of the block.
    pub fn rows(&self) -> impl Iterator<Item = KernelSymbol> + '_ {
        let columns = self.start.sums().into_iter().zip(self.len.values());
        let names = self.name.values_u32().zip(self.module.values_u32());
        columns.zip(names).map(|((start, len), (name, module))| KernelSymbol {
            start,
            end: start.saturating_add(len),
            name,
            module,
        })
    }
}
