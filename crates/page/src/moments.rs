//! The samples of a profile thread by thread, with times as small numbers.

use icecore_profile::named::Profile;
use icecore_profile::stacks::hits::Moment;

/// The most samples that a page holds one by one. Of more, those of one row that are neighbours in time become one.
pub(super) const MOST: usize = 10_000_000;

/// The resolution of times.
#[derive(Debug, Clone, Copy)]
pub(super) struct Resolution {
    /// What 1 is, ns.
    pub(super) unit_ns: u64,
    /// What 0 is, ns `CLOCK_MONOTONIC`.
    pub(super) begin_ns: u64,
    /// There are more than [`MOST`] samples, so that some were added up.
    pub(super) is_rounded: bool,
}

/// One sample, or several of one row at one time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    /// When it was taken; a wait: when the thread ran again.
    pub(super) time: u32,
    /// A position in [`Moments::rows`].
    pub(super) row: u32,
    /// Its row of the hits; of several samples that of the first.
    pub(super) hit: u32,
    pub(super) cpu: u16,
    /// How long the wait lasted, in units of time.
    pub(super) lasted: u32,
    /// How long after the end of the wait the thread ran again.
    pub(super) late: u32,
    pub(super) weight: u64,
    /// How many samples this is.
    pub(super) number: u32,
}

/// The samples thread by thread, those of each thread in the order of time.
pub(super) struct Moments {
    pub(super) resolution: Resolution,
    pub(super) samples: Vec<Sample>,
    /// The rows of the profile, in the order of their first samples.
    pub(super) rows: Vec<u32>,
    /// The first sample of each thread, in the order that was asked for, and then the number of samples.
    pub(super) threads: Vec<u32>,
}

impl Moments {
    pub(super) fn new(profile: &Profile, threads: &[u32], span_ns: (u64, u64)) -> Self {
        Self::with_most(profile, threads, span_ns, MOST)
    }

    fn with_most(profile: &Profile, threads: &[u32], span_ns: (u64, u64), most: usize) -> Self {
        // Waits may have begun, and samples of other clocks may lie, before the session.
        let first_ns = profile.moments.first().map_or(span_ns.0, |first| first.time_ns.min(span_ns.0));
        let last_ns = profile.moments.last().map_or(span_ns.1, |last| last.time_ns.max(span_ns.1));
        let mut rank = vec![0u32; threads.len()];
        (0..).zip(threads).for_each(|(position, thread)| rank[*thread as usize] = position);
        let thread = |moment: &Moment| rank[profile.rows[moment.row as usize].thread as usize];
        let mut unit_ns = 1_000;
        while (last_ns - first_ns) / unit_ns >= u64::from(u32::MAX) {
            unit_ns *= 10;
        }
        let mut ordered = profile.moments.clone();
        let is_rounded = ordered.len() > most;
        loop {
            let of = |moment: &Moment| (thread(moment), (moment.time_ns - first_ns) / unit_ns);
            ordered.sort_by_key(of);
            let samples = self::samples(profile, &ordered, first_ns, unit_ns, is_rounded);
            if samples.0.len() <= most || unit_ns > last_ns - first_ns {
                let (samples, rows, of_thread) = samples;
                let mut begins = vec![0u32; threads.len() + 1];
                of_thread.iter().for_each(|it| begins[rank[*it as usize] as usize + 1] += 1);
                for position in 1..begins.len() {
                    begins[position] += begins[position - 1];
                }
                let resolution = Resolution { unit_ns, begin_ns: first_ns, is_rounded };
                return Self { resolution, samples, rows, threads: begins };
            }
            unit_ns *= 10;
        }
    }
}

/// Numbers rows, and adds up samples of one row at one time if `adds`. Also returns the thread of each sample.
fn samples(
    profile: &Profile,
    ordered: &[Moment],
    first_ns: u64,
    unit_ns: u64,
    adds: bool,
) -> (Vec<Sample>, Vec<u32>, Vec<u32>) {
    let mut new_row = vec![u32::MAX; profile.rows.len()];
    let mut rows = Vec::new();
    let mut of_thread = Vec::with_capacity(ordered.len());
    let mut samples: Vec<Sample> = Vec::with_capacity(ordered.len());
    for moment in ordered {
        let row = &mut new_row[moment.row as usize];
        if *row == u32::MAX {
            *row = rows.len() as u32;
            rows.push(moment.row);
        }
        let time = ((moment.time_ns - first_ns) / unit_ns) as u32;
        let units = |ns: u64| (ns / unit_ns).min(u64::from(u32::MAX)) as u32;
        let thread = profile.rows[moment.row as usize].thread;
        let new = Sample {
            time,
            row: *row,
            hit: moment.hit,
            cpu: moment.cpu,
            lasted: units(moment.lasted_ns),
            late: units(moment.late_ns),
            weight: moment.weight,
            number: 1,
        };
        let slot = samples.iter_mut().rev().zip(of_thread.iter().rev());
        let mut slot = slot.take_while(|(known, of)| adds && known.time == time && **of == thread);
        match slot.find(|(known, _)| known.row == new.row) {
            Some((known, _)) => {
                known.number = known.number.saturating_add(1);
                known.weight = known.weight.saturating_add(new.weight);
                known.lasted = known.lasted.saturating_add(new.lasted);
            }
            None => {
                samples.push(new);
                of_thread.push(thread);
            }
        }
    }
    (samples, rows, of_thread)
}

#[cfg(test)]
mod tests {
    use super::*;
    use icecore_profile::named::fixture;

    fn two_rows(times_us: &[(u64, u32)]) -> Profile {
        let mut profile = fixture::profile(&[("a", 1), ("b", 1)]);
        let moment = |(time, row): &(u64, u32)| Moment {
            time_ns: time * 1000,
            row: *row,
            hit: *row,
            cpu: 0,
            lasted_ns: 500_000,
            late_ns: 20_000,
            weight: 10,
        };
        profile.moments = times_us.iter().map(moment).collect();
        profile
    }

    #[test]
    fn rows_are_numbered_by_their_first_samples() {
        let profile = two_rows(&[(50, 1), (60, 0), (70, 1)]);
        let moments = Moments::new(&profile, &[0], (40_000, 90_000));
        assert_eq!(moments.rows, [1, 0]);
        assert!(moments.samples.iter().all(|it| (it.lasted, it.late) == (500, 20)));
        let seen: Vec<_> = moments.samples.iter().map(|it| (it.time, it.row, it.number)).collect();
        assert_eq!(seen, [(10, 0, 1), (20, 1, 1), (30, 0, 1)]);
        assert_eq!(moments.threads, [0, 3]);
        assert!(!moments.resolution.is_rounded);
    }

    #[test]
    fn too_many_samples_are_added_up_and_none_is_lost() {
        let times: Vec<(u64, u32)> = (0..1000).map(|n| (n, (n % 2) as u32)).collect();
        let moments = Moments::with_most(&two_rows(&times), &[0], (0, 1_000_000), 100);
        assert!(moments.resolution.is_rounded && moments.samples.len() <= 100);
        let sums = moments.samples.iter().fold((0, 0), |sum, it| (sum.0 + it.number, sum.1 + it.weight));
        assert_eq!(sums, (1000, 10_000));
    }
}
