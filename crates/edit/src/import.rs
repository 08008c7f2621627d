//! `import`: makes a recording from a file of `perf record`, or from a profile of another tool.
//!
//! ```text
//! perf.data ─► perf_data ─┬─► world: tasks, mappings, images ─► Spaces
//!                         └─► samples ─► stacks, snapshots ───────┴─► write
//! ```
//!
//! | room | what lives there |
//! |---|---|
//! | `perf_data` | parses the file, without trust |
//! | `requested` | whom perf was asked to sample |
//! | `world` | tasks, images and mappings as rows, and their address spaces |
//! | `samples` | samples as rows, in the order of time |
//! | `snapshots`, `registers` | the contents of registers and stacks |
//! | `code` | addresses of processes as code of images |
//! | `here` | files that are unchanged on this machine |
//! | `jit` | names of JIT code, from perf maps on this machine |
//! | `kernel` | names of the kernel's functions, if this machine runs the recorded kernel |
//! | `switches` | switches of threads as waits |
//! | `ids` | ids for rows that repeat |
//! | `write` | writes rows as blocks |
//! | `named` | profiles of other tools, which have names |
//!
//! An imported recording holds the contents of the file, and nothing of this machine except for what `here`, `jit` and `kernel` can
//! prove.

mod code;
mod here;
mod ids;
mod jit;
mod kernel;
mod named;
mod perf_data;
mod registers;
mod requested;
mod samples;
mod snapshots;
mod switches;
mod world;
mod write;

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use icecore_format::write::Writer;
use serde::Serialize;

use crate::Error;
use icecore_profile::recording::damage::DamageRow;
use icecore_profile::watch::Watch;
use icecore_symbolize::image::Door;
use jit::RecordedAt;
use perf_data::{Attr, PerfData};
use samples::{Counts, MAX_EVENTS, Samples};
use switches::Switches;
use world::World;

/// What was imported.
#[derive(Debug, Default, Serialize)]
pub struct Imported {
    /// The name of the file's format.
    pub format: &'static str,
    /// Version of perf; empty if unknown.
    pub perf: String,
    /// The name of the host; empty if unknown.
    pub host: String,
    /// Names of the events.
    pub events: Vec<String>,
    /// Samples that were written.
    pub samples: u64,
    /// Records that perf lost, most of them samples.
    pub lost: u64,
    /// Samples with registers and stack.
    pub snapshots: u64,
    /// What a recording cannot hold.
    pub not_imported: Vec<NotImported>,
    /// What could not be read.
    pub damage: Vec<DamageRow>,
}

impl Imported {
    /// Names the program that recorded.
    pub fn recorder(&self) -> &'static str {
        if self.format == "perf.data" { "perf" } else { self.format }
    }
}

/// Records of a type that a recording cannot hold.
#[derive(Debug, Serialize)]
pub struct NotImported {
    /// Their type.
    pub what: &'static str,
    /// How many there are.
    pub count: u64,
}

/// What another tool wrote, and what the user has of its machine.
#[derive(Debug)]
pub struct Input {
    /// The file of another tool.
    pub file: File,
    /// Of `perf record --threads`: the files of its threads, which have records and no header.
    pub parts: Vec<File>,
    /// A copy of the machine's `/proc/kallsyms`, or a folder that `perf archive` packed.
    pub kallsyms: Option<PathBuf>,
}

/// What the files of `perf record` begin with, on little-endian and on big-endian machines.
const PERF_DATA: [&[u8; 8]; 2] = [b"PERFILE2", b"2ELIFREP"];

/// Returns true if a file with these first bytes may be one that is imported, so that it is worth reading on.
pub fn begins(head: &[u8]) -> bool {
    PERF_DATA.iter().any(|magic| head.starts_with(&magic[..])) || named::begins(head)
}

/// Writes the samples of a file of another tool, which its content identifies; `door` leads to the files of this machine that it names.
///
/// # Errors
/// If the file has none of the formats, its records do not identify their events, or the output cannot be written.
pub fn import(input: Input, writer: &mut Writer, door: &Door, watch: &dyn Watch) -> Result<Imported, Error> {
    let Input { mut file, parts, kallsyms } = input;
    let changed_unix_ns = parts.iter().map(changed).fold(changed(&file), u64::max);
    let mut head = Vec::new();
    file.rewind()?;
    file.by_ref().take(8).read_to_end(&mut head)?;
    if !PERF_DATA.iter().any(|magic| head == **magic) {
        return named::import(&file, writer, changed_unix_ns, watch);
    }
    file.rewind()?;
    let data = PerfData::read(file, parts)?;
    let mut world = World::of(&data);
    let mut session = write::session(&data, &world, changed_unix_ns);
    let times = kernel::Times { last_ns: world.span_ns.1, changed_unix_ns };
    let functions =
        kernel::KernelFunctions::of(&data.features, world.kernel.as_ref(), times, kallsyms.as_deref())?;
    if session.kernel {
        session.notes.push(functions.note.clone());
    }
    let written = here::Written::new((session.start_unix_ns, session.start_ns), changed_unix_ns);
    here::identify(&mut world.images, &world.strings, written, door);
    let switches = Switches::new(&data, &mut session, !world.losses.is_empty(), MAX_EVENTS);
    ids::append(writer, &session)?;
    write::world(writer, &world)?;
    watch.begin("importing samples", data.samples.len() as u64);
    let when = RecordedAt {
        host: &data.features.host,
        began: session.start_unix_ns,
        ended: if changed_unix_ns > 0 { changed_unix_ns } else { session.start_unix_ns },
    };
    let counts =
        Samples::new(&data, &world, &functions, switches).write(writer, when, door, &|done| watch.tick(done));
    watch.end();
    let counts = counts?;
    write::end(writer, &world, &counts)?;
    Ok(Imported {
        format: "perf.data",
        perf: data.features.perf_version.clone(),
        host: data.features.host.clone(),
        events: data.events().map(Attr::name).collect(),
        samples: counts.samples,
        lost: world.losses.iter().fold(0, |sum, loss| loss.count.saturating_add(sum)),
        snapshots: counts.snapshots,
        not_imported: not_imported(&data, &counts),
        damage: DamageRow::list(&data.damage),
    })
}

/// Returns when a file was last changed, ns since 1970-01-01 UTC; 0 if unknown.
fn changed(file: &File) -> u64 {
    let modified = file.metadata().and_then(|metadata| metadata.modified()).ok();
    let since = modified.and_then(|modified| modified.duration_since(UNIX_EPOCH).ok());
    since.and_then(|since| u64::try_from(since.as_nanos()).ok()).unwrap_or(0)
}

fn not_imported(data: &PerfData, counts: &Counts) -> Vec<NotImported> {
    let of_samples = [
        ("sample_too_short", counts.too_short),
        ("sample_of_guest", counts.guest),
        ("registers_of_32_bits", counts.narrow),
        ("user_stack_of_sample", counts.unfinished),
        ("branch_stack", counts.branches),
    ];
    let records = data.not_imported.iter().map(|(what, count)| (*what, *count));
    let all = records.chain(of_samples).filter(|(_, count)| *count > 0);
    all.map(|(what, count)| NotImported { what, count }).collect()
}

#[cfg(test)]
mod tests;
