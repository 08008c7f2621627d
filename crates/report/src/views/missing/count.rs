//! Counts the frames that have no name, or no source line, by image.

use std::collections::BTreeMap;

use icecore_profile::named::names::{Frame, Side};
use icecore_profile::named::{Amount, Profile, groups, sums, through};
use icecore_symbolize::Reason;

/// The frames of one image that lack something.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lack {
    /// Its position in the images of the names.
    pub(super) image: u32,
    /// Why the frames have no name; `None` if they only lack a source line.
    pub(super) reason: Option<Reason>,
    /// The samples with such a frame.
    pub(super) through: Amount,
    /// The number of such frames.
    pub(super) frames: u64,
}

/// The counts of all frames.
#[derive(Debug)]
pub(super) struct Lacks {
    /// By the weight of their samples, heaviest first.
    pub(super) lacks: Vec<Lack>,
    /// The frames in no file, by reason.
    pub(super) others: BTreeMap<&'static str, u64>,
    /// All frames, each counted once per sample.
    pub(super) frames: u64,
}

/// Returns true if a file, or the right version of a file, would name the frame.
fn is_of_a_file(reason: Reason) -> bool {
    match reason {
        Reason::ImageMissing
        | Reason::NotAFile
        | Reason::BuildIdMismatch
        | Reason::ImageChanged
        | Reason::ImageUnproven
        | Reason::ImageUnknown
        | Reason::ImageUnreadable
        | Reason::ImageDenied
        | Reason::NoAnswer
        | Reason::NoSymbol => true,
        Reason::Unmapped
        | Reason::Jit
        | Reason::Vdso
        | Reason::Special
        | Reason::KernelSymbolMissing
        | Reason::StackLost
        | Reason::CodeGone => false,
    }
}

/// Returns what one frame lacks; `None` if nothing, or nothing that a file would have.
fn lack(profile: &Profile, frame: &Frame) -> Option<(u32, Option<Reason>)> {
    let function = &profile.names.functions[frame.function as usize];
    match function.reason {
        Some(reason) if is_of_a_file(reason) => Some((function.image?, Some(reason))),
        None if function.side == Side::User && frame.line.is_none() => Some((function.image?, None)),
        _ => None,
    }
}

/// Counts the frames without a name, each once per sample.
pub(super) fn unnamed_frames(profile: &Profile) -> u64 {
    let amounts = through(profile, profile.at_stacks());
    let stacks = profile.stacks.iter().zip(&amounts).skip(1);
    stacks.filter(|(stack, _)| profile.function(**stack).reason.is_some()).map(|(_, a)| a.samples).sum()
}

/// Counts all frames of a profile by what they lack.
pub(super) fn count(profile: &Profile) -> Lacks {
    // Group 0 lacks nothing; then come images that lack names, then images that lack lines.
    let images = profile.names.images.len();
    let group = |frame: &Frame| match lack(profile, frame) {
        Some((image, Some(_))) => image + 1,
        Some((image, None)) => image + 1 + images as u32,
        None => 0,
    };
    let of_frame: Vec<u32> = profile.names.frames.iter().map(group).collect();
    let group_of = groups(profile, &of_frame, |_| true);
    let sums = sums(profile, &group_of, 2 * images + 1);
    let amounts = through(profile, profile.at_stacks());
    let mut of_group = vec![0u64; sums.len()];
    // The reason with the most weight stands for the image.
    let mut reasons: BTreeMap<u32, BTreeMap<Reason, u64>> = BTreeMap::new();
    let mut others = BTreeMap::new();
    for (stack, amount) in profile.stacks.iter().zip(&amounts).skip(1) {
        let frame = &profile.names.frames[stack.frame as usize];
        let group = of_frame[stack.frame as usize];
        of_group[group as usize] += amount.samples;
        match (group, profile.names.functions[frame.function as usize].reason) {
            (0, Some(reason)) => *others.entry(reason.code()).or_default() += amount.samples,
            (_, Some(reason)) => {
                *reasons.entry(group).or_default().entry(reason).or_default() += amount.samples;
            }
            (_, None) => {}
        }
    }
    let reason = |group: u32| {
        let of_group = reasons.get(&group)?;
        of_group.iter().max_by_key(|(reason, n)| (**n, **reason)).map(|(reason, _)| *reason)
    };
    let lack = |group: u32| {
        let image = (group - 1) % images as u32;
        let (through, frames) = (sums[group as usize].total, of_group[group as usize]);
        Lack { image, reason: reason(group), through, frames }
    };
    let mut lacks: Vec<Lack> =
        (1..sums.len() as u32).filter(|&group| of_group[group as usize] > 0).map(lack).collect();
    lacks.sort_by(|a, b| {
        let path = |lack: &Lack| &profile.names.images[lack.image as usize].path;
        (b.through.weight, b.frames).cmp(&(a.through.weight, a.frames)).then_with(|| path(a).cmp(path(b)))
    });
    let frames = amounts.iter().skip(1).map(|amount| amount.samples).sum();
    Lacks { lacks, others, frames }
}

#[cfg(test)]
mod tests {
    use super::*;
    use icecore_profile::named::fixture;

    #[test]
    fn samples_count_once_and_frames_as_often_as_they_occur() {
        let mut profile = fixture::profile(&[("main;x;x", 3), ("main;y", 2), ("z;main", 1)]);
        for function in &mut profile.names.functions {
            function.reason = match &*function.name {
                "x" => Some(Reason::ImageMissing),
                "z" => Some(Reason::Jit),
                _ => None,
            };
        }
        let counted = count(&profile);
        assert_eq!((counted.frames, unnamed_frames(&profile)), (15, 7));
        assert_eq!(counted.others, BTreeMap::from([("jit", 1)]));
        let lacks: Vec<_> =
            counted.lacks.iter().map(|lack| (lack.reason, lack.through.samples, lack.frames)).collect();
        assert_eq!(lacks, [(None, 6, 8), (Some(Reason::ImageMissing), 3, 6)]);
    }
}
