//! Selections of sessions: `host=web* release=1.4.*`, and when they began.

use std::fmt;
use std::str::FromStr;

use icecore_text::glob::is_like;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::archive::{Index, Listed};
use crate::partition::{NO_SERVICE, Partition, day};

/// What sessions must be: every term holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    terms: Vec<Term>,
    since_us: Option<i64>,
    until_us: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Term {
    /// The UUID begins so.
    Uuid(String),
    /// What has a name, a pattern.
    Is(String, String),
}

/// The shortest beginning of a UUID that names a recording.
const UUID_BEGIN: usize = 6;

/// Why a text is no selection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no term of a selection: write KEY=PATTERN (host, service, kernel, arch, verdict, or a label), or at least {UUID_BEGIN} digits of a UUID"
)]
pub struct NoTerm(String);

impl FromStr for Selection {
    type Err = NoTerm;

    fn from_str(text: &str) -> Result<Self, NoTerm> {
        let term = |word: &str| match word.split_once('=') {
            Some((key, pattern)) if !key.is_empty() => Ok(Term::Is(key.to_owned(), pattern.to_owned())),
            None if word.len() >= UUID_BEGIN && word.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                Ok(Term::Uuid(word.to_ascii_lowercase()))
            }
            _ => Err(NoTerm(word.to_owned())),
        };
        let terms = text.split_whitespace().map(term).collect::<Result<_, _>>()?;
        Ok(Self { terms, ..Self::default() })
    }
}

impl Selection {
    /// Selects of these sessions those that began at a moment or later, and before another one; µs since 1970-01-01 UTC.
    #[must_use]
    pub fn between(self, since_us: Option<i64>, until_us: Option<i64>) -> Self {
        Self { since_us, until_us, ..self }
    }

    /// Returns true if a partition can have sessions of the selection.
    pub fn may_be_in(&self, partition: &Partition) -> bool {
        self.since_us.is_none_or(|since| partition.day >= day(since))
            && self.until_us.is_none_or(|until| partition.day <= day(until))
    }

    /// Returns true if a session is selected.
    pub fn has(&self, index: &Index, Listed { row, .. }: &Listed) -> bool {
        let text = |text| index.text(text);
        let begin_us = row.span_us.0;
        let is_then = self.since_us.is_none_or(|since| begin_us >= since)
            && self.until_us.is_none_or(|until| begin_us < until);
        let label =
            |key: &str| row.labels.iter().find(|label| text(label.0) == key).map(|label| text(label.1));
        let holds = |term: &Term| match term {
            Term::Uuid(begin) => text(row.uuid).starts_with(&**begin),
            Term::Is(key, pattern) => {
                let value = match &**key {
                    "host" => Some(text(row.host)),
                    "kernel" => Some(text(row.kernel)),
                    "arch" => Some(text(row.arch)),
                    "verdict" => Some(text(row.verdict)),
                    "service" => label("service").filter(|name| !name.is_empty()).or(Some(NO_SERVICE)),
                    key => label(key.strip_prefix("label:").unwrap_or(key)),
                };
                value.is_some_and(|value| is_like(pattern, value))
            }
        };
        is_then && self.terms.iter().all(holds)
    }
}

/// A moment that a user typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment(pub i64);

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let utc = |moment: DateTime| moment.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp());
        // A date alone is its first moment.
        let civil = || text.parse::<DateTime>().ok().and_then(utc);
        let parsed = text.parse::<Timestamp>().ok().or_else(civil);
        let moment = parsed.ok_or("use a date (2026-09-01) or a moment (2026-09-01T03:00, 2026-09-01T05:00+02:00); UTC unless it says")?;
        Ok(Self(moment.as_microsecond()))
    }
}

/// A stretch of time that a user typed: `90m`, `12h`, `7d`, `4w`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch(SignedDuration);

impl Stretch {
    /// Returns its length, µs.
    pub fn us(self) -> i64 {
        i64::try_from(self.0.as_micros()).unwrap_or(i64::MAX)
    }
}

impl FromStr for Stretch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unit = text.chars().last().and_then(|unit| match unit {
            's' => Some(1),
            'm' => Some(60),
            'h' => Some(3600),
            'd' => Some(86_400),
            'w' => Some(7 * 86_400),
            _ => None,
        });
        let number = text.get(..text.len().saturating_sub(1)).and_then(|digits| digits.parse::<i64>().ok());
        let seconds = unit.zip(number).and_then(|(unit, number)| number.checked_mul(unit));
        let seconds = seconds.filter(|seconds| (1..=1_000_000_000_000).contains(seconds));
        seconds
            .map(|seconds| Self(SignedDuration::from_secs(seconds)))
            .ok_or_else(|| "use a number and a unit: 90m, 12h, 7d, 4w".to_owned())
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment = Timestamp::from_microsecond(self.0).unwrap_or_default();
        write!(f, "{}", moment.strftime("%Y-%m-%d %H:%M:%S"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selections_moments_and_stretches_are_read_as_people_type_them() {
        let terms = "host=web* release= 0a1b2c3d".parse::<Selection>().expect("terms").terms;
        let is = |key: &str, pattern: &str| Term::Is(key.into(), pattern.into());
        assert_eq!(terms, [is("host", "web*"), is("release", ""), Term::Uuid("0a1b2c3d".into())]);
        for wrong in ["web", "=x", "0a1b2", "0a1b2x3d4e"] {
            assert_eq!(wrong.parse::<Selection>(), Err(NoTerm(wrong.into())));
        }
        let moment = |text: &str| text.parse::<Moment>().map(|moment| moment.to_string());
        assert_eq!(moment("2026-09-01").as_deref(), Ok("2026-09-01 00:00:00"));
        assert_eq!(moment("2026-09-01T03:30").as_deref(), Ok("2026-09-01 03:30:00"));
        assert_eq!(moment("2026-09-01T03:30:00+02:00").as_deref(), Ok("2026-09-01 01:30:00"));
        assert!(moment("yesterday").is_err());
        assert_eq!("7d".parse::<Stretch>().map(Stretch::us), Ok(7 * 86_400_000_000));
        for wrong in ["", "7", "d", "-1d", "0h", "7y", "99999999999999w", "7ü"] {
            assert!(wrong.parse::<Stretch>().is_err(), "{wrong}");
        }
    }
}
