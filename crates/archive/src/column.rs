//! Columns of rows, and how Parquet stores them: optional values, lists and maps by definition and repetition levels.
//!
//! ```text
//! column             in Parquet                                      levels of a value
//! int("a", …)        required int64 a                                none
//! maybe_text("b", …) optional binary b (STRING)                      definition 0: null, 1: there
//! list("c", …)       required group c (LIST) {                       definition 0: the list is empty, 1: the field is null, 2: there
//!                      repeated group list {                         repetition 0: the first element of a row, 1: a further one
//!                        required group element { … } } }
//! map("d", …)        required group d (MAP) {                        likewise
//!                      repeated group key_value {
//!                        required binary key (STRING);
//!                        optional binary value (STRING); } }
//! ```

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::writer::SerializedRowGroupWriter;
use parquet::schema::types::{Type, TypePtr};

use crate::pool::{Pool, Text};

/// A column of rows of one type.
pub struct Column<R> {
    name: &'static str,
    shape: Shape<R>,
}

enum Shape<R> {
    One(Leaf<R>),
    /// The fields of the elements of a list.
    List(Vec<(&'static str, Leaf<R>)>),
    /// Keys and values.
    Map([Leaf<R>; 2]),
}

/// Values of one physical column.
struct Leaf<R> {
    kind: Kind,
    is_optional: bool,
    put: Put<R>,
}

/// Puts the values of a row into cells.
type Put<R> = Box<dyn Fn(&R, &mut Cells)>;

#[derive(Debug, Clone, Copy)]
enum Kind {
    Int,
    Time,
    Float,
    Bool,
    Text,
}

/// Values of a physical column, and their levels.
#[derive(Debug, Default)]
struct Cells {
    ints: Vec<i64>,
    floats: Vec<f64>,
    bools: Vec<bool>,
    texts: Vec<Text>,
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
}

fn one<R>(name: &'static str, kind: Kind, put: impl Fn(&R, &mut Cells) + 'static) -> Column<R> {
    Column { name, shape: Shape::One(Leaf { kind, is_optional: false, put: Box::new(put) }) }
}

fn maybe<R, T>(name: &'static str, kind: Kind, get: fn(&R) -> Option<T>, push: fn(&mut Cells, T)) -> Column<R>
where
    R: 'static,
    T: 'static,
{
    let put = move |row: &R, cells: &mut Cells| {
        let value = get(row);
        cells.definitions.push(value.is_some().into());
        value.into_iter().for_each(|value| push(cells, value));
    };
    Column { name, shape: Shape::One(Leaf { kind, is_optional: true, put: Box::new(put) }) }
}

/// Whole numbers.
pub fn int<R: 'static>(name: &'static str, get: fn(&R) -> i64) -> Column<R> {
    one(name, Kind::Int, move |row, cells| cells.ints.push(get(row)))
}

/// Whole numbers or nulls.
pub fn maybe_int<R: 'static>(name: &'static str, get: fn(&R) -> Option<i64>) -> Column<R> {
    maybe(name, Kind::Int, get, |cells, value| cells.ints.push(value))
}

/// Moments, µs since 1970-01-01 UTC.
pub fn time<R: 'static>(name: &'static str, get: fn(&R) -> i64) -> Column<R> {
    one(name, Kind::Time, move |row, cells| cells.ints.push(get(row)))
}

/// Real numbers or nulls.
pub fn maybe_float<R: 'static>(name: &'static str, get: fn(&R) -> Option<f64>) -> Column<R> {
    maybe(name, Kind::Float, get, |cells, value| cells.floats.push(value))
}

/// True or false.
pub fn boolean<R: 'static>(name: &'static str, get: fn(&R) -> bool) -> Column<R> {
    one(name, Kind::Bool, move |row, cells| cells.bools.push(get(row)))
}

/// Texts.
pub fn text<R: 'static>(name: &'static str, get: fn(&R) -> Text) -> Column<R> {
    one(name, Kind::Text, move |row, cells| cells.texts.push(get(row)))
}

/// Texts or nulls.
pub fn maybe_text<R: 'static>(name: &'static str, get: fn(&R) -> Option<Text>) -> Column<R> {
    maybe(name, Kind::Text, get, |cells, value| cells.texts.push(value))
}

/// Lists of elements that have these fields, which are no lists themselves.
pub fn list<R: 'static, T: 'static>(
    name: &'static str,
    get: fn(&R) -> &[T],
    fields: Vec<Column<T>>,
) -> Column<R> {
    let field = |field: Column<T>| (field.name, repeated(get, field));
    Column { name, shape: Shape::List(fields.into_iter().map(field).collect()) }
}

