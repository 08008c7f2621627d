//! Draws values of stretches of time, of which some were not sampled, or not all the time.

use icecore_text::chart::chart;

/// Stands where nobody sampled.
pub(super) const UNSAMPLED: &str = "·";

/// Returns the largest value of those that were sampled at least half as long as the one that was sampled longest: in less time chance makes
/// large values. Without shares, all were.
pub(super) fn peak(values: &[Option<f64>], sampled: &[f64]) -> f64 {
    let enough = longest(sampled) / 2.0;
    let all = values.iter().enumerate().filter(|(at, _)| sampled.get(*at).is_none_or(|it| *it >= enough));
    all.filter_map(|(_, value)| *value).fold(0.0, f64::max)
}

/// Returns the largest share that was sampled.
pub(super) fn longest(sampled: &[f64]) -> f64 {
    sampled.iter().copied().fold(0.0, f64::max)
}

/// Returns the means of neighbours, by the share of each that was sampled (without shares all of it), and the largest mean.
pub(super) fn squeezed(values: &[Option<f64>], sampled: &[f64], per: usize) -> (Vec<Option<f64>>, f64) {
    let weight = |at: usize| sampled.get(at).copied().unwrap_or(1.0);
    let mean = |(first, part): (usize, &[Option<f64>])| {
        let known = (first * per..).zip(part).filter_map(|(at, value)| Some((weight(at), (*value)?)));
        let (weights, sum) =
            known.fold((0.0, 0.0), |sum, (weight, value)| (sum.0 + weight, sum.1 + weight * value));
        (weights > 0.0).then(|| sum / weights)
    };
    let values: Vec<Option<f64>> = values.chunks(per).enumerate().map(mean).collect();
    let weights: Vec<f64> =
        (0..values.len()).map(|cell| (cell * per..(cell + 1) * per).map(weight).sum::<f64>()).collect();
    let peak = peak(&values, if sampled.is_empty() { &[] } else { &weights });
    (values, peak)
}

/// Draws values; where there is none, the lowest line has a mark.
pub(super) fn drawn(values: &[Option<f64>], peak: f64, tall: usize) -> Vec<String> {
    let known: Vec<f64> = values.iter().map(|value| value.unwrap_or(0.0)).collect();
    let mut lines = chart(&known, peak, tall);
    if let Some(lowest) = lines.last_mut() {
        let cell = |(value, drawn): (&Option<f64>, char)| {
            if value.is_none() { UNSAMPLED.to_owned() } else { drawn.to_string() }
        };
        *lowest = values.iter().zip(lowest.chars()).map(cell).collect();
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_drawn_as_their_mean() {
        let values = [1.0, 3.0, 5.0].map(Some);
        assert_eq!(squeezed(&values, &[], 2), (vec![Some(2.0), Some(5.0)], 5.0));
        let (some, shares) = ([Some(1.0), Some(3.0), None, None, None], [0.25, 0.75, 0.0, 0.0, 0.05]);
        assert_eq!(squeezed(&some, &shares, 2), (vec![Some(2.5), None, None], 2.5));
        assert_eq!(drawn(&[Some(1.0), None, Some(0.0)], 1.0, 2), ["█  ", "█· "]);
    }

    #[test]
    fn what_was_hardly_sampled_makes_no_peak() {
        let values = [Some(1.0), Some(7.0), None, Some(1.5)];
        assert_eq!((peak(&values, &[]), peak(&values, &[0.2, 0.05, 0.0, 0.15])), (7.0, 1.5));
    }
}
