//! `--fail-on`: checks conditions.

use serde::Serialize;

use crate::cli::{Condition, Measure, Sort};
use icecore_analysis::compare::{ComparedRow, Comparison, Metric};

/// A condition, and the rows for which it holds.
#[derive(Debug, Serialize)]
pub(super) struct Check {
    pub(super) condition: String,
    holds: bool,
    /// The names of the rows, and their values as fractions.
    pub(super) rows: Vec<Violation>,
}

/// A row for which a condition holds.
#[derive(Debug, Serialize)]
pub(super) struct Violation {
    pub(super) name: String,
    /// Not finite if the value before was 0.
    #[serde(serialize_with = "finite")]
    pub(super) value: f64,
}

/// Writes a number that is not finite as `null`, because JSON has none.
fn finite<S: serde::Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
    value.is_finite().then_some(*value).serialize(to)
}

impl Check {
    /// Tests the condition on every row that changed by itself, and by more than chance.
    pub(super) fn new(condition: Condition, compared: &Comparison) -> Self {
        let holds =
            |value: f64| if condition.is_above { value > condition.bound } else { value < condition.bound };
        let mut rows: Vec<Violation> = match condition.what {
            Measure::Whole | Measure::Cpu | Measure::Wall => {
                let (name, of) = match (condition.what, &compared.totals) {
                    (Measure::Cpu, Some(totals)) => ("CPU time per run", &totals.cpu),
                    (Measure::Wall, Some(totals)) => ("wall time per run", &totals.wall),
                    _ => ("everything", &compared.whole.0),
                };
                let value = of.estimate.delta() / of.estimate.before;
                let cause = Violation { name: name.to_owned(), value };
                if of.judged.significant && holds(value) { vec![cause] } else { Vec::new() }
            }
            Measure::Change(sort) | Measure::Ratio(sort) => {
                let metric = if sort == Sort::Own { Metric::Own } else { Metric::Total };
                let changed = compared.rows.iter().filter(|row| {
                    row.of(metric).judged.significant && compared.status(row, metric).is_shown()
                });
                let causes = changed.map(|row| Violation {
                    name: name(row),
                    value: value(compared, row, metric, condition.what),
                });
                causes.filter(|cause| holds(cause.value)).collect()
            }
        };
        rows.sort_by(|a, b| b.value.abs().total_cmp(&a.value.abs()).then_with(|| a.name.cmp(&b.name)));
        Self { condition: condition.to_string(), holds: !rows.is_empty(), rows }
    }

    pub(super) fn holds(&self) -> bool {
        self.holds
    }
}

fn name(row: &ComparedRow) -> String {
    let key = row.keys[1].as_ref().or(row.keys[0].as_ref());
    key.map_or_else(String::new, |key| key.name.clone())
}

/// Returns the change as a share of everything before, or after divided by before.
fn value(compared: &Comparison, row: &ComparedRow, metric: Metric, what: Measure) -> f64 {
    let estimate = &row.of(metric).estimate;
    match what {
        Measure::Ratio(_) => estimate.after / estimate.before,
        _ => estimate.delta() / compared.sides[0].rate,
    }
}
