//! Sums of rows of tables over groups of sessions: hosts, or nights.

use std::collections::{HashMap, HashSet};

use anyhow::bail;
use icecore_analysis::compare::Point;
use icecore_analysis::matching;
use icecore_archive::archive::Archive;
use icecore_archive::partition::Partition;
use icecore_archive::schema::{Code, DailyRow, FunctionRow, ImageRow};
use icecore_archive::{Id, Pool, Text};

use crate::cli::Sort;

/// Rows that are lighter in every group are left out.
const LEAST_SHARE: f64 = 0.0005;
/// The most rows: the heaviest ones of any group.
const MOST: usize = 2_000;
/// Rows times groups, at most: they take about 100 bytes each.
const MOST_POINTS: usize = 10_000_000;
/// Events of which nobody asks first: time in which threads wait would drown the rest.
const OF_WAITING: [&str; 3] = ["off-cpu", "run-delay", "waker"];

/// To which set of groups, and to which group of it, sessions belong.
pub(super) type Places = HashMap<Id, (usize, usize)>;

/// Sums of recordings that were pruned, and to which set of groups and to which group of it they belong.
#[derive(Debug, Default)]
pub(super) struct Dailies {
    pub(super) pool: Pool,
    pub(super) rows: Vec<((usize, usize), DailyRow)>,
}

/// A weight and its samples.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Amount {
    pub(super) weight: f64,
    pub(super) samples: u64,
}

impl Amount {
    fn add(&mut self, (weight, samples): (i64, i64)) {
        self.weight += weight as f64;
        self.samples += samples.unsigned_abs();
    }

    fn share(self, whole: Self) -> f64 {
        if whole.weight > 0.0 { self.weight / whole.weight } else { 0.0 }
    }
}

/// What a row is of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    /// How it is matched in other builds.
    pub(super) name: String,
    pub(super) image: String,
    pub(super) build_id: Option<String>,
}

/// A row in all groups.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) key: Key,
    /// As some session names it.
    pub(super) name: String,
    pub(super) image: Option<String>,
    /// By group; none of groups that do not have it.
    amounts: HashMap<usize, Amount>,
}

/// Rows over groups of sessions.
#[derive(Debug)]
pub(super) struct Sums {
    /// All of each group.
    pub(super) wholes: Vec<Amount>,
    pub(super) rows: Vec<Row>,
}

/// Sums of functions, and of which event they are.
#[derive(Debug)]
pub(super) struct OfEvent {
    pub(super) event: String,
    pub(super) unit: String,
    pub(super) sums: Sums,
}

/// Sums that are being made.
struct Making {
    wholes: Vec<Amount>,
    rows: HashMap<Key, Row>,
    /// The amounts of all rows.
    points: usize,
}

impl Making {
    fn new(groups: usize) -> Self {
        Self { wholes: vec![Amount::default(); groups], rows: HashMap::new(), points: 0 }
    }

    fn add(
        &mut self,
        key: &Key,
        shown: impl FnOnce() -> (String, Option<String>),
        group: usize,
        amount: (i64, i64),
    ) {
        if !self.rows.contains_key(key) {
            let (name, image) = shown();
            self.rows.insert(key.clone(), Row { key: key.clone(), name, image, amounts: HashMap::new() });
        }
        if let Some(row) = self.rows.get_mut(key) {
            let sum = row.amounts.entry(group).or_insert_with(|| {
                self.points += 1;
                Amount::default()
            });
            sum.add(amount);
        }
    }

    /// The heaviest rows, by their largest share in any group.
    fn done(self) -> Sums {
        let wholes = self.wholes;
        let share = |row: &Row| {
            let shares = row.amounts.iter().map(|(group, amount)| amount.share(wholes[*group]));
            shares.fold(0.0, f64::max)
        };
        let mut rows: Vec<(f64, Row)> = self.rows.into_values().map(|row| (share(&row), row)).collect();
        rows.retain(|(share, _)| *share >= LEAST_SHARE);
        rows.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.key.cmp(&b.1.key)));
        rows.truncate(MOST.min(MOST_POINTS / wholes.len().max(1)));
        let rows = rows.into_iter().map(|(_, row)| row).collect();
        Sums { wholes, rows }
    }
}

impl Sums {
    /// Returns the share of each row in each group.
    pub(super) fn points(&self) -> Vec<Vec<Point>> {
        let point = |row: &Row, group: usize, whole: Amount| {
            let amount = row.amounts.get(&group).copied().unwrap_or_default();
            Point::of_counts(amount.share(whole), amount.samples, whole.samples as f64)
        };
        let points =
            |row| self.wholes.iter().enumerate().map(|(group, whole)| point(row, group, *whole)).collect();
        self.rows.iter().map(points).collect()
    }
}

