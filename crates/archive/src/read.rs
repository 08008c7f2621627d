//! Reads the rows of a table back.

use std::str;

use bytes::Bytes;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};

use crate::id::Id;
use crate::pool::{Pool, Text};
use crate::table::{CREATED_BY, EPOCH, RECORDINGS, Row, SCHEMA, VERSION};

/// The rows of which a column is decoded at once.
const BATCH: usize = 8_192;

/// The values of a row, in the order of its columns.
pub struct Fields<'a> {
    leaves: &'a mut [Leaf],
    next: usize,
}

/// A physical column of a group of rows, and how far its rows were read.
struct Leaf {
    /// The column of the table to which it belongs: its position and its name.
    column: usize,
    name: String,
    values: Values,
    /// The largest definition level: the value is there.
    defined: i16,
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
    value: usize,
    level: usize,
}

enum Values {
    Ints(Vec<i64>),
    Floats(Vec<f64>),
    Bools(Vec<bool>),
    Texts(Vec<Text>),
}

fn wrong(column: &str, cause: &str) -> ParquetError {
    ParquetError::General(format!("the column `{column}` {cause}"))
}

impl Leaf {
    /// Decodes a column of a group.
    fn read(group: &dyn RowGroupReader, position: usize, pool: &mut Pool) -> Result<Self> {
        let schema = group.metadata().schema_descr();
        let descriptor = schema.column(position);
        let mut leaf = Self {
            column: schema.get_column_root_idx(position),
            name: descriptor.path().string(),
            values: Values::Ints(Vec::new()),
            defined: descriptor.max_def_level(),
            definitions: Vec::new(),
            repetitions: Vec::new(),
            value: 0,
            level: 0,
        };
        leaf.values = match group.get_column_reader(position)? {
            ColumnReader::Int64ColumnReader(reader) => Values::Ints(leaf.decode(reader)?),
            ColumnReader::DoubleColumnReader(reader) => Values::Floats(leaf.decode(reader)?),
            ColumnReader::BoolColumnReader(reader) => Values::Bools(leaf.decode(reader)?),
            ColumnReader::ByteArrayColumnReader(reader) => Values::Texts(leaf.decode_texts(reader, pool)?),
            _ => return Err(wrong(&leaf.name, "is of another type")),
        };
        Ok(leaf)
    }

    fn decode<T: DataType>(&mut self, mut reader: ColumnReaderImpl<T>) -> Result<Vec<T::T>> {
        let mut values = Vec::new();
        while self.decode_some(&mut reader, &mut values)? {}
        Ok(values)
    }

    /// Decodes more values; returns false if there are none.
    fn decode_some<T: DataType>(
        &mut self,
        reader: &mut ColumnReaderImpl<T>,
        values: &mut Vec<T::T>,
    ) -> Result<bool> {
        let levels = (Some(&mut self.definitions), Some(&mut self.repetitions));
        let (records, _, _) = reader.read_records(BATCH, levels.0, levels.1, values)?;
        Ok(records > 0)
    }

    fn decode_texts<T: DataType<T = ByteArray>>(
        &mut self,
        mut reader: ColumnReaderImpl<T>,
        pool: &mut Pool,
    ) -> Result<Vec<Text>> {
        let (mut texts, mut values) = (Vec::new(), Vec::new());
        // Rows are sorted, and values of a dictionary lie at one place: the same text often follows itself.
        let mut last: Option<(ByteArray, Text)> = None;
        while self.decode_some(&mut reader, &mut values)? {
            for value in values.drain(..) {
                let text = match &last {
                    Some((known, text)) if std::ptr::eq(known.data(), value.data()) => *text,
                    _ => {
                        let text = str::from_utf8(value.data());
                        pool.add(text.map_err(|_| wrong(&self.name, "is no UTF-8"))?)
                    }
                };
                texts.push(text);
                last = Some((value, text));
            }
        }
        Ok(texts)
    }

