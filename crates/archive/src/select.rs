//! Selections of sessions: `host=web* release!=1.4.* began>=2026-09-01`.

use std::fmt;
use std::str::FromStr;

use icecore_text::glob::is_like;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::archive::{Index, Listed};
use crate::partition::{NO_SERVICE, Partition, day};
use crate::pool::{Pool, Text};
use crate::schema::DailyOf;

/// What sessions must be: every term holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    terms: Vec<Term>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Term {
    /// The UUID begins so.
    Uuid(String),
    /// What has a name, a pattern.
    Is(String, String),
    /// What has a name, a pattern that it does not match; also true if nothing has the name.
    IsNot(String, String),
    /// The session began then or later.
    Since(i64),
    /// It began before.
    Until(i64),
}

/// The shortest beginning of a UUID that names a recording.
const UUID_BEGIN: usize = 6;

/// Why a text is no selection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no term of a selection: write KEY=PATTERN or KEY!=PATTERN (host, service, kernel, arch, verdict, uuid, or a label), \
     began>=MOMENT, began<MOMENT, or at least {UUID_BEGIN} digits of a UUID"
)]
pub struct NoTerm(String);

impl FromStr for Selection {
    type Err = NoTerm;

    fn from_str(text: &str) -> Result<Self, NoTerm> {
        let moment = |word: &str, text: &str| match text.parse() {
            Ok(Moment(us)) => Ok(us),
            Err(_) => Err(NoTerm(word.to_owned())),
        };
        let term = |word: &str| match word.split_once('=') {
            Some(("began>", since)) => moment(word, since).map(Term::Since),
            Some((key, pattern)) if !key.is_empty() => match key.strip_suffix('!') {
                Some("") => Err(NoTerm(word.to_owned())),
                Some(key) => Ok(Term::IsNot(key.to_owned(), pattern.to_owned())),
                None => Ok(Term::Is(key.to_owned(), pattern.to_owned())),
            },
            None if let Some(until) = word.strip_prefix("began<") => moment(word, until).map(Term::Until),
            None if word.len() >= UUID_BEGIN && word.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                Ok(Term::Uuid(word.to_ascii_lowercase()))
            }
            _ => Err(NoTerm(word.to_owned())),
        };
        let terms = text.split_whitespace().map(term).collect::<Result<_, _>>()?;
        Ok(Self { terms })
    }
}

impl Selection {
    /// Selects of these sessions those that began at a moment or later, and before another one; µs since 1970-01-01 UTC.
    #[must_use]
    pub fn between(mut self, since_us: Option<i64>, until_us: Option<i64>) -> Self {
        let times = since_us.map(Term::Since).into_iter().chain(until_us.map(Term::Until));
        self.terms.extend(times);
        self
    }

    /// Returns true if a partition can have sessions of the selection.
    pub fn may_be_in(&self, partition: &Partition) -> bool {
        let may = |term: &Term| match term {
            Term::Since(since) => partition.day >= day(*since),
            Term::Until(until) => partition.day <= day(*until),
            Term::Uuid(_) | Term::Is(..) | Term::IsNot(..) => true,
        };
        self.terms.iter().all(may)
    }

    /// Returns true if a session is selected.
    pub fn has(&self, index: &Index, Listed { row, .. }: &Listed) -> bool {
        let text = |text| index.text(text);
        let label =
            |key: &str| row.labels.iter().find(|label| text(label.0) == key).map(|label| text(label.1));
        let is = |key: &str, pattern: &str| {
            let value = match key {
                "host" => Some(text(row.host)),
                "kernel" => Some(text(row.kernel)),
                "arch" => Some(text(row.arch)),
                "verdict" => Some(text(row.verdict)),
                "uuid" => Some(text(row.uuid)),
                "service" => label("service").filter(|name| !name.is_empty()).or(Some(NO_SERVICE)),
                key => label(key.strip_prefix("label:").unwrap_or(key)),
            };
            value.is_some_and(|value| is_like(pattern, value))
        };
        let holds = |term: &Term| match term {
            Term::Uuid(begin) => text(row.uuid).starts_with(&**begin),
            Term::Is(key, pattern) => is(key, pattern),
            Term::IsNot(key, pattern) => !is(key, pattern),
            Term::Since(since) => row.span_us.0 >= *since,
            Term::Until(until) => row.span_us.0 < *until,
        };
        self.terms.iter().all(holds)
    }

    /// Returns true if all sessions of daily sums are selected. What these do not know, such as the host, selects none of them.
    pub fn has_daily(&self, pool: &Pool, partition: &Partition, of: &DailyOf) -> bool {
        let known = |key: &str| {
            let text = |text: Option<Text>| text.map_or("", |text| pool.text(text));
            match key {
                "service" => Some(of.service.map_or(NO_SERVICE, |service| pool.text(service))),
                "release" | "label:release" => Some(text(of.release)),
                "kernel" => Some(pool.text(of.kernel)),
                _ => None,
            }
        };
        let holds = |term: &Term| match term {
            Term::Uuid(_) => false,
            Term::Is(key, pattern) => known(key).is_some_and(|value| is_like(pattern, value)),
            Term::IsNot(key, pattern) => known(key).is_some_and(|value| !is_like(pattern, value)),
            Term::Since(since) => partition.begin_us() >= *since,
            Term::Until(until) => partition.begin_us() < *until,
        };
        self.terms.iter().all(holds)
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
        let terms = "host!=web* began>=1970-01-02 began<1970-01-03T00:00:01".parse::<Selection>();
        let terms = terms.expect("terms").terms;
        let day = 86_400_000_000;
        let is_not = Term::IsNot("host".into(), "web*".into());
        assert_eq!(terms, [is_not, Term::Since(day), Term::Until(2 * day + 1_000_000)]);
        for wrong in ["web", "=x", "!=x", "began>=soon", "began<", "began>1970-01-02", "0a1b2", "0a1b2x3d4e"]
        {
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
