//! Reads the rows of a table back.

use std::fs::File;
use std::path::Path;

use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row as Record, RowAccessor};

use crate::id::Id;
use crate::pool::{Pool, Text};
use crate::table::{CREATED_BY, EPOCH, RECORDINGS, Row, SCHEMA, VERSION};

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

    /// The elements of a list.
    ///
    /// # Errors
    /// As above.
    pub fn list<T>(&mut self, read: impl Fn(&mut Fields<'_>) -> Result<T>) -> Result<Vec<T>> {
        let at = self.step();
        let element = |field: &Field| match field {
            Field::Group(record) => read(&mut Fields { record, pool: self.pool, next: 0 }),
            _ => Err(ParquetError::General("it is a list of something else than groups".to_owned())),
        };
        self.record.get_list(at)?.elements().iter().map(element).collect()
    }
}

/// A row that can be read back.
pub trait Readable: Row + PartialEq {
    /// The session to which it belongs; `None` if it may belong to several.
    fn recording(&self) -> Option<Id>;

    /// Reads a row.
    ///
    /// # Errors
    /// If the columns are others.
    fn read(fields: &mut Fields<'_>) -> Result<Self>;
}

/// A file of a table.
pub struct TableFile {
    file: SerializedFileReader<File>,
    /// The UUIDs of the recordings in a file that holds several; empty if it does not say.
    pub recordings: Vec<String>,
    /// How often its rows were written anew.
    pub epoch: u32,
}

impl TableFile {
    /// Opens a file.
    ///
    /// # Errors
    /// If it cannot be read, or holds another table or one of another version.
    pub fn open(table: &str, path: &Path) -> Result<Self> {
        let file = SerializedFileReader::new(File::open(path)?)?;
        let of_file = file.metadata().file_metadata();
        let value = |key: &str| {
            let pair = of_file.key_value_metadata()?.iter().find(|pair| pair.key == key);
            pair.and_then(|pair| pair.value.clone())
        };
        if of_file.schema().name() != table || value(VERSION) != Some(SCHEMA.to_string()) {
            return Err(ParquetError::General(format!("it holds no table `{table}` of version {SCHEMA}")));
        }
        let recordings = value(RECORDINGS).unwrap_or_default();
        let recordings = recordings.split(',').filter(|uuid| !uuid.is_empty()).map(str::to_owned).collect();
        let epoch = value(EPOCH).and_then(|epoch| epoch.parse().ok()).unwrap_or(0);
        Ok(Self { file, recordings, epoch })
    }

    /// Returns true if this version wrote it.
    pub fn is_ours(&self) -> bool {
        self.file.metadata().file_metadata().created_by() == Some(CREATED_BY)
    }

    /// The number of its rows.
    pub fn rows(&self) -> u64 {
        u64::try_from(self.file.metadata().file_metadata().num_rows()).unwrap_or(0)
    }

    /// Reads all rows.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn read<R: Readable>(&self, pool: &mut Pool) -> Result<Vec<R>> {
        let row = |record: Result<Record>| R::read(&mut Fields { record: &record?, pool, next: 0 });
        self.file.get_row_iter(None)?.map(row).collect()
    }
}
