//! Computes the head of a diff: total CPU time and wall time.

use serde::Serialize;

use super::{Diff, Rates, noise, unit};
use icecore_analysis::compare::{CPU_NOISE, Comparison, LEAST_NOISE_S, TotalsNoise, WALL_NOISE};
use icecore_text::quantity::{duration, mean_weight, percent};

/// The total of CPU time or wall time.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Total {
    /// CPU time: `cpu_s_per_run`, else `cpu_s_per_s`; `time_s_per_run` or `time_s_per_s` if waits are among the weights,
    /// `weight_per_run` or `weight_per_s` if weights are not times. Wall time:
    /// `s_per_run`, else `s`.
    unit: &'static str,
    #[serde(flatten)]
    rates: Rates,
    /// The kernel's account or a clock measured it, not samples.
    exact: bool,
    /// The source of the noise between recordings: `assumed`, `assumed_and_runs`, `runs`; if recordings are no whole runs,
    /// `blocks` of time or `runs`; `None` if it is unknown.
    noise: Option<&'static str>,
}

/// Computes the CPU time.
pub(super) fn cpu(compared: &Comparison) -> Total {
    let (total, per) = &compared.cpu_time;
    Total {
        unit: unit(*per, compared),
        rates: Rates::new(total),
        exact: compared.totals.is_some_and(|totals| totals.is_exact),
        noise: Some(compared.totals.map_or_else(|| noise(compared), |totals| name(totals.noise))),
    }
}

/// Computes the wall time. It is tested only for whole runs: otherwise the user chose how long to record.
pub(super) fn wall(compared: &Comparison) -> Total {
    let Some(totals) = &compared.totals else {
        let mean = |side: usize| {
            let recordings = &compared.sides[side].recordings;
            let sum: f64 = recordings.iter().map(|facts| facts.span_ns as f64 / 1e9).sum();
            sum / recordings.len() as f64
        };
        let (before, after) = (mean(0), mean(1));
        let rates = Rates {
            before,
            after,
            delta: after - before,
            low: f64::NAN,
            high: f64::NAN,
            tested: false,
            p: 1.0,
            significant: false,
            detectable: f64::NAN,
            ..Rates::new(&compared.cpu_time.0)
        };
        return Total { unit: "s", rates, exact: true, noise: None };
    };
    Total { unit: "s_per_run", rates: Rates::new(&totals.wall), exact: true, noise: Some(name(totals.noise)) }
}

fn name(noise: TotalsNoise) -> &'static str {
    match noise {
        TotalsNoise::Assumed => "assumed",
        TotalsNoise::Both => "assumed_and_runs",
        TotalsNoise::Runs => "runs",
    }
}

impl Total {
    /// Returns before, after and the interval of the change as text.
    fn text(&self, weight_unit: &str) -> String {
        let Rates { before, after, delta, low, high, significant, .. } = self.rates;
        let amount = |value: f64| match self.unit {
            "cpu_s_per_s" | "time_s_per_s" => format!("{value:.2}"),
            // Rates of weights in ns are in seconds; all others are as weights are.
            "weight_per_s" | "weight_per_run" => mean_weight(value, weight_unit),
            _ => duration((value * 1e9).round() as u64),
        };
        let per = match self.unit {
            "cpu_s_per_s" => " CPUs in use",
            "time_s_per_s" => " threads that ran or waited",
            "weight_per_s" => " per second",
            "s" => " recorded",
            _ => " per run",
        };
        let share = |value: f64| if before > 0.0 { signed_percent(value / before) } else { "-".to_owned() };
        let change = match (low.is_finite(), significant) {
            (false, _) => String::new(),
            (true, true) => format!(" ({}, {} … {})", share(delta), share(low), share(high)),
            (true, false) => format!(" ({}, {} … {}, may be chance)", share(delta), share(low), share(high)),
        };
        format!("{} → {}{per}{change}", amount(before), amount(after))
    }
}

impl Diff {
    /// Returns the lines at the head: label and text.
    pub(super) fn totals(&self) -> Vec<(&'static str, String)> {
        let label = if self.is_cpu_time { "CPU time" } else { "in all" };
        let text = |total: &Total| total.text(&self.weight_unit);
        let mut lines = vec![(label, text(&self.cpu_time)), ("wall time", text(&self.wall_time))];
        if self.whole_unit.ends_with("_per_work") {
            let whole = &self.whole;
            let chance = if whole.significant { "" } else { ", may be chance" };
            let change =
                if whole.before > 0.0 { signed_percent(whole.delta / whole.before) } else { "-".to_owned() };
            let [before, after] = [whole.before, whole.after].map(|value| self.amount(value));
            lines.push(("work", format!("{before} → {after} per unit of work ({change}{chance})")));
        }
        let assumed = match self.wall_time.noise {
            Some("assumed") => "one run a side does not show how runs differ",
            Some("assumed_and_runs") => "so few runs hardly show how runs differ",
            _ => return lines,
        };
        let least = duration((LEAST_NOISE_S * 1e9) as u64);
        let (cpu, wall) = (percent(CPU_NOISE), percent(WALL_NOISE));
        let of = match (self.is_cpu_time, self.weight_unit.as_str()) {
            (true, _) => format!("{cpu} and {least} of CPU time, {wall} and {least} of wall time"),
            (_, "ns") => format!("{wall} and {least} of all times"),
            (_, unit) => format!("{cpu} of all {unit}, {wall} and {least} of wall time"),
        };
        lines.push(("", format!("{assumed}: assumed are {of} (standard deviations)")));
        lines
    }
}

/// Returns a share with its sign, in tenths of a percent.
pub(super) fn signed_percent(share: f64) -> String {
    let tenths = (share * 1000.0).round();
    format!("{}{:.1}%", if tenths < 0.0 { "-" } else { "+" }, tenths.abs() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::signed_percent;

    #[test]
    fn what_is_rounded_to_nothing_has_no_minus() {
        assert_eq!([-0.0004, 0.0, -0.0006].map(signed_percent), ["+0.0%", "+0.0%", "-0.1%"]);
    }
}
