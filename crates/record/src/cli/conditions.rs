//! Conditions on the command line: `cpu>80% for 5s`, `rss(postgres)>4G`, `exit(server)!=0`.

use icecore_format::records::Counter;
use icecore_text::quantity::size;

use super::seconds::{self, long};
use crate::settings::{Compare, Condition, Metric};

/// What a metric may be, for messages.
const METRICS: &str = "cpu, cpu(NAME), memory, rss(NAME), psi.cpu.some, psi.memory.some, psi.memory.full, psi.io.some, psi.io.full, \
     run_delay, exit(NAME)";
const COMPARISONS: [(&str, Compare); 7] = [
    (">=", Compare::AtLeast),
    ("<=", Compare::AtMost),
    ("!=", Compare::Not),
    ("==", Compare::Equal),
    (">", Compare::Above),
    ("<", Compare::Below),
    ("=", Compare::Equal),
];

/// Parses the value of `--when`.
pub(super) fn parse(text: &str) -> Result<Condition, String> {
    // A name may have any character, so what is compared ends behind its bracket.
    let name_end = text.find('(').and_then(|_| text.rfind(')')).map_or(0, |at| at + 1);
    let found = |(sign, compare): &(&str, Compare)| {
        let at = name_end + text[name_end..].find(sign)?;
        Some((at, sign.len(), *compare))
    };
    // The first one; of two at the same place, the longer.
    let sign = COMPARISONS.iter().filter_map(found).min_by_key(|(at, len, _)| (*at, usize::MAX - len));
    let (at, len, compare) = sign.ok_or("expected a comparison such as cpu>80% or rss(postgres)>4G")?;
    let (left, right) = (text[..at].trim(), text[at + len..].trim());
    let metric = metric(left).ok_or_else(|| format!("`{left}` is none of {METRICS}"))?;
    let (value, lasts) = match right.split_once(" for ") {
        None => (right, None),
        Some((value, time)) => {
            let lasts = long(time.trim()).ok_or("expected a time behind `for`, such as 5s")?;
            (value.trim(), Some(lasts))
        }
    };
    if lasts.is_some() && !metric.is_counted() {
        return Err(format!("`{left}` is a moment: it does not last (for …)"));
    }
    if matches!(compare, Compare::Equal | Compare::Not) && !matches!(metric, Metric::ExitOf(_)) {
        return Err(format!("`{left}` is a measure: compare it by < or >"));
    }
    let value = value_of(&metric, value)?;
    Ok(Condition { text: text.trim().to_owned(), metric, compare, value, lasts: lasts.unwrap_or_default() })
}

fn metric(text: &str) -> Option<Metric> {
    if let Some((of, name)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        let name = name.trim().to_owned();
        return match of.trim() {
            _ if name.is_empty() => None,
            "cpu" => Some(Metric::CpuOf(name)),
            "rss" => Some(Metric::RssOf(name)),
            "exit" => Some(Metric::ExitOf(name)),
            _ => None,
        };
    }
    Some(match text {
        "cpu" => Metric::Cpu,
        "memory" => Metric::Memory,
        "run_delay" => Metric::RunDelay,
        "psi.cpu.some" => Metric::Pressure(Counter::CPU_PRESSURE),
        "psi.memory.some" => Metric::Pressure(Counter::MEMORY_PRESSURE),
        "psi.memory.full" => Metric::Pressure(Counter::MEMORY_PRESSURE_ALL),
        "psi.io.some" => Metric::Pressure(Counter::IO_PRESSURE),
        "psi.io.full" => Metric::Pressure(Counter::IO_PRESSURE_ALL),
        _ => return None,
    })
}

fn value_of(metric: &Metric, text: &str) -> Result<f64, String> {
    let number =
        |text: &str| text.trim().parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
    match metric {
        Metric::Cpu | Metric::CpuOf(_) | Metric::Memory | Metric::Pressure(_) => {
            number(text.strip_suffix('%').unwrap_or(text)).ok_or_else(|| format!("`{text}` is no percentage"))
        }
        Metric::RssOf(_) => size(text).map(|bytes| bytes as f64),
        Metric::RunDelay => seconds::parse(text).map(|time| time.as_secs_f64()),
        Metric::ExitOf(_) => {
            let code = text.parse::<u8>();
            code.map(f64::from).map_err(|_| format!("`{text}` is no exit code (0 to 255)"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn condition(text: &str) -> (Metric, Compare, f64, u64) {
        let Condition { metric, compare, value, lasts, .. } = parse(text).expect("it is right");
        (metric, compare, value, lasts.as_secs())
    }

    #[test]
    fn conditions_are_read_as_they_are_meant() {
        assert_eq!(condition("cpu>80% for 5s"), (Metric::Cpu, Compare::Above, 80.0, 5));
        assert_eq!(condition("cpu < 5"), (Metric::Cpu, Compare::Below, 5.0, 0));
        assert_eq!(
            condition("cpu(nginx*)>=150%"),
            (Metric::CpuOf("nginx*".into()), Compare::AtLeast, 150.0, 0)
        );
        let pressure = Metric::Pressure(Counter::CPU_PRESSURE);
        assert_eq!(condition("psi.cpu.some>30"), (pressure, Compare::Above, 30.0, 0));
        assert_eq!(
            condition("rss(postgres)>4G"),
            (Metric::RssOf("postgres".into()), Compare::Above, (4_u64 << 30) as f64, 0)
        );
        assert_eq!(
            condition("exit(my>=service)!=0"),
            (Metric::ExitOf("my>=service".into()), Compare::Not, 0.0, 0)
        );
        assert_eq!(condition("exit(a(b))=137"), (Metric::ExitOf("a(b)".into()), Compare::Equal, 137.0, 0));
        assert_eq!(condition("run_delay>=100ms"), (Metric::RunDelay, Compare::AtLeast, 0.1, 0));
        assert_eq!(
            parse(" memory>90% for 1min ").map(|it| (it.text, it.lasts)),
            Ok(("memory>90% for 1min".into(), Duration::from_secs(60)))
        );
    }

    #[test]
    fn what_means_nothing_is_refused() {
        for wrong in [
            "",
            "cpu",
            ">80%",
            "cpu>",
            "cpu>x",
            "cpu>-1",
            "cpu>inf",
            "cpu=80%",
            "load>3",
            "cpu()>1",
            "rss>4G",
            "rss(x)>4Q",
            "exit(x)!=256",
            "exit(x)!=0 for 5s",
            "run_delay>1",
            "psi.cpu.full>3",
            "cpu>80% for",
            "cpu>80% for x",
            "run_delay>1s for 2s",
        ] {
            let is_seconds = wrong == "run_delay>1";
            assert_eq!(parse(wrong).is_ok(), is_seconds, "{wrong}");
        }
    }
}
