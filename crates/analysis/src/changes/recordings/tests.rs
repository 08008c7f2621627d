use rayon::prelude::*;

use super::*;

/// The highest probability that any row of a set shows a step.
pub(super) const FALSE_ALARMS: f64 = 0.05;
/// Simulated sets of recordings.
const SETS: u64 = 2_000;
/// Rows of each.
const ROWS: usize = 40;

/// Recordings of one program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Program<'a> {
    pub(super) rows: usize,
    /// Samples of each recording.
    pub(super) lens: &'a [u64],
    /// Variance of the logarithm of a share from one recording to the next, by row.
    pub(super) differs: fn(usize) -> f64,
    /// From this recording on, row 3 has this share instead of its own.
    pub(super) step: Option<(usize, f64)>,
}

/// The share of row 3.
pub(super) const OWN: f64 = 0.054;

fn search(rows: &[Vec<Point>]) -> Search {
    Search::new(rows, rows, FALSE_ALARMS)
}

fn even(random: &mut Xoshiro256PlusPlus) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

impl Program<'_> {
    /// Draws the samples of every recording; returns the points of each row.
    pub(super) fn recorded(&self, seed: u64) -> Vec<Vec<Point>> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut rows = vec![Vec::new(); self.rows];
        for (position, len) in self.lens.iter().enumerate() {
            let mut shares: Vec<f64> = (0..self.rows).map(|row| 1.0 / (row as f64 + 2.0).powf(1.3)).collect();
            let rest: f64 = shares.iter().sum::<f64>() - shares[3];
            let own = self.step.filter(|(at, _)| position >= *at).map_or(OWN, |(_, share)| share);
            shares.iter_mut().for_each(|share| *share *= (1.0 - own) / rest);
            shares[3] = own;
            for (row, share) in shares.iter_mut().enumerate() {
                *share *= ((self.differs)(row).sqrt() * score(&mut random)).exp();
            }
            let whole: f64 = shares.iter().sum();
            let mut counts = vec![0u64; self.rows];
            for _ in 0..*len {
                let mut at = even(&mut random) * whole;
                let row = shares.iter().position(|share| {
                    at -= share;
                    at < 0.0
                });
                counts[row.unwrap_or(0)] += 1;
            }
            for (row, count) in rows.iter_mut().zip(counts) {
                let (rate, whole) = (count as f64 / *len as f64, *len as f64);
                // The noise of 64 slices is known to ±18 %.
                let excess = (1.0 + 0.18 * score(&mut random)).max(1.0);
                row.push(Point { rate, error: 0.0, low: 0.0, high: 0.0, samples: count, whole, excess });
            }
        }
        rows
    }

    /// Returns the share of sets in which any row has a step, and in which row 3 has one.
    fn found(&self, sets: u64) -> (f64, f64) {
        let of_set = |seed: u64| {
            let rows = self.recorded(seed);
            let search = search(&rows);
            let found: Vec<Found> = rows.iter().map(|row| search.find(row)).collect();
            let is_any = found.iter().any(|row| !row.steps.is_empty());
            (u64::from(is_any), u64::from(!found[3].steps.is_empty()))
        };
        let (any, own) =
            (0..sets).into_par_iter().map(of_set).reduce(|| (0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
        (any as f64 / sets as f64, own as f64 / sets as f64)
    }

    /// Returns what is stated to be detectable in row 3, on average: in the middle, and at the end.
    fn detectable(&self) -> [f64; 2] {
        let sets = 50;
        let of_set = |seed: u64| {
            let rows = self.recorded(seed);
            search(&rows).find(&rows[3]).detectable.expect("samples")
        };
        let all: Vec<Detectable> = (0..sets).map(of_set).collect();
        let mean = |of: fn(&Detectable) -> f64| all.iter().map(of).sum::<f64>() / sets as f64;
        [mean(|it| it.middle), mean(|it| it.end.expect("it is possible"))]
    }
}

pub(super) const NOT: fn(usize) -> f64 = |_| 0.0;
pub(super) const A_LITTLE: fn(usize) -> f64 = |_| 0.01;
pub(super) const MUCH: fn(usize) -> f64 = |_| 0.09;
/// A tenth of the rows differs much, as those of programs that seed their hashes.
pub(super) const SOME_MUCH: fn(usize) -> f64 = |row| if row % 10 == 4 { 0.25 } else { 0.0 };

/// Lengths of recordings: alike, mixed, and sorted, as after the rate or the length was raised.
fn lengths() -> Vec<Vec<u64>> {
    let mixed = |len: usize| (0..len).map(|at| if at * 7 % 5 < 2 { 25 } else { 310 }).collect::<Vec<u64>>();
    let sorted = |short: usize, long: usize| [vec![25; short], vec![310; long]].concat();
    vec![
        vec![200; 6],
        vec![25; 10],
        vec![200; 10],
        vec![3_000; 10],
        vec![200; 40],
        mixed(6),
        mixed(10),
        mixed(24),
        sorted(5, 5),
        sorted(3, 7),
        sorted(7, 3),
        vec![100, 3_000, 300, 1_000, 100, 100, 2_000, 50, 500, 3_000, 100, 800],
    ]
}

/// Checks that sets without a step show one as rarely as stated.
fn check_false_alarms(name: &str, program: Program<'_>, sets: u64) {
    let allowed = FALSE_ALARMS + 2.0 * (FALSE_ALARMS * (1.0 - FALSE_ALARMS) / sets as f64).sqrt();
    let (any, _) = program.found(sets);
    let (lens, rows) = (program.lens, program.rows);
    println!(
        "{rows} rows of {lens:?} samples, {name}: {:.1}% of {sets} sets have a false alarm",
        any * 100.0
    );
    assert!(any <= allowed, "{name} {lens:?}: {any}");
}

#[test]
fn recordings_of_one_level_show_no_step_whatever_their_lengths() {
    for lens in lengths() {
        check_false_alarms(
            "samples alone",
            Program { rows: ROWS, lens: &lens, differs: NOT, step: None },
            SETS,
        );
    }
}

#[test]
fn runs_that_differ_show_no_step_whatever_their_lengths() {
    for (name, differs, sets) in [
        ("runs differ by 10 %", A_LITTLE, SETS / 4),
        ("runs differ by 30 %", MUCH, SETS / 4),
        ("some rows differ by 50 %", SOME_MUCH, SETS / 2),
    ] {
        for lens in lengths() {
            check_false_alarms(name, Program { rows: ROWS, lens: &lens, differs, step: None }, sets);
        }
    }
}

#[test]
fn few_rows_show_no_step() {
    let mixed = [25, 310, 310, 25, 310, 25, 310, 310, 25, 310];
    for (lens, differs) in [(&[200; 10], NOT), (&[3_000; 10], A_LITTLE), (&mixed, NOT), (&mixed, MUCH)] {
        check_false_alarms("few rows", Program { rows: 5, lens, differs, step: None }, SETS);
    }
}

#[test]
fn five_recordings_have_no_step_and_say_so() {
    let rows = Program { rows: 5, lens: &[3_000; 5], differs: NOT, step: Some((3, 0.5)) }.recorded(1);
    let search = search(&rows);
    assert!(!search.is_possible() && search.detectable_at(0.1).is_none());
    assert_eq!(search.find(&rows[3]), Found { steps: Vec::new(), detectable: None });
}

#[test]
fn no_step_is_stated_that_leads_beyond_everything() {
    let rows = Program { rows: ROWS, lens: &[20; 8], differs: MUCH, step: None }.recorded(1);
    let search = search(&rows);
    let (mut steps, mut none) = (0, 0);
    for share in [0.05, 0.1, 0.2, 0.4, 0.6, 0.8] {
        let found = search.detectable_at(share);
        let stated = found.map(|it| (Some(it.middle), it.end)).unwrap_or_default();
        for step in [stated.0, stated.1] {
            assert!(step.is_none_or(|step| step > 0.0 && share + step <= 1.0), "{share}: {step:?}");
            steps += u32::from(step.is_some());
            none += u32::from(step.is_none());
        }
    }
    assert!(steps > 0 && none > 0, "{steps} are stated, and {none} are not");
}

#[test]
fn two_steps_are_found_where_they_are_and_have_their_levels() {
    let at = |position: usize| if (8..16).contains(&position) { 0.3 } else { OWN };
    let row: Vec<Point> = (0..24)
        .map(|position| {
            let samples = (at(position) * 1_000.0) as u64 + (position as u64 * 7) % 5;
            Point { rate: samples as f64 / 1_000.0, samples, ..alike(1_000.0) }
        })
        .collect();
    let search = search(std::slice::from_ref(&row));
    let steps = search.find(&row).steps;
    assert_eq!(steps.iter().map(|step| step.at).collect::<Vec<_>>(), [8, 16]);
    assert!((steps[0].before - OWN).abs() < 0.01 && (steps[0].after - 0.3).abs() < 0.01, "{steps:?}");
    assert_eq!(steps[0].after, steps[1].before);
    assert!(steps.iter().all(|step| step.p <= FALSE_ALARMS));
}

#[test]
fn a_clear_step_of_few_recordings_is_found() {
    for (lens, at) in [(vec![200; 10], 6), (vec![200; 10], 4), (vec![200; 6], 3), (vec![200; 10], 7)] {
        let (_, own) = Program { rows: ROWS, lens: &lens, differs: NOT, step: Some((at, 0.194)) }.found(200);
        println!("from 5.4 to 19.4 % after {at} of {} recordings: found in {own:.2}", lens.len());
        assert!(own >= 0.95, "{at} of {}: {own}", lens.len());
    }
}

#[test]
fn steps_are_found_as_often_as_is_stated() {
    let mixed = vec![25, 310, 310, 25, 310, 25, 310, 310, 25, 310];
    for (lens, differs) in [
        (vec![200; 6], NOT),
        (vec![200; 10], NOT),
        (vec![3_000; 10], A_LITTLE),
        (vec![1_000; 24], NOT),
        (mixed, NOT),
    ] {
        let [middle, end] = Program { rows: ROWS, lens: &lens, differs, step: None }.detectable();
        let places = [(lens.len() / 2, middle), (lens.len() - SHORTEST, end)];
        for (at, step) in places {
            let found = |size: f64| {
                Program { rows: ROWS, lens: &lens, differs, step: Some((at, OWN + size * step)) }.found(400).1
            };
            let [half, whole, twice] = [0.5, 1.0, 2.0].map(found);
            println!(
                "{} recordings of {}: a step of {:.1} points after {at} is found in {whole:.2}; half of it {half:.2}, twice {twice:.2}",
                lens.len(),
                lens[0],
                step * 100.0
            );
            assert!((0.65..0.95).contains(&whole) && half < 0.4 && twice > 0.95, "{lens:?} {at}");
        }
    }
}
