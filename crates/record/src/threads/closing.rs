//! Puts symbols, unwind tables and files of the images that were hit into a file whose samples are all written.

use std::collections::BTreeMap;

use icecore_format::records::{
    Cause, ImagePartsV1, LeftOut, Loss, Omission, ReceiptV1, SymbolsV1, UnwindRulesV1,
};
use rustc_hash::FxHashMap;

use super::triggers::Trigger;
use crate::collect::files::{Carried, Extent, Omitted};
use crate::collect::jit::JitCounts;
use crate::collect::{Collected, Collector};
use crate::settings::Embed;
use crate::track::batch::Batch;
use crate::track::jit::Made;
use crate::track::tracker::{OfFile, Totals};

/// The number of rows in one block of symbols: a few MiB of names.
const SYMBOLS_PER_BLOCK: usize = 32 << 10;

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

/// A file that has all of its samples, and lacks the names of what they hit.
#[derive(Debug)]
pub struct Closing {
    pub(super) file: OfFile,
    /// `None` with `--embed none`.
    pub(super) collector: Option<Collector>,
    /// Images without unwind tables in the sampler, and why, by the ids of the tracker.
    pub(super) untabled: Vec<(u32, Omission)>,
    /// Images with an interpreter of whose frames nothing is known.
    pub(super) refused: Vec<(u32, Omission)>,
}

/// All that a finished file needs.
#[derive(Debug)]
pub struct Close {
    pub(super) closing: Closing,
    pub(super) totals: Totals,
    /// Items lost, by cause.
    pub(super) losses: FxHashMap<Cause, u64>,
    /// What the main thread knows: the end, and what the recorder used meanwhile.
    pub(crate) spent: ReceiptV1,
    pub(crate) turned: Turned,
}

/// What is known of a file that ends.
#[derive(Debug, Clone, Default)]
pub(crate) struct Turned {
    /// It is the first, the second, and so on.
    pub(crate) number: u64,
    /// When it began, ns `CLOCK_MONOTONIC`.
    pub(crate) began_ns: u64,
    /// What asked for it.
    pub(crate) trigger: Option<Trigger>,
}

impl Closing {
    /// Hands over blocks with what the collector finds. Files come last, of `max_bytes` together at most, while `goes_on` returns true.
    pub(super) fn embed(
        mut self,
        embed: Embed,
        max_bytes: u64,
        put: &mut dyn FnMut(Batch),
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Embedded {
        let Some(mut collector) = self.collector.take() else {
            let untabled = self.untabled.iter().map(|(image, why)| Omitted::of(*image, b"", *why));
            let left_out = self.in_file(untabled.collect());
            return Embedded { files: Carried { left_out, ..Carried::default() }, ..Embedded::default() };
        };
        let Collected { mut symbols, mut rules, images, left_out, jit, jit_told } = collector.find();
        put_jit(&mut self.file, &jit, put);
        symbols.retain_mut(|symbol| self.place(&mut symbol.image));
        symbols.sort_unstable_by_key(|symbol| (symbol.image, symbol.start, symbol.end));
        for rows in symbols.chunks(SYMBOLS_PER_BLOCK) {
            put(Batch { symbols: SymbolsV1::from_rows(rows), ..Batch::default() });
        }
        rules.retain_mut(|rule| self.place(&mut rule.image));
        rules.sort_unstable();
        for rows in rules.chunks(SYMBOLS_PER_BLOCK) {
            put(Batch { unwind_rules: UnwindRulesV1::from_rows(rows), ..Batch::default() });
        }
        let functions = symbols.len() as u64;
        drop((symbols, rules));
        let mut untabled = std::mem::take(&mut self.untabled);
        untabled.extend(self.refused.iter().filter(|(image, _)| collector.is_hit(*image)));
        let path = |image| collector.path(image).unwrap_or_default();
        let untabled: Vec<_> =
            untabled.into_iter().map(|(image, why)| Omitted::of(image, path(image), why)).collect();
        let mut put_parts = |mut image_parts: ImagePartsV1| {
            let goes_on = goes_on();
            if goes_on && self.place(&mut image_parts.image) {
                put(Batch { image_parts, ..Batch::default() });
            }
            goes_on
        };
        let mut files = match embed {
            Embed::None | Embed::Hits => Carried { left_out: collector.unanswered(), ..Carried::default() },
            Embed::Sections => collector.carry(Extent::Sections, max_bytes, &mut put_parts),
            Embed::All => collector.carry(Extent::Whole, max_bytes, &mut put_parts),
        };
        files.left_out.extend(untabled);
        files.left_out = self.in_file(files.left_out);
        Embedded { functions, images, left_out, jit: jit_told, files }
    }

    /// Replaces the tracker's id of an image by that in the file; returns false if the file does not refer to it.
    fn place(&self, image: &mut u32) -> bool {
        self.file.known_image(*image).is_some_and(|known| {
            *image = known;
            true
        })
    }

    /// Keeps the rows of images to which the file refers.
    fn in_file(&self, mut omitted: Vec<Omitted>) -> Vec<Omitted> {
        omitted.retain_mut(|omitted| self.place(&mut omitted.row.image));
        omitted
    }
}

/// Hands over blocks of JIT code.
pub(super) fn put_jit(file: &mut OfFile, rows: &[Made], put: &mut dyn FnMut(Batch)) {
    rows.chunks(SYMBOLS_PER_BLOCK).for_each(|rows| put(file.jit(rows)));
}

/// Returns the losses after the last samples of a file, and those that were noticed only then. `refused` has the samples that the disk
/// refused by event, their number and their weight, and `names_refused` the number of names.
pub(crate) fn last_losses(
    time_ns: u64,
    embedded: &Embedded,
    refused: &BTreeMap<u8, (u64, u64)>,
    names_refused: u64,
) -> Vec<Loss> {
    let refused = refused.iter().map(|(event, (count, weight))| Loss {
        event: *event,
        weight: *weight,
        ..Loss::of(Cause::WRITE_FAILED, *count)
    });
    let others = [
        (Cause::CODE_UNNAMED, embedded.left_out + embedded.jit.left_out),
        (Cause::JIT_FILE_CUT, embedded.jit.cut_files),
        (Cause::NAMES_REFUSED, names_refused),
    ];
    let others = others.into_iter().filter(|(_, count)| *count > 0);
    let losses = refused.chain(others.map(|(cause, count)| Loss::of(cause, count)));
    losses.map(|loss| Loss { time_ns, ..loss }).collect()
}

/// Returns the rows of what was skipped.
pub(crate) fn left_out(embedded: &Embedded) -> Vec<LeftOut> {
    embedded.files.left_out.iter().map(|omitted| omitted.row).collect()
}
