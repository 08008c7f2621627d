//! The rows of a block under numbers that are unique in the file.

use icecore_format::records::References;

use super::{CleanBlock, Part};

impl Part {
    /// Gives the rows of a block numbers that are unique in the file. Sessions and receipts stay as they are: parts keep
    /// what they need of them. Closed blocks are renumbered when they are opened.
    ///
    /// # Errors
    /// The cause, if there are no more numbers.
    pub(in crate::recording::load) fn shift(&self, block: &mut CleanBlock) -> Result<(), String> {
        if self.is_alone {
            return Ok(());
        }
        if let Some((table, first)) = block.defines() {
            let base = self.ids[table as usize].base;
            let len = block.items().unwrap_or_default();
            let end = u64::from(base) + u64::from(first) + len as u64;
            if end > u64::from(u32::MAX) {
                return Err(format!("id {end} of all sessions together is too large"));
            }
            block.shift(base);
        }
        block.visit(&mut |reference| self.renumber(reference));
        Ok(())
    }
}
