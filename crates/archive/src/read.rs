//! Reads the rows of a table back.

use std::fs::File;
use std::path::Path;

use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row as Record, RowAccessor};

use crate::pool::{Pool, Text};
use crate::table::{Row, SCHEMA, VERSION};

/// The values of a row, in the order of its columns.
pub struct Fields<'a> {
    record: &'a Record,
    pool: &'a mut Pool,
    next: usize,
}

impl Fields<'_> {
    fn step(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }

    /// A whole number.
    ///
    /// # Errors
    /// If the column is another one; so of all others.
    pub fn int(&mut self) -> Result<i64> {
        let at = self.step();
        self.record.get_long(at)
    }

    /// A whole number or null.
    ///
    /// # Errors
    /// As above.
    pub fn maybe_int(&mut self) -> Result<Option<i64>> {
        let at = self.step();
        if self.record.is_null(at)? { Ok(None) } else { self.record.get_long(at).map(Some) }
    }

    /// A moment, µs since 1970-01-01 UTC.
    ///
    /// # Errors
    /// As above.
    pub fn time(&mut self) -> Result<i64> {
        let at = self.step();
        self.record.get_timestamp_micros(at)
    }

    /// A real number or null.
    ///
    /// # Errors
    /// As above.
    pub fn maybe_float(&mut self) -> Result<Option<f64>> {
        let at = self.step();
        if self.record.is_null(at)? { Ok(None) } else { self.record.get_double(at).map(Some) }
    }

    /// True or false.
    ///
    /// # Errors
    /// As above.
    pub fn boolean(&mut self) -> Result<bool> {
        let at = self.step();
        self.record.get_bool(at)
    }

    /// A text.
    ///
    /// # Errors
    /// As above.
    pub fn text(&mut self) -> Result<Text> {
        let at = self.step();
        Ok(self.pool.add(self.record.get_string(at)?))
    }

    /// A text or null.
    ///
    /// # Errors
    /// As above.
    pub fn maybe_text(&mut self) -> Result<Option<Text>> {
        if self.record.is_null(self.next)? {
            self.next += 1;
            return Ok(None);
        }
        self.text().map(Some)
    }

    /// Texts by name.
    ///
    /// # Errors
    /// As above.
    pub fn map(&mut self) -> Result<Vec<(Text, Text)>> {
        let at = self.step();
        let texts = |entry: &(Field, Field)| match entry {
            (Field::Str(key), Field::Str(value)) => Ok((self.pool.add(key), self.pool.add(value))),
            _ => Err(ParquetError::General("it is a map of something else than texts".to_owned())),
        };
        self.record.get_map(at)?.entries().iter().map(texts).collect()
    }
}

/// A row that can be read back.
pub trait Readable: Row {
    /// Reads a row.
    ///
    /// # Errors
    /// If the columns are others.
    fn read(fields: &mut Fields<'_>) -> Result<Self>;
}

/// Reads all rows of a file.
///
/// # Errors
/// If the file cannot be read, or holds another table or one of another version.
pub fn read<R: Readable>(path: &Path, pool: &mut Pool) -> Result<Vec<R>> {
    let file = SerializedFileReader::new(File::open(path)?)?;
    let of_file = file.metadata().file_metadata();
    let version = of_file.key_value_metadata().into_iter().flatten().find(|pair| pair.key == VERSION);
    let version = version.and_then(|pair| pair.value.clone());
    if of_file.schema().name() != R::TABLE || version != Some(SCHEMA.to_string()) {
        return Err(ParquetError::General(format!("it holds no table `{}` of version {SCHEMA}", R::TABLE)));
    }
    let row = |record: Result<Record>| R::read(&mut Fields { record: &record?, pool, next: 0 });
    file.get_row_iter(None)?.map(row).collect()
}
