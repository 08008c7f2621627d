//! When a recording goes on in another file, on the command line: `10min`, `256M`, `10min,256M`; and how much of it stays in memory.

use std::ops::RangeInclusive;
use std::time::Duration;

use icecore_text::quantity::size;

use super::seconds::{DAY, long};
use crate::settings::{Flight, Rotate};

const AGES: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(30 * DAY);
const SIZES: RangeInclusive<u64> = 64 << 10..=1 << 40;
const HISTORIES: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(DAY);
const HISTORY_SIZES: RangeInclusive<u64> = 16 << 20..=64 << 30;
/// The size of a history if the user names none: 64 MiB.
const HISTORY_BYTES: u64 = 64 << 20;

/// Parses the value of `--rotate`.
pub(super) fn parse(text: &str) -> Result<Rotate, String> {
    let mut rotate = Rotate::default();
    for part in text.split(',') {
        let is_number = part.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        match (long(part), size(part).ok()) {
            _ if is_number => {
                return Err("give a unit: a time such as 10min, or a size such as 256M".to_owned());
            }
            (Some(every), _) if rotate.every.is_none() => {
                if !AGES.contains(&every) {
                    return Err("a time must lie between 100ms and 30d".to_owned());
                }
                rotate.every = Some(every);
            }
            (None, Some(bytes)) if rotate.bytes.is_none() => {
                if !SIZES.contains(&bytes) {
                    return Err("a size must lie between 64K and 1T".to_owned());
                }
                rotate.bytes = Some(bytes);
            }
            (Some(_), _) | (_, Some(_)) => return Err("give at most one time and one size".to_owned()),
            (None, None) => {
                return Err(
                    "expected a time such as 10min, a size such as 256M, or both: 10min,256M".to_owned()
                );
            }
        }
    }
    Ok(rotate)
}

/// Parses the value of `--flight`.
pub(super) fn parse_flight(text: &str) -> Result<Flight, String> {
    let (lasts, bytes) = text.split_once(',').map_or((text, None), |(lasts, bytes)| (lasts, Some(bytes)));
    let lasts = long(lasts).filter(|lasts| HISTORIES.contains(lasts));
    let lasts = lasts.ok_or("expected a time from 1s to 1d such as 30s, and perhaps a size: 30s,64M")?;
    let bytes = bytes.map_or(Ok(HISTORY_BYTES), size)?;
    if !HISTORY_SIZES.contains(&bytes) {
        return Err("a size must lie between 16M and 64G".to_owned());
    }
    Ok(Flight { lasts, bytes })
}

/// Parses the value of `--keep-for`.
pub(super) fn parse_age(text: &str) -> Result<Duration, String> {
    long(text)
        .filter(|age| *age >= *AGES.start())
        .ok_or("expected a time of at least 100ms, such as 7d, 12h or 90min".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rotation_is_a_time_or_a_size_or_both() {
        let rotate = |seconds, bytes| Ok(Rotate { every: Option::map(seconds, Duration::from_secs), bytes });
        assert_eq!(parse("10min"), rotate(Some(600), None));
        assert_eq!(parse("1s"), rotate(Some(1), None));
        assert_eq!(parse("500ms"), parse("0.5s"));
        assert_eq!(parse("1.5h"), rotate(Some(5_400), None));
        assert_eq!(parse("256M"), rotate(None, Some(256 << 20)));
        assert_eq!(parse("7d,64K"), rotate(Some(7 * DAY), Some(64 << 10)));
        assert_eq!(parse("64K,7d"), parse("7d,64K"));
        for wrong in
            ["", "10", "10m,", "99ms", "31d", "63K", "2T", "1h,2h", "1M,2M", "x", "-1s", "nans", "infd"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_history_has_a_length_and_perhaps_a_size() {
        let flight = |seconds, bytes| Ok(Flight { lasts: Duration::from_secs(seconds), bytes });
        assert_eq!(parse_flight("30s"), flight(30, 64 << 20));
        assert_eq!(parse_flight("2min,1G"), flight(120, 1 << 30));
        for wrong in ["", "30", "64M", "0.5s", "2d", "30s,", "30s,15M", "30s,64M,1"] {
            assert!(parse_flight(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_age_has_a_unit() {
        assert_eq!(parse_age("7d"), Ok(Duration::from_secs(7 * DAY)));
        assert_eq!(parse_age("90min"), Ok(Duration::from_secs(5_400)));
        for wrong in ["", "7", "0.05s", "7w", "1e300d"] {
            assert!(parse_age(wrong).is_err(), "{wrong}");
        }
    }
}
