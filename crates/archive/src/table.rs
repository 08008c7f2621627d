//! A table: columns over one type of row, in an order of rows, as one Parquet file.

use std::cmp::Ordering;
use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, Repetition, ZstdLevel};
use parquet::errors::Result;
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};

use crate::column::Column;
use crate::pool::Pool;

/// The version of all tables. A file states it in its metadata, as `icecore.schema`. Columns that are added do not change it.
pub const SCHEMA: u32 = 1;
/// The name of the version in the metadata of a file.
pub(crate) const VERSION: &str = "icecore.schema";

/// The UUIDs of the recordings in a file that holds several, likewise; with commas between them.
pub(crate) const RECORDINGS: &str = "icecore.recordings";
/// How often the rows of a file were written anew, likewise.
pub(crate) const EPOCH: &str = "icecore.epoch";

/// The writer, as files name it.
pub(crate) const CREATED_BY: &str = concat!("icecore ", env!("CARGO_PKG_VERSION"));

/// What a file says of itself.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    /// The UUIDs of the recordings in it, if it holds those of several files.
    pub recordings: Vec<String>,
    /// How often its rows were written anew.
    pub epoch: u32,
}

/// The rows of a group of most tables: with so many, one function is found in the least time.
pub(crate) const GROUP: usize = 122_880;

/// Fewer rows are not compressed: half of the time to read them would go into making decompressors, one for each column.
const SMALL: usize = 2_000;

/// A row of a table.
pub trait Row: Sized + Send + Sync + 'static {
    /// The name of the table.
    const TABLE: &'static str;
    /// The rows of a group: engines read whole groups, or none of one.
    const GROUP: usize = GROUP;
    /// The columns by which rows are sorted, without nulls.
    const SORTED_BY: &'static [&'static str];

    /// Lists the columns.
    fn columns() -> Vec<Column<Self>>;

    /// Compares rows as files order them.
    fn order(&self, other: &Self, pool: &Pool) -> Ordering;

    /// Removes rows that several sessions have in common.
    fn without_doubles(_: &mut Vec<Self>) {}
}

/// Returns the schema of a table.
///
/// # Errors
/// None for the tables of this crate.
pub fn schema<R: Row>() -> Result<TypePtr> {
    let fields = R::columns().iter().map(Column::schema).collect::<Result<_>>()?;
    let message = Type::group_type_builder(R::TABLE).with_repetition(Repetition::REQUIRED);
    Ok(Arc::new(message.with_fields(fields).build()?))
}

/// Sorts rows and writes them as one file: zstd 3 unless they are few, dictionaries of the values of each group.
///
/// # Errors
/// Those of `out`.
pub fn write<R: Row>(rows: &mut [R], pool: &Pool, origin: &Origin, out: impl Write + Send) -> Result<()> {
    rows.sort_by(|a, b| a.order(b, pool));
    let columns = R::columns();
    let position = |name: &str| columns.iter().position(|column| column.name() == name);
    // All columns before one by which rows are sorted are single ones: its position is that of its values.
    let sorting = R::SORTED_BY.iter().filter_map(|name| position(name)).map(|column| SortingColumn {
        column_idx: column as i32,
        descending: false,
        nulls_first: false,
    });
    let mut said = vec![KeyValue::new(VERSION.to_owned(), SCHEMA.to_string())];
    if !origin.recordings.is_empty() {
        said.push(KeyValue::new(RECORDINGS.to_owned(), origin.recordings.join(",")));
        said.push(KeyValue::new(EPOCH.to_owned(), origin.epoch.to_string()));
    }
    let compression = if rows.len() < SMALL {
        Compression::UNCOMPRESSED
    } else {
        Compression::ZSTD(ZstdLevel::try_new(3)?)
    };
    let properties = WriterProperties::builder()
        .set_compression(compression)
        .set_created_by(CREATED_BY.to_owned())
        .set_key_value_metadata(Some(said))
        .set_sorting_columns(Some(sorting.collect()))
        .build();
    let mut file = SerializedFileWriter::new(out, schema::<R>()?, Arc::new(properties))?;
    for rows in rows.chunks(R::GROUP) {
        let mut group = file.next_row_group()?;
        columns.iter().try_for_each(|column| column.write(rows, pool, &mut group))?;
        group.close()?;
    }
    file.close()?;
    Ok(())
}
