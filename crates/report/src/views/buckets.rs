//! Weight over time: buckets of time, of which some were not sampled, or not all the time.

use icecore_profile::recording::spans::Slices;

use super::drawn::longest;

/// A bucket that was sampled for less than this share of the time of the one that was sampled longest has no value: chance would make it.
const LEAST_SAMPLED: f64 = 0.1;

/// Buckets of time of equal length, each of some slices.
#[derive(Debug, Clone, Copy)]
pub(super) struct Buckets {
    pub(super) slices: Slices,
    /// The number of slices in a bucket.
    pub(super) each: u32,
    /// The end of the last bucket, which may be shorter.
    pub(super) end_ns: u64,
    /// The moment from which times are counted.
    pub(super) zero_ns: u64,
}

impl Buckets {
    pub(super) fn len(self) -> usize {
        self.slices.number.div_ceil(self.each) as usize
    }

    pub(super) fn each_ns(self) -> u64 {
        self.slices.len_ns.saturating_mul(u64::from(self.each))
    }

    /// Returns the begin of a bucket, or the end of the last, ns on the common clock.
    pub(super) fn begin_ns(self, bucket: usize) -> u64 {
        let begin = self.slices.begin_ns.saturating_add(self.each_ns().saturating_mul(bucket as u64));
        begin.min(self.end_ns.max(self.slices.begin_ns))
    }

    /// Returns the same in seconds, as views count time.
    pub(super) fn begin_s(self, bucket: usize) -> f64 {
        self.begin_ns(bucket).saturating_sub(self.zero_ns) as f64 / 1e9
    }

    pub(super) fn len_ns(self, bucket: usize) -> u64 {
        self.begin_ns(bucket + 1).saturating_sub(self.begin_ns(bucket)).max(1)
    }

    /// Returns the share of each bucket that lies in stretches of time, which do not overlap and are in order.
    pub(super) fn shares(self, ran_ns: &[(u64, u64)]) -> Vec<f64> {
        let mut first = 0;
        let share = |bucket: usize| {
            let (begin, end) = (self.begin_ns(bucket), self.begin_ns(bucket + 1));
            first += ran_ns[first..].iter().take_while(|ran| ran.1 <= begin).count();
            let inside = ran_ns[first..].iter().take_while(|ran| ran.0 < end);
            let ns: u64 = inside.map(|ran| ran.1.min(end).saturating_sub(ran.0.max(begin))).sum();
            ns as f64 / self.len_ns(bucket) as f64
        };
        (0..self.len()).map(share).collect()
    }

    /// Returns the weight per second of each bucket; in CPUs or threads if weights are times. Of a bucket that was sampled for a part of its
    /// time, it is that of this part; `None` of one that was not sampled, or hardly ([`LEAST_SAMPLED`]). Without shares, all was sampled.
    pub(super) fn rates(self, of_slices: &[u64], unit: &str, sampled: &[f64]) -> Vec<Option<f64>> {
        let per = if unit == "ns" { 1.0 } else { 1e9 };
        let least = (LEAST_SAMPLED * longest(sampled)).max(f64::MIN_POSITIVE);
        let rate = |(bucket, slices): (usize, &[u64])| {
            let sampled = sampled.get(bucket).copied().unwrap_or(1.0);
            let weight = slices.iter().fold(0, |sum: u64, weight| sum.saturating_add(*weight));
            (sampled >= least).then(|| weight as f64 * per / (self.len_ns(bucket) as f64 * sampled))
        };
        of_slices.chunks(self.each as usize).enumerate().map(rate).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_bucket_is_as_long_as_time_lasts() {
        let slices = Slices { begin_ns: 1_000, len_ns: 100, number: 5 };
        let buckets = Buckets { slices, each: 2, end_ns: 1_450, zero_ns: 500 };
        assert_eq!((buckets.len(), buckets.each_ns()), (3, 200));
        assert_eq!([0, 1, 2, 3].map(|bucket| buckets.begin_ns(bucket)), [1_000, 1_200, 1_400, 1_450]);
        let rates = buckets.rates(&[50, 50, 200, 0, 25], "ns", &[]);
        assert_eq!(rates, [Some(0.5), Some(1.0), Some(0.5)]);
        assert_eq!(buckets.rates(&[1, 0, 0, 0, 0], "faults", &[])[0], Some(5e6));
        assert!((buckets.begin_s(1) - 7e-7).abs() < 1e-15);
    }

    #[test]
    fn what_was_not_sampled_has_no_value_and_divides_nothing() {
        let slices = Slices { begin_ns: 1_000, len_ns: 100, number: 8 };
        let buckets = Buckets { slices, each: 2, end_ns: 1_750, zero_ns: 500 };
        let sampled = buckets.shares(&[(900, 1_050), (1_100, 1_150), (1_410, 1_420), (1_600, 1_900)]);
        assert_eq!(sampled, [0.5, 0.0, 0.05, 1.0]);
        let rates = buckets.rates(&[50, 25, 0, 0, 10, 0, 30, 0], "ns", &sampled);
        assert_eq!(rates, [Some(0.75), None, None, Some(0.2)]);
    }
}
