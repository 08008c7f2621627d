//! Describes files that the user wanted in the recording, and that are not there, or not whole.

use std::collections::BTreeMap;

use icecore_format::records::{LeftOut, Omission};
use serde::Serialize;

use icecore_profile::recording::load::Tables;
use icecore_text::quantity::{bytes, count};

/// All files of one cause.
#[derive(Debug, Serialize)]
pub(crate) struct LeftOutRow {
    #[serde(serialize_with = "name")]
    why: Omission,
    files: u64,
    /// Their requested size, as far as the recorder determined it.
    needed_bytes: u64,
}

fn name<S: serde::Serializer>(why: &Omission, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&why.name())
}

impl LeftOutRow {
    /// Adds up files by cause.
    pub(crate) fn list(tables: &Tables) -> Vec<Self> {
        let mut by_cause: BTreeMap<Omission, (u64, u64)> = BTreeMap::new();
        for row in &tables.left_out {
            let (files, needed_bytes) = by_cause.entry(row.why).or_default();
            *files += 1;
            *needed_bytes = needed_bytes.saturating_add(row.needed_bytes);
        }
        let row = |(why, (files, needed_bytes)): (Omission, _)| Self { why, files, needed_bytes };
        by_cause.into_iter().map(row).collect()
    }

    /// Returns true if stacks lack the functions of interpreters because of it.
    pub(crate) fn is_of_interpreters(&self) -> bool {
        self.why.is_of_interpreters()
    }

    /// Returns true if names may be missing because of it.
    pub(crate) fn costs_names(&self) -> bool {
        self.why != Omission::REDUCED && self.why.is_of_file()
    }
}

/// Returns how many files there are; `None` if there are none.
pub(crate) fn told<'r>(rows: impl Iterator<Item = &'r LeftOutRow>) -> Option<String> {
    let (files, others): (Vec<_>, Vec<_>) = rows.partition(|row| row.why.is_of_file());
    let (tables, interpreters): (Vec<_>, Vec<_>) = others.into_iter().partition(|row| row.why.is_of_tables());
    let causes = |rows: &[&LeftOutRow]| {
        let causes: Vec<_> =
            rows.iter().map(|row| format!("{} {}", row.why.name(), count(row.files))).collect();
        causes.join(", ")
    };
    let is_full = files.iter().any(|row| [Omission::TOO_LARGE, Omission::REDUCED].contains(&row.why));
    let remedy = if is_full { "; record with a larger --embed-max" } else { "" };
    let files = (!files.is_empty()).then(|| format!("of the files to embed: {}{remedy}", causes(&files)));
    let tables = (!tables.is_empty())
        .then(|| format!("files whose stacks were copied for a while, not walked: {}", causes(&tables)));
    let interpreters = (!interpreters.is_empty())
        .then(|| format!("interpreters whose functions stacks lack: {}", causes(&interpreters)));
    let told: Vec<String> = files.into_iter().chain(tables).chain(interpreters).collect();
    (!told.is_empty()).then(|| told.join("; "))
}

/// Describes what the recording lacks of the file of one image.
pub(crate) fn why(row: &LeftOut) -> String {
    let (needed, free) = (bytes(row.needed_bytes), bytes(row.free_bytes));
    match row.why {
        Omission::TOO_LARGE => {
            format!("nothing: {needed} were wanted, and there was room for {free} (record with --embed-max)")
        }
        Omission::REDUCED => {
            format!(
                "sections: the file has {needed}, and there was room for {free} (record with --embed-max)"
            )
        }
        Omission::UNREADABLE => "nothing: the file could not be read when sampling was over".to_owned(),
        Omission::INTERRUPTED => "not all: the taking of files was ended (Ctrl-C)".to_owned(),
        Omission::NO_ANSWER => "nothing: its file system did not answer the recorder in time".to_owned(),
        Omission::WRITE_FAILED => "not all: the disk refused it".to_owned(),
        other => format!("not all: {}", other.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(why: Omission, needed_bytes: u64) -> LeftOut {
        LeftOut { image: 1, why, needed_bytes, free_bytes: 1 << 20 }
    }

    #[test]
    fn causes_are_added_up_and_only_room_has_a_remedy() {
        let left_out = vec![
            row(Omission::INTERRUPTED, 0),
            row(Omission::TOO_LARGE, 5),
            row(Omission::TOO_LARGE, u64::MAX),
        ];
        let mut tables = Tables { left_out, ..Tables::default() };
        let rows = LeftOutRow::list(&tables);
        assert_eq!((rows[0].files, rows[0].needed_bytes), (2, u64::MAX));
        assert!(rows.iter().all(LeftOutRow::costs_names));
        let text = "of the files to embed: too_large 2, interrupted 1; record with a larger --embed-max";
        assert_eq!(told(rows.iter()).as_deref(), Some(text));
        tables.left_out.truncate(1);
        let text = "of the files to embed: interrupted 1";
        assert_eq!(told(LeftOutRow::list(&tables).iter()).as_deref(), Some(text));
        tables.left_out.extend([row(Omission::TABLES_FULL, 0), row(Omission::TABLES_SLOW, 0)]);
        let text = format!(
            "{text}; files whose stacks were copied for a while, not walked: tables_full 1, tables_slow 1"
        );
        let rows = LeftOutRow::list(&tables);
        assert_eq!(told(rows.iter()), Some(text));
        assert_eq!(rows.iter().filter(|row| row.costs_names()).count(), 1);
        assert_eq!(told(LeftOutRow::list(&Tables::default()).iter()), None);
    }

    #[test]
    fn what_was_too_large_is_told_with_its_room() {
        let text = why(&row(Omission::REDUCED, 3 << 20));
        assert!(text.starts_with("sections: the file has 3.0 MiB, and there was room for 1.0 MiB"), "{text}");
        assert_eq!(why(&row(Omission(99), 0)), "not all: omission_99");
    }
}
