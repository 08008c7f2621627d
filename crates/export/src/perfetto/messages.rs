//! The messages of a trace: those fields that are written. Numbers that may be 0 are optional, because a 0 says something.
//!
//! # Source   protos/perfetto/trace/ of google/perfetto v58

use prost::{Message, Oneof};

/// The field of the trace that packets are.
pub(super) const PACKET: u32 = 1;

/// A packet: one thing that the trace says.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Packet {
    #[prost(message, optional, tag = "6")]
    pub(super) clock_snapshot: Option<ClockSnapshot>,
    #[prost(uint64, optional, tag = "8")]
    pub(super) timestamp: Option<u64>,
    /// Interned data and defaults are those of a sequence.
    #[prost(uint32, tag = "10")]
    pub(super) sequence: u32,
    #[prost(message, optional, tag = "11")]
    pub(super) track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "12")]
    pub(super) interned_data: Option<InternedData>,
    #[prost(uint32, tag = "13")]
    pub(super) sequence_flags: u32,
    #[prost(message, optional, tag = "45")]
    pub(super) system_info: Option<SystemInfo>,
    #[prost(message, optional, tag = "59")]
    pub(super) defaults: Option<Defaults>,
    #[prost(message, optional, tag = "60")]
    pub(super) track_descriptor: Option<TrackDescriptor>,
    #[prost(message, optional, tag = "89")]
    pub(super) trace_uuid: Option<TraceUuid>,
    /// Absent for the first machine.
    #[prost(uint32, optional, tag = "98")]
    pub(super) machine: Option<u32>,
    #[prost(message, optional, tag = "135")]
    pub(super) stack_sample: Option<StackSample>,
}

/// What holds for all later packets of a sequence.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Defaults {
    #[prost(uint32, tag = "58")]
    pub(super) timestamp_clock: u32,
    #[prost(message, optional, tag = "100")]
    pub(super) stack_sample: Option<StackSampleDefaults>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct StackSampleDefaults {
    #[prost(string, tag = "1")]
    pub(super) source: String,
    #[prost(message, optional, tag = "2")]
    pub(super) primary: Option<SampleCounter>,
}

/// What weights of samples are.
#[derive(Clone, PartialEq, Message)]
pub(super) struct SampleCounter {
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(oneof = "SampleUnit", tags = "3, 4")]
    pub(super) unit: Option<SampleUnit>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum SampleUnit {
    #[prost(int32, tag = "3")]
    Known(i32),
    #[prost(string, tag = "4")]
    Text(String),
}

