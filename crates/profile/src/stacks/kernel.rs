//! Names kernel addresses from the symbols in the recording only, never from the machine that runs the report.

use icecore_elf::Avma;
use icecore_format::records::KernelSymbol;

/// Kernel symbols, searchable by address.
#[derive(Debug, Default)]
pub struct KernelSymbols {
    /// Symbols with the number of the part to whose kernel they belong, ordered by part and start. No start occurs twice.
    rows: Vec<(u32, KernelSymbol)>,
}

impl KernelSymbols {
    /// Sorts the kernel symbols of a recording. Of several names at one address the first recorded one stays.
    pub fn new(rows: &[(u32, KernelSymbol)]) -> Self {
        let mut rows: Vec<_> = rows.iter().filter(|(_, row)| row.start < row.end).copied().collect();
        rows.sort_by_key(|(part, row)| (*part, row.start));
        rows.dedup_by_key(|(part, row)| (*part, row.start));
        Self { rows }
    }

    /// Finds the symbol that holds an address in the kernel of a part.
    pub fn find(&self, part: u32, Avma(address): Avma) -> Option<&KernelSymbol> {
        let after = self.rows.partition_point(|(of, row)| (*of, row.start) <= (part, address));
        let (of, row) = self.rows.get(after.checked_sub(1)?)?;
        (*of == part && address < row.end).then_some(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_between_two_symbols_has_none() {
        let row = |start, end, name| (0, KernelSymbol { start, end, name, module: 0 });
        let symbols = KernelSymbols::new(&[row(30, 40, 3), row(10, 20, 1), row(10, 20, 2), row(9, 9, 7)]);
        let name = |address| symbols.find(0, Avma(address)).map(|row| row.name);
        assert_eq!([9, 10, 19, 20, 30, 40].map(name), [None, Some(1), Some(1), None, Some(3), None]);
    }

    #[test]
    fn each_part_has_a_kernel_of_its_own() {
        let row = |name| KernelSymbol { start: 10, end: 20, name, module: 0 };
        let symbols = KernelSymbols::new(&[(2, row(2)), (0, row(1))]);
        let name = |part| symbols.find(part, Avma(15)).map(|row| row.name);
        assert_eq!([0, 1, 2, 3].map(name), [Some(1), None, Some(2), None]);
    }
}
