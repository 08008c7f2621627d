//! Chooses which stacks are drawn: a picture has limited room, and all of its lines are in memory at once.

use icecore_profile::named::merged::{Cut, MergedStacks};
use icecore_text::quantity::{percent, things};
use icecore_text::shorten::{MAX_NAME_BYTES, shorten};

/// Frames narrower than this share are usually not drawn: a tenth of a pixel of 1,200.
pub(crate) const MIN_SHARE: f64 = 0.1 / 1200.0;
/// The most bytes of all lines together.
const MAX_LINES_BYTES: u64 = 128 << 20;
/// The deepest stack that is drawn.
const MAX_DEPTH: usize = 16 << 10;
/// How often the bounds may be halved: then names have 64 bytes, stacks 256 frames, and frames 0.5 % of the width.
const MAX_HALVED: u32 = 6;

/// The stacks that are drawn.
#[derive(Debug)]
pub(crate) struct Drawn {
    pub(crate) stacks: MergedStacks,
    /// The longest name, bytes.
    pub(crate) name_bytes: usize,
    /// Says which visible parts are left out.
    pub(crate) left_out: Vec<String>,
}

/// Leaves out frames that are too narrow to be seen: those of less than `min_share`. If the rest does not fit into memory, it also leaves out the narrowest,
/// deepest and longest parts.
pub(crate) fn drawn(stacks: MergedStacks, min_share: f64) -> Drawn {
    let totals = stacks.totals();
    let whole = totals.first().copied().unwrap_or_default();
    // The command line chooses whether samples or weights are drawn; a frame stays if one of them is wide enough.
    let share = |node: usize| {
        let samples = totals[node].samples as f64 / (whole.samples as f64).max(1.0);
        samples.max(totals[node].share_of(whole))
    };
    for halved in 0..=MAX_HALVED {
        let (least, depth) = (min_share * f64::from(1 << halved), MAX_DEPTH >> halved);
        let name_bytes = MAX_NAME_BYTES >> halved;
        let kept = stacks.kept(
            |node, at| at <= depth && share(node) >= least,
            |text| shorten(text, name_bytes).into_owned(),
        );
        if kept.line_bytes() > MAX_LINES_BYTES && halved < MAX_HALVED {
            continue;
        }
        let too_large = (halved > 0).then(|| {
            format!(
                "too large to be drawn whole: no frames under {} or deeper than {depth}, names up to {name_bytes} bytes",
                percent(least)
            )
        });
        let left_out = cut(&kept).into_iter().chain(too_large).collect();
        return Drawn { stacks: kept, name_bytes, left_out };
    }
    unreachable!("bug: the last bounds are taken")
}

/// Says which frames of deep stacks are left out.
fn cut(stacks: &MergedStacks) -> Option<String> {
    let part = match stacks.cut? {
        Cut::Middle(most) => format!("the middle of stacks of more than {most} frames"),
        Cut::Outermost(most) => format!("the outermost frames of stacks of more than {most}"),
    };
    let samples = things(stacks.cut_samples, "sample");
    Some(format!("{part} (--collapse folds recursion, --max-depth draws more): {samples}"))
}
