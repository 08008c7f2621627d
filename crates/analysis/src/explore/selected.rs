//! What filters leave: amounts of rows, of stacks, and of everything that samples have in common.

use std::ops::Range;
use std::sync::Arc;

use super::Explorer;
use super::filters::{Filters, Rule, Subject, Verb};
use super::trie::Shape;
use icecore_profile::named::{Amount, ProfileRow, Sum};
use icecore_profile::stacks::hits::Moment;

/// The samples that filters select.
#[derive(Debug)]
pub struct Selected {
    /// What selected them.
    pub filters: Filters,
    /// All of them: this is 100 %.
    pub whole: Amount,
    /// The unit of their weights; `samples` if they have several, so that every sample counts as one.
    pub unit: Box<str>,
    /// Samples of which only hidden frames were left: they are left out.
    pub emptied: u64,
    /// Each event, whether it is selected or not, in its own unit.
    pub events: Vec<Amount>,
    /// The amount of each of the profile's rows.
    pub(super) rows: Vec<Amount>,
    /// The rows that all filters but those by event and time keep.
    pub(super) is_kept: Vec<bool>,
    pub(super) shape: Arc<Shape>,
    /// The amount whose innermost shown frame is that of a stack.
    pub(super) at: Vec<Amount>,
    /// The amount that passes through a stack.
    pub(super) through: Vec<Amount>,
    hidden: Vec<bool>,
}

/// One function, image, process, thread or kind of waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Its number.
    pub number: u32,
    /// Self and total; they are equal where samples have no stack of these.
    pub sum: Sum,
}

impl Explorer<'_> {
    /// Selects samples. What was selected before makes it faster.
    ///
    /// # Cost
    /// O(stacks + rows); with a range of time also O(moments)
    pub fn select(&self, filters: Filters, before: Option<&Selected>) -> Selected {
        let mut hidden = vec![false; self.image_of.len()];
        let rules = filters.rules.iter();
        for rule in rules.filter(|rule| rule.verb == Verb::Hide) {
            let more = self.functions_of(&rule.subject);
            hidden.iter_mut().zip(more).for_each(|(hidden, more)| *hidden |= more);
        }
        let apart = filters.inlined_apart;
        let same = |before: &&Selected| before.hidden == hidden && before.filters.inlined_apart == apart;
        let shape = match before.filter(same) {
            Some(before) => before.shape.clone(),
            None => Arc::new(Shape::new(&self.trie, &hidden, apart)),
        };
        let is_empty = |row: usize| {
            let stack = self.stack_of_row[row];
            stack != 0 && shape.shown[stack as usize] == 0
        };
        let mut is_kept = self.kept(&filters);
        let mut rows = self.amounts(filters.range_ns, &is_kept);
        let (mut emptied, mut events) = (0, vec![Amount::default(); self.owners.units.len()]);
        for (row, amount) in rows.iter_mut().enumerate().filter(|(_, amount)| amount.samples > 0) {
            let event = self.event_of_row[row];
            if is_empty(row) {
                emptied += if filters.has_event(event) { amount.samples } else { 0 };
                (is_kept[row], *amount) = (false, Amount::default());
                continue;
            }
            // A damaged recording may have samples of events that it does not describe.
            if let Some(sum) = events.get_mut(usize::from(event)) {
                sum.add(*amount);
            }
            if !filters.has_event(event) {
                *amount = Amount::default();
            }
        }
        let unit = self.unit(&filters, &events);
        if &*unit == COUNTED {
            rows.iter_mut().for_each(|amount| amount.weight = amount.samples);
        }
        let mut at = vec![Amount::default(); self.trie.len()];
        let mut whole = Amount::default();
        for (stack, amount) in self.stack_of_row.iter().zip(&rows) {
            at[shape.shown[*stack as usize] as usize].add(*amount);
            whole.add(*amount);
        }
        let through = self.trie.through(&at);
        Selected { filters, whole, unit, emptied, events, rows, is_kept, shape, at, through, hidden }
    }

    /// Returns the unit of the selected samples.
    fn unit(&self, filters: &Filters, events: &[Amount]) -> Box<str> {
        let chosen = (0..=u8::MAX).zip(events).filter(|(event, _)| filters.has_event(*event));
        let unit = |event: u8| &*self.owners.units[usize::from(event)];
        let mut units = chosen.clone().filter(|(_, sum)| sum.samples > 0).map(|(event, _)| unit(event));
        let first = units.next().or_else(|| chosen.map(|(event, _)| unit(event)).next());
        let is_one = units.all(|unit| Some(unit) == first);
        first.filter(|unit| is_one && !unit.is_empty()).unwrap_or(COUNTED).into()
    }

    /// Returns for each row whether all filters but those by event and time keep it.
    fn kept(&self, filters: &Filters) -> Vec<bool> {
        let apart = filters.inlined_apart;
        let mut is_kept = vec![true; self.profile.rows.len()];
        for Rule { verb, subject } in filters.rules.iter().filter(|rule| rule.verb != Verb::Hide) {
            let wanted = *verb == Verb::Only;
            let has = subject.is_code().then(|| self.trie.having(&self.functions_of(subject), apart));
            for ((kept, row), stack) in is_kept.iter_mut().zip(&self.profile.rows).zip(&self.stack_of_row) {
                let is_of = match (&has, subject) {
                    (Some(has), _) => has[*stack as usize],
                    (None, subject) => self.is_of(row, subject),
                };
                *kept &= is_of == wanted;
            }
        }
        is_kept
    }

    /// Returns true if the samples of a row belong to a subject that is no code.
    fn is_of(&self, row: &ProfileRow, subject: &Subject) -> bool {
        match *subject {
            Subject::Process(number) => self.owners.process_of_thread[row.thread as usize] == number,
            Subject::Thread(number) => self.owners.thread_of_thread[row.thread as usize] == number,
            Subject::Wait(number) => row.wait.is_some_and(|wait| self.kind_of_wait[wait as usize] == number),
            Subject::Function(_) | Subject::Image(_) | Subject::Matching(_) => false,
        }
    }

    /// Returns the amount of each kept row, in a range of time if there is one.
    fn amounts(&self, range_ns: Option<(u64, u64)>, is_kept: &[bool]) -> Vec<Amount> {
        let Some((from_ns, to_ns)) = range_ns else {
            let amount =
                |(row, kept): (&ProfileRow, &bool)| if *kept { row.amount() } else { Amount::default() };
            return self.profile.rows.iter().zip(is_kept).map(amount).collect();
        };
        let mut amounts = vec![Amount::default(); is_kept.len()];
        for moment in &self.profile.moments[self.may_touch(from_ns, to_ns)] {
            if let Some(weight) = within(moment, (from_ns, to_ns)).filter(|_| is_kept[moment.row as usize]) {
                amounts[moment.row as usize].add(Amount { samples: 1, weight });
            }
        }
        amounts
    }

    /// Returns the moments that may touch a range of time. Waits are in the order of their ends, and the last may be long.
    fn may_touch(&self, from_ns: u64, to_ns: u64) -> Range<usize> {
        let moments = &self.profile.moments;
        let first = moments.partition_point(|moment| moment.time_ns < from_ns);
        let last = match self.has_waits {
            true => moments.len(),
            false => moments.partition_point(|moment| moment.time_ns < to_ns),
        };
        first..last.max(first)
    }
}

