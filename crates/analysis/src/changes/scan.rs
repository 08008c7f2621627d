//! Finds the clearest step of a piece of a series, and whether chance makes one as clear.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

/// A fixed seed: every run shuffles alike.
const SEED: u64 = 0x1ce_c04e;
/// How many shuffled series may show as clear a step.
const EXCEEDING: usize = 3;
/// Smaller steps may be rounding errors; as a share of the sum of squares.
const ROUNDING: f64 = 1e-12;
/// The ratio of the lengths of intervals in consecutive layers.
const SHORTER: f64 = std::f64::consts::FRAC_1_SQRT_2;

/// A step that is hardly chance.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClearStep {
    /// The position of the first value after it.
    pub(super) at: usize,
    /// The share of shuffled series with as clear a step.
    pub(super) p: f64,
    /// Chance makes steps that are less clear than this.
    pub(super) threshold: f64,
}

/// A piece of a series, and a limited number of intervals in it, of all lengths and positions.
#[derive(Debug)]
pub(super) struct Scan<'a> {
    values: &'a [f64],
    weights: &'a [f64],
    shortest: usize,
    intervals: Vec<(usize, usize)>,
}

/// The clearest step in an interval.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LevelStep {
    pub(super) at: usize,
    /// The squared difference of the means, over its variance.
    pub(super) clear: f64,
}

impl<'a> Scan<'a> {
    pub(super) fn new(values: &'a [f64], weights: &'a [f64], shortest: usize) -> Self {
        Self { values, weights, shortest, intervals: intervals(values.len(), 2 * shortest) }
    }

    /// The clearest step of the whole piece.
    pub(super) fn clearest(&self) -> LevelStep {
        let sums = Sums::new(self.values.iter().copied(), self.weights);
        sums.clearest(0, self.values.len(), self.shortest)
    }

    /// Finds a step that at most this share of the shuffled pieces show as clearly: that of the shortest interval that shows one,
    /// since a longer interval may hold several.
    pub(super) fn change(&self, false_alarms: f64) -> Option<ClearStep> {
        let sums = Sums::new(self.values.iter().copied(), self.weights);
        let steps: Vec<LevelStep> =
            self.intervals.iter().map(|(b, e)| sums.clearest(*b, *e, self.shortest)).collect();
        let clearest = steps.iter().map(|step| step.clear).fold(0.0, f64::max);
        let shuffles = ((EXCEEDING + 1) as f64 / false_alarms).ceil() as usize - 1;
        let by_chance = self.by_chance(clearest, shuffles)?;
        let len = |position: &usize| self.intervals[*position].1 - self.intervals[*position].0;
        let is_clear = |position: &usize| steps[*position].clear > by_chance.threshold;
        let shown = (0..steps.len()).filter(is_clear).min_by(|a, b| {
            len(a)
                .cmp(&len(b))
                .then_with(|| steps[*b].clear.total_cmp(&steps[*a].clear))
                .then_with(|| a.cmp(b))
        })?;
        Some(ClearStep { at: steps[shown].at, p: by_chance.p, threshold: by_chance.threshold })
    }

    /// Shuffles the piece again and again; `None` if too many show a step as clear.
    fn by_chance(&self, clearest: f64, shuffles: usize) -> Option<Chance> {
        let squares: f64 =
            self.values.iter().zip(self.weights).map(|(value, weight)| value * value * weight).sum();
        if clearest <= squares * ROUNDING {
            return None;
        }
        // Under the null hypothesis these have one distribution: deviations in units of their standard error.
        let weight: f64 = self.weights.iter().sum();
        let mean =
            self.values.iter().zip(self.weights).map(|(value, weight)| value * weight).sum::<f64>() / weight;
        let deviations =
            self.values.iter().zip(self.weights).map(|(value, weight)| (value - mean) * weight.sqrt());
        let mut deviations: Vec<f64> = deviations.collect();
        let scales: Vec<f64> = self.weights.iter().map(|weight| 1.0 / weight.sqrt()).collect();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
        // The clearest steps of all shuffled series, descending.
        let mut largest: Vec<f64> = Vec::new();
        let mut exceeding = 0;
        for _ in 0..shuffles {
            shuffle(&mut deviations, &mut random);
            let sums =
                Sums::new(deviations.iter().zip(&scales).map(|(value, scale)| value * scale), self.weights);
            let clear = |(begin, end): &(usize, usize)| sums.clearest(*begin, *end, self.shortest).clear;
            let shuffled = self.intervals.iter().map(clear).fold(0.0, f64::max);
            exceeding += usize::from(shuffled >= clearest);
            if exceeding > EXCEEDING {
                return None;
            }
            let place = largest.partition_point(|known| *known > shuffled);
            largest.insert(place, shuffled);
            largest.truncate(EXCEEDING + 1);
        }
        let threshold = largest.last().copied().unwrap_or_default();
        Some(Chance { p: (exceeding + 1) as f64 / (shuffles + 1) as f64, threshold })
    }
}

