//! The messages of pprof's profiles. `export` writes them, and `import` reads them.
//!
//! # Source   profile.proto of google/pprof

use prost::Message;

/// A profile. Profiles that follow each other in one file are one: their lists are joined.
#[derive(Clone, PartialEq, Message)]
pub struct Profile {
    /// What the values of each sample are.
    #[prost(message, repeated, tag = "1")]
    pub sample_type: Vec<ValueType>,
    /// Samples.
    #[prost(message, repeated, tag = "2")]
    pub sample: Vec<Sample>,
    /// Files of code.
    #[prost(message, repeated, tag = "3")]
    pub mapping: Vec<Mapping>,
    /// Places of code.
    #[prost(message, repeated, tag = "4")]
    pub location: Vec<Location>,
    /// Functions.
    #[prost(message, repeated, tag = "5")]
    pub function: Vec<Function>,
    /// The first one is empty.
    #[prost(string, repeated, tag = "6")]
    pub string_table: Vec<String>,
    /// Which functions viewers drop with all that they call: a regular expression, a text.
    #[prost(int64, tag = "7")]
    pub drop_frames: i64,
    /// Since 1970-01-01 UTC.
    #[prost(int64, tag = "9")]
    pub time_nanos: i64,
    /// How long it was recorded.
    #[prost(int64, tag = "10")]
    pub duration_nanos: i64,
    /// Between which events a sample was taken.
    #[prost(message, optional, tag = "11")]
    pub period_type: Option<ValueType>,
    /// How many of these lie between two samples.
    #[prost(int64, tag = "12")]
    pub period: i64,
    /// Positions in the table of strings, as all texts.
    #[prost(int64, repeated, tag = "13")]
    pub comment: Vec<i64>,
    /// The type that viewers show first, a text.
    #[prost(int64, tag = "14")]
    pub default_sample_type: i64,
}

/// What the values of samples are.
#[derive(Clone, PartialEq, Message)]
pub struct ValueType {
    /// What is counted, a text.
    #[prost(int64, tag = "1")]
    pub r#type: i64,
    /// The unit, a text.
    #[prost(int64, tag = "2")]
    pub unit: i64,
}

/// Samples with one stack.
#[derive(Clone, PartialEq, Message)]
pub struct Sample {
    /// Leaf first.
    #[prost(uint64, repeated, tag = "1")]
    pub location_id: Vec<u64>,
    /// One for each type.
    #[prost(int64, repeated, tag = "2")]
    pub value: Vec<i64>,
    /// What is known besides.
    #[prost(message, repeated, tag = "3")]
    pub label: Vec<Label>,
}

/// What samples have besides their stack: a text, or a number.
#[derive(Clone, PartialEq, Message)]
pub struct Label {
    /// The name, a text.
    #[prost(int64, tag = "1")]
    pub key: i64,
    /// The value, a text.
    #[prost(int64, tag = "2")]
    pub str: i64,
    /// The value, a number.
    #[prost(int64, tag = "3")]
    pub num: i64,
}

/// A file of code.
#[derive(Clone, PartialEq, Message)]
pub struct Mapping {
    /// Not 0.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// The first address.
    #[prost(uint64, tag = "2")]
    pub memory_start: u64,
    /// The address behind the last one.
    #[prost(uint64, tag = "3")]
    pub memory_limit: u64,
    /// The offset in the file of the first address.
    #[prost(uint64, tag = "4")]
    pub file_offset: u64,
    /// The path, a text.
    #[prost(int64, tag = "5")]
    pub filename: i64,
    /// Hexadecimal.
    #[prost(int64, tag = "6")]
    pub build_id: i64,
    /// Its locations have functions.
    #[prost(bool, tag = "7")]
    pub has_functions: bool,
    /// Its functions have files.
    #[prost(bool, tag = "8")]
    pub has_filenames: bool,
    /// Its lines have numbers.
    #[prost(bool, tag = "9")]
    pub has_line_numbers: bool,
    /// Its locations have inlined functions.
    #[prost(bool, tag = "10")]
    pub has_inline_frames: bool,
}

/// A place of code.
#[derive(Clone, PartialEq, Message)]
pub struct Location {
    /// Not 0.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// The mapping; 0 if unknown.
    #[prost(uint64, tag = "2")]
    pub mapping_id: u64,
    /// The address; of a call, one in it.
    #[prost(uint64, tag = "3")]
    pub address: u64,
    /// Functions that were inlined there before those around them.
    #[prost(message, repeated, tag = "4")]
    pub line: Vec<Line>,
}

/// A function at a place, and its source line.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Line {
    /// The function.
    #[prost(uint64, tag = "1")]
    pub function_id: u64,
    /// The number, from 1; 0 if unknown.
    #[prost(int64, tag = "2")]
    pub line: i64,
}

/// A function.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Function {
    /// Not 0.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// The name, a text.
    #[prost(int64, tag = "2")]
    pub name: i64,
    /// The name as the compiler writes it, a text.
    #[prost(int64, tag = "3")]
    pub system_name: i64,
    /// The path, a text.
    #[prost(int64, tag = "4")]
    pub filename: i64,
    /// The line of its declaration.
    #[prost(int64, tag = "5")]
    pub start_line: i64,
}
