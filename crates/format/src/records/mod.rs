//! The payloads: one frozen module per kind and version.
//!
//! A payload is an rkyv archive of columns. Every module has a row type (what a program works with), a
//! columns type (what is on disk) and the way from one to the other. A module is never edited once a
//! release has written it; a new layout is a new module with the next version number.
//!
//! # Source
//! docs/FORMAT.md §5 tabulates every column.

mod cgroups;
mod code;
mod counters;
mod cpu_times;
mod fields;
mod image_parts;
mod images;
mod jit;
mod kernel_symbols;
mod layouts;
mod left_out;
mod lifecycle;
mod losses;
mod mappings;
mod names;
mod open_sets;
mod packed;
mod rates;
mod receipt;
mod references;
mod samples;
mod session;
mod snapshots;
mod sources;
mod stack_marks;
mod stack_memory;
mod stack_repair;
mod stacks;
mod strings;
mod symbols;
mod tasks;
mod trigger;
mod unwind_rules;
mod waits;
mod walk_end;

pub use cgroups::{Cgroup, CgroupsV1};
pub use code::{CodeFrame, CodePlace, CodeReference, CodeStretch, CodeTable, CodeV1};
pub use counters::{Counter, CounterValue, CountersV1, Growth, Owner};
pub use cpu_times::{CpuTime, CpuTimesV1};
pub use fields::{Field, FieldKind, FieldsV1};
pub use image_parts::{ImagePartsV1, Piece};
pub use images::{Image, ImageKind, ImagesV1};
pub use jit::{JitCode, JitInlined, JitLine, JitV1, Language};
pub use kernel_symbols::{KernelSymbol, KernelSymbolsV1};
pub use layouts::{Block, Layout, Numbered};
pub use left_out::{LeftOut, LeftOutV1, Omission};
pub use lifecycle::{Change, Lifecycle, LifecycleV1};
pub use losses::{Cause, Loss, LossesV1};
pub use mappings::{Mapping, MappingsV1, Origin};
pub use names::{NameTable, NamedFrame, NamedFunction, NamedPlace, NamesV1};
pub use open_sets::{
    CpuScope, EmbedMode, EndReason, EventMeaning, Maker, MissingFeature, RateCause, TargetKind, TriggerCause,
    UnwindMode,
};
pub use packed::{ArchivedPacked, Packed};
pub use rates::{RateChange, RatesV1};
pub use receipt::ReceiptV1;
pub use references::{IdTable, Reference, References};
pub use samples::{Basis, Sample, SamplesV1};
pub use session::{EventV1, LabelV1, SessionV1};
pub use snapshots::{Snapshot, SnapshotsV1};
pub use sources::{SourceFile, SourceProof, SourceTable, SourcesV1};
pub use stack_marks::{Mark, StackMarksV1};
pub use stack_memory::{
    PIECE_BYTES, PIECE_WORDS, StackCodeV1, StackNode, StackNodesV1, StackPiece, StackPiecesV1, Word,
};
pub use stack_repair::StackRepair;
pub use stacks::{Location, Node, StacksV1};
pub use strings::StringsV1;
pub use symbols::{Symbol, SymbolsV1};
pub use tasks::{Task, TasksV1};
pub use trigger::TriggerV1;
pub use unwind_rules::{UnwindRule, UnwindRulesV1};
pub use waits::{Wait, WaitFlags, WaitState, WaitsV1, WokenBy};
pub use walk_end::WalkEnd;

use rkyv::util::AlignedVec;

use references::references;

use crate::block::Processes;
use crate::error::Error;
use crate::kind::Kind;

/// A payload that can be written as one block and read back from it.
pub trait Payload: Sized {
    /// The kind of its block.
    const KIND: Kind;
    /// The version of its layout.
    const VERSION: u16;
    /// The archived form, used in place.
    type View: 'static;

    /// Counts the items: samples, strings, rows.
    fn items(&self) -> usize;

    /// Returns the earliest and the latest time inside, ns `CLOCK_MONOTONIC`; zeros if it has no times.
    fn span_ns(&self) -> (u64, u64) {
        (0, 0)
    }

    /// Returns the processes that it concerns.
    fn processes(&self) -> Processes {
        Processes::ANY
    }

    /// Archives the payload.
    fn to_bytes(&self) -> Result<AlignedVec<16>, Error>;

    /// Checks the bytes of an archive and uses them in place.
    ///
    /// # Errors
    /// [`Error::Payload`] if the bytes are not an archive of this type, or columns differ in length.
    fn view(bytes: &[u8]) -> Result<&Self::View, Error>;

    /// Lists the columns of plain numbers or bytes, each with its name and its bytes.
    fn columns(view: &Self::View) -> Columns<'_> {
        let _ = view;
        Columns::new()
    }
}

/// Names and bytes of columns.
pub type Columns<'a> = Vec<(&'static str, &'a [u8])>;

