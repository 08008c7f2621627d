//! Fields of tracepoints: what the bytes in a sample say, and rows that name their samples.

use icecore_format::records::{Field, FieldKind};
use rustc_hash::FxHashMap;

use super::of_file::REMEMBERED;
use super::waiting::FieldOf;
use super::{SAMPLE_UNIT_NS, Tracker, kept_ns};
use crate::kernel::wire;
use crate::kernel::wire::MAX_FIELD_BYTES;
use crate::settings::{FieldType, Pace};

/// The fields of samples that are settled, and what is needed to understand more.
#[derive(Debug, Default)]
pub(super) struct Fields {
    /// By the position of an event: the name of the field, and what it is.
    of_events: FxHashMap<u8, (String, FieldType)>,
    rows: Vec<Field>,
    /// The time of the last row of each task and event.
    last_ns: FxHashMap<(u32, u8), u64>,
}

impl Fields {
    pub(super) fn of(pace: &Pace) -> Self {
        let fields = pace.fields.iter().map(|(event, name, kind)| (*event, (name.clone(), *kind)));
        Self { of_events: fields.collect(), ..Self::default() }
    }

    /// Returns the name of the field that samples of an event have.
    pub(super) fn name(&self, event: u8) -> &[u8] {
        self.of_events.get(&event).map_or(b"", |(name, _)| name.as_bytes())
    }

    /// Forgets the tasks of a file.
    pub(super) fn end_file(&mut self) {
        self.last_ns.clear();
    }

    /// Adds the row of a sample, and returns the time of both. The time is that of the sample, or the next one that no other row of this
    /// task and event has: rows name samples by it.
    pub(super) fn settle(&mut self, row: Field) -> u64 {
        if self.last_ns.len() >= REMEMBERED {
            self.last_ns.clear();
        }
        let last_ns = self.last_ns.entry((row.task, row.event)).or_default();
        let time_ns = kept_ns(row.time_ns).max(*last_ns + u64::from(SAMPLE_UNIT_NS));
        *last_ns = time_ns;
        self.rows.push(Field { time_ns, ..row });
        time_ns
    }

    /// Takes the rows since the last call.
    pub(super) fn take(&mut self) -> Vec<Field> {
        std::mem::take(&mut self.rows)
    }
}

impl Tracker {
    /// Understands the field that a sample has, if it has one.
    pub(super) fn field(&self, sample: &wire::Sample<'_>) -> Option<FieldOf> {
        let (_, kind) = self.fields.of_events.get(&sample.event)?;
        let bytes = sample.field;
        if bytes.is_empty() {
            return None;
        }
        let (kind, number, text) = match *kind {
            FieldType::Unsigned => (FieldKind::UNSIGNED, integer(bytes, false), &[][..]),
            FieldType::Signed => (FieldKind::SIGNED, integer(bytes, true), &[][..]),
            FieldType::Text => {
                let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
                // A shorter text without NUL fills its array.
                let is_cut = text.len() == MAX_FIELD_BYTES;
                (if is_cut { FieldKind::TEXT_CUT } else { FieldKind::TEXT }, 0, text)
            }
        };
        Some(FieldOf { kind, number, text: text.into() })
    }
}

/// Returns an integer of up to 8 bytes, in the byte order of the machine, which is little-endian.
fn integer(bytes: &[u8], is_signed: bool) -> u64 {
    let is_negative = is_signed && bytes.last().is_some_and(|last| *last >= 0x80);
    let mut whole = if is_negative { [0xff; 8] } else { [0; 8] };
    whole.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    u64::from_le_bytes(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_every_size_keep_their_sign() {
        for (bytes, is_signed, value) in [
            (&[0xff_u8][..], false, 255_i64),
            (&[0xff], true, -1),
            (&[0xfe, 0xff], true, -2),
            (&[1, 0, 0, 0x80], true, -0x7fff_ffff),
            (&[1, 0, 0, 0x80], false, 0x8000_0001),
            (&[0xff; 8], true, -1),
            (&[7, 0, 0, 0, 0, 0, 0, 0], false, 7),
        ] {
            assert_eq!(integer(bytes, is_signed), value.cast_unsigned(), "{bytes:?}");
        }
    }

    #[test]
    fn no_two_rows_of_a_task_and_event_have_one_time() {
        let row = |time_ns, task, event| Field {
            time_ns,
            task,
            event,
            name: 1,
            kind: FieldKind::UNSIGNED,
            number: time_ns,
            text: 0,
        };
        let mut fields = Fields::default();
        let times: Vec<u64> =
            [(5_100, 1, 0), (5_900, 1, 0), (5_950, 1, 1), (5_990, 2, 0), (6_100, 1, 0), (9_500, 1, 0)]
                .into_iter()
                .map(|(time_ns, task, event)| fields.settle(row(time_ns, task, event)))
                .collect();
        assert_eq!(times, [5_000, 6_000, 5_000, 5_000, 7_000, 9_000]);
        assert!(
            fields.take().iter().map(|row| row.time_ns).eq(times),
            "rows have the times of their samples"
        );
    }
}
