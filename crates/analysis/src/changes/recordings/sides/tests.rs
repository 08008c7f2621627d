use rayon::prelude::*;

use super::super::tests::{A_LITTLE, FALSE_ALARMS, MUCH, NOT, OWN, Program, SOME_MUCH};
use super::*;

/// The positions of the outliers of each row that are accepted.
fn found(rows: Vec<Vec<Point>>) -> Vec<Vec<usize>> {
    let count = rows.len();
    let sides = Sides::new(rows);
    let all: Vec<Vec<Outlier>> = (0..count).map(|row| sides.outliers(row)).collect();
    let p = all.iter().flatten().map(|it| it.difference.p).collect();
    let accepted = accepted(p, sides.tested(), FALSE_ALARMS);
    let is_one = |it: &&Outlier| accepted.has(&it.difference);
    all.iter().map(|row| row.iter().filter(is_one).map(|it| it.at).collect()).collect()
}

/// Returns the share of sets for which this holds.
fn share(sets: u64, holds: impl Fn(u64) -> bool + Sync) -> f64 {
    (0..sets).into_par_iter().filter(|seed| holds(*seed)).count() as f64 / sets as f64
}

#[test]
fn hosts_that_differ_by_chance_are_no_outliers() {
    let sets = 400;
    let allowed = FALSE_ALARMS + 2.0 * (FALSE_ALARMS * (1.0 - FALSE_ALARMS) / sets as f64).sqrt();
    let mixed: Vec<u64> = (0..12).map(|at| if at % 3 == 0 { 2_000 } else { 300 }).collect();
    for lens in [vec![1_000; 5], vec![1_000; 6], vec![1_000; 10], vec![1_000; 20], vec![300; 50], mixed] {
        for (name, differs) in [
            ("samples alone", NOT),
            ("hosts differ by 10 %", A_LITTLE),
            ("hosts differ by 30 %", MUCH),
            ("some rows differ by 50 %", SOME_MUCH),
        ] {
            let program = Program { rows: 40, lens: &lens, differs, step: None };
            let any = share(sets, |seed| found(program.recorded(seed)).iter().any(|row| !row.is_empty()));
            println!("{} hosts, {name}: {:.1}% of {sets} sets name one", lens.len(), any * 100.0);
            assert!(any <= allowed, "{} hosts, {name}: {any}", lens.len());
        }
    }
}

#[test]
fn a_sick_host_is_found_beside_another_one() {
    for (hosts, sick, differs, least) in [
        (10, 1, NOT, 0.95),
        (10, 1, A_LITTLE, 0.9),
        (10, 2, A_LITTLE, 0.8),
        (20, 1, A_LITTLE, 0.95),
        (20, 3, A_LITTLE, 0.9),
    ] {
        let lens = vec![1_000; hosts];
        let program = Program { rows: 40, lens: &lens, differs, step: Some((hosts - sick, 3.0 * OWN)) };
        let wanted: Vec<usize> = (hosts - sick..hosts).collect();
        let all = share(200, |seed| {
            let mut row = found(program.recorded(seed))[3].clone();
            row.sort_unstable();
            row == wanted
        });
        println!("{sick} of {hosts} hosts with three times the share: found in {all:.2}");
        assert!(all >= least, "{sick} of {hosts}: {all}");
    }
}

#[test]
fn outliers_of_the_detectable_size_are_found_in_most_cases() {
    for (hosts, differs) in [(10, NOT), (10, A_LITTLE), (20, A_LITTLE)] {
        let lens = vec![1_000; hosts];
        let still = Program { rows: 40, lens: &lens, differs, step: None };
        let tests = (40 * hosts) as f64;
        let sizes =
            (0..50).filter_map(|seed| Sides::new(still.recorded(seed)).detectable(OWN, FALSE_ALARMS / tests));
        let sizes: Vec<f64> = sizes.collect();
        let size = sizes.iter().sum::<f64>() / sizes.len() as f64;
        let program = Program { step: Some((hosts - 1, OWN + size)), ..still };
        let power = share(400, |seed| found(program.recorded(seed))[3].contains(&(hosts - 1)));
        println!("{hosts} hosts, {:.1} points: found in {power:.2}", size * 100.0);
        assert!((0.55..0.95).contains(&power), "{hosts}: {power}");
    }
}

#[test]
fn four_hosts_name_none() {
    let rows = Program { rows: 5, lens: &[3_000; 4], differs: NOT, step: Some((3, 0.5)) }.recorded(1);
    let sides = Sides::new(rows);
    assert!(!sides.is_possible() && sides.tested() == 0 && sides.outliers(3).is_empty());
    assert_eq!((sides.difference(3, |at| at == 3), sides.detectable(0.1, 0.05)), (None, None));
}

#[test]
fn no_difference_is_stated_that_is_more_than_everything() {
    let lens = [20; 10];
    let sides = Sides::new(Program { rows: 40, lens: &lens, differs: MUCH, step: None }.recorded(1));
    assert_eq!(sides.detectable(0.1, 1e-6), None);
    assert!(sides.detectable(0.1, 0.5).is_some_and(|difference| difference < 0.9));
}
