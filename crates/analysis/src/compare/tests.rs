//! Simulated recordings of which the truth is known: how often chance is called a change, and changes are found.

use std::sync::Arc;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore as _, SeedableRng as _};

use super::estimate::{Base, Coverage, Estimate, RecordedRow, estimate, growth, p_of_counts};
use super::judge::{BETWEEN_RUNS, FALSE_DISCOVERIES, FEWEST_SAMPLES, Judgement, judge};
use super::noise::{Draws, SEED, SLICES, common_level};
use super::series::GroupWeight;
use icecore_profile::named::Amount;

const ROWS: usize = 40;
const PAIRS: u64 = 100;

/// Uniform numbers.
struct Random(Xoshiro256PlusPlus);

impl Random {
    fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// About normal: Irwin and Hall.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// How the share of a row moves over time, besides sampling.
#[derive(Debug, Clone, Copy)]
enum Course {
    Steady,
    /// Moves at random; what it was a slice ago counts for so much.
    Wanders(f64),
    /// A third of the rows runs in each third of the time: a program with phases.
    Phases,
}

/// One recording: the samples of each row in each slice. Rows have falling shares; the first is `slower` times slower.
fn recording(random: &mut Random, samples: usize, course: Course, slower: f64) -> Vec<Vec<f64>> {
    let mut rows = vec![vec![0.0; SLICES]; ROWS];
    let mut state = [0.0; ROWS];
    for slice in 0..rows[0].len() {
        let weights: Vec<f64> = (0..ROWS)
            .map(|row| {
                let base = if row == 0 { 0.35 * slower } else { 0.5 / (row as f64 + 2.0).powf(1.3) };
                match course {
                    Course::Steady => base,
                    Course::Wanders(kept) => {
                        state[row] = kept * state[row] + (1.0 - kept * kept).sqrt() * random.normal();
                        base * (0.3 * state[row]).exp()
                    }
                    Course::Phases if row % 3 == slice * 3 / SLICES => base,
                    Course::Phases => base * 0.01,
                }
            })
            .collect();
        let sum: f64 = weights.iter().sum();
        for _ in 0..samples / SLICES {
            let mut at = random.uniform() * sum;
            let row = weights.iter().position(|weight| {
                at -= weight;
                at < 0.0
            });
            rows[row.unwrap_or(ROWS - 1)][slice] += 1.0;
        }
    }
    rows
}

fn compared(
    before: &[Vec<Vec<f64>>],
    after: &[Vec<Vec<f64>>],
    whole_runs: bool,
) -> (Vec<Estimate>, Judgement) {
    let base = |(number, rows): (usize, &Vec<Vec<f64>>)| {
        let of = (0..SLICES).map(|slice| rows.iter().map(|row| row[slice]).sum()).collect();
        Base::new(of, Arc::new(Draws::new(SEED + number as u64)), 1.0, true)
    };
    let bases: Vec<Base> = before.iter().chain(after).enumerate().map(base).collect();
    let (first, last) = bases.split_at(before.len());
    let side = |runs: &'_ [Vec<Vec<f64>>], bases: &'_ [Base], row: usize| -> Vec<(u64, Vec<f64>, Base)> {
        let of = |(base, run): (&Base, &Vec<Vec<f64>>)| {
            (run[row].iter().sum::<f64>() as u64, run[row].clone(), base.clone())
        };
        bases.iter().zip(runs).map(of).collect()
    };
    let rows: Vec<_> = (0..ROWS).map(|row| [side(before, first, row), side(after, last, row)]).collect();
    let seen: Vec<[Vec<RecordedRow<'_>>; 2]> = rows
        .iter()
        .map(|sides| {
            sides.each_ref().map(|side| {
                let seen = side.iter();
                seen.map(|(samples, part, base)| {
                    let amount = Amount { samples: *samples, weight: *samples };
                    RecordedRow { base, part: GroupWeight { amount, of_slices: Some(part) } }
                })
                .collect()
            })
        })
        .collect();
    let samples =
        |sides: &[Vec<RecordedRow<'_>>; 2]| sides.iter().flatten().map(RecordedRow::samples).sum::<u64>();
    let is_tested: Vec<bool> = seen.iter().map(|sides| samples(sides) >= FEWEST_SAMPLES).collect();
    let grown: Vec<_> = seen.iter().filter_map(|[before, after]| growth(before, after)).collect();
    let piece = if whole_runs { Coverage::WholeRun } else { Coverage::OfTime(common_level(&grown)) };
    let estimates: Vec<Estimate> =
        seen.iter().map(|[before, after]| estimate(before, after, piece)).collect();
    let judgement = judge(&estimates, &is_tested, FALSE_DISCOVERIES, 1.0);
    (estimates, judgement)
}

/// The share of pairs of which any row is called changed, and of which the first is, where it is slower.
fn found(samples: usize, course: Course, slower: f64, runs: usize) -> (f64, f64, f64) {
    let (mut any, mut first, mut detectable) = (0, 0, 0.0);
    for pair in 0..PAIRS {
        let mut random = Random(Xoshiro256PlusPlus::seed_from_u64(pair));
        let mut side = |slower| (0..runs).map(|_| recording(&mut random, samples, course, slower)).collect();
        let (before, after): (Vec<_>, Vec<_>) = (side(1.0), side(slower));
        let (_, judgement) = compared(&before, &after, matches!(course, Course::Phases));
        any += u32::from(judgement.rows.iter().any(|row| row.significant));
        first += u32::from(judgement.rows[0].significant);
        detectable += judgement.rows[0].detectable / PAIRS as f64;
    }
    (f64::from(any) / PAIRS as f64, f64::from(first) / PAIRS as f64, detectable)
}

#[test]
fn chance_is_seldom_called_a_change() {
    for (course, most) in [
        (Course::Steady, 0.05),
        (Course::Wanders(0.0), 0.05),
        (Course::Wanders(0.7), 0.05),
        (Course::Wanders(0.9), 0.08),
        (Course::Phases, 0.05),
    ] {
        for samples in [640, 6_400] {
            let (any, _, _) = found(samples, course, 1.0, 1);
            println!("{course:?} {samples} samples: false alarms in {any:.2} of the pairs");
            assert!(any <= most, "{course:?} {samples}: {any}");
        }
    }
    let (any, _, _) = found(3_200, Course::Wanders(0.7), 1.0, 3);
    println!("three recordings on each side: {any:.2}");
    assert!(any <= 0.05, "{any}");
}

#[test]
fn changes_are_found_as_often_as_is_stated() {
    for (course, samples) in [(Course::Steady, 640), (Course::Steady, 6_400), (Course::Wanders(0.5), 6_400)] {
        for slower in [1.03, 1.05, 1.1, 1.2, 1.5] {
            let (_, found, detectable) = found(samples, course, slower, 1);
            let share = |slower: f64| {
                let rest: f64 = (1..ROWS).map(|row| 0.5 / (row as f64 + 2.0).powf(1.3)).sum();
                0.35 * slower / (0.35 * slower + rest)
            };
            let change = share(slower) - share(1.0);
            println!(
                "{course:?} {samples} samples, {slower}: share {change:+.4}, detectable {detectable:.4}: {found:.2}"
            );
            // Twice what is detectable is always found, half of it hardly ever.
            assert!(change < 2.0 * detectable || found > 0.9, "{slower}: {found}");
            assert!(change > 0.5 * detectable || found < 0.5, "{slower}: {found}");
        }
    }
}

#[test]
fn a_function_that_was_not_there_is_found_among_many() {
    let row = |counts: [u64; 2]| {
        let wholes = [8_000.0, 8_033.0];
        let [before, after] = [0, 1].map(|side| counts[side] as f64 / wholes[side]);
        let of_sampling = (counts[0] + counts[1] + 2) as f64 / 8_000_f64.powi(2);
        Estimate {
            before,
            after,
            variance: of_sampling,
            of_sampling,
            p_of_counts: p_of_counts(counts, wholes),
            counts,
            wholes,
            degrees: 42.0,
            ..Estimate::default()
        }
    };
    let changed = |counts| {
        let rows: Vec<Estimate> = [row(counts)].into_iter().chain((0..800).map(|_| row([8, 8]))).collect();
        let judged = judge(&rows, &vec![true; rows.len()], FALSE_DISCOVERIES, BETWEEN_RUNS).rows;
        assert!(judged[1..].iter().all(|row| !row.significant));
        judged[0].significant
    };
    assert_eq!([[0, 33], [33, 0], [1, 40]].map(changed), [true; 3]);
    assert_eq!([[0, 20], [4, 24], [0, 0]].map(changed), [false; 3]);
}
