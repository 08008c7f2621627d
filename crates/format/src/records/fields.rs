//! Fields of tracepoints that samples have, version 1.

use rkyv::{Archive, Serialize};

use super::packed::{Packed, fold, narrow, unfold};
use super::{payload, references};
use crate::kind::Kind;
use crate::numbers::numbers;

/// Resolution on disk, ns; that of samples.
const UNIT_NS: u64 = 1_000;

numbers! {
    /// What the value of a field is; the numbers are on disk.
    FieldKind(u8), others "kind",
    /// An integer without a sign.
    UNSIGNED = 0,
    /// An integer with a sign.
    SIGNED = 1,
    /// A text.
    TEXT = 2,
    /// The beginning of a text, whose end was cut off.
    TEXT_CUT = 3,
}

/// The value of one field at one sample: `time_ns`, `task` and `event` are those of the sample, and name it.
///
/// # Units   times ns `CLOCK_MONOTONIC`, on disk rounded down to a microsecond, as those of samples are
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Time of the sample.
    pub time_ns: u64,
    /// The thread of the sample, a task id.
    pub task: u32,
    /// The event of the sample, a position in the session's events.
    pub event: u8,
    /// The name of the field, a string id.
    pub name: u32,
    /// What the value is.
    pub kind: FieldKind,
    /// The value of an integer, in two's complement if it has a sign; 0 of a text.
    pub number: u64,
    /// The value of a text, a string id; 0 of an integer, and of the empty text.
    pub text: u32,
}

references!(Field {
    time_ns: time,
    task: id(Tasks),
    event: event,
    name: id(Strings),
    kind: plain,
    number: plain,
    text: id(Strings),
});

/// Fields, ordered by the times of their samples.
#[derive(Debug, Default, Archive, Serialize)]
pub struct FieldsV1 {
    /// Earliest time of a sample, ns.
    pub first_ns: u64,
    /// Latest time of a sample, ns.
    pub last_ns: u64,
    /// Resolution of the column of times, ns.
    pub unit_ns: u32,
    /// Times of samples, as differences from the row before (the first: from `first_ns`), in units.
    pub after: Packed,
    /// Task ids.
    pub task: Packed,
    /// Events.
    pub event: Packed,
    /// String ids of names.
    pub name: Packed,
    /// Numbers of [`FieldKind`].
    pub kind: Packed,
    /// Integers; signs folded if they have one.
    pub number: Packed,
    /// String ids of texts.
    pub text: Packed,
}

payload!(
    FieldsV1, ArchivedFieldsV1, Kind::FIELDS, 1,
    count after, same task, same event, same name, same kind, same number, same text, span first_ns last_ns
);

impl FieldsV1 {
    /// Builds the columns; `rows` are ordered by the times of their samples. Times are rounded down to a microsecond.
    pub fn from_rows(rows: &[Field]) -> Self {
        let units = |row: &Field| row.time_ns / UNIT_NS;
        let first = rows.first().map_or(0, units);
        let mut before = first;
        let after = |row: &Field| {
            let now = units(row);
            now.saturating_sub(std::mem::replace(&mut before, now))
        };
        let number = |row: &Field| if row.kind == FieldKind::SIGNED { fold(row.number) } else { row.number };
        Self {
            first_ns: first * UNIT_NS,
            last_ns: rows.last().map_or(0, |row| units(row) * UNIT_NS),
            unit_ns: UNIT_NS as u32,
            after: rows.iter().map(after).collect(),
            task: rows.iter().map(|row| row.task).collect(),
            event: rows.iter().map(|row| u64::from(row.event)).collect(),
            name: rows.iter().map(|row| row.name).collect(),
            kind: rows.iter().map(|row| u64::from(row.kind.0)).collect(),
            number: rows.iter().map(number).collect(),
            text: rows.iter().map(|row| row.text).collect(),
        }
    }
}

impl ArchivedFieldsV1 {
    /// Lists the rows in the order of the block.
    pub fn rows(&self) -> impl Iterator<Item = Field> + '_ {
        let unit_ns = u64::from(self.unit_ns.to_native());
        let mut time_ns = self.first_ns.to_native();
        let [after, task, event, name] =
            [&self.after, &self.task, &self.event, &self.name].map(|column| column.values());
        let [kind, number, text] = [&self.kind, &self.number, &self.text].map(|column| column.values());
        (0..after.len()).map(move |i| {
            time_ns = time_ns.saturating_add(after[i].saturating_mul(unit_ns));
            let kind = FieldKind(u8::try_from(kind[i]).unwrap_or(u8::MAX));
            Field {
                time_ns,
                task: narrow(task[i]),
                event: u8::try_from(event[i]).unwrap_or(u8::MAX),
                name: narrow(name[i]),
                kind,
                number: if kind == FieldKind::SIGNED { unfold(number[i]) } else { number[i] },
                text: narrow(text[i]),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Payload as _;

    #[test]
    fn rows_read_back_with_every_kind_of_value() {
        let row =
            |time_ns, kind, number, text| Field { time_ns, task: 3, event: 1, name: 7, kind, number, text };
        let rows = [
            row(5_000_000, FieldKind::UNSIGNED, u64::MAX, 0),
            row(5_000_000, FieldKind::SIGNED, (-1_i64).cast_unsigned(), 0),
            row(5_002_000, FieldKind::SIGNED, 77, 0),
            row(9_000_000, FieldKind::TEXT, 0, 9),
            row(9_000_000, FieldKind::TEXT_CUT, 0, 0),
            row(9_000_000, FieldKind(77), 1, 1),
        ];
        let fields = FieldsV1::from_rows(&rows);
        assert_eq!((fields.span_ns(), fields.items()), ((5_000_000, 9_000_000), 6));
        let bytes = fields.to_bytes().expect("fits");
        assert_eq!(FieldsV1::view(&bytes).expect("own bytes").rows().collect::<Vec<_>>(), rows);
        assert_eq!(FieldKind(77).name(), "kind_77");
    }

    proptest::proptest! {
        #[test]
        fn no_column_of_another_program_overflows(first_ns: u64, unit_ns: u32, after: u64, value: u64) {
            let one = |value: u64| [value, value].into_iter().collect::<Packed>();
            let payload = FieldsV1 {
                first_ns, last_ns: first_ns, unit_ns, after: one(after), task: one(value), event: one(value),
                name: one(value), kind: one(value), number: one(value), text: one(value),
            };
            let bytes = payload.to_bytes().expect("fits");
            let rows: Vec<Field> = FieldsV1::view(&bytes).expect("own bytes").rows().collect();
            proptest::prop_assert!(rows.len() == 2 && rows[0].time_ns <= rows[1].time_ns);
        }
    }
}
