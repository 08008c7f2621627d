//! Compares how many samples are in a file with what its receipts say: blocks of samples that are gone leave no other trace.

use icecore_format::block::Kind;
use icecore_format::read::Recording;
use icecore_format::records::{Cause, EndReason, LossesV1, Payload as _, ReceiptV1};

/// The samples of one session that has a receipt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    /// Where its receipt lies, bytes from the start of the file.
    pub receipt_off: u64,
    /// End of sampling on its own clock, ns.
    pub end_ns: u64,
    /// Samples in the file, by the headers of their blocks.
    pub in_file: u64,
    /// Samples that the file should have: those of the receipt without those that are known to be lost since.
    pub expected: u64,
    /// The file says itself that blocks were lost before it was written.
    pub blocks_lost: bool,
}

impl Counted {
    /// Counts the samples that are missing although nothing in the file says so.
    pub fn missing(&self) -> u64 {
        self.expected.saturating_sub(self.in_file)
    }
}

/// Returns the number of samples that a receipt claims.
pub fn expected(receipt: &ReceiptV1) -> u64 {
    receipt.kept_samples.unwrap_or(receipt.samples)
}

/// Returns true if nothing was cut off since the session ended.
pub fn is_whole(receipt: &ReceiptV1) -> bool {
    [receipt.cut_from_ns, receipt.cut_to_ns, receipt.kept_samples] == [None; 3]
}

/// Counts the samples of all sessions with a receipt.
///
/// # Cost
/// Opens the blocks of losses and receipts, which are few and small.
pub fn sessions(recording: &Recording) -> Vec<Counted> {
    let mut sessions = Vec::new();
    let (mut now, mut damaged, mut lost) = (Counted::default(), 0_u64, 0_u64);
    for entry in recording.entries() {
        match (entry.header.kind, entry.header.version) {
            (Kind::SESSION, _) => (now, damaged, lost) = Default::default(),
            (Kind::SAMPLES, _) => now.in_file += u64::from(entry.header.items),
            (LossesV1::KIND, LossesV1::VERSION) => {
                let Ok(payload) = recording.payload(entry) else { continue };
                let Ok(losses) = payload.view::<LossesV1>() else { continue };
                for loss in losses.rows() {
                    now.blocks_lost |= loss.cause == Cause::BLOCKS_DAMAGED && loss.count > 0;
                    let of = |is_it| if is_it { loss.count } else { 0 };
                    damaged = damaged.saturating_add(of(loss.cause == Cause::DAMAGED));
                    lost = lost.saturating_add(of(loss.cause != Cause::BLOCKS_DAMAGED));
                }
            }
            (ReceiptV1::KIND, ReceiptV1::VERSION) => {
                let payload = recording.payload(entry);
                let receipt = payload.and_then(|payload| payload.view::<ReceiptV1>()?.to_owned_record());
                if let Ok(receipt) = receipt {
                    // What a cut has kept, and what a repair has found, are counted without what was lost before.
                    let lost = match receipt.kept_samples {
                        Some(_) => 0,
                        None if receipt.end_reason == EndReason::REPAIRED => {
                            lost.saturating_sub(receipt.lost)
                        }
                        None => damaged,
                    };
                    let expected = expected(&receipt).saturating_sub(lost);
                    sessions.push(Counted {
                        receipt_off: entry.off,
                        end_ns: receipt.end_ns,
                        expected,
                        ..now
                    });
                }
                (now, damaged, lost) = Default::default();
            }
            _ => {}
        }
    }
    sessions
}

/// Adds up the samples that are gone.
pub(crate) fn missing(recording: &Recording) -> u64 {
    sessions(recording).iter().fold(0, |sum, session| sum.saturating_add(session.missing()))
}
