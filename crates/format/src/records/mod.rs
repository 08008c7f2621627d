//! The payloads: one frozen module per kind and version.
//!
//! A payload is an rkyv archive of columns. Every module has a row type (what a program works with), a
//! columns type (what is on disk) and the way from one to the other. A module is never edited once a
//! release has written it; a new layout is a new module with the next version number.
//!
//! # Source
//! docs/FORMAT.md §5 tabulates every column.

mod images;
mod kernel_symbols;
mod lifecycle;
mod losses;
mod mappings;
mod receipt;
mod samples;
mod session;
mod stacks;
mod strings;
mod tasks;

pub use images::{Image, ImageKind, ImagesV1};
pub use kernel_symbols::{KernelSymbol, KernelSymbolsV1};
pub use lifecycle::{Change, Lifecycle, LifecycleV1};
pub use losses::{Cause, Loss, LossesV1};
pub use mappings::{Mapping, MappingsV1, Origin};
pub use receipt::ReceiptV1;
pub use samples::{Sample, SamplesV1, WalkEnd};
pub use session::{EventV1, LabelV1, SessionV1};
pub use stacks::{Node, StacksV1};
pub use strings::StringsV1;
pub use tasks::{Task, TasksV1};

use rkyv::util::AlignedVec;

use crate::Error;
use crate::block::{Kind, Processes};

/// A payload that can be written as one block and read back from it.
pub trait Payload: Sized {
    /// The kind of its block.
    const KIND: Kind;
    /// The version of its layout.
    const VERSION: u16;
    /// The archived form, used in place.
    type View;

    /// Counts the items: samples, strings, rows.
    fn items(&self) -> usize;

    /// Tells the earliest and the latest time inside, ns `CLOCK_MONOTONIC`; zeros if it has no times.
    fn span_ns(&self) -> (u64, u64) {
        (0, 0)
    }

    /// Tells which processes it concerns.
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
}

/// Implements [`Payload`] for a columns type. `$count` is the column that counts the items; every
/// further `$column` must have the same length.
macro_rules! payload {
    ($type:ident, $archived:ident, $kind:expr, $version:expr, count $count:ident $(, same $column:ident)* $(, span $first:ident $last:ident)?) => {
        impl $crate::records::Payload for $type {
            const KIND: $crate::block::Kind = $kind;
            const VERSION: u16 = $version;
            type View = $archived;

            fn items(&self) -> usize {
                self.$count.len()
            }

            $(fn span_ns(&self) -> (u64, u64) {
                (self.$first, self.$last)
            })?

            fn to_bytes(&self) -> Result<rkyv::util::AlignedVec<16>, $crate::Error> {
                $crate::records::archive(self)
            }

            fn view(bytes: &[u8]) -> Result<&$archived, $crate::Error> {
                let view: &$archived = $crate::records::access($kind, bytes)?;
                $(if view.$column.len() != view.$count.len() {
                    return Err($crate::records::uneven($kind, stringify!($column), view.$column.len(), view.$count.len()));
                })*
                Ok(view)
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
        + for<'a> rkyv::bytecheck::CheckBytes<rkyv::api::high::HighValidator<'a, rkyv::rancor::Error>>,
{
    rkyv::access::<V, rkyv::rancor::Error>(bytes).map_err(|e| Error::Payload { kind, cause: e.to_string() })
}

fn uneven(kind: Kind, column: &str, len: usize, expected: usize) -> Error {
    Error::Payload { kind, cause: format!("column `{column}` has {len} rows, not {expected}") }
}

/// Appends variable-length items to one arena; `ends` are the offsets behind each.
fn push_item(bytes: &mut Vec<u8>, ends: &mut Vec<u32>, item: &[u8]) {
    bytes.extend_from_slice(item);
    ends.push(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
}

/// Cuts an arena back into its items.
fn items<'a>(kind: Kind, bytes: &'a [u8], ends: &[rkyv::rend::u32_le]) -> Result<Vec<&'a [u8]>, Error> {
    let mut start = 0;
    let mut out = Vec::with_capacity(ends.len());
    for end in ends {
        let end = end.to_native() as usize;
        let item = bytes.get(start..end).ok_or_else(|| Error::Payload {
            kind,
            cause: format!("item {} spans {start}..{end} of {} bytes", out.len(), bytes.len()),
        })?;
        out.push(item);
        start = end;
    }
    Ok(out)
}

/// Gives a payload without columns a way back into its owned form.
macro_rules! owned {
    ($type:ident, $archived:ident) => {
        impl $archived {
            /// Copies the record out of the archive.
            ///
            /// # Errors
            /// [`Error::Payload`](crate::Error::Payload) if a value cannot be copied.
            pub fn to_owned_record(&self) -> Result<$type, $crate::Error> {
                rkyv::deserialize::<$type, rkyv::rancor::Error>(self).map_err(|e| $crate::Error::Payload {
                    kind: <$type as $crate::records::Payload>::KIND,
                    cause: e.to_string(),
                })
            }
        }
    };
}
pub(crate) use owned;
