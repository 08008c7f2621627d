//! Formats numbers with their units for people.

use jiff::Timestamp;

/// Returns a share as percent: `12.3%`; a small share above 0 is `<0.1%`.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 0.05 { "<0.1%".to_owned() } else { format!("{percent:.1}%") }
}

/// Returns a number with separators: `79,008`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3 + 1);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Returns a number of things: `1 pid`, `2 pids`.
pub fn things(number: u64, thing: &str) -> String {
    format!("{} {thing}{}", count(number), if number == 1 { "" } else { "s" })
}

/// Returns a size: `640 B`, `1.2 MiB`.
pub fn bytes(number: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if number < 1024 {
        return format!("{number} B");
    }
    let mut value = number as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// Reads a size: bytes, or a number with K, M, G or T, which are powers of 1,024.
///
/// # Errors
/// What to write instead.
pub fn size(text: &str) -> Result<u64, String> {
    let expected = || "expected bytes, or a number with K, M, G or T".to_owned();
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ => return Err(expected()),
    };
    let number: u64 = digits.parse().map_err(|_| expected())?;
    number.checked_mul(1 << shift).ok_or_else(|| "too large".to_owned())
}

/// Returns a duration: `12.3 s`, `4.56 ms`, `7.8 µs`, `90 ns`.
pub fn duration(ns: u64) -> String {
    let value = ns as f64;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} µs", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", value / 1e6),
        1_000_000_000..60_000_000_000 => format!("{:.2} s", value / 1e9),
        _ => format!("{} min {:02} s", ns / 60_000_000_000, ns % 60_000_000_000 / 1_000_000_000),
    }
}

/// Returns a weight in its unit: a duration if it is `ns`, a size if it is `bytes`, else a number.
pub fn weight(weight: u64, unit: &str) -> String {
    match unit {
        "ns" => duration(weight),
        "bytes" => bytes(weight),
        "events" => things(weight, "event"),
        _ => format!("{} {unit}", count(weight)),
    }
}

/// Returns a mean weight in its unit, as [`weight`]; a small one with tenths.
pub fn mean_weight(mean: f64, unit: &str) -> String {
    if !matches!(unit, "ns" | "bytes") && mean > 0.0 && mean < 9.95 {
        return format!("{mean:.1} {unit}");
    }
    weight(mean.round() as u64, unit)
}

/// Returns a moment: `2026-02-03 04:05:06 UTC`.
pub fn utc(unix_ns: u64) -> String {
    // 64 bits of nanoseconds end in the year 2554.
    let moment = Timestamp::from_nanosecond(unix_ns.into()).unwrap_or(Timestamp::MAX);
    moment.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// Divides; returns 0 if the divisor is 0.
pub fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// Returns a list of numbers as `0-3,7`.
pub fn ranges(numbers: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*number) => *last = *number,
            _ => runs.push((*number, *number)),
        }
    }
    let text = |(first, last): &(u32, u32)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    runs.iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        assert_eq!(
            [0, 999, 1_000, 79_008, 1_000_000].map(count),
            ["0", "999", "1,000", "79,008", "1,000,000"]
        );
        assert_eq!([1, 2].map(|n| things(n, "pid")), ["1 pid", "2 pids"]);
    }

    #[test]
    fn sizes_are_read_as_people_type_them() {
        assert_eq!(["65536", "8M", "2gib", "3T"].map(size), [65536, 8 << 20, 2 << 30, 3 << 40].map(Ok));
        for wrong in ["8X", "M", "", "99999999999G"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_there_is_not_called_nothing() {
        assert_eq!([0.0, 0.0001, 0.0006, 1.0].map(percent), ["0.0%", "<0.1%", "0.1%", "100.0%"]);
    }

    #[test]
    fn units_grow_with_the_value() {
        assert_eq!([5, 1024, 1_300_000].map(bytes), ["5 B", "1.0 KiB", "1.2 MiB"]);
        assert_eq!(
            [9, 1_500, 2_500_000, 3_210_000_000, 61_000_000_000].map(duration),
            ["9 ns", "1.5 µs", "2.5 ms", "3.21 s", "1 min 01 s"]
        );
        assert_eq!(bytes(u64::MAX), "16777216.0 TiB");
        assert_eq!(
            [(1_500, "cycles"), (1_500, "ns"), (2_048, "bytes"), (1, "events"), (12, "events")]
                .map(|(number, unit)| weight(number, unit)),
            ["1,500 cycles", "1.5 µs", "2.0 KiB", "1 event", "12 events"]
        );
    }

    #[test]
    fn means_of_small_numbers_have_tenths() {
        let means = [(0.25, "events"), (9.96, "events"), (0.0, "cycles"), (2_048.4, "bytes")];
        assert_eq!(
            means.map(|(mean, unit)| mean_weight(mean, unit)),
            ["0.2 events", "10 events", "0 cycles", "2.0 KiB"]
        );
    }

    #[test]
    fn dates_know_leap_years() {
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_827_696_000_000_000), "2000-02-29 12:34:56 UTC");
        assert_eq!(utc(1_767_225_599_000_000_000), "2025-12-31 23:59:59 UTC");
        assert!(utc(u64::MAX).starts_with("2554-"));
    }

    #[test]
    fn neighbours_are_one_range() {
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!(ranges(&[]), "");
    }
}