/// Every sample counts as one.
const COUNTED: &str = "samples";

/// Returns the weight of a moment within a range of time; `None` if it lies outside. Of a wait it is the part that lies inside.
fn within(moment: &Moment, (from_ns, to_ns): (u64, u64)) -> Option<u64> {
    let Moment { time_ns, lasted_ns, weight, .. } = *moment;
    if lasted_ns == 0 {
        return (from_ns..to_ns).contains(&time_ns).then_some(weight);
    }
    let begin_ns = time_ns.saturating_sub(lasted_ns);
    let inside_ns = time_ns.min(to_ns).saturating_sub(begin_ns.max(from_ns));
    let share = |ns: u64| (u128::from(weight) * u128::from(ns) / u128::from(lasted_ns)) as u64;
    (inside_ns > 0).then(|| share(inside_ns))
}

impl Selected {
    /// Lists the functions that have samples.
    pub fn functions(&self, explorer: &Explorer<'_>) -> Vec<Row> {
        self.code(explorer, explorer.image_of.len(), &self.shape.is_first_of_function, |function| function)
    }

    /// Lists the images that have samples, by their numbers: see [`Explorer::image`].
    pub fn images(&self, explorer: &Explorer<'_>) -> Vec<Row> {
        let images = explorer.profile.names.images.len() + 1;
        let image_of = |function: u32| explorer.image_of[function as usize];
        let is_first = self.shape.is_first_of_image(&explorer.trie, &explorer.image_of);
        self.code(explorer, images, is_first, image_of)
    }

    /// Adds up groups of functions.
    fn code(
        &self,
        explorer: &Explorer<'_>,
        groups: usize,
        is_first: &[bool],
        group_of: impl Fn(u32) -> u32,
    ) -> Vec<Row> {
        let mut sums = vec![Sum::default(); groups];
        for position in 1..self.at.len() {
            if self.through[position].samples > 0 {
                let sum = &mut sums[group_of(explorer.trie.function[position]) as usize];
                sum.own.add(self.at[position]);
                if is_first[position] {
                    sum.total.add(self.through[position]);
                }
            }
        }
        listed(sums)
    }

    /// Lists the processes that have samples.
    pub fn processes(&self, explorer: &Explorer<'_>) -> Vec<Row> {
        let owners = &explorer.owners;
        self.tasks(explorer, owners.processes, &owners.process_of_thread)
    }

    /// Lists the threads that have samples.
    pub fn threads(&self, explorer: &Explorer<'_>) -> Vec<Row> {
        let owners = &explorer.owners;
        self.tasks(explorer, owners.threads, &owners.thread_of_thread)
    }

    fn tasks(&self, explorer: &Explorer<'_>, numbers: usize, of_thread: &[u32]) -> Vec<Row> {
        let number = |row: usize| of_thread[explorer.profile.rows[row].thread as usize];
        whole(explorer.by_number(&self.rows, numbers, number))
    }

    /// Lists the kinds of the selected waits: positions in [`Explorer::kinds`].
    pub fn waits(&self, explorer: &Explorer<'_>) -> Vec<Row> {
        let kinds = explorer.kinds.len();
        let kind = |row: usize| {
            let wait = explorer.profile.rows[row].wait;
            wait.map_or(kinds as u32, |wait| explorer.kind_of_wait[wait as usize])
        };
        let mut sums = explorer.by_number(&self.rows, kinds + 1, kind);
        // The last is what is no wait.
        sums.truncate(kinds);
        whole(sums)
    }
}

/// Makes rows of amounts that have no stack of their own.
fn whole(sums: Vec<Amount>) -> Vec<Row> {
    listed(sums.into_iter().map(|sum| Sum { own: sum, total: sum }).collect())
}

/// Numbers sums, and leaves out those without samples.
fn listed(sums: Vec<Sum>) -> Vec<Row> {
    let rows = (0..).zip(sums).map(|(number, sum)| Row { number, sum });
    rows.filter(|row| row.sum.own.samples > 0 || row.sum.total.samples > 0).collect()
}
