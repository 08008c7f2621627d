//! Concludes from facts what a recording can have: pure.

mod kernel;
mod limits;
mod machine;
mod privileges;
mod surroundings;

use super::check::Check;
use super::facts::Facts;

/// Returns one check for each thing that a recording needs or could use. What could not be found out has none.
pub(super) fn checks(facts: &Facts) -> Vec<Check> {
    let groups = [
        ("machine", machine::checks(facts)),
        ("kernel", kernel::checks(facts)),
        ("privileges", privileges::checks(facts)),
        ("surroundings", surroundings::checks(facts)),
        ("limits", limits::checks(facts)),
    ];
    let named = |(group, checks): (&'static str, Vec<Check>)| {
        checks.into_iter().map(move |check| Check { group, ..check })
    };
    groups.into_iter().flat_map(named).collect()
}
