//! In which folders rows lie: `day=YYYY-MM-DD/service=NAME`, as Hive names them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use icecore_format::records::LabelV1;

use crate::id::Id;

/// The service of recordings without a label `service`.
pub const NO_SERVICE: &str = "unlabeled";

/// The day and the service of rows: the folders in which they lie.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Partition {
    /// `YYYY-MM-DD`, UTC.
    pub day: String,
    /// The service, as a folder is named.
    pub service: String,
}

impl Partition {
    /// Returns the partition of a session, given its start, µs since 1970-01-01 UTC, and its labels.
    pub fn of(start_us: i64, labels: &[LabelV1]) -> Self {
        let service = labels.iter().rev().find(|label| label.key == "service").map(|label| &*label.value);
        let service = service.filter(|name| !name.is_empty()).unwrap_or(NO_SERVICE);
        Self { day: day(start_us), service: folder_name(service) }
    }

    /// Returns the folder of a part of the dataset for this partition.
    pub fn folder(&self, part: &str) -> PathBuf {
        [part, &format!("day={}", self.day), &format!("service={}", self.service)].iter().collect()
    }

    /// Returns the begin of the day, µs since 1970-01-01 UTC.
    pub fn begin_us(&self) -> i64 {
        let date = self.day.parse::<jiff::civil::Date>().ok();
        let begin = date.and_then(|date| date.to_zoned(jiff::tz::TimeZone::UTC).ok());
        begin.map_or(0, |begin| begin.timestamp().as_microsecond())
    }

    /// Finds the partition in the path of a file.
    pub fn in_path(path: &Path) -> Option<Self> {
        let mut parts = path.parent()?.iter().rev().map(|part| part.to_str());
        let service = parts.next()??.strip_prefix("service=")?.to_owned();
        let day = parts.next()??.strip_prefix("day=")?.to_owned();
        Some(Self { day, service })
    }
}

/// The day of a moment, UTC.
pub fn day(unix_us: i64) -> String {
    let moment = jiff::Timestamp::from_microsecond(unix_us).unwrap_or_default();
    moment.to_zoned(jiff::tz::TimeZone::UTC).date().to_string()
}

/// The longest name of a service in a path, bytes: file systems take 255.
const MAX_NAME: usize = 200;

/// Writes a name as a part of a path: other characters than letters, digits, `-`, `_` and `.` as `%XX`, as Hive does. The end of a long
/// name is a hash of it.
fn folder_name(name: &str) -> String {
    let escaped = |character: char| {
        let mut text = String::new();
        for byte in character.encode_utf8(&mut [0; 4]).bytes() {
            if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
                text.push(byte.into());
            } else {
                let _ = write!(text, "%{byte:02X}");
            }
        }
        text
    };
    let whole: String = name.chars().map(escaped).collect();
    if whole.len() <= MAX_NAME {
        return whole;
    }
    // Engines decode the name, so no character may be cut.
    let mut text = String::new();
    for character in name.chars().map(escaped) {
        if text.len() + character.len() > MAX_NAME - 17 {
            break;
        }
        text.push_str(&character);
    }
    let _ = write!(text, "-{:016x}", Id::of(&[name.as_bytes()]).get());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_have_the_names_that_hive_gives_them() {
        assert_eq!(folder_name("web-1.a_B"), "web-1.a_B");
        assert_eq!(folder_name("../a b=ü"), "..%2Fa%20b%3D%C3%BC");
        let [one, other] = ["a", "b"].map(|end| folder_name(&("x".repeat(500) + end)));
        assert_eq!((one.len(), one == other), (MAX_NAME, false));
        assert!(folder_name(&"ü".repeat(100)).contains("%C3%BC-"));
        assert_eq!(day(86_400_000_000 * 366), "1971-01-02");
        let partition = Partition { day: "1971-01-02".into(), service: String::new() };
        assert_eq!(partition.begin_us(), 86_400_000_000 * 366);
    }
}
