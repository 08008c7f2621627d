//! Reads where the code of an entry is.

use gimli::{Attribute, AttributeValue, Unit, constants as dw};

use super::requested::Requested;
use super::{Broken, Dwarf, Guard, Slice};

/// The attributes of an entry that give its addresses, not yet decoded.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Extent<'d> {
    low: Option<AttributeValue<Slice<'d>>>,
    high: Option<AttributeValue<Slice<'d>>>,
    ranges: Option<AttributeValue<Slice<'d>>>,
}

impl<'d> Extent<'d> {
    /// Keeps an attribute if it is one of these.
    pub(super) fn note(&mut self, attribute: &Attribute<Slice<'d>>) {
        match attribute.name() {
            dw::DW_AT_low_pc => self.low = Some(attribute.value()),
            dw::DW_AT_high_pc => self.high = Some(attribute.value()),
            dw::DW_AT_ranges => self.ranges = Some(attribute.value()),
            _ => {}
        }
    }

    /// Returns true if the entry has addresses.
    pub(super) fn is_some(&self) -> bool {
        self.ranges.is_some() || (self.low.is_some() && self.high.is_some())
    }

    /// Returns the lowest address, which is the base of the unit's lists of ranges.
    pub(super) fn low(&self, dwarf: &Dwarf<'d>, unit: &Unit<Slice<'d>>) -> Option<u64> {
        dwarf.attr_address(unit, self.low?).ok()?
    }

    /// Hands over the positions of all requested addresses in the entry, range by range.
    ///
    /// # Errors
    /// [`Broken`] if the list of ranges breaks; the ranges before have been handed over.
    pub(super) fn each(
        &self,
        dwarf: &Dwarf<'d>,
        unit: &Unit<Slice<'d>>,
        asked: Requested<'_>,
        guard: &Guard,
        mut take: impl FnMut(usize),
    ) -> Result<(), Broken> {
        let mut span = |begin, end| {
            let span = asked.within(begin, end);
            if !span.is_empty() {
                guard.spend(span.len())?;
            }
            span.for_each(&mut take);
            Ok(())
        };
        if let Some(mut list) =
            self.ranges.and_then(|value| dwarf.attr_ranges(unit, value).transpose()).transpose()?
        {
            while let Some(range) = list.next()? {
                guard.spend(1)?; // many entries may share a list
                span(range.begin, range.end)?;
            }
            return Ok(());
        }
        let (Some(low), Some(high)) = (self.low(dwarf, unit), self.high) else { return Ok(()) };
        let high = match high.udata_value() {
            Some(len) => low.checked_add(len),
            None => dwarf.attr_address(unit, high)?,
        };
        span(low, high.ok_or(Broken)?)
    }
}
