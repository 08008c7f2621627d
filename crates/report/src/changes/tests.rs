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
