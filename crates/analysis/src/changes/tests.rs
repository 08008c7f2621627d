use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

use super::*;

/// As a timeline has them.
const LEN: usize = 288;
const RULE: Rule = Rule { false_alarms: 0.05, shortest: 6 };

/// Numbers of the standard normal distribution (Box and Muller).
struct Normal(Xoshiro256PlusPlus);

impl Normal {
    fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    fn even(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn next(&mut self) -> f64 {
        (-2.0 * (1.0 - self.even()).ln()).sqrt() * (std::f64::consts::TAU * self.even()).cos()
    }

    /// Noise of which a share is carried over from each value to the next; its variance is 1.
    fn carried(&mut self, share: f64, len: usize) -> Vec<f64> {
        let mut last = self.next();
        let mut next = || {
            last = share * last + (1.0 - share * share).sqrt() * self.next();
            last
        };
        (0..len).map(|_| next()).collect()
    }
}

/// The share of series without a change in which one is found.
fn false_alarms(runs: u64, series: impl Fn(&mut Normal) -> Vec<f64> + Sync) -> f64 {
    use rayon::prelude::*;
    let is_alarmed = |seed: &u64| !changes(&series(&mut Normal::new(*seed)), None, RULE).is_empty();
    (0..runs).into_par_iter().filter(is_alarmed).count() as f64 / runs as f64
}

#[test]
fn false_alarms_are_as_rare_as_stated() {
    let runs = 400;
    let allowed =
        RULE.false_alarms + 2.0 * (RULE.false_alarms * (1.0 - RULE.false_alarms) / runs as f64).sqrt();
    for share in [0.0, 0.2, 0.4, 0.6, 0.8, 0.9] {
        let found = false_alarms(runs, |normal| normal.carried(share, LEN));
        println!("noise of which {share} is carried over: {:.1}% false alarms", found * 100.0);
        assert!(found <= allowed, "{share}: {found}");
    }
    let counts = |normal: &mut Normal| (0..LEN).map(|_| f64::from(u8::from(normal.even() < 0.1))).collect();
    let found = false_alarms(runs, counts);
    println!("rare things, there or not: {:.1}% false alarms", found * 100.0);
    assert!(found <= allowed, "{found}");
    let outliers = |normal: &mut Normal| (0..LEN).map(|_| normal.next() * normal.next().powi(4)).collect();
    let found = false_alarms(runs, outliers);
    println!("now and then a huge value: {:.1}% false alarms", found * 100.0);
    assert!(found <= allowed, "{found}");
}

/// The CPU time of slices of a program that works a part of each period, sampled: another part from the middle on. Times in
/// milliseconds.
fn periodic(normal: &mut Normal, (period, slice, hz): (f64, f64, f64), parts: [f64; 2]) -> Vec<f64> {
    let (end, step) = (slice * LEN as f64, 1000.0 / hz);
    let mut values = vec![0.0; LEN];
    let (mut begin, mut sampled) = (-period * normal.even(), step * normal.even());
    while sampled < end {
        // Nothing wakes up just in time.
        while sampled >= begin + period {
            begin += period * (1.0 + 0.004 * normal.next());
        }
        let part = parts[usize::from(begin >= end / 2.0)];
        let late = period * 0.01 * normal.even();
        if (late..period * part + late).contains(&(sampled - begin)) {
            values[(sampled / slice) as usize] += step / slice;
        }
        sampled += step;
    }
    values
}

/// Periods, slices and rates of sampling; of a few periods nobody can tell how they change.
fn rhythms() -> Vec<(f64, f64, f64)> {
    let mut all = Vec::new();
    for period in [40.0, 100.0, 250.0, 400.0, 1000.0] {
        for seconds in [5.0, 10.0, 20.0, 60.0, 300.0] {
            if seconds * 1000.0 < 10.0 * period {
                continue;
            }
            all.extend([99.0, 499.0, 997.0].map(|hz| (period, seconds * 1000.0 / LEN as f64, hz)));
        }
    }
    all
}

#[test]
fn a_program_that_works_in_periods_is_seen_to_change() {
    let (mut found, mut missed, mut all) = (0, Vec::new(), 0);
    for rhythm in rhythms() {
        let is_near = |seed: &u64| {
            let series = periodic(&mut Normal::new(*seed), rhythm, [0.2, 0.5]);
            let changes = changes(&series, None, RULE);
            changes.iter().any(|change| change.after.begin.abs_diff(LEN / 2) <= LEN / 12)
        };
        let own = (0..20).filter(is_near).count();
        (found, all) = (found + own, all + 20);
        if own < 20 {
            missed.push((rhythm, own));
        }
    }
    println!("{found} of {all} steps from 20 to 50 % found; of 20 each with (period, slice, hz): {missed:?}");
    assert!(found * 100 >= all * 97, "{found} of {all}");
}

#[test]
fn a_program_that_works_in_periods_makes_no_alarm() {
    let (runs, mut worst) = (40, (0.0, None));
    let mut sum = 0.0;
    for rhythm in rhythms() {
        let found = false_alarms(runs, |normal| periodic(normal, rhythm, [0.3, 0.3]));
        sum += found;
        if found > worst.0 {
            worst = (found, Some(rhythm));
        }
    }
    let mean = sum / rhythms().len() as f64;
    println!("programs that work in periods: {:.1}% false alarms, at worst {worst:?}", mean * 100.0);
    assert!(mean <= RULE.false_alarms, "{mean}");
    for (share, size) in [(0.0, 0.2), (0.5, 0.1), (0.5, 0.5), (0.9, 0.1), (0.9, 0.3), (0.9, 1.0)] {
        let found = false_alarms(400, |normal| {
            let wave = periodic(normal, (250.0, 34.7, 499.0), [0.3, 0.3]);
            let noise = normal.carried(share, LEN).into_iter();
            wave.into_iter().zip(noise).map(|(wave, noise)| wave + size * noise).collect()
        });
        println!(
            "a wave, and noise of {size} of which {share} is carried over: {:.1}% false alarms",
            found * 100.0
        );
        assert!(found <= RULE.false_alarms + 0.02, "{share}, {size}: {found}");
    }
}

#[test]
fn false_alarms_of_a_file_are_as_rare_as_those_of_a_series() {
    let (files, rows) = (200, 15);
    let rule = Rule { false_alarms: RULE.false_alarms / f64::from(rows), ..RULE };
    let mut normal = Normal::new(77);
    let mut is_alarmed =
        |share: f64| (0..rows).any(|_| !changes(&normal.carried(share, LEN), None, rule).is_empty());
    for share in [0.0, 0.5, 0.8] {
        let found = (0..files).filter(|_| is_alarmed(share)).count() as f64 / f64::from(files);
        println!(
            "{rows} rows, noise of which {share} is carried over: alarms in {:.1}% of files",
            found * 100.0
        );
        assert!(found <= RULE.false_alarms + 0.03, "{share}: {found}");
    }
}

#[test]
fn steps_are_found_where_they_are() {
    for share in [0.0, 0.5] {
        let (mut found, mut near) = (0, 0);
        for seed in 0..50 {
            let mut series = Normal::new(1000 + seed).carried(share, LEN);
            series[120..].iter_mut().for_each(|value| *value += 3.0);
            let changes = changes(&series, None, RULE);
            found += usize::from(!changes.is_empty());
            near += usize::from(changes.iter().any(|change| change.after.begin.abs_diff(120) <= 2));
        }
        println!(
            "noise of which {share} is carried over: {found} of 50 steps of 3 σ found, {near} at their place"
        );
        assert!(found >= 48 && near >= 40, "{share}: {found}, {near}");
    }
}

#[test]
fn a_spike_is_two_changes_and_has_its_levels() {
    let mut series = Normal::new(5).carried(0.0, LEN);
    series.iter_mut().for_each(|value| *value = 0.1 + *value * 0.02);
    series[140..160].iter_mut().for_each(|value| *value += 0.4);
    let found = changes(&series, None, RULE);
    let places: Vec<usize> = found.iter().map(|change| change.after.begin).collect();
    assert_eq!(places, [140, 160]);
    assert!(
        (found[0].before.mean - 0.1).abs() < 0.01 && (found[0].after.mean - 0.5).abs() < 0.02,
        "{found:?}"
    );
    assert_eq!(found[0].after, found[1].before);
    assert_eq!((found[0].before.begin, found[1].after.end), (0, LEN));
    assert!(found.iter().all(|change| change.p <= RULE.false_alarms));
}

#[test]
fn a_step_is_one_change_however_clear_it_is() {
    for (seed, noise) in (0..30).zip([0.0, 0.05, 0.2].into_iter().cycle()) {
        let mut normal = Normal::new(seed);
        // A share of nothing at all, then of some.
        let value =
            |t: usize, normal: &mut Normal| if t < 140 { 0.0 } else { 0.2 + noise * 0.2 * normal.next() };
        let series: Vec<f64> = (0..LEN).map(|t| value(t, &mut normal)).collect();
        let found = changes(&series, None, RULE);
        assert_eq!(found.iter().map(|change| change.after.begin).collect::<Vec<_>>(), [140], "{seed}");
    }
}

#[test]
fn a_step_without_noise_is_found_and_a_constant_has_none() {
    let step: Vec<f64> = (0..60).map(|t| if t < 31 { 0.25 } else { 0.5 }).collect();
    let found = changes(&step, None, RULE);
    assert_eq!(found.iter().map(|change| change.after.begin).collect::<Vec<_>>(), [31]);
    assert_eq!((found[0].before.mean, found[0].after.mean), (0.25, 0.5));
    assert_eq!(changes(&[0.3; 60], None, RULE), []);
    assert_eq!(changes(&[0.0, 1.0], None, RULE), []);
    assert_eq!(changes(&[], None, RULE), []);
    assert_eq!(changes(&[f64::NAN; 60], None, RULE), []);
}

#[test]
fn values_that_are_hardly_known_make_no_change() {
    let mut normal = Normal::new(9);
    let errors: Vec<f64> = (0..60).map(|t| if (20..32).contains(&t) { 1.0 } else { 0.02 }).collect();
    let series: Vec<f64> = errors.iter().map(|error| 0.5 + error * normal.next()).collect();
    assert_eq!(changes(&series, Some(&errors), RULE), []);
    // The same values, as if all were equally well known, with a step where they are.
    let mut step = series;
    step[40..].iter_mut().for_each(|value| *value += 0.1);
    let found = changes(&step, Some(&errors), RULE);
    assert_eq!(found.iter().map(|change| change.after.begin).collect::<Vec<_>>(), [40]);
}
