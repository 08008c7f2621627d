//! `import`: makes a recording from a file of `perf record`.
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
//! | `ids` | ids for rows that repeat |
//! | `write` | writes rows as blocks |
//!
//! An imported recording holds the contents of the file, and nothing of this machine except for what `here`, `jit` and `kernel` can
//! prove.

mod code;
mod here;
mod ids;
mod jit;
mod kernel;
mod perf_data;
mod registers;
mod requested;
mod samples;
mod snapshots;
mod world;
mod write;

use std::fs::File;
use std::path::Path;
use std::time::UNIX_EPOCH;

use anyhow::Context as _;
use serde::Serialize;

use crate::cli;
use crate::input;
use crate::views::DamageRow;
use icecore_profile::watch::Watch;
use icecore_text::path::shown;
use icecore_text::quantity::{bytes, count, things};
use icecore_text::{Page, Style};
use jit::RecordedAt;
use perf_data::{Attr, PerfData};
use samples::{Counts, Samples};
use world::World;

/// The result, for people and `--json`.
#[derive(Debug, Serialize)]
pub struct Imported {
    schema: &'static str,
    file: String,
    file_bytes: u64,
    /// Version of perf; empty if unknown.
    perf: String,
    host: String,
    events: Vec<String>,
    samples: u64,
    /// Records that perf lost, most of them samples.
    lost: u64,
    /// Samples with registers and stack.
    snapshots: u64,
    not_imported: Vec<NotImported>,
    damage: Vec<DamageRow>,
}

/// Records of a type that a recording cannot hold.
#[derive(Debug, Serialize)]
struct NotImported {
    what: &'static str,
    count: u64,
}

/// Imports the file of a command line.
///
/// # Errors
/// If the file cannot be opened or is no perf.data file, or the output cannot be written.
pub fn import(options: &cli::Import, watch: &dyn Watch) -> anyhow::Result<Imported> {
    let cannot = || format!("cannot import `{}`", options.file.display());
    let file = input::open_perf_data(&options.file).with_context(cannot)?;
    let changed_unix_ns = changed(&file);
    let data = PerfData::read(file).with_context(cannot)?;
    let mut world = World::of(&data);
    let mut session = write::session(&data, &world, changed_unix_ns);
    let times = kernel::Times { last_ns: world.span_ns.1, changed_unix_ns };
    let functions = kernel::KernelFunctions::of(&data.features, world.kernel.as_ref(), times);
    if session.kernel {
        session.notes.push(functions.note.clone());
    }
    here::identify(&mut world.images, &world.strings, session.start_unix_ns);
    let (counts, file_bytes) = super::write(&options.output, &[&options.file], |writer| {
        ids::append(writer, &session)?;
        write::world(writer, &world)?;
        watch.begin("importing samples", data.samples.len() as u64);
        let when = RecordedAt {
            host: &data.features.host,
            began: session.start_unix_ns,
            ended: if changed_unix_ns > 0 { changed_unix_ns } else { session.start_unix_ns },
        };
        let counts = Samples::new(&data, &world, &functions).write(writer, when, &|done| watch.tick(done));
        watch.end();
        let counts = counts.with_context(cannot)?;
        write::end(writer, &world, &counts)?;
        Ok(counts)
    })?;
    Ok(Imported {
        schema: "icecore.import/1",
        file: options.output.output.display().to_string(),
        file_bytes,
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
    ];
    let records = data.not_imported.iter().map(|(what, count)| (*what, *count));
    let all = records.chain(of_samples).filter(|(_, count)| *count > 0);
    all.map(|(what, count)| NotImported { what, count }).collect()
}

impl Imported {
    /// Describes the result for people.
    pub fn text(&self, page: &mut Page) {
        let file = shown(Path::new(&self.file));
        let with = match self.snapshots {
            0 => String::new(),
            snapshots => format!(", {} with registers and stack", count(snapshots)),
        };
        let samples = things(self.samples, "sample");
        page.line(&format!("wrote {file} ({}): {samples}{with}", bytes(self.file_bytes)));
        if self.lost > 0 {
            let text = format!("perf has lost {}", things(self.lost, "record"));
            page.styled(Style::Warn, &text);
        }
        if !self.not_imported.is_empty() {
            let row = |row: &NotImported| format!("{} {}", count(row.count), row.what);
            let rows: Vec<String> = self.not_imported.iter().map(row).collect();
            page.styled(Style::Dim, &format!("not imported: {}", rows.join(", ")));
        }
        for damage in &self.damage {
            page.styled(Style::Bad, &format!("at byte {}: {}", damage.offset, damage.cause));
        }
    }
}

#[cfg(test)]
mod tests;