    /// Goes to the next level; returns its value's position, or `None` for null.
    fn step(&mut self) -> Result<Option<usize>> {
        if self.defined > 0 {
            let definition = self.definitions.get(self.level);
            self.level += 1;
            match definition {
                Some(definition) if *definition == self.defined => {}
                Some(_) => return Ok(None),
                None => return Err(wrong(&self.name, "ends before its rows")),
            }
        }
        self.value += 1;
        Ok(Some(self.value - 1))
    }

    fn there<T: Copy>(&self, values: &[T], at: usize) -> Result<T> {
        values.get(at).copied().ok_or_else(|| wrong(&self.name, "ends before its rows"))
    }
}

impl Fields<'_> {
    fn leaf(&mut self) -> Result<&mut Leaf> {
        self.next += 1;
        let leaf = self.leaves.get_mut(self.next - 1);
        leaf.ok_or_else(|| ParquetError::General("a column is missing".to_owned()))
    }

    fn required<T>(&mut self, read: impl Fn(&mut Self) -> Result<Option<T>>) -> Result<T> {
        let next = self.next;
        let value = read(self)?;
        value.ok_or_else(|| wrong(&self.leaves[next].name, "has a null"))
    }

    /// A whole number.
    ///
    /// # Errors
    /// If the column is another one; so of all others.
    pub fn int(&mut self) -> Result<i64> {
        self.required(Self::maybe_int)
    }

    /// A whole number or null.
    ///
    /// # Errors
    /// As above.
    pub fn maybe_int(&mut self) -> Result<Option<i64>> {
        let leaf = self.leaf()?;
        let Some(at) = leaf.step()? else { return Ok(None) };
        match &leaf.values {
            Values::Ints(values) => leaf.there(values, at).map(Some),
            _ => Err(wrong(&leaf.name, "has no whole numbers")),
        }
    }

    /// A moment, µs since 1970-01-01 UTC.
    ///
    /// # Errors
    /// As above.
    pub fn time(&mut self) -> Result<i64> {
        self.int()
    }

    /// A real number or null.
    ///
    /// # Errors
    /// As above.
    pub fn maybe_float(&mut self) -> Result<Option<f64>> {
        let leaf = self.leaf()?;
        let Some(at) = leaf.step()? else { return Ok(None) };
        match &leaf.values {
            Values::Floats(values) => leaf.there(values, at).map(Some),
            _ => Err(wrong(&leaf.name, "has no real numbers")),
        }
    }

    /// True or false.
    ///
    /// # Errors
    /// As above.
    pub fn boolean(&mut self) -> Result<bool> {
        self.required(|fields| {
            let leaf = fields.leaf()?;
            let Some(at) = leaf.step()? else { return Ok(None) };
            match &leaf.values {
                Values::Bools(values) => leaf.there(values, at).map(Some),
                _ => Err(wrong(&leaf.name, "is not true or false")),
            }
        })
    }

    /// A text.
    ///
    /// # Errors
    /// As above.
    pub fn text(&mut self) -> Result<Text> {
        self.required(Self::maybe_text)
    }

    /// A text or null.
    ///
    /// # Errors
    /// As above.
    pub fn maybe_text(&mut self) -> Result<Option<Text>> {
        let leaf = self.leaf()?;
        let Some(at) = leaf.step()? else { return Ok(None) };
        match &leaf.values {
            Values::Texts(values) => leaf.there(values, at).map(Some),
            _ => Err(wrong(&leaf.name, "has no texts")),
        }
    }

    /// Texts by name.
    ///
    /// # Errors
    /// As above.
    pub fn map(&mut self) -> Result<Vec<(Text, Text)>> {
        self.list(|fields| Ok((fields.text()?, fields.text()?)))
    }

    /// The elements of a list.
    ///
    /// # Errors
    /// As above.
    pub fn list<T>(&mut self, read: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let begin = self.next;
        let column = self.leaf()?.column;
        let end = begin + self.leaves[begin..].iter().take_while(|leaf| leaf.column == column).count();
        self.next = end;
        let first = &self.leaves[begin];
        // See the levels in `column`.
        if first.definitions.get(first.level) == Some(&0) {
            self.leaves[begin..end].iter_mut().for_each(|leaf| leaf.level += 1);
            return Ok(Vec::new());
        }
        let mut items = Vec::new();
        loop {
            self.next = begin;
            items.push(read(self)?);
            let first = &self.leaves[begin];
            if self.next != end {
                return Err(wrong(&first.name, "has other fields"));
            }
            if first.repetitions.get(first.level) != Some(&1) {
                return Ok(items);
            }
        }
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

/// What a file of a table says of itself, at its end.
#[derive(Debug)]
pub struct Head {
    /// The UUIDs of the recordings in a file that holds several; empty if it does not say.
    pub recordings: Vec<String>,
    /// How often its rows were written anew.
    pub epoch: u32,
    /// The number of its rows.
    pub rows: u64,
    /// True if this version wrote it.
    pub is_ours: bool,
}

impl Head {
    /// Reads what a file says.
    ///
    /// # Errors
    /// If it holds another table or one of another version.
    fn new(table: &str, meta: &ParquetMetaData) -> Result<Self> {
        let of_file = meta.file_metadata();
        let value = |key: &str| {
            let pair = of_file.key_value_metadata()?.iter().find(|pair| pair.key == key);
            pair.and_then(|pair| pair.value.clone())
        };
        if of_file.schema().name() != table || value(VERSION) != Some(SCHEMA.to_string()) {
            return Err(ParquetError::General(format!("it holds no table `{table}` of version {SCHEMA}")));
        }
        let recordings = value(RECORDINGS).unwrap_or_default();
        Ok(Self {
            recordings: recordings.split(',').filter(|uuid| !uuid.is_empty()).map(str::to_owned).collect(),
            epoch: value(EPOCH).and_then(|epoch| epoch.parse().ok()).unwrap_or(0),
            rows: u64::try_from(of_file.num_rows()).unwrap_or(0),
            is_ours: of_file.created_by() == Some(CREATED_BY),
        })
    }

    /// Reads it from the last bytes of a file of this size. If they are too few, returns how many it needs.
    ///
    /// # Errors
    /// If they are not the end of a file of this table.
    pub fn of_tail(table: &str, last: &Bytes, size: u64) -> Result<std::result::Result<Self, u64>> {
        let mut reader = ParquetMetaDataReader::new();
        match reader.try_parse_sized(last, size) {
            Err(ParquetError::NeedMoreData(needed)) if (needed as u64) <= size => Ok(Err(needed as u64)),
            Err(error) => Err(error),
            Ok(()) => Self::new(table, &reader.finish()?).map(Ok),
        }
    }
}

/// A file of a table.
pub struct TableFile {
    file: SerializedFileReader<Bytes>,
    /// What it says of itself.
    pub head: Head,
}

impl TableFile {
    /// Opens a file, given its bytes.
    ///
    /// # Errors
    /// If they hold another table, or one of another version.
    pub fn new(table: &str, bytes: Bytes) -> Result<Self> {
        let file = SerializedFileReader::new(bytes)?;
        let head = Head::new(table, file.metadata())?;
        Ok(Self { file, head })
    }

    /// Reads all rows.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn read<R: Readable>(&self, pool: &mut Pool) -> Result<Vec<R>> {
        let mut rows = Vec::new();
        for group in 0..self.file.num_row_groups() {
            let group = self.file.get_row_group(group)?;
            let leaves = (0..group.num_columns()).map(|column| Leaf::read(&*group, column, pool));
            let mut leaves: Vec<Leaf> = leaves.collect::<Result<_>>()?;
            for _ in 0..group.metadata().num_rows() {
                rows.push(R::read(&mut Fields { leaves: &mut leaves, next: 0 })?);
            }
        }
        Ok(rows)
    }
}
