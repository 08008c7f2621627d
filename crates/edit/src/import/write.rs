//! Writes session and rows as blocks.

use icecore_format::records::{
    EndReason, EventMeaning, EventV1, ImagesV1, LifecycleV1, LossesV1, Maker, MappingsV1, ReceiptV1,
    SessionV1, StringsV1,
};
use icecore_format::write::Writer;

use super::ids::append;
use super::perf_data::{Attr, Features, PerfData};
use super::requested::Requested;
use super::samples::{Counts, MAX_EVENTS};
use super::world::World;
use crate::Error;

/// Rows per block: a few hundred KiB before compression.
const ROWS: usize = 32 << 10;
/// Bytes of text per block.
const TEXT_BYTES: usize = 1 << 20;

/// Describes the session, as far as the file does. `until_unix_ns` is when the file was last changed.
pub(super) fn session(data: &PerfData, world: &World, until_unix_ns: u64) -> SessionV1 {
    let Features {
        host, kernel_release, perf_version, arch, command_line, kernel_build_id, clock_ns, ..
    } = &data.features;
    let (start_ns, end_ns) = world.span_ns;
    let sides = data
        .attrs
        .iter()
        .map(Attr::sides)
        .fold((false, false), |(user, kernel), (u, k)| (user || u, kernel || k));
    let mut notes = vec!["imported from a perf.data file".to_owned()];
    let start_unix_ns = match clock_ns {
        Some((unix_ns, clock_ns)) => unix_ns.wrapping_add(start_ns).wrapping_sub(*clock_ns),
        None => {
            notes.push("the time of day is from the last change of the perf.data file: perf does not tell it without -k".to_owned());
            until_unix_ns.saturating_sub(end_ns - start_ns)
        }
    };
    if data.cpus.is_empty() {
        notes
            .push("perf was not told to note CPUs (-a or --sample-cpu): all samples are of CPU 0".to_owned());
    }
    let Requested { target, target_ids, cpu_scope, cpus } = Requested::of(
        command_line,
        data.cpus.iter().copied().collect(),
        data.attrs.iter().any(Attr::is_of_command),
    );
    SessionV1 {
        recorder: format!("perf {perf_version}").trim_end().to_owned(),
        command_line: command_line.clone(),
        host: host.clone(),
        kernel_release: kernel_release.clone(),
        arch: if arch.is_empty() { "x86_64".to_owned() } else { arch.clone() },
        kernel_build_id: kernel_build_id.clone(),
        start_ns,
        start_unix_ns,
        cpus,
        cpu_scope,
        target,
        target_ids,
        stack_bytes: data.attrs.iter().map(|attr| attr.stack_bytes).max().unwrap_or(0),
        idle: data.has_idle,
        page_bytes: 4096,
        events: events(data),
        maker: Maker::PERF,
        max_depth: data
            .attrs
            .iter()
            .filter(|attr| attr.has_chains())
            .map(Attr::most_frames)
            .max()
            .unwrap_or(1),
        user: sides.0,
        kernel: sides.1,
        notes,
        ..SessionV1::default()
    }
}

fn events(data: &PerfData) -> Vec<EventV1> {
    let event = |attr: &Attr| {
        let (frequency_hz, period) = attr.rate();
        EventV1 { name: attr.name(), unit: attr.unit(), frequency_hz, period, meaning: attr.meaning() }
    };
    let mut events: Vec<EventV1> = data.events().map(event).collect();
    if events.len() > MAX_EVENTS {
        events.truncate(MAX_EVENTS);
        events[MAX_EVENTS - 1] = EventV1 {
            name: "others".into(),
            unit: "events".into(),
            meaning: EventMeaning::OCCURRENCE,
            ..EventV1::default()
        };
    }
    events
}

/// Writes all rows to which samples refer.
pub(super) fn world(writer: &mut Writer, world: &World) -> Result<(), Error> {
    strings(writer, &world.strings)?;
    for (number, rows) in (0..).zip(world.images.chunks(ROWS)) {
        append(writer, &ImagesV1::from_rows(number * ROWS as u32, rows))?;
    }
    world.lifecycle.chunks(ROWS).try_for_each(|rows| append(writer, &LifecycleV1::from_rows(rows)))?;
    world.mappings.chunks(ROWS).try_for_each(|rows| append(writer, &MappingsV1::from_rows(rows)))
}

fn strings(writer: &mut Writer, all: &[Vec<u8>]) -> Result<(), Error> {
    let (mut rest, mut first) = (all, 1);
    while !rest.is_empty() {
        let mut len = 0;
        let fits = |text: &&Vec<u8>| {
            len += text.len();
            len <= TEXT_BYTES
        };
        let count = rest.iter().take(ROWS).take_while(fits).count().max(1);
        let (block, behind) = rest.split_at(count);
        append(writer, &StringsV1::from_rows(first, block))?;
        first += count as u32;
        rest = behind;
    }
    Ok(())
}

/// Writes the losses and the end of the session.
pub(super) fn end(writer: &mut Writer, world: &World, counts: &Counts) -> Result<(), Error> {
    append(writer, &LossesV1::from_rows(&world.losses))?;
    let lost = world.losses.iter().fold(0_u64, |sum, loss| sum.saturating_add(loss.count));
    append(
        writer,
        &ReceiptV1 {
            end_ns: world.span_ns.1,
            end_reason: EndReason::IMPORTED,
            exit_code: -1,
            samples: counts.samples,
            lost,
            file_bytes: writer.len_bytes(),
            ..ReceiptV1::default()
        },
    )
}
