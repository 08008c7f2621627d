//! What the fields of rows refer to.
//!
//! Every session counts its ids from the start, numbers its own processes and has its own clock. A program that
//! moves rows from one session to another, checks them, or writes some of them anew has to find each field that
//! depends on the session: [`References::visit`] shows these fields, and only these. `references!` lists every field
//! of a row type, so a new field does not compile until its line in that list says what it is.

use super::{ReceiptV1, SessionV1, TriggerV1};

/// Rows that are numbered by ids.
///
/// # Source
/// docs/FORMAT.md §5
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IdTable {
    /// Rows of [`StringsV1`](super::StringsV1).
    Strings,
    /// Nodes of [`StacksV1`](super::StacksV1).
    Stacks,
    /// Rows of [`TasksV1`](super::TasksV1).
    Tasks,
    /// Rows of [`ImagesV1`](super::ImagesV1).
    Images,
    /// Rows of [`StackCodeV1`](super::StackCodeV1).
    StackCode,
    /// Rows of [`StackNodesV1`](super::StackNodesV1).
    StackNodes,
    /// Rows of [`StackPiecesV1`](super::StackPiecesV1).
    StackPieces,
    /// Rows of [`SnapshotsV1`](super::SnapshotsV1).
    Snapshots,
}

impl IdTable {
    /// All tables; each stands at its own position, `table as usize`.
    pub const ALL: [Self; 8] = [
        Self::Strings,
        Self::Stacks,
        Self::Tasks,
        Self::Images,
        Self::StackCode,
        Self::StackNodes,
        Self::StackPieces,
        Self::Snapshots,
    ];

    /// Returns the name of the rows, as messages use it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Strings => "strings",
            Self::Stacks => "stacks",
            Self::Tasks => "tasks",
            Self::Images => "images",
            Self::StackCode => "stack code",
            Self::StackNodes => "stack nodes",
            Self::StackPieces => "stack pieces",
            Self::Snapshots => "snapshots",
        }
    }

    /// Returns the smallest id that a row can have: 1 where id 0 stands for the empty string, the empty stack or
    /// no snapshot, else 0.
    pub const fn first_id(self) -> u32 {
        match self {
            Self::Strings | Self::Stacks | Self::StackNodes | Self::Snapshots => 1,
            Self::Tasks | Self::Images | Self::StackCode | Self::StackPieces => 0,
        }
    }
}