/// The steps that chance makes.
struct Chance {
    p: f64,
    /// Chance makes clearer steps rarely enough.
    threshold: f64,
}

/// Sums of weights, and of weighted values, before each position.
struct Sums {
    weights: Vec<f64>,
    values: Vec<f64>,
}

impl Sums {
    fn new(values: impl Iterator<Item = f64>, weights: &[f64]) -> Self {
        let (mut weight, mut sum) = (0.0, 0.0);
        let mut sums = Self { weights: vec![0.0], values: vec![0.0] };
        for (value, own) in values.zip(weights) {
            weight += own;
            sum += value * own;
            sums.weights.push(weight);
            sums.values.push(sum);
        }
        sums
    }

    /// Finds the clearest step of an interval, with at least `shortest` values on both sides.
    fn clearest(&self, begin: usize, end: usize, shortest: usize) -> LevelStep {
        let (weight, value) =
            (self.weights[end] - self.weights[begin], self.values[end] - self.values[begin]);
        let mut best = LevelStep::default();
        for at in begin + shortest..(end + 1).saturating_sub(shortest) {
            let (left, sum) = (self.weights[at] - self.weights[begin], self.values[at] - self.values[begin]);
            let right = weight - left;
            let difference = sum * right - (value - sum) * left;
            let clear = difference * difference / (left * right * weight);
            if clear > best.clear {
                best = LevelStep { at, clear };
            }
        }
        best
    }
}

/// Returns intervals of all lengths down to the shortest; those of one length overlap by half.
pub(super) fn intervals(len: usize, shortest: usize) -> Vec<(usize, usize)> {
    let lengths = std::iter::successors(Some(len as f64), |len| Some(len * SHORTER));
    let mut all = Vec::new();
    for length in lengths.take_while(|length| *length >= shortest.max(2) as f64) {
        let number = (2.0 * (len as f64 / length).ceil()) as usize - 1;
        for place in 0..number {
            let begin = match number {
                1 => 0.0,
                _ => place as f64 * (len as f64 - length) / (number - 1) as f64,
            };
            all.push((begin.floor() as usize, ((begin + length).ceil() as usize).min(len)));
        }
    }
    all.dedup();
    all
}

/// Shuffles by Fisher and Yates.
fn shuffle(values: &mut [f64], random: &mut Xoshiro256PlusPlus) {
    for last in (1..values.len()).rev() {
        // The product with a number below 2⁶⁴ is below `last + 1` in its upper half.
        let other = (u128::from(random.next_u64()) * (last as u128 + 1)) >> 64;
        values.swap(last, other as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_cover_every_place_at_every_length() {
        let all = intervals(100, 10);
        assert_eq!(all[0], (0, 100));
        assert!(all.iter().all(|(begin, end)| begin < end && *end <= 100 && end - begin >= 10));
        for at in 5..95 {
            let holds = |(begin, end): &&(usize, usize)| begin + 5 <= at && at + 5 <= *end;
            assert!(all.iter().filter(holds).any(|(begin, end)| end - begin <= 20), "{at}");
        }
        assert!(all.len() < 100 && intervals(3, 4).is_empty());
    }

    #[test]
    fn a_step_is_clearest_where_it_is() {
        let values: Vec<f64> = (0..40).map(|t| f64::from(u8::from(t >= 25))).collect();
        let weights = vec![1.0; 40];
        let scan = Scan::new(&values, &weights, 3);
        assert_eq!(scan.clearest().at, 25);
        assert_eq!(scan.change(0.01).map(|found| found.at), Some(25));
        assert!(Scan::new(&[5.0; 40], &weights, 3).change(0.5).is_none());
    }
}
