//! How much of the time is sampled and what the recorder may use, on the command line: `10s/60s`, `cpu=1%,memory=64M,disk=1M/s`.

use std::ops::RangeInclusive;
use std::time::Duration;

use icecore_text::quantity::size;

use super::seconds::{DAY, long};
use crate::settings::{Budget, Duty};

const PERIODS: RangeInclusive<Duration> = Duration::from_millis(200)..=Duration::from_secs(DAY);
/// The shortest part that is sampled or left out.
const SHORTEST: Duration = Duration::from_millis(100);
/// Parts in a million of one CPU: a thousandth of one, up to a thousand.
const CPUS: RangeInclusive<f64> = 1e3..=1e9;
const MEMORY: RangeInclusive<u64> = 16 << 20..=1 << 40;
const DISK: RangeInclusive<u64> = 1 << 10..=1 << 40;

/// Parses the value of `--duty`.
pub(super) fn parse_duty(text: &str) -> Result<Duty, String> {
    let parts = text.split_once('/').and_then(|(on, every)| Some((long(on)?, long(every)?)));
    let (on, every) = parts.ok_or("expected the time to sample and the period, such as 10s/60s")?;
    if !PERIODS.contains(&every) {
        return Err("the period must lie between 200ms and 1d".to_owned());
    }
    if on < SHORTEST || every.saturating_sub(on) < SHORTEST {
        return Err("at least 100ms of each period must be sampled, and as much left out".to_owned());
    }
    Ok(Duty { on, every })
}

/// Parses the value of `--budget`.
pub(super) fn parse(text: &str) -> Result<Budget, String> {
    let mut budget = Budget::default();
    for part in text.split(',') {
        let (name, value) =
            part.split_once('=').ok_or("expected limits such as cpu=1%,memory=64M,disk=1M/s")?;
        let is_new = match name {
            "cpu" => budget.cpu.replace(cpu(value)?).is_none(),
            "memory" => budget.memory.replace(bytes(value, &MEMORY, "between 16M and 1T")?).is_none(),
            "disk" => {
                let value = value.strip_suffix("/s").ok_or("give disk as bytes a second, such as 1M/s")?;
                budget.disk.replace(bytes(value, &DISK, "between 1K/s and 1T/s")?).is_none()
            }
            _ => return Err(format!("`{name}` has no budget: cpu, memory and disk have one")),
        };
        if !is_new {
            return Err(format!("`{name}` is limited twice"));
        }
    }
    Ok(budget)
}

/// Parses a share of one CPU.
fn cpu(text: &str) -> Result<u64, String> {
    let percent = text.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
    let parts = percent.map(|percent| percent * 1e4).filter(|parts| CPUS.contains(parts));
    parts.map(|parts| parts as u64).ok_or("give cpu as percent of one CPU, from 0.1%, such as 1%".to_owned())
}

fn bytes(text: &str, range: &RangeInclusive<u64>, told: &str) -> Result<u64, String> {
    let bytes = size(text)?;
    if range.contains(&bytes) { Ok(bytes) } else { Err(format!("must lie {told}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duty_is_a_part_of_a_period() {
        let duty =
            |on, every| Ok(Duty { on: Duration::from_millis(on), every: Duration::from_millis(every) });
        assert_eq!(parse_duty("10s/60s"), duty(10_000, 60_000));
        assert_eq!(parse_duty("100ms/1min"), duty(100, 60_000));
        for wrong in
            ["", "10s", "10/60", "60s/10s", "60s/60s", "10s/", "99ms/1s", "950ms/1s", "1s/2d", "1s/2s/3s"]
        {
            assert!(parse_duty(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_budget_limits_each_thing_once() {
        let all = Budget { cpu: Some(10_000), memory: Some(64 << 20), disk: Some(1 << 20) };
        assert_eq!(parse("cpu=1%,memory=64M,disk=1M/s"), Ok(all));
        assert_eq!(parse("cpu=0.5%"), Ok(Budget { cpu: Some(5_000), ..Budget::default() }));
        for wrong in [
            "",
            "1%",
            "cpu=1",
            "cpu=0.01%",
            "cpu=nan%",
            "cpu=-1%",
            "memory=1M",
            "memory=x",
            "disk=1M",
            "disk=1/s",
            "net=1M/s",
            "cpu=1%,cpu=2%",
            "cpu=1%,",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
