//! Names of kernel addresses, from the rows in the recording only: never from the machine that reads.

use icecore_format::records::KernelSymbol;

/// Kernel symbols, searchable by address.
#[derive(Debug, Default)]
pub struct KernelSymbols {
    /// Ordered by start, no start twice.
    rows: Vec<KernelSymbol>,
}

impl KernelSymbols {
    /// Sorts the rows of a recording. Of several names at one address the first written stays.
    pub fn new(rows: &[KernelSymbol]) -> Self {
        let mut rows: Vec<KernelSymbol> = rows.iter().filter(|row| row.start < row.end).copied().collect();
        rows.sort_by_key(|row| row.start);
        rows.dedup_by_key(|row| row.start);
        Self { rows }
    }

    /// Finds the symbol that holds an address.
    pub fn find(&self, address: u64) -> Option<&KernelSymbol> {
        let after = self.rows.partition_point(|row| row.start <= address);
        self.rows.get(after.checked_sub(1)?).filter(|row| address < row.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_between_two_symbols_has_none() {
        let row = |start, end, name| KernelSymbol { start, end, name, module: 0 };
        let symbols = KernelSymbols::new(&[row(30, 40, 3), row(10, 20, 1), row(10, 20, 2), row(9, 9, 7)]);
        let name = |address| symbols.find(address).map(|row| row.name);
        assert_eq!([9, 10, 19, 20, 30, 40].map(name), [None, Some(1), Some(1), None, Some(3), None]);
    }
}
