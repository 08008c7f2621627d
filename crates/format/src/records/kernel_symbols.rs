//! Kernel symbols that samples need, version 1.

use rkyv::{Archive, Serialize};

use super::payload;
use crate::block::Kind;

/// One kernel function that was hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelSymbol {
    /// First address.
    pub start: u64,
    /// Address behind the last byte: where the next symbol begins.
    pub end: u64,
    /// Name, a string id.
    pub name: u32,
    /// Module, a string id; 0 for the kernel proper.
    pub module: u32,
}

/// Kernel symbols of the recorded machine, each written once, when an address inside is first seen.
#[derive(Debug, Default, Archive, Serialize)]
pub struct KernelSymbolsV1 {
    /// First addresses.
    pub start: Vec<u64>,
    /// Addresses behind the last byte.
    pub end: Vec<u64>,
    /// Names, string ids.
    pub name: Vec<u32>,
    /// Modules, string ids.
    pub module: Vec<u32>,
}

payload!(
    KernelSymbolsV1, ArchivedKernelSymbolsV1, Kind::KERNEL_SYMBOLS, 1,
    count start, same end, same name, same module
);

impl KernelSymbolsV1 {
    /// Builds the columns.
    pub fn from_rows(rows: &[KernelSymbol]) -> Self {
        Self {
            start: rows.iter().map(|r| r.start).collect(),
            end: rows.iter().map(|r| r.end).collect(),
            name: rows.iter().map(|r| r.name).collect(),
            module: rows.iter().map(|r| r.module).collect(),
        }
    }
}

impl ArchivedKernelSymbolsV1 {
    /// Lists the symbols in the order of the block.
    pub fn rows(&self) -> impl Iterator<Item = KernelSymbol> + '_ {
        (0..self.start.len()).map(|i| KernelSymbol {
            start: self.start[i].to_native(),
            end: self.end[i].to_native(),
            name: self.name[i].to_native(),
            module: self.module[i].to_native(),
        })
    }
}