/// Implements [`Payload`] for a columns type. `$count` is the column that counts the items; every
/// further `$column` must have the same length, and `$other` columns have their own. `one` stands for
/// a payload without columns, which is one item.
macro_rules! payload {
    ($type:ident, $archived:ident, $kind:expr, $version:expr, one) => {
        // Fails to compile until the payload is in the list of all.
        const _: $crate::records::Layout = $crate::records::Layout::$type;

        impl $crate::records::Payload for $type {
            const KIND: $crate::kind::Kind = $kind;
            const VERSION: u16 = $version;
            type View = $archived;

            fn items(&self) -> usize {
                1
            }

            fn to_bytes(&self) -> Result<rkyv::util::AlignedVec<16>, $crate::error::Error> {
                $crate::records::archive(self)
            }

            fn view(bytes: &[u8]) -> Result<&$archived, $crate::error::Error> {
                $crate::records::access($kind, bytes)
            }
        }
    };
    ($type:ident, $archived:ident, $kind:expr, $version:expr, count $count:ident $(, same $column:ident)* $(, other $other:ident)* $(, span $first:ident $last:ident)? $(, concerns $processes:ident)? $(, of $image:ident)?) => {
        // Fails to compile until the payload is in the list of all.
        const _: $crate::records::Layout = $crate::records::Layout::$type;

        impl $crate::records::Payload for $type {
            const KIND: $crate::kind::Kind = $kind;
            const VERSION: u16 = $version;
            type View = $archived;

            fn items(&self) -> usize {
                self.$count.len()
            }

            $(fn span_ns(&self) -> (u64, u64) {
                (self.$first, self.$last)
            })?

            $(fn processes(&self) -> $crate::block::Processes {
                $crate::block::Processes(self.$processes)
            })?

            $(fn processes(&self) -> $crate::block::Processes {
                $type::label(self.$image)
            })?

            fn to_bytes(&self) -> Result<rkyv::util::AlignedVec<16>, $crate::error::Error> {
                $crate::records::archive(self)
            }

            fn view(bytes: &[u8]) -> Result<&$archived, $crate::error::Error> {
                let view: &$archived = $crate::records::access($kind, bytes)?;
                let _rows = $crate::records::rows_of($kind, stringify!($count), &view.$count)?;
                $($crate::records::expect_rows($kind, stringify!($column), &view.$column, _rows)?;)*
                // From here on, the length of this column is known to be its number of rows.
                $($crate::records::rows_of($kind, stringify!($other), &view.$other)?;)*
                Ok(view)
            }

            fn columns(view: &$archived) -> $crate::records::Columns<'_> {
                use $crate::records::packed::Column as _;
                vec![
                    (stringify!($count), view.$count.as_bytes()),
                    $((stringify!($column), view.$column.as_bytes()),)*
                    $((stringify!($other), view.$other.as_bytes()),)*
                ]
            }
        }
    };
}
pub(crate) use payload;

fn archive<T>(value: &T) -> Result<AlignedVec<16>, Error>
where
    T: Payload
        + for<'a> rkyv::Serialize<
            rkyv::api::high::HighSerializer<
                AlignedVec<16>,
                rkyv::ser::allocator::ArenaHandle<'a>,
                rkyv::rancor::Error,
            >,
        >,
{
    rkyv::api::high::to_bytes_in(value, AlignedVec::<16>::new())
        .map_err(|e: rkyv::rancor::Error| Error::Payload { kind: T::KIND, cause: e.to_string() })
}

fn access<V>(kind: Kind, bytes: &[u8]) -> Result<&V, Error>
where
    V: rkyv::Portable
        + for<'a> rkyv::bytecheck::CheckBytes<rkyv::api::high::HighValidator<'a, rkyv::rancor::Failure>>,
{
    // What rkyv would say holds addresses of this process, which differ from run to run.
    let no_archive = |_| Error::Payload { kind, cause: "it is no archive of these columns".to_owned() };
    rkyv::access::<V, rkyv::rancor::Failure>(bytes).map_err(no_archive)
}

fn rows_of(kind: Kind, name: &str, column: &impl packed::Column) -> Result<usize, Error> {
    column.rows().map_err(|cause| Error::Payload { kind, cause: format!("column `{name}`: {cause}") })
}

fn expect_rows(kind: Kind, name: &str, column: &impl packed::Column, expected: usize) -> Result<(), Error> {
    match rows_of(kind, name, column)? {
        rows if rows == expected => Ok(()),
        rows => {
            Err(Error::Payload { kind, cause: format!("column `{name}` has {rows} rows, not {expected}") })
        }
    }
}

/// Cuts an arena back into its items, by their lengths.
fn items<'a>(kind: Kind, bytes: &'a [u8], lens: &ArchivedPacked) -> Result<Vec<&'a [u8]>, Error> {
    let mut rest = bytes;
    let cut = |(number, len): (usize, u64)| {
        let item = usize::try_from(len).ok().and_then(|len| rest.split_at_checked(len));
        let (item, behind) = item.ok_or_else(|| Error::Payload {
            kind,
            cause: format!("item {number} of {len} bytes: {} are left of {}", rest.len(), bytes.len()),
        })?;
        rest = behind;
        Ok(item)
    };
    lens.values().into_iter().enumerate().map(cut).collect()
}

/// Gives a payload without columns a way back into its owned form.
macro_rules! owned {
    ($type:ident, $archived:ident) => {
        impl $archived {
            /// Copies the record out of the archive.
            ///
            /// # Errors
            /// [`Error::Payload`](crate::Error::Payload) if a value cannot be copied.
            pub fn to_owned_record(&self) -> Result<$type, $crate::error::Error> {
                rkyv::deserialize::<$type, rkyv::rancor::Error>(self).map_err(|e| {
                    $crate::error::Error::Payload {
                        kind: <$type as $crate::records::Payload>::KIND,
                        cause: e.to_string(),
                    }
                })
            }
        }
    };
}
pub(crate) use owned;
