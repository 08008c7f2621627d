//! Fields of tracepoints: what samples have besides their stacks.

use std::fmt;

use icecore_format::records::{self, FieldKind, Sample};
use icecore_text::shorten::{MAX_NAME_BYTES, shorten};
use serde::Serialize;

use crate::map::{Interned, Map};
use crate::recording::load::Tables;

/// A field of a tracepoint and its value.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Field {
    /// The name of the field.
    pub name: Box<str>,
    /// Its value.
    pub value: FieldValue,
}

/// The value of a field.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(untagged)]
pub enum FieldValue {
    /// An integer without a sign.
    Unsigned(u64),
    /// An integer with a sign.
    Signed(i64),
    /// A text; it ends in `…` if its end was cut off.
    Text(Box<str>),
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match &self.value {
            FieldValue::Unsigned(number) => write!(f, "{name}={number}"),
            FieldValue::Signed(number) => write!(f, "{name}={number}"),
            FieldValue::Text(text) => write!(f, "{name}={text}"),
        }
    }
}

/// The fields of samples; samples with equal ones are in one group.
#[derive(Debug, Default)]
pub struct Fields {
    /// The group of a sample, by its time, task and event.
    of_samples: Map<(u64, u32, u8), u32>,
    groups: Vec<Field>,
}

impl Fields {
    /// Finds the fields of all samples. Of several rows that name one sample the first stays.
    pub fn new(tables: &Tables) -> Self {
        let mut of_samples = Map::default();
        let mut groups: Interned<Field> = Interned::new();
        let mut known: Map<(u32, FieldKind, u64, u32), u32> = Map::default();
        for row in &tables.fields {
            let key = (row.name, row.kind, row.number, row.text);
            let group = *known.entry(key).or_insert_with(|| groups.intern(field(tables, row)) + 1);
            of_samples.entry((row.time_ns, row.task, row.event)).or_insert(group);
        }
        Self { of_samples, groups: groups.into_items() }
    }

    /// Returns the group of a sample; 0 if it has no field.
    pub fn of(&self, sample: &Sample) -> u32 {
        self.of_samples.get(&(sample.time_ns, sample.task, sample.event)).copied().unwrap_or_default()
    }

    /// Returns the field of a group; `None` for group 0.
    pub fn get(&self, group: u32) -> Option<&Field> {
        self.groups.get(group.checked_sub(1)? as usize)
    }
}

fn field(tables: &Tables, row: &records::Field) -> Field {
    let text = |id| shorten(tables.text(id), MAX_NAME_BYTES).into_owned();
    let value = match row.kind {
        FieldKind::SIGNED => FieldValue::Signed(row.number.cast_signed()),
        FieldKind::TEXT => FieldValue::Text(text(row.text).into()),
        FieldKind::TEXT_CUT => FieldValue::Text(format!("{}…", text(row.text)).into()),
        FieldKind::UNSIGNED => FieldValue::Unsigned(row.number),
        // Of a newer recorder.
        other => FieldValue::Text(other.name().into()),
    };
    Field { name: text(row.name).into(), value }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::load::by_id::ById;

    #[test]
    fn values_are_shown_as_what_they_are() {
        let strings = ["fd", "comm", "/a/long/na"].map(Box::from).to_vec();
        let row = |time_ns, name, kind, number, text| records::Field {
            time_ns,
            task: 1,
            event: 2,
            name,
            kind,
            number,
            text,
        };
        let minus = (-1_i64).cast_unsigned();
        let rows = vec![
            row(1, 1, FieldKind::UNSIGNED, minus, 0),
            row(2, 1, FieldKind::SIGNED, minus, 0),
            row(3, 2, FieldKind::TEXT, 0, 3),
            row(4, 2, FieldKind::TEXT_CUT, 0, 3),
            row(5, 2, FieldKind::TEXT, 0, 0),
            row(6, 2, FieldKind(9), 0, 0),
            row(7, 1, FieldKind::SIGNED, minus, 0),
            row(7, 1, FieldKind::SIGNED, 7, 0),
        ];
        let tables =
            Tables { strings: ById::from_blocks(vec![(1, strings)]), fields: rows, ..Tables::default() };
        let fields = Fields::new(&tables);
        let shown: Vec<String> = fields.groups.iter().map(ToString::to_string).collect();
        let expected = [
            "fd=18446744073709551615",
            "fd=-1",
            "comm=/a/long/na",
            "comm=/a/long/na…",
            "comm=",
            "comm=kind_9",
            "fd=7",
        ];
        assert_eq!(shown, expected);
        assert_eq!(fields.of_samples.get(&(7, 1, 2)), Some(&2), "the first of two rows stays");
        assert!(fields.get(0).is_none() && fields.get(2).is_some_and(|field| &*field.name == "fd"));
    }
}
