//! `samples`: every sample with its stack, in the order of time.

mod rows;

use std::io::Write;

use icecore_format::records::{Sample, SamplesV1};
use rayon::prelude::*;

use crate::hits::Key;
use crate::locate::Locator;
use crate::pipeline::{Loaded, Named};
use rows::Lister;

/// Samples that one thread prints at once.
const PIECE: usize = 512;
/// Pieces that are printed before they are written: bounds the memory.
const PIECES: usize = 64;

/// Writes all samples that the filters keep, as lines of text or of JSON.
pub fn write(
    loaded: &Loaded<'_>,
    named: Named,
    json: bool,
    out: &mut (dyn Write + Send),
) -> anyhow::Result<()> {
    let lister = Lister {
        loaded,
        named: &named,
        locator: Locator::new(&loaded.tables, &loaded.timeline),
        matches: loaded.patterns.matches(&named.names),
    };
    let samples = selected(loaded);
    for window in samples.chunks(PIECE * PIECES) {
        let pieces: Vec<Vec<u8>> = window
            .par_chunks(PIECE)
            .map(|piece| {
                let mut text = Vec::new();
                piece.iter().for_each(|(sample, key)| lister.print(sample, key, json, &mut text));
                text
            })
            .collect();
        for piece in pieces {
            out.write_all(&piece)?;
        }
    }
    Ok(out.flush()?)
}

/// Lists the wanted samples by time. Blocks that cannot be read were counted before.
fn selected(loaded: &Loaded<'_>) -> Vec<(Sample, Key)> {
    let selection = loaded.selection();
    let of_block = |entry| {
        let mut samples = Vec::new();
        let Ok(payload) = loaded.recording.payload(entry) else { return samples };
        let Ok(view) = payload.view::<SamplesV1>() else { return samples };
        samples.extend(view.rows().filter_map(|sample| Some((sample, selection.key(&sample)?))));
        samples.retain(|(_, key)| !selection.is_emptied(key));
        samples
    };
    let blocks: Vec<Vec<(Sample, Key)>> = loaded.tables.sample_blocks.par_iter().map(of_block).collect();
    let mut samples: Vec<(Sample, Key)> = blocks.into_iter().flatten().collect();
    samples.sort_by_key(|(sample, _)| (sample.time_ns, sample.cpu));
    samples
}
