//! Puts symbols, unwind tables and files of the images that were hit into the recording.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use icecore_format::records::{Omission, SymbolsV1, UnwindRulesV1};

use super::{Digest, Wishes};
use crate::collect::files::{Carried, Extent, Omitted};
use crate::collect::jit::JitCounts;
use crate::collect::{Collected, Collector};
use crate::settings::Embed;
use crate::sys::usage;
use crate::track::batch::Batch;
use crate::track::jit::Made;

/// The number of rows in one block of symbols: a few MiB of names.
const SYMBOLS_PER_BLOCK: usize = 32 << 10;
/// A message says that files are being embedded if that takes longer than this.
const TOLD_AFTER: Duration = Duration::from_millis(1500);

/// What was embedded, and what was skipped.
#[derive(Debug, Default)]
pub(crate) struct Embedded {
    pub(crate) functions: u64,
    pub(crate) images: u64,
    /// The number of code addresses beyond the limit, which were not looked up.
    pub(crate) left_out: u64,
    /// JIT code.
    pub(crate) jit: JitCounts,
    /// Their files.
    pub(crate) files: Carried,
}

impl Digest {
    /// Writes the results of the collector after sampling has ended.
    pub(super) fn embed(&mut self, wishes: &Wishes<'_>) -> Embedded {
        let mut untabled =
            self.frame_pointers.as_mut().map(|it| it.untabled(&self.tracker)).unwrap_or_default();
        let Some(mut collector) = self.collector.take() else {
            let left_out = untabled.into_iter().map(|(image, why)| Omitted::of(image, b"", why)).collect();
            return Embedded { files: Carried { left_out, ..Carried::default() }, ..Embedded::default() };
        };
        let Collected { symbols, rules, images, left_out, jit, jit_told } = collector.find();
        self.send_jit(&jit);
        for rows in symbols.chunks(SYMBOLS_PER_BLOCK) {
            let _ = self.batches.send(Batch { symbols: SymbolsV1::from_rows(rows), ..Batch::default() });
        }
        for rows in rules.chunks(SYMBOLS_PER_BLOCK) {
            let unwind_rules = UnwindRulesV1::from_rows(rows);
            let _ = self.batches.send(Batch { unwind_rules, ..Batch::default() });
        }
        let functions = symbols.len() as u64;
        drop((symbols, rules));
        let path = |image| collector.path(image).unwrap_or_default();
        let refused = self.frame_pointers.iter().flat_map(|it| it.refused_interpreters());
        untabled.extend(refused.filter(|(image, _)| collector.is_hit(*image)));
        let untabled: Vec<_> =
            untabled.into_iter().map(|(image, why)| Omitted::of(image, path(image), why)).collect();
        let mut files = match wishes.embed {
            Embed::None | Embed::Hits => Carried { left_out: collector.unanswered(), ..Carried::default() },
            Embed::Sections => self.carry(collector, Extent::Sections, wishes),
            Embed::All => self.carry(collector, Extent::Whole, wishes),
        };
        files.left_out.extend(untabled);
        Embedded { functions, images, left_out, jit: jit_told, files }
    }

    pub(super) fn send_jit(&mut self, rows: &[Made]) {
        for rows in rows.chunks(SYMBOLS_PER_BLOCK) {
            let _ = self.batches.send(self.tracker.jit(rows));
        }
    }

    /// Embeds the files. A signal ends only this, even if it is the second one; the next signal aborts the recorder.
    fn carry(&mut self, collector: Collector, extent: Extent, wishes: &Wishes<'_>) -> Carried {
        usage::background_priority();
        let Wishes { stop, refused, .. } = wishes;
        let was_asked = stop.swap(false, Ordering::Relaxed);
        let begun = Instant::now();
        let mut is_told = !wishes.is_told;
        let mut put = |image_parts| {
            if stop.load(Ordering::Relaxed) || refused.load(Ordering::Relaxed) {
                return false;
            }
            if !is_told && begun.elapsed() > TOLD_AFTER {
                is_told = true;
                (wishes.tell)(
                    "icecore-record: sampling is over; taking files into the recording (Ctrl-C ends that)\n",
                );
            }
            self.batches.send(Batch { image_parts, ..Batch::default() }).is_ok()
        };
        let mut carried = collector.carry(extent, wishes.max_bytes, &mut put);
        stop.fetch_or(was_asked, Ordering::Relaxed);
        if refused.load(Ordering::Relaxed) {
            let rows = carried.left_out.iter_mut().map(|omitted| &mut omitted.row);
            rows.filter(|row| row.why == Omission::INTERRUPTED)
                .for_each(|row| row.why = Omission::WRITE_FAILED);
        }
        carried
    }
}