/// Texts by name.
pub fn map<R: 'static>(name: &'static str, get: fn(&R) -> &[(Text, Text)]) -> Column<R> {
    type Entry = (Text, Text);
    let (key, value) = (text("key", |it: &Entry| it.0), maybe_text("value", |it: &Entry| Some(it.1)));
    Column { name, shape: Shape::Map([repeated(get, key), repeated(get, value)]) }
}

fn repeated<R: 'static, T: 'static>(get: fn(&R) -> &[T], field: Column<T>) -> Leaf<R> {
    let Shape::One(leaf) = field.shape else { panic!("bug: a list in a list") };
    let put = move |row: &R, cells: &mut Cells| {
        let items = get(row);
        if items.is_empty() {
            cells.definitions.push(0);
            cells.repetitions.push(0);
        }
        for (position, item) in items.iter().enumerate() {
            cells.repetitions.push((position > 0).into());
            let level = cells.definitions.len();
            (leaf.put)(item, cells);
            match cells.definitions.get_mut(level) {
                Some(definition) => *definition += 1,
                None => cells.definitions.push(1),
            }
        }
    };
    Leaf { kind: leaf.kind, is_optional: leaf.is_optional, put: Box::new(put) }
}

impl<R> Leaf<R> {
    fn schema(&self, name: &str) -> Result<TypePtr> {
        let (physical, logical) = match self.kind {
            Kind::Int => (Physical::INT64, None),
            Kind::Time => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::MICROS))),
            Kind::Float => (Physical::DOUBLE, None),
            Kind::Bool => (Physical::BOOLEAN, None),
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let repetition = if self.is_optional { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        let built = Type::primitive_type_builder(name, physical);
        Ok(Arc::new(built.with_repetition(repetition).with_logical_type(logical).build()?))
    }

    fn write<W: Write + Send>(
        &self,
        rows: &[R],
        pool: &Pool,
        group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<()> {
        let mut cells = Cells::default();
        rows.iter().for_each(|row| (self.put)(row, &mut cells));
        let definitions = Some(&*cells.definitions).filter(|levels| !levels.is_empty());
        let repetitions = Some(&*cells.repetitions).filter(|levels| !levels.is_empty());
        let mut column = group.next_column()?.expect("bug: a column too many");
        match self.kind {
            Kind::Int | Kind::Time => {
                column.typed::<Int64Type>().write_batch(&cells.ints, definitions, repetitions)?;
            }
            Kind::Float => {
                column.typed::<DoubleType>().write_batch(&cells.floats, definitions, repetitions)?;
            }
            Kind::Bool => {
                column.typed::<BoolType>().write_batch(&cells.bools, definitions, repetitions)?;
            }
            Kind::Text => {
                let texts: Vec<ByteArray> = cells.texts.iter().map(|text| pool.value(*text)).collect();
                column.typed::<ByteArrayType>().write_batch(&texts, definitions, repetitions)?;
            }
        }
        column.close()
    }
}

impl<R> Column<R> {
    /// Returns the name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn schema(&self) -> Result<TypePtr> {
        let group = |name: &str, repetition, logical, fields: Vec<TypePtr>| {
            let built = Type::group_type_builder(name).with_repetition(repetition).with_fields(fields);
            built.with_logical_type(logical).build().map(Arc::new)
        };
        match &self.shape {
            Shape::One(leaf) => leaf.schema(self.name),
            Shape::List(fields) => {
                let fields = fields.iter().map(|(name, leaf)| leaf.schema(name)).collect::<Result<_>>()?;
                let element = group("element", Repetition::REQUIRED, None, fields)?;
                let list = group("list", Repetition::REPEATED, None, vec![element])?;
                group(self.name, Repetition::REQUIRED, Some(LogicalType::List), vec![list])
            }
            Shape::Map([key, value]) => {
                let fields = vec![key.schema("key")?, value.schema("value")?];
                let entry = group("key_value", Repetition::REPEATED, None, fields)?;
                group(self.name, Repetition::REQUIRED, Some(LogicalType::Map), vec![entry])
            }
        }
    }

    pub(crate) fn write<W: Write + Send>(
        &self,
        rows: &[R],
        pool: &Pool,
        group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<()> {
        match &self.shape {
            Shape::One(leaf) => leaf.write(rows, pool, group),
            Shape::List(fields) => fields.iter().try_for_each(|(_, leaf)| leaf.write(rows, pool, group)),
            Shape::Map(leaves) => leaves.iter().try_for_each(|leaf| leaf.write(rows, pool, group)),
        }
    }
}

impl<R> std::fmt::Debug for Column<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Column").field("name", &self.name).finish_non_exhaustive()
    }
}