/// A sample. All but its weight refers to interned data.
#[derive(Clone, PartialEq, Message)]
pub(super) struct StackSample {
    #[prost(uint64, tag = "2")]
    pub(super) task: u64,
    #[prost(uint64, tag = "4")]
    pub(super) execution: u64,
    #[prost(uint64, tag = "6")]
    pub(super) callstack: u64,
    #[prost(string, tag = "7")]
    pub(super) unwind_error: String,
    #[prost(uint64, optional, tag = "11")]
    pub(super) weight: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TaskContext {
    #[prost(uint64, tag = "1")]
    pub(super) iid: u64,
    #[prost(uint32, optional, tag = "2")]
    pub(super) pid: Option<u32>,
    #[prost(uint32, optional, tag = "3")]
    pub(super) tid: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ExecutionContext {
    #[prost(uint64, tag = "1")]
    pub(super) iid: u64,
    #[prost(uint32, optional, tag = "2")]
    pub(super) cpu: Option<u32>,
    #[prost(int32, tag = "3")]
    pub(super) mode: i32,
}

/// What later packets refer to. Each list has its own numbers, from 1.
#[derive(Clone, PartialEq, Message)]
pub(super) struct InternedData {
    #[prost(message, repeated, tag = "5")]
    pub(super) function_names: Vec<InternedString>,
    #[prost(message, repeated, tag = "6")]
    pub(super) frames: Vec<Frame>,
    #[prost(message, repeated, tag = "7")]
    pub(super) callstacks: Vec<Callstack>,
    /// The bytes of build-ids.
    #[prost(message, repeated, tag = "16")]
    pub(super) build_ids: Vec<InternedString>,
    #[prost(message, repeated, tag = "17")]
    pub(super) mapping_paths: Vec<InternedString>,
    #[prost(message, repeated, tag = "18")]
    pub(super) source_paths: Vec<InternedString>,
    #[prost(message, repeated, tag = "19")]
    pub(super) mappings: Vec<Mapping>,
    #[prost(message, repeated, tag = "48")]
    pub(super) tasks: Vec<TaskContext>,
    #[prost(message, repeated, tag = "49")]
    pub(super) executions: Vec<ExecutionContext>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct InternedString {
    #[prost(uint64, tag = "1")]
    pub(super) iid: u64,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) bytes: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Callstack {
    #[prost(uint64, tag = "1")]
    pub(super) iid: u64,
    /// Outermost first.
    #[prost(uint64, repeated, packed = "false", tag = "2")]
    pub(super) frames: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Frame {
    #[prost(uint64, tag = "1")]
    pub(super) iid: u64,
    #[prost(uint64, tag = "2")]
    pub(super) function_name: u64,
    #[prost(uint64, tag = "3")]
    pub(super) mapping: u64,
    /// Has a value if there is a mapping.
    #[prost(uint64, optional, tag = "4")]
    pub(super) rel_pc: Option<u64>,
    #[prost(uint64, tag = "5")]
    pub(super) source_path: u64,
    #[prost(uint32, tag = "6")]
    pub(super) line: u32,
    #[prost(oneof = "FrameKind", tags = "7, 8")]
    pub(super) kind: Option<FrameKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum FrameKind {
    #[prost(int32, tag = "7")]
    Known(i32),
    #[prost(string, tag = "8")]
    Text(String),
}

/// A file of code.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Mapping {
    #[prost(uint64, tag = "1")]
    pub(super) iid: u64,
    #[prost(uint64, tag = "2")]
    pub(super) build_id: u64,
    #[prost(uint64, tag = "5")]
    pub(super) end: u64,
    #[prost(uint64, repeated, packed = "false", tag = "7")]
    pub(super) path: Vec<u64>,
}

/// A track: a thread, a process, a counter, or a group of these.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackDescriptor {
    #[prost(uint64, tag = "1")]
    pub(super) uuid: u64,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(message, optional, tag = "3")]
    pub(super) process: Option<ProcessDescriptor>,
    #[prost(message, optional, tag = "4")]
    pub(super) thread: Option<ThreadDescriptor>,
    #[prost(uint64, tag = "5")]
    pub(super) parent: u64,
    #[prost(message, optional, tag = "8")]
    pub(super) counter: Option<CounterDescriptor>,
    #[prost(string, tag = "14")]
    pub(super) description: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProcessDescriptor {
    #[prost(int32, optional, tag = "1")]
    pub(super) pid: Option<i32>,
    #[prost(string, tag = "6")]
    pub(super) name: String,
    #[prost(string, repeated, tag = "8")]
    pub(super) labels: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ThreadDescriptor {
    #[prost(int32, optional, tag = "1")]
    pub(super) pid: Option<i32>,
    #[prost(int64, optional, tag = "2")]
    pub(super) tid: Option<i64>,
    #[prost(string, tag = "5")]
    pub(super) name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CounterDescriptor {
    #[prost(int32, tag = "3")]
    pub(super) unit: i32,
}

/// What happens on a track.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    pub(super) annotations: Vec<Annotation>,
    #[prost(int32, tag = "9")]
    pub(super) r#type: i32,
    #[prost(uint64, tag = "11")]
    pub(super) track: u64,
    #[prost(string, repeated, tag = "22")]
    pub(super) categories: Vec<String>,
    #[prost(string, tag = "23")]
    pub(super) name: String,
    #[prost(int64, optional, tag = "30")]
    pub(super) counter_value: Option<i64>,
}

/// A fact about an event, which viewers list.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Annotation {
    #[prost(string, tag = "10")]
    pub(super) name: String,
    #[prost(message, repeated, tag = "12")]
    pub(super) array: Vec<Self>,
    #[prost(oneof = "AnnotationValue", tags = "3, 6")]
    pub(super) value: Option<AnnotationValue>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum AnnotationValue {
    #[prost(uint64, tag = "3")]
    Number(u64),
    #[prost(string, tag = "6")]
    Text(String),
}

/// What several clocks say at one moment.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    pub(super) clocks: Vec<Clock>,
    #[prost(int32, tag = "2")]
    pub(super) primary: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Clock {
    #[prost(uint32, tag = "1")]
    pub(super) id: u32,
    #[prost(uint64, optional, tag = "2")]
    pub(super) timestamp: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TraceUuid {
    #[prost(int64, tag = "1")]
    pub(super) msb: i64,
    #[prost(int64, tag = "2")]
    pub(super) lsb: i64,
}

/// A machine.
#[derive(Clone, PartialEq, Message)]
pub(super) struct SystemInfo {
    #[prost(message, optional, tag = "1")]
    pub(super) utsname: Option<Utsname>,
    #[prost(string, tag = "17")]
    pub(super) machine_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Utsname {
    #[prost(string, tag = "1")]
    pub(super) sysname: String,
    #[prost(string, tag = "2")]
    pub(super) version: String,
    #[prost(string, tag = "3")]
    pub(super) release: String,
    #[prost(string, tag = "4")]
    pub(super) machine: String,
}
