//! `samples`: every sample with its stack, in the order of time.

mod rows;

use std::collections::HashMap;
use std::ops::Range;

use icecore_format::records::Sample;
use rayon::prelude::*;

use crate::cli::Select;
use crate::views::{Needs, Result, Screen, Shown, View};
use icecore_profile::map::Interned;
use icecore_profile::named::entry::entries;
use icecore_profile::named::pipeline::Loaded;
use icecore_profile::stacks::fields::Fields;
use icecore_profile::stacks::hits::{Apart, Key};
use icecore_profile::stacks::locate::{Locator, steps};
use icecore_profile::stacks::waits::WaitRows;
use icecore_profile::stacks::waits::kinds::Kinds;
use rows::Lister;

/// The arguments of `samples`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "icecore-report samples [OPTIONS] [FILE]...")]
#[command(after_help = "\
Examples:
  icecore-report samples demo.icecore --pid 4711 --to 100ms
  icecore-report samples demo.icecore --json | jq -r .comm | sort | uniq -c

Times are seconds after the start of the session. Frames are listed leaf first.")]
pub struct Args;

impl View for Args {
    fn needs(&self, _: &Select, _: u32) -> Needs {
        // Also loads the kernel stacks of waits whose kernel frames are not shown: they say the kinds.
        let apart = Apart { wall: true, ..Apart::default() };
        Needs { apart, is_no_page: true, lists_samples: true, ..Needs::default() }
    }

    fn show(&self, shown: &Shown<'_>, screen: &mut Screen<'_>) -> Result<bool> {
        write(shown, screen)?;
        Ok(true)
    }
}

/// The frames that one thread prints at once; also the samples, if there are more of them. A stack has up to a thousand frames.
const PIECE: usize = 1 << 12;
/// The bytes of names that one thread prints at once, unless a single sample has more.
const PIECE_BYTES: usize = 1 << 20;
/// The pieces that are printed before they are written; bounds the memory.
const PIECES: usize = 64;

fn lister<'a>(&Shown { report, located, .. }: &Shown<'a>) -> Lister<'a> {
    let (loaded, names) = (report.loaded, &report.profile.names);
    let locator = Locator::new(&loaded.tables, &loaded.spaces);
    let (matches, entries) = (loaded.patterns.matches(names), entries(names));
    let (waits, kinds) = (WaitRows::new(&loaded.tables), Kinds::new(&loaded.tables));
    let fields = Fields::new(&loaded.tables);
    Lister { loaded, located, names, locator, matches, waits, kinds, fields, entries }
}

/// Writes all samples that the filters select, as lines of text or of JSON.
pub fn write(shown: &Shown<'_>, screen: &mut Screen<'_>) -> Result<()> {
    let (json, out) = (screen.json, &mut *screen.out);
    let (loaded, names) = (shown.report.loaded, &shown.report.profile.names);
    let lister = lister(shown);
    let samples = selected(loaded);
    let depth = |stack| steps(&loaded.tables, stack).count();
    let frames: Vec<usize> = samples.par_iter().map(|(_, key)| depth(key.user) + depth(key.kernel)).collect();
    let longest = (0..names.frames.len() as u32).map(|frame| lister.bytes(frame)).max().unwrap_or(0);
    let piece = (PIECE_BYTES / longest.max(1)).clamp(1, PIECE);
    for window in pieces(&frames, piece).chunks(PIECES) {
        let texts: Vec<Vec<u8>> = window
            .par_iter()
            .map(|piece| {
                let mut text = Vec::new();
                let piece = &samples[piece.clone()];
                piece.iter().for_each(|(sample, key)| lister.print(sample, key, json, &mut text));
                text
            })
            .collect();
        for text in texts {
            out.write_all(&text)?;
        }
    }
    Ok(out.flush()?)
}

/// Lists the weights of the selected samples by the function that their stacks end in: its name, and the path of its image. Inlined
/// functions count for the function around them if `physical`.
pub(super) fn weights_of_leaves(
    shown: &Shown<'_>,
    physical: bool,
) -> HashMap<(String, Option<String>), Vec<u64>> {
    let lister = lister(shown);
    let mut positions: HashMap<Key, Option<usize>> = HashMap::new();
    let mut lists: Interned<(String, Option<String>)> = Interned::new();
    let mut weights: Vec<Vec<u64>> = Vec::new();
    for (sample, key) in selected(shown.report.loaded) {
        let position = positions.entry(key).or_insert_with(|| {
            let (name, image) = lister.leaf(&key, physical)?;
            Some(lists.intern((name.to_owned(), image.map(str::to_owned))) as usize)
        });
        weights.resize_with(lists.len(), Vec::new);
        if let Some(position) = position {
            weights[*position].push(sample.weight);
        }
    }
    lists.into_items().into_iter().zip(weights).collect()
}

/// Splits a list of samples into pieces with at most `most` frames, unless one sample alone has more. A sample counts as one more
/// than its frames.
fn pieces(frames: &[usize], most: usize) -> Vec<Range<usize>> {
    let mut pieces = Vec::new();
    let (mut begin, mut sum) = (0, 0);
    for (position, frames) in frames.iter().enumerate() {
        if sum + frames + 1 > most && position > begin {
            pieces.push(begin..position);
            (begin, sum) = (position, 0);
        }
        sum += frames + 1;
    }
    if begin < frames.len() {
        pieces.push(begin..frames.len());
    }
    pieces
}

/// Lists the requested samples by time. Blocks that cannot be read were counted before.
fn selected(loaded: &Loaded<'_>) -> Vec<(Sample, Key)> {
    let selection = loaded.selection();
    let of_block = |entry| {
        let rows = loaded.repaired.samples(loaded.recording, &loaded.tables, entry).into_iter().flatten();
        let wanted = rows.filter_map(|sample| Some((sample, selection.key(&sample)?)));
        wanted.filter(|(_, key)| !selection.is_emptied(key)).collect()
    };
    let blocks: Vec<Vec<(Sample, Key)>> = loaded.tables.sample_blocks.par_iter().map(of_block).collect();
    let mut samples: Vec<(Sample, Key)> = blocks.into_iter().flatten().collect();
    samples.sort_by_key(|(sample, _)| (sample.time_ns, sample.cpu));
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_cut_by_frames_not_by_samples() {
        assert_eq!(pieces(&[1, 1, 1000, 4, 4, 0], 10), [0..2, 2..3, 3..5, 5..6]);
        assert_eq!(pieces(&[0; 7], 3), [0..3, 3..6, 6..7]);
        assert!(pieces(&[], 3).is_empty());
    }
}
