//! Weighs images by the frames that they would name.

use crate::stacks::hits::Hit;
use crate::stacks::locate::{CodeLocation, Located};

/// Computes the weight of each image: each sample counts for every frame that it has in the image.
///
/// # Cost   one visit of each spot
pub(crate) fn weigh(located: &Located, hits: &[Hit], images: usize) -> Vec<u64> {
    let mut through = vec![0u64; located.spots.len()];
    for (leaf, hit) in located.leaves.iter().zip(hits) {
        through[*leaf as usize] += hit.samples;
    }
    let mut weights = vec![0; images];
    // A caller comes before its callees.
    for (position, spot) in located.spots.iter().enumerate().skip(1).rev() {
        let samples = through[position];
        through[spot.caller as usize] += samples;
        if let Some(CodeLocation::Image(image, _)) = located.places.get(spot.place as usize) {
            weights[*image as usize] += samples;
        }
    }
    weights
}

#[cfg(test)]
mod tests {
    use icecore_format::records::{StackRepair, WalkEnd};

    use super::*;
    use crate::stacks::hits::Key;
    use crate::stacks::locate::Spot;
    use icecore_symbolize::image::FileOff;

    #[test]
    fn every_frame_weighs_its_samples() {
        let place = |image, off| CodeLocation::Image(image, FileOff(off));
        let spot = |caller, place| Spot { caller, place };
        // main → a, main → main → b; `b` is in another image, and nothing hits the third.
        let located = Located {
            guessed: Vec::new(),
            places: vec![place(0, 1), place(0, 2), place(1, 7), CodeLocation::Unmapped],
            spots: vec![spot(u32::MAX, u32::MAX), spot(0, 0), spot(1, 1), spot(1, 0), spot(3, 2), spot(0, 3)],
            leaves: vec![2, 4, 5],
        };
        let key = Key {
            cgroup: 0,
            event: 0,
            cpu: 0,
            field: 0,
            wait: 0,
            space: None,
            user: 1,
            kernel: 0,
            task: 0,
            end: WalkEnd::ROOT,
            repair: StackRepair::NONE,
            in_kernel: false,
        };
        let hits = [3, 5, 9].map(|samples| Hit { key, samples, weight: 1, span_ns: (0, 0) });
        assert_eq!(weigh(&located, &hits, 3), [3 * 2 + 5 * 2, 5, 0]);
    }
}
