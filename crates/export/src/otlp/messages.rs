//! The messages of profiles: those fields that are written. What has many parts is written part by part, and is not here.
//!
//! # Source   opentelemetry/proto/{profiles/v1development,common/v1,resource/v1}/*.proto of opentelemetry-proto 1.10.0

use prost::{Message, Oneof};

/// The fields of `ProfilesData`. Those of `ExportProfilesServiceRequest` are the same.
pub(super) mod data {
    pub(in super::super) const RESOURCE_PROFILES: u32 = 1;
    pub(in super::super) const DICTIONARY: u32 = 2;
}

/// The fields of `ResourceProfiles`.
pub(super) mod resource_profiles {
    pub(in super::super) const RESOURCE: u32 = 1;
    pub(in super::super) const SCOPE_PROFILES: u32 = 2;
}

/// The fields of `ScopeProfiles`.
pub(super) mod scope_profiles {
    pub(in super::super) const SCOPE: u32 = 1;
    pub(in super::super) const PROFILES: u32 = 2;
}

/// The field of `Profile` that its head lacks.
pub(super) const SAMPLES: u32 = 2;

/// The fields of `ProfilesDictionary`.
pub(super) mod dictionary {
    pub(in super::super) const MAPPINGS: u32 = 1;
    pub(in super::super) const LOCATIONS: u32 = 2;
    pub(in super::super) const FUNCTIONS: u32 = 3;
    pub(in super::super) const LINKS: u32 = 4;
    pub(in super::super) const STRINGS: u32 = 5;
    pub(in super::super) const ATTRIBUTES: u32 = 6;
    pub(in super::super) const STACKS: u32 = 7;
}

/// A profile without its samples.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ProfileHead {
    #[prost(message, optional, tag = "1")]
    pub(super) sample_type: Option<ValueType>,
    /// Since 1970-01-01 UTC.
    #[prost(fixed64, tag = "3")]
    pub(super) time_unix_nano: u64,
    #[prost(uint64, tag = "4")]
    pub(super) duration_nano: u64,
    #[prost(message, optional, tag = "5")]
    pub(super) period_type: Option<ValueType>,
    #[prost(int64, tag = "6")]
    pub(super) period: i64,
    /// 16 bytes.
    #[prost(bytes = "vec", tag = "7")]
    pub(super) profile_id: Vec<u8>,
}

/// What values are: positions in the table of strings, as all texts of these messages but those of attributes.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct ValueType {
    #[prost(int32, tag = "1")]
    pub(super) r#type: i32,
    #[prost(int32, tag = "2")]
    pub(super) unit: i32,
}

/// Samples with one stack and the same attributes.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Sample {
    #[prost(int32, tag = "1")]
    pub(super) stack: i32,
    #[prost(int32, repeated, tag = "2")]
    pub(super) attributes: Vec<i32>,
    #[prost(int64, repeated, tag = "4")]
    pub(super) values: Vec<i64>,
    /// As many as values.
    #[prost(fixed64, repeated, tag = "5")]
    pub(super) timestamps_unix_nano: Vec<u64>,
}

/// A file of code.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub(super) struct Mapping {
    #[prost(uint64, tag = "1")]
    pub(super) memory_start: u64,
    #[prost(uint64, tag = "2")]
    pub(super) memory_limit: u64,
    #[prost(int32, tag = "4")]
    pub(super) filename: i32,
    #[prost(int32, repeated, tag = "5")]
    pub(super) attributes: Vec<i32>,
}

/// A place of code.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub(super) struct Location {
    #[prost(int32, tag = "1")]
    pub(super) mapping: i32,
    #[prost(uint64, tag = "2")]
    pub(super) address: u64,
    /// Functions that were inlined there before those around them.
    #[prost(message, repeated, tag = "3")]
    pub(super) lines: Vec<Line>,
    #[prost(int32, repeated, tag = "4")]
    pub(super) attributes: Vec<i32>,
}

/// A function at a place, and its source line.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Message)]
pub(super) struct Line {
    #[prost(int32, tag = "1")]
    pub(super) function: i32,
    #[prost(int64, tag = "2")]
    pub(super) line: i64,
}

/// A function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Message)]
pub(super) struct Function {
    #[prost(int32, tag = "1")]
    pub(super) name: i32,
    #[prost(int32, tag = "3")]
    pub(super) filename: i32,
    #[prost(int64, tag = "4")]
    pub(super) start_line: i64,
}

/// A stack, leaf first.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Stack {
    #[prost(int32, repeated, tag = "1")]
    pub(super) locations: Vec<i32>,
}

/// An attribute in the table of these.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub(super) struct KeyValueAndUnit {
    #[prost(int32, tag = "1")]
    pub(super) key: i32,
    #[prost(message, optional, tag = "2")]
    pub(super) value: Option<AnyValue>,
}

/// An attribute of a resource or a scope.
#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyValue {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(message, optional, tag = "2")]
    pub(super) value: Option<AnyValue>,
}

/// The value of an attribute.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub(super) struct AnyValue {
    #[prost(oneof = "Value", tags = "1, 2, 3, 5")]
    pub(super) value: Option<Value>,
}

#[derive(Clone, PartialEq, Eq, Hash, Oneof)]
pub(super) enum Value {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Flag(bool),
    #[prost(int64, tag = "3")]
    Number(i64),
    #[prost(message, tag = "5")]
    List(List),
}

#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub(super) struct List {
    #[prost(message, repeated, tag = "1")]
    pub(super) values: Vec<AnyValue>,
}

impl From<&str> for AnyValue {
    fn from(text: &str) -> Self {
        Self { value: Some(Value::Text(text.to_owned())) }
    }
}

impl From<u32> for AnyValue {
    fn from(number: u32) -> Self {
        Self { value: Some(Value::Number(number.into())) }
    }
}

impl From<bool> for AnyValue {
    fn from(flag: bool) -> Self {
        Self { value: Some(Value::Flag(flag)) }
    }
}

impl From<&[String]> for AnyValue {
    fn from(texts: &[String]) -> Self {
        let values = texts.iter().map(|text| text.as_str().into()).collect();
        Self { value: Some(Value::List(List { values })) }
    }
}

/// What was recorded.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub(super) attributes: Vec<KeyValue>,
}

/// Who writes the profiles.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Scope {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) version: String,
    #[prost(message, repeated, tag = "3")]
    pub(super) attributes: Vec<KeyValue>,
}
