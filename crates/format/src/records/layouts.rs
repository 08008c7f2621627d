//! All payloads in one list: which there are, and what each becomes when it is decoded.

use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher, Hash};

use rkyv::primitive::ArchivedU32;

use super::*;
use crate::block::BlockHeader;

/// Makes [`Layout`] and [`Block`] from the list of all payloads. Those of `closed` are opened by who needs them; of the
/// others, the list has the rows and how they are read.
macro_rules! layouts {
    (
        closed { $($closed:ident => $large:ident,)+ }
        decoded by $view:ident, $text:ident { $($type:ident => $block:ident($rows:ty) = $decode:expr,)+ }
    ) => {
        /// A kind and version of payload that this build can interpret: a `match` over it misses none.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Layout {
            $(#[doc = concat!("[`", stringify!($closed), "`].")] $closed,)+
            $(#[doc = concat!("[`", stringify!($type), "`].")] $type,)+
        }

        impl Layout {
            /// All layouts.
            pub const ALL: &[Self] = &[$(Self::$closed,)+ $(Self::$type),+];

            /// Finds the layout of a block's payload; `None` if this build does not know its kind and version.
            pub fn of(header: &BlockHeader) -> Option<Self> {
                match (header.kind, header.version) {
                    $(($closed::KIND, $closed::VERSION) => Some(Self::$closed),)+
                    $(($type::KIND, $type::VERSION) => Some(Self::$type),)+
                    _ => None,
                }
            }

            /// Divides a payload into its columns; the last part, `root`, is what lies in none.
            ///
            /// # Errors
            /// As [`Payload::view`].
            pub fn columns(self, payload: &[u8]) -> Result<Columns<'_>, Error> {
                match self {
                    $(Self::$closed => columns::<$closed>(payload),)+
                    $(Self::$type => columns::<$type>(payload),)+
                }
            }
        }

        /// A block, decoded: a `match` over it misses no payload. `B` are bytes and `T` texts, borrowed or owned.
        #[derive(Debug)]
        pub enum Block<B, T> {
            $(#[doc = concat!("[`", stringify!($closed), "`], which is opened apart: it may be most of a recording.")] $large,)+
            $(#[doc = concat!("[`", stringify!($type), "`].")] $block($rows),)+
        }

        impl<B, T> Block<B, T> {
            /// Returns the block of a layout whose payloads are opened apart; `None` if it is to be decoded.
            pub fn closed(layout: Layout) -> Option<Self> {
                match layout {
                    $(Layout::$closed => Some(Self::$large),)+
                    $(Layout::$type => None,)+
                }
            }

            /// Decodes a payload.
            ///
            /// # Errors
            /// As [`Payload::view`], and those of its rows.
            pub fn decode<'a>(
                layout: Layout,
                payload: &'a [u8],
                $text: impl Fn(&'a [u8]) -> T,
            ) -> Result<Self, Error>
            where
                B: From<&'a [u8]>,
            {
                Ok(match layout {
                    $(Layout::$closed => Self::$large,)+
                    $(Layout::$type => {
                        let $view = $type::view(payload)?;
                        Self::$block($decode)
                    })+
                })
            }
        }

        impl<B, T: References + Hash> Block<B, T> {
            /// Counts the items, as the header of the block does; `None` if the block is opened apart.
            pub fn items(&self) -> Option<usize> {
                match self {
                    $(Self::$large => None,)+
                    $(Self::$block(rows) => Some(rows.items()),)+
                }
            }

            /// Returns the table whose rows the block defines, and the id of its first row.
            pub fn defines(&self) -> Option<(IdTable, u32)> {
                match self {
                    $(Self::$large => None,)+
                    $(Self::$block(rows) => rows.defines(),)+
                }
            }

            /// Adds `base` to the id of the first row that the block defines.
            pub fn shift(&mut self, base: u32) {
                match self {
                    $(Self::$large => {})+
                    $(Self::$block(rows) => rows.shift(base),)+
                }
            }

            /// Hashes the rows that the block defines, so that two blocks can be compared.
            pub fn hashes(&self) -> Vec<u64> {
                match self {
                    $(Self::$large => Vec::new(),)+
                    $(Self::$block(rows) => rows.hashes(),)+
                }
            }
        }

        impl<B, T: References + Hash> References for Block<B, T> {
            #[inline]
            fn visit(&mut self, see: &mut impl FnMut(Reference<'_>)) {
                match self {
                    $(Self::$large => {})+
                    $(Self::$block(rows) => rows.visit(see),)+
                }
            }
        }
    };
}

layouts! {
    closed {
        SamplesV1 => Samples,
        ImagePartsV1 => ImageParts,
        SourcesV1 => Sources,
        CodeV1 => Code,
    }
    decoded by view, text {
        SessionV1 => Session(Box<SessionV1>) = Box::new(view.to_owned_record()?),
        StringsV1 => Strings(Numbered<T>) =
            numbered(IdTable::Strings, view.first_id, view.rows()?.into_iter().map(|(_, bytes)| text(bytes))),
        TasksV1 => Tasks(Numbered<Task>) = numbered(IdTable::Tasks, view.first_id, view.rows()),
        LifecycleV1 => Lifecycle(Vec<Lifecycle>) = view.rows().collect(),
        ImagesV1 => Images(Numbered<Image>) = numbered(IdTable::Images, view.first_id, view.rows()?),
        MappingsV1 => Mappings(Vec<Mapping>) = view.rows().collect(),
        StacksV1 => Stacks(Numbered<Node>) = numbered(IdTable::Stacks, view.first_id, view.rows()?),
        KernelSymbolsV1 => KernelSymbols(Vec<KernelSymbol>) = view.rows().collect(),
        LossesV1 => Losses(Vec<Loss>) = view.rows().collect(),
        ReceiptV1 => Receipt(Box<ReceiptV1>) = Box::new(view.to_owned_record()?),
        SymbolsV1 => Symbols(Vec<Symbol<B>>) = view.rows()?.into_iter().map(Symbol::convert).collect(),
        JitV1 => Jit(Vec<JitCode<B>>) = view.rows()?.into_iter().map(JitCode::convert).collect(),
        CgroupsV1 => Cgroups(Vec<Cgroup>) = view.rows().collect(),
        NamesV1 => Names(NameTable<T>) = view.table()?.map(text),
        LeftOutV1 => LeftOut(Vec<LeftOut>) = view.rows().collect(),
        StackCodeV1 => StackCode(Numbered<Location>) = numbered(IdTable::StackCode, view.first_id, view.rows()),
        StackPiecesV1 => StackPieces(Numbered<StackPiece>) =
            numbered(IdTable::StackPieces, view.first_id, view.rows()?),
        StackNodesV1 => StackNodes(Numbered<StackNode>) =
            numbered(IdTable::StackNodes, view.first_id, view.rows()?),
        SnapshotsV1 => Snapshots(Numbered<Snapshot>) =
            numbered(IdTable::Snapshots, view.first_id, view.rows()?),
        UnwindRulesV1 => UnwindRules(Vec<UnwindRule<B>>) =
            view.rows()?.into_iter().map(UnwindRule::convert).collect(),
        StackMarksV1 => StackMarks(Vec<(u32, Mark)>) = view.rows().collect(),
        CpuTimesV1 => CpuTimes(Vec<CpuTime>) = view.rows().collect(),
        WaitsV1 => Waits(Vec<Wait>) = view.rows().collect(),
        CountersV1 => Counters(Vec<CounterValue>) = view.rows().collect(),
        FieldsV1 => Fields(Vec<Field>) = view.rows().collect(),
        TriggerV1 => Trigger(Box<TriggerV1>) = Box::new(view.to_owned_record()?),
        RatesV1 => Rates(Vec<RateChange>) = view.rows().collect(),
    }
}

fn columns<P: Payload>(payload: &[u8]) -> Result<Columns<'_>, Error> {
    let mut columns = P::columns(P::view(payload)?);
    columns.retain(|(_, bytes)| !bytes.is_empty());
    let in_columns: usize = columns.iter().map(|(_, bytes)| bytes.len()).sum();
    columns.push(("root", &payload[in_columns.min(payload.len())..]));
    Ok(columns)
}

/// Rows whose ids count up.
#[derive(Debug)]
pub struct Numbered<R> {
    /// Their table.
    pub table: IdTable,
    /// The id of the first row.
    pub first: u32,
    /// The rows.
    pub rows: Vec<R>,
}

fn numbered<R>(table: IdTable, first: ArchivedU32, rows: impl IntoIterator<Item = R>) -> Numbered<R> {
    Numbered { table, first: first.to_native(), rows: rows.into_iter().collect() }
}

/// What a block holds.
trait Rows: References {
    fn items(&self) -> usize;

    fn defines(&self) -> Option<(IdTable, u32)> {
        None
    }

    fn shift(&mut self, base: u32) {
        let _ = base;
    }

    fn hashes(&self) -> Vec<u64> {
        Vec::new()
    }
}

impl<R: References> Rows for Vec<R> {
    fn items(&self) -> usize {
        self.len()
    }
}

impl<R: References + Hash> Rows for Numbered<R> {
    fn items(&self) -> usize {
        self.rows.len()
    }

    fn defines(&self) -> Option<(IdTable, u32)> {
        Some((self.table, self.first))
    }

    fn shift(&mut self, base: u32) {
        self.first += base;
    }

    fn hashes(&self) -> Vec<u64> {
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        self.rows.iter().map(|row| hasher.hash_one(row)).collect()
    }
}

impl<T> Rows for NameTable<T> {
    fn items(&self) -> usize {
        self.places.len()
    }
}

impl Rows for Box<SessionV1> {
    fn items(&self) -> usize {
        self.events.len()
    }
}

impl Rows for Box<ReceiptV1> {
    fn items(&self) -> usize {
        1
    }
}

impl Rows for Box<TriggerV1> {
    fn items(&self) -> usize {
        1
    }
}

impl<R: References> References for Numbered<R> {
    #[inline]
    fn visit(&mut self, see: &mut impl FnMut(Reference<'_>)) {
        self.rows.visit(see);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded<P: Payload + Default>(layout: Layout) -> Option<(Option<IdTable>, usize)> {
        let bytes = P::default().to_bytes().expect("fits");
        let block = Block::<&[u8], &[u8]>::decode(layout, &bytes, |text| text).expect("own bytes");
        Some((block.defines().map(|(table, _)| table), block.items()?))
    }

    #[test]
    fn a_block_defines_ids_of_the_table_of_its_rows() {
        let rows = [
            decoded::<StringsV1>(Layout::StringsV1),
            decoded::<StacksV1>(Layout::StacksV1),
            decoded::<TasksV1>(Layout::TasksV1),
            decoded::<ImagesV1>(Layout::ImagesV1),
            decoded::<StackCodeV1>(Layout::StackCodeV1),
            decoded::<StackNodesV1>(Layout::StackNodesV1),
            decoded::<StackPiecesV1>(Layout::StackPiecesV1),
            decoded::<SnapshotsV1>(Layout::SnapshotsV1),
        ];
        assert_eq!(rows, IdTable::ALL.map(|table| Some((Some(table), 0))));
        assert_eq!(decoded::<MappingsV1>(Layout::MappingsV1), Some((None, 0)));
        assert_eq!(decoded::<ReceiptV1>(Layout::ReceiptV1), Some((None, 1)));
        assert_eq!(decoded::<SamplesV1>(Layout::SamplesV1), None);
    }

    #[test]
    fn decoded_rows_get_other_ids_and_equal_hashes() {
        let bytes = StringsV1::from_rows(3, &["a", "b", "a"]).to_bytes().expect("fits");
        let decode = |bytes| Block::<Vec<u8>, Vec<u8>>::decode(Layout::StringsV1, bytes, <[u8]>::to_vec);
        let mut block = decode(&bytes).expect("own bytes");
        let hashes = block.hashes();
        block.shift(10);
        assert_eq!((block.defines(), block.items()), (Some((IdTable::Strings, 13)), Some(3)));
        assert!(block.hashes() == hashes && hashes[0] == hashes[2] && hashes[0] != hashes[1]);
    }
}
