//! What import reads of the document.
//!
//! # Source   the types of the Firefox Profiler: `profile.ts`, and `processed-profile-versioning.ts` for older versions

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::MS;
use crate::Error;

/// A number of JSON.
pub(super) type Number = f64;

/// A column, whose rows may be empty.
type Column = Vec<Option<Number>>;

#[derive(Debug, Deserialize)]
pub(super) struct Document {
    pub(super) meta: Meta,
    #[serde(default)]
    pub(super) libs: Vec<Lib>,
    pub(super) threads: Vec<TracedThread>,
    pub(super) shared: Option<Tables>,
    #[serde(default)]
    pub(super) counters: Vec<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Meta {
    pub(super) preprocessed_profile_version: Option<Number>,
    pub(super) start_time: Option<Number>,
    product: Option<String>,
    pub(super) imported_from: Option<String>,
    #[serde(default)]
    pub(super) categories: Vec<Category>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Category {
    pub(super) name: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Lib {
    pub(super) path: Option<String>,
}

/// The tables of all threads, or of one.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Tables {
    pub(super) stack_table: StackTable,
    pub(super) frame_table: FrameTable,
    pub(super) func_table: FuncTable,
    pub(super) resource_table: ResourceTable,
    pub(super) sources: Sources,
    pub(super) libs: Vec<Lib>,
    #[serde(alias = "stringTable")]
    pub(super) string_array: Strings,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct StackTable {
    pub(super) frame: Vec<u32>,
    prefix: Vec<Option<u32>>,
    prefix_offset: Vec<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct FrameTable {
    pub(super) func: Vec<u32>,
    pub(super) line: Column,
    pub(super) category: Column,
    pub(super) inline_depth: Column,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct FuncTable {
    pub(super) name: Vec<u32>,
    pub(super) resource: Column,
    pub(super) source: Column,
    pub(super) file_name: Column,
    pub(super) line_number: Column,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ResourceTable {
    pub(super) lib: Column,
    pub(super) name: Vec<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Sources {
    pub(super) filename: Vec<u32>,
}

/// A table of texts.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Strings(pub(super) Vec<Box<str>>);

/// A thread as it is written: beside its tables, if it has its own.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ThreadFields {
    name: Option<String>,
    process_name: Option<String>,
    pid: Id,
    tid: Id,
    samples: Samples,
    markers: Markers,
    js_allocations: Option<Samples>,
    native_allocations: Option<Samples>,
    stack_table: StackTable,
    frame_table: FrameTable,
    func_table: FuncTable,
    resource_table: ResourceTable,
    sources: Sources,
    libs: Vec<Lib>,
    #[serde(alias = "stringTable")]
    string_array: Strings,
}

#[derive(Debug, Deserialize)]
#[serde(from = "ThreadFields")]
pub(super) struct TracedThread {
    pub(super) name: Option<String>,
    pub(super) process_name: Option<String>,
    pub(super) pid: Id,
    tid: Id,
    pub(super) samples: Samples,
    pub(super) markers: Markers,
    pub(super) js_allocations: Option<Samples>,
    pub(super) native_allocations: Option<Samples>,
    pub(super) tables: Tables,
}

impl From<ThreadFields> for TracedThread {
    // serde's own `flatten` would keep all columns twice.
    fn from(it: ThreadFields) -> Self {
        Self {
            name: it.name,
            process_name: it.process_name,
            pid: it.pid,
            tid: it.tid,
            samples: it.samples,
            markers: it.markers,
            js_allocations: it.js_allocations,
            native_allocations: it.native_allocations,
            tables: Tables {
                stack_table: it.stack_table,
                frame_table: it.frame_table,
                func_table: it.func_table,
                resource_table: it.resource_table,
                sources: it.sources,
                libs: it.libs,
                string_array: it.string_array,
            },
        }
    }
}

/// The id of a process or a thread.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Id {
    Number(Number),
    Text(String),
    None(()),
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Samples {
    pub(super) stack: Vec<Option<u32>>,
    time: Option<Column>,
    time_deltas: Option<Column>,
    pub(super) weight: Option<Column>,
    pub(super) weight_type: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Markers {
    name: Vec<IgnoredAny>,
}

impl Default for Id {
    fn default() -> Self {
        Self::None(())
    }
}

impl Id {
    /// Returns the number, of a text that with which it begins; 0 if there is none.
    pub(super) fn number(&self) -> u32 {
        match self {
            Self::Number(number) => *number as u32,
            Self::Text(text) => {
                let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
                text[..digits].parse().unwrap_or(0)
            }
            Self::None(_) => 0,
        }
    }
}

impl TracedThread {
    /// Returns the number of the thread, and the event of the track. Our own export has a track for each event, and says in its id which
    /// it is.
    pub(super) fn track(&self, is_ours: bool) -> (u32, Option<&str>) {
        let event = match &self.tid {
            Id::Text(text) if is_ours => text.split_once(' ').map(|(_, event)| event),
            _ => None,
        };
        (self.tid.number(), event)
    }
}

impl Meta {
    /// Names the program that wrote the profile, if it says so.
    pub(super) fn program(&self) -> Option<&str> {
        self.imported_from.as_deref().or(self.product.as_deref())
    }
}

impl Document {
    /// Returns the earliest time of a sample, ns from the zero of the file; at most 0.
    pub(super) fn first_ns(&self) -> i64 {
        self.threads.iter().flat_map(|thread| thread.samples.times()).min().unwrap_or(0).min(0)
    }
}

impl StackTable {
    /// Returns the row of the caller of a row.
    pub(super) fn prefix(&self, row: usize) -> Result<Option<usize>, Error> {
        let prefix = match (self.prefix_offset.get(row), self.prefix.get(row)) {
            (Some(0), _) | (None, Some(None)) => return Ok(None),
            (Some(back), _) => row.checked_sub(*back as usize),
            (None, Some(Some(prefix))) => Some(*prefix as usize).filter(|prefix| *prefix < row),
            (None, None) => None,
        };
        let error = || Error::input(format!("row {row} of stackTable has no caller above it"));
        prefix.map(Some).ok_or_else(error)
    }
}

impl Samples {
    /// Returns the number of rows.
    pub(super) fn rows(&self) -> u64 {
        self.stack.len() as u64
    }

    /// Lists the times of rows, ns from the zero of the file.
    pub(super) fn times(&self) -> impl Iterator<Item = i64> + '_ {
        let mut sum = 0.0;
        let times = self.time.iter().flatten().map(|time| time.unwrap_or(0.0));
        let deltas = self.time_deltas.iter().flatten().filter(|_| self.time.is_none());
        let deltas = deltas.map(move |delta| {
            sum += delta.unwrap_or(0.0);
            sum
        });
        times.chain(deltas).map(|ms| (ms * MS).round() as i64)
    }
}

impl Markers {
    /// Returns the number of rows.
    pub(super) fn rows(&self) -> u64 {
        self.name.len() as u64
    }
}
