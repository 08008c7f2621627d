//! Times on the command line: seconds with decimals, `10s`, `500ms`, `100us`.

use std::time::Duration;

/// A day, seconds.
pub(super) const DAY: u64 = 24 * 60 * 60;
/// The longest delay.
const MAX_DELAY: Duration = Duration::from_secs(DAY);

/// Parses a time of more than 0.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, f64); 4] = [("ms", 1e3), ("us", 1e6), ("ns", 1e9), ("s", 1.0)];
    let with_unit = UNITS.iter().find_map(|(unit, units)| Some((text.strip_suffix(unit)?, *units)));
    let (number, units) = with_unit.unwrap_or((text, 1.0));
    let number: f64 =
        number.parse().map_err(|_| "expected seconds such as 2.5 or 10s, 500ms or 100us".to_owned())?;
    if number <= 0.0 {
        return Err("must be more than 0".to_owned());
    }
    Duration::try_from_secs_f64(number / units).map_err(|error| error.to_string())
}

/// Parses the value of `--delay`.
pub(super) fn parse_delay(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        delay if delay > MAX_DELAY => Err("must be at most a day, 86400 seconds".to_owned()),
        delay => Ok(delay),
    }
}

/// Parses a time with a unit.
pub(super) fn long(text: &str) -> Option<Duration> {
    const UNITS: [(&str, f64); 5] =
        [("min", 60.0), ("h", 3_600.0), ("d", DAY as f64), ("ms", 0.001), ("s", 1.0)];
    let (number, seconds) =
        UNITS.iter().find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, *seconds)))?;
    let number: f64 = number.parse().ok()?;
    Duration::try_from_secs_f64(number * seconds).ok()
}

/// Parses the value of `--at`.
pub(super) fn parse_multiple(text: &str) -> Result<Duration, String> {
    let every = text.strip_prefix("*/").and_then(long);
    let range = Duration::from_millis(100)..=MAX_DELAY;
    every
        .filter(|every| range.contains(every))
        .ok_or("expected */ and a time up to a day, such as */10s or */1min".into())
}

/// Parses the value of `--flush`.
pub(super) fn parse_flush(text: &str) -> Result<Duration, String> {
    let range = Duration::from_millis(100)..=Duration::from_secs(60);
    parse(text).ok().filter(|time| range.contains(time)).ok_or("must lie between 0.1 and 60 seconds".into())
}

/// How often something is done; `None`: never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval(pub Option<Duration>);

/// Parses the value of `--counters`.
pub(super) fn parse_counters(text: &str) -> Result<Interval, String> {
    let range = Duration::from_millis(100)..=Duration::from_secs(30);
    if text == "off" {
        return Ok(Interval(None));
    }
    let every = parse(text).ok().filter(|every| range.contains(every));
    every.map(|every| Interval(Some(every))).ok_or("must lie between 0.1 and 30 seconds, or be `off`".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_decimals_and_may_have_a_unit() {
        for (text, milliseconds) in [
            ("2", 2_000),
            ("0.25", 250),
            ("10s", 10_000),
            ("1.5s", 1_500),
            ("500ms", 500),
            ("9000us", 9),
            ("0.5ms", 0),
        ] {
            assert_eq!(parse(text).map(|time| time.as_millis()), Ok(milliseconds), "{text}");
        }
        for wrong in ["", "s", "ms", "0", "0ms", "-1", "10ss", "10m", "1 s", "nan", "inf", "1e300"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_delay_is_at_most_a_day() {
        assert_eq!(parse_delay("86400"), Ok(MAX_DELAY));
        assert!(parse_delay("86401").is_err());
        assert_eq!(parse_flush("100ms"), Ok(Duration::from_millis(100)));
        assert!(parse_flush("99ms").is_err());
    }

    #[test]
    fn recorders_begin_together_at_multiples_of_a_time() {
        assert_eq!(parse_multiple("*/10s"), Ok(Duration::from_secs(10)));
        assert_eq!(parse_multiple("*/1min"), Ok(Duration::from_secs(60)));
        for wrong in ["10s", "*/", "*/10", "*/0s", "*/2d", "/10s", "* /10s"] {
            assert!(parse_multiple(wrong).is_err(), "{wrong}");
        }
        let start = crate::settings::Start::AtMultipleOf(Duration::from_secs(10));
        assert_eq!(
            [0, 1, 19_000_000_000].map(|now| start.in_ns(now)),
            [10_000_000_000, 9_999_999_999, 1_000_000_000]
        );
    }

    #[test]
    fn counters_are_read_at_an_interval_or_never() {
        let every = |text| parse_counters(text).map(|interval| interval.0.map(|every| every.as_millis()));
        assert_eq!([every("0.1"), every("30s"), every("off")], [Ok(Some(100)), Ok(Some(30_000)), Ok(None)]);
        for wrong in ["0.09", "31", "0", "on", ""] {
            assert!(every(wrong).is_err(), "{wrong}");
        }
    }
}