/// Sums the functions of sessions over groups, for each of `sets` of groups: `group_of` says of a session, to which set and to which group
/// of it it belongs. `sets` are the numbers of groups; `dailies` are added. Of several events the usual one is taken.
///
/// # Errors
/// If a table cannot be read.
pub(super) fn of_functions(
    archive: &Archive,
    is_wanted: impl Fn(&Partition) -> bool,
    (sets, group_of): (&[usize], &Places),
    (event, sort): (Option<&str>, Sort),
    dailies: Dailies,
) -> anyhow::Result<Option<Vec<OfEvent>>> {
    let Dailies { mut pool, rows: dailies } = dailies;
    let mut events: HashMap<(Text, Text), Vec<Making>> = HashMap::new();
    // The sessions that have an event.
    let mut seen: HashSet<(Text, Id)> = HashSet::new();
    let mut keys: HashMap<(Text, Option<Text>), Key> = HashMap::new();
    let mut points = 0;
    let mut add = |pool: &Pool, (set, group): (usize, usize), event, code: Code, [own, total]: [_; 2]| {
        let making: &mut Vec<Making> =
            events.entry(event).or_insert_with(|| sets.iter().map(|groups| Making::new(*groups)).collect());
        let (function, image) = (code.function, code.image);
        let key = keys.entry((function, image)).or_insert_with(|| Key {
            name: matching::function(pool.text(function)).into_owned(),
            image: image.map_or_else(String::new, |image| matching::image(pool.text(image)).into_owned()),
            build_id: None,
        });
        let shown = || (pool.text(function).to_owned(), image.map(|image| pool.text(image).to_owned()));
        let making = &mut making[set];
        making.wholes[group].add(own);
        let before = making.points;
        // What does not fit is refused below.
        if points < MOST_POINTS {
            making.add(key, shown, group, if sort == Sort::Own { own } else { total });
            points += making.points - before;
        }
    };
    for (place, row) in dailies.into_iter().filter(|(_, row)| !row.inlined) {
        add(&pool, place, row.event, row.code, [row.own, row.total]);
    }
    archive.each::<FunctionRow>(is_wanted, &mut pool, |pool, _, rows| {
        for row in rows.into_iter().filter(|row| !row.inlined) {
            if let Some(place) = group_of.get(&row.recording) {
                seen.insert((row.event.0, row.recording));
                add(pool, *place, row.event, row.code, [row.own, row.total]);
            }
        }
    })?;
    if points >= MOST_POINTS {
        bail!(
            "more than {MOST_POINTS} functions of hosts, recordings or nights are selected: select fewer recordings, or group them by host"
        );
    }
    let rank = |(name, _): &(Text, Text)| {
        let sessions = seen.iter().filter(|(event, _)| event == name).count();
        (!OF_WAITING.contains(&pool.text(*name)), sessions, std::cmp::Reverse(pool.text(*name).to_owned()))
    };
    let chosen = match event {
        Some(wanted) => events.keys().find(|event| pool.text(event.0) == wanted).copied(),
        None => events.keys().max_by_key(|event| rank(event)).copied(),
    };
    let made = chosen.and_then(|chosen| Some((chosen, events.remove(&chosen)?)));
    Ok(made.map(|((event, unit), made)| {
        let of_set = |making: Making| OfEvent {
            event: pool.text(event).to_owned(),
            unit: pool.text(unit).to_owned(),
            sums: making.done(),
        };
        made.into_iter().map(of_set).collect()
    }))
}

/// What images lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lack {
    /// Callers: user stacks end there.
    Callers,
    /// Names.
    Names,
}

/// Sums what images lack over groups, likewise. `wholes` are the samples of each group of each set.
///
/// # Errors
/// If a table cannot be read.
pub(super) fn of_images(
    archive: &Archive,
    is_wanted: impl Fn(&Partition) -> bool,
    (wholes, group_of): (&[Vec<u64>], &Places),
    lack: Lack,
) -> anyhow::Result<Vec<Sums>> {
    let mut pool = Pool::default();
    let amount = |samples: &u64| Amount { weight: *samples as f64, samples: *samples };
    let set = |wholes: &Vec<u64>| Making {
        wholes: wholes.iter().map(amount).collect(),
        ..Making::new(wholes.len())
    };
    let mut made: Vec<Making> = wholes.iter().map(set).collect();
    let mut all: Vec<ImageRow> = Vec::new();
    archive.each::<ImageRow>(is_wanted, &mut pool, |_, _, rows| {
        all.extend(rows.into_iter().filter(|row| group_of.contains_key(&row.recording)));
    })?;
    for row in all {
        let lacking = if lack == Lack::Callers { row.incomplete } else { row.unnamed };
        if lacking == 0 {
            continue;
        }
        let (set, group) = group_of[&row.recording];
        let path = pool.text(row.image);
        let key = Key {
            name: matching::image(path).into_owned(),
            image: String::new(),
            build_id: row.build_id.map(|id| pool.text(id).to_owned()),
        };
        made[set].add(&key, || (path.to_owned(), None), group, (lacking, lacking));
    }
    Ok(made.into_iter().map(Making::done).collect())
}