/// A field whose value means something in its own session only.
#[derive(Debug, PartialEq, Eq)]
pub enum Reference<'a> {
    /// The id of a row; never an id that stands for no row.
    Id(IdTable, &'a mut u32),
    /// A moment, ns `CLOCK_MONOTONIC`; never a 0 that stands for no moment.
    Time(&'a mut u64),
    /// The number of a process or thread.
    Process(&'a mut u32),
    /// The position of an event in [`SessionV1::events`](super::SessionV1::events).
    Event(&'a mut u8),
}

/// A row, or rows, that refer to other rows, times, processes and events of their session.
pub trait References {
    /// Shows every reference; `see` may change it.
    fn visit(&mut self, see: &mut impl FnMut(Reference<'_>));
}

/// Implements [`References`] for a struct from a list of all of its fields:
///
/// | word | the field is |
/// |---|---|
/// | `plain` | no reference |
/// | `time` | a moment |
/// | `time_or_0` | a moment, or 0 for none |
/// | `process` | the number of a process or thread |
/// | `event` | the position of an event |
/// | `event_if_any` | such a position, or 255 for none |
/// | `id(IdTable)` | the id of a row of that [`IdTable`] |
/// | `optional_id(IdTable)` | such an id, or `None` |
/// | `within` | a value that implements [`References`] itself |
macro_rules! references {
    (@plain $see:ident $field:ident) => {
        let _ = $field;
    };
    (@time $see:ident $field:ident) => {
        $see($crate::records::Reference::Time($field))
    };
    (@time_or_0 $see:ident $field:ident) => {
        if *$field > 0 {
            $see($crate::records::Reference::Time($field));
        }
    };
    (@process $see:ident $field:ident) => {
        $see($crate::records::Reference::Process($field))
    };
    (@event $see:ident $field:ident) => {
        $see($crate::records::Reference::Event($field))
    };
    (@event_if_any $see:ident $field:ident) => {
        if *$field != u8::MAX {
            $see($crate::records::Reference::Event($field));
        }
    };
    (@id $see:ident $field:ident $table:ident) => {
        if *$field >= $crate::records::IdTable::$table.first_id() {
            $see($crate::records::Reference::Id($crate::records::IdTable::$table, $field));
        }
    };
    (@optional_id $see:ident $field:ident $table:ident) => {
        if let Some(id) = $field {
            $see($crate::records::Reference::Id($crate::records::IdTable::$table, id));
        }
    };
    (@within $see:ident $field:ident) => {
        $crate::records::References::visit($field, $see)
    };
    ($type:ident $(<$bytes:ident>)? { $($field:ident: $what:ident $(($table:ident))?),+ $(,)? }) => {
        impl $(<$bytes>)? $crate::records::References for $type $(<$bytes>)? {
            #[inline]
            fn visit(&mut self, see: &mut impl FnMut($crate::records::Reference<'_>)) {
                let Self { $($field),+ } = self;
                $($crate::records::references!(@$what see $field $($table)?);)+
            }
        }
    };
}
pub(crate) use references;

impl<R: References> References for Vec<R> {
    #[inline]
    fn visit(&mut self, see: &mut impl FnMut(Reference<'_>)) {
        self.iter_mut().for_each(|row| row.visit(see));
    }
}

/// Implements [`References`] for what refers to nothing: texts, and a session, which says what its numbers mean.
macro_rules! plain {
    ($($type:ty),+) => {
        $(impl References for $type {
            #[inline]
            fn visit(&mut self, _: &mut impl FnMut(Reference<'_>)) {}
        })+
    };
}
plain!(Box<str>, Vec<u8>, &[u8], Box<SessionV1>, Box<ReceiptV1>, Box<TriggerV1>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{JitCode, JitInlined, JitLine, Language, Location, Node, Task};

    fn seen(row: &mut impl References) -> Vec<String> {
        let mut seen = Vec::new();
        row.visit(&mut |reference| seen.push(format!("{reference:?}")));
        seen
    }

    #[test]
    fn every_table_stands_at_its_own_position() {
        for (position, table) in IdTable::ALL.into_iter().enumerate() {
            assert_eq!(table as usize, position, "{table:?}");
        }
    }

    #[test]
    fn ids_and_times_that_stand_for_nothing_are_not_shown() {
        let mut outermost = Node { parent: 0, location: Location::Address(7) };
        assert_eq!(seen(&mut outermost), [""; 0]);
        let mut inner = Node { parent: 3, location: Location::Image { image: 0, file_off: 9 } };
        assert_eq!(seen(&mut inner), ["Id(Stacks, 3)", "Id(Images, 0)"]);
        let line = |file| JitLine { file, ..JitLine::default() };
        let inlined = vec![JitInlined { name: 6, call_file: 0, call_line: 1 }];
        let lines = vec![line(0), JitLine { inlined, ..line(4) }];
        let (start, end, name, rules) = (1, 2, "f", "");
        let language = Language::UNKNOWN;
        let mut code =
            JitCode { tgid: 5, start, end, since_ns: 0, until_ns: 8, name, rules, lines, language };
        assert_eq!(seen(&mut code), ["Process(5)", "Time(8)", "Id(Strings, 4)", "Id(Strings, 6)"]);
    }

    #[test]
    fn what_is_shown_can_be_changed() {
        let mut rows = vec![Task { tgid: 1, tid: 2, comm: 3 }];
        rows.visit(&mut |reference| match reference {
            Reference::Id(table, id) => *id += 10 + table as u32,
            Reference::Process(number) => *number += 100,
            Reference::Time(_) | Reference::Event(_) => {}
        });
        assert_eq!(rows, [Task { tgid: 101, tid: 102, comm: 13 }]);
    }
}
