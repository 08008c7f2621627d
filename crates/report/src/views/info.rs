//! `info`: the contents of the file.

mod sizes;
mod sources;
mod text;

use std::path::Path;

use icecore_format::block::Codec;
use icecore_format::block::Kind;
use icecore_format::read::Recording;
use icecore_format::records::{EventV1, Maker, ReceiptV1, SessionV1, TargetKind};
use serde::Serialize;

use super::left_out::LeftOutRow;
use super::rates::RateRow;
use super::triggers::TriggerRow;
use icecore_profile::recording::damage::DamageRow;
use icecore_profile::recording::events::Meaning;
use icecore_profile::recording::filter::Moment;
use icecore_profile::recording::load::Tables;
use icecore_profile::recording::losses::losses;
use icecore_symbolize::image::Search;
use icecore_text::quantity::ratio;
use sizes::SizeRow;
use sources::SourceRow;

/// The document.
#[derive(Debug, Serialize)]
pub struct Info {
    schema: &'static str,
    file: String,
    file_bytes: u64,
    uuid: String,
    closed: bool,
    /// The only session, or the first.
    session: SessionRow,
    /// All sessions; empty if there is only one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sessions: Vec<EachSession>,
    blocks: Vec<BlockRow>,
    /// What asked for it, if the recorder held it in memory.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    triggers: Vec<TriggerRow>,
    /// The changes of the sampling rate.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rates: Vec<RateRow>,
    receipt: Option<ReceiptRow>,
    lost_by_cause: std::collections::BTreeMap<String, u64>,
    left_out: Vec<LeftOutRow>,
    damage: Vec<DamageRow>,
    unknown: Vec<UnknownRow>,
    samples: u64,
    strings: u64,
    tasks: u64,
    images: u64,
    mappings: u64,
    stack_nodes: u64,
    kernel_symbols: u64,
    symbols: u64,
    image_pieces: u64,
    jit: u64,
    cgroups: u64,
    names: u64,
    source_files: u64,
    code_functions: u64,
    waits: u64,
    fields: u64,
    counters: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    sizes: Option<Vec<SizeRow>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    symbol_sources: Option<Vec<SourceRow>>,
}

/// Where, when and how the recording was made.
#[derive(Debug, Serialize)]
struct SessionRow {
    recorder: String,
    command_line: Vec<String>,
    host: String,
    kernel_release: String,
    kernel_version: String,
    arch: String,
    boot_id: String,
    kernel_build_id: String,
    start_ns: u64,
    start_unix_ns: u64,
    cpus: Vec<u32>,
    page_bytes: u32,
    maker: String,
    target: String,
    target_kind: String,
    target_ids: Vec<u32>,
    target_cgroups: Vec<String>,
    cpu_scope: String,
    events: Vec<EventRow>,
    unwind: String,
    /// 0 if unknown, like the next one.
    max_depth: u32,
    stack_bytes: u32,
    embed: String,
    /// What the recorder would have used, and its kernel or its privileges did not give.
    missing_features: Vec<String>,
    user: bool,
    kernel: bool,
    idle: bool,
    ring_bytes: u64,
    labels: std::collections::BTreeMap<String, String>,
    notes: Vec<String>,
    mount_ns: u64,
    #[serde(skip)]
    by: Maker,
}

/// One session of several.
#[derive(Debug, Serialize)]
struct EachSession {
    #[serde(flatten)]
    session: SessionRow,
    receipt: Option<ReceiptRow>,
    /// The recorder of the session before it went on in this one.
    #[serde(skip)]
    goes_on: bool,
}

/// One sampling event.
#[derive(Debug, Serialize)]
pub(crate) struct EventRow {
    pub(crate) name: String,
    pub(crate) unit: String,
    pub(crate) frequency_hz: u64,
    pub(crate) period: u64,
    /// What a sample stands for.
    pub(crate) meaning: String,
    /// Its samples are waits or their ends. Those that are shorter than the period are samples in proportion to their length.
    #[serde(skip)]
    pub(crate) is_wait: bool,
}

/// The cost of the recording.
#[derive(Debug, Serialize)]
pub(crate) struct ReceiptRow {
    pub(crate) end_ns: u64,
    pub(crate) ended_by: Vec<String>,
    pub(crate) end_reason: String,
    /// Counted from the start of the session, like the next one; `None` if nothing was cut off.
    pub(crate) cut_from_ns: Option<u64>,
    pub(crate) cut_to_ns: Option<u64>,
    /// `None` if all samples were kept.
    pub(crate) kept_samples: Option<u64>,
    pub(crate) exit_code: i32,
    pub(crate) samples: u64,
    pub(crate) lost: u64,
    pub(crate) user_cpu_ns: u64,
    pub(crate) kernel_cpu_ns: u64,
    pub(crate) peak_rss_bytes: u64,
    pub(crate) bpf_runs: u64,
    pub(crate) bpf_ns: u64,
    pub(crate) ring_high_water_bytes: u64,
    pub(crate) file_bytes: u64,
    /// CPU time divided by wall time: 1 is one CPU.
    pub(crate) cpu_share: Option<f64>,
    pub(crate) cpu_ns_per_sample: Option<f64>,
    pub(crate) bpf_ns_per_run: Option<f64>,
    /// CPU time of the BPF programs divided by wall time: 1 is one CPU.
    pub(crate) bpf_share: Option<f64>,
}

/// One block.
#[derive(Debug, Serialize)]
struct BlockRow {
    kind: String,
    version: u16,
    codec: &'static str,
    offset: u64,
    stored_len: u32,
    raw_len: u32,
    count: u32,
    first_ns: u64,
    last_ns: u64,
}

/// Blocks of kinds that this version does not know.
#[derive(Debug, Serialize)]
pub(super) struct UnknownRow {
    pub(super) kind: String,
    pub(super) version: u16,
    pub(super) blocks: u64,
    stored_bytes: u64,
}

impl EventRow {
    pub(crate) fn list(events: &[EventV1]) -> Vec<Self> {
        let row = |event: &EventV1| Self {
            is_wait: Meaning::of(event).is_of_waiting(),
            name: event.name.clone(),
            unit: event.unit.clone(),
            frequency_hz: event.frequency_hz,
            period: event.period,
            meaning: event.meaning.name(),
        };
        events.iter().map(row).collect()
    }
}

impl ReceiptRow {
    /// Returns true if the recorder wrote it: a repair knows no cost.
    pub(crate) fn is_known(&self) -> bool {
        self.peak_rss_bytes > 0
    }

    pub(crate) fn new(receipt: &ReceiptV1, start_ns: u64) -> Self {
        let some = |part: u64, whole: u64| (whole > 0).then(|| ratio(part as f64, whole as f64));
        let cpu_ns = receipt.user_cpu_ns.saturating_add(receipt.kernel_cpu_ns);
        Self {
            end_ns: receipt.end_ns,
            ended_by: ended_by(receipt),
            end_reason: receipt.end_reason.name(),
            cut_from_ns: receipt.cut_from_ns,
            cut_to_ns: receipt.cut_to_ns,
            kept_samples: receipt.kept_samples,
            exit_code: receipt.exit_code,
            samples: receipt.samples,
            lost: receipt.lost,
            user_cpu_ns: receipt.user_cpu_ns,
            kernel_cpu_ns: receipt.kernel_cpu_ns,
            peak_rss_bytes: receipt.peak_rss_bytes,
            bpf_runs: receipt.bpf_runs,
            bpf_ns: receipt.bpf_ns,
            ring_high_water_bytes: receipt.ring_high_water_bytes,
            file_bytes: receipt.file_bytes,
            cpu_share: some(cpu_ns, receipt.end_ns.saturating_sub(start_ns)),
            cpu_ns_per_sample: some(cpu_ns, receipt.samples),
            bpf_ns_per_run: some(receipt.bpf_ns, receipt.bpf_runs),
            bpf_share: some(receipt.bpf_ns, receipt.end_ns.saturating_sub(start_ns))
                .filter(|_| receipt.bpf_runs > 0),
        }
    }
}

impl Info {
    /// Lists what is in a recording, by its [`outline`](icecore_profile::recording::load::outline): payloads are not checked.
    pub fn new(path: &Path, recording: &Recording, tables: &Tables) -> Self {
        let items = |kind: Kind| {
            let blocks = recording.entries().iter().filter(|entry| entry.header.kind == kind);
            blocks.map(|entry| u64::from(entry.header.items)).sum()
        };
        Self {
            schema: "icecore.info/1",
            file: path.display().to_string(),
            file_bytes: recording.len_bytes(),
            uuid: hex(&recording.header().uuid),
            closed: recording.is_closed(),
            session: SessionRow::new(&tables.session),
            sessions: if tables.parts.len() > 1 { EachSession::list(tables) } else { Vec::new() },
            blocks: blocks(recording),
            triggers: TriggerRow::list(tables),
            rates: RateRow::list(tables),
            receipt: tables.receipt.as_ref().map(|r| ReceiptRow::new(r, tables.session.start_ns)),
            lost_by_cause: losses(tables),
            left_out: LeftOutRow::list(tables),
            damage: DamageRow::list(&tables.damage),
            unknown: tables.skipped.iter().map(UnknownRow::new).collect(),
            samples: tables.sample_blocks.iter().map(|block| u64::from(block.header.items)).sum(),
            strings: items(Kind::STRINGS),
            tasks: items(Kind::TASKS),
            images: items(Kind::IMAGES),
            mappings: items(Kind::MAPPINGS),
            stack_nodes: items(Kind::STACKS),
            kernel_symbols: items(Kind::KERNEL_SYMBOLS),
            symbols: items(Kind::SYMBOLS),
            image_pieces: items(Kind::IMAGE_PARTS),
            jit: items(Kind::JIT),
            cgroups: items(Kind::CGROUPS),
            names: items(Kind::NAMES),
            source_files: items(Kind::SOURCES),
            code_functions: items(Kind::CODE),
            waits: items(Kind::WAITS),
            fields: items(Kind::FIELDS),
            counters: items(Kind::COUNTERS),
            sizes: None,
            symbol_sources: None,
        }
    }

    /// Adds the sources of the names of each image.
    pub fn with_symbol_sources(self, recording: &Recording, search: &Search) -> Self {
        Self { symbol_sources: Some(SourceRow::list(recording, search)), ..self }
    }

    /// Adds the bytes of the file by kind and column.
    ///
    /// # Errors
    /// If there is no memory for compression.
    pub fn with_sizes(self, recording: &Recording) -> Result<Self, icecore_format::Error> {
        Ok(Self { sizes: Some(SizeRow::list(recording)?), ..self })
    }
}

impl EachSession {
    fn list(tables: &Tables) -> Vec<Self> {
        let parts = tables.parts.iter();
        let before = std::iter::once(None).chain(parts.clone().map(Some));
        let each = parts.zip(before).map(|(part, before)| Self {
            session: SessionRow::new(&part.session),
            receipt: part.receipt.as_ref().map(|receipt| ReceiptRow::new(receipt, part.session.start_ns)),
            goes_on: before.is_some_and(|before| before.goes_on_in(part)),
        });
        each.collect()
    }
}

impl SessionRow {
    fn new(session: &SessionV1) -> Self {
        Self {
            recorder: session.recorder.clone(),
            command_line: session.command_line.clone(),
            host: session.host.clone(),
            kernel_release: session.kernel_release.clone(),
            kernel_version: session.kernel_version.clone(),
            arch: session.arch.clone(),
            boot_id: session.boot_id.clone(),
            kernel_build_id: hex(&session.kernel_build_id),
            start_ns: session.start_ns,
            start_unix_ns: session.start_unix_ns,
            cpus: session.cpus.clone(),
            page_bytes: session.page_bytes,
            maker: session.maker.name(),
            target: target(session),
            target_kind: session.target.name(),
            target_ids: session.target_ids.clone(),
            target_cgroups: session.target_cgroups.clone(),
            cpu_scope: session.cpu_scope.name(),
            events: EventRow::list(&session.events),
            unwind: session.unwind.name(),
            max_depth: session.max_depth,
            stack_bytes: session.stack_bytes,
            embed: session.embed.name(),
            missing_features: session.missing_features.iter().map(|feature| feature.name()).collect(),
            user: session.user,
            kernel: session.kernel,
            idle: session.idle,
            ring_bytes: session.ring_bytes,
            labels: session.labels.iter().map(|l| (l.key.clone(), l.value.clone())).collect(),
            notes: session.notes.clone(),
            mount_ns: session.mount_ns,
            by: session.maker,
        }
    }
}

/// Describes whom a session sampled, for people: `processes 1,2`; empty if unknown.
pub(crate) fn target(session: &SessionV1) -> String {
    let ids = session.target_ids.iter().map(u32::to_string);
    let of = ids.chain(session.target_cgroups.iter().cloned()).collect::<Vec<_>>().join(",");
    match session.target {
        TargetKind::UNKNOWN => String::new(),
        kind if of.is_empty() => kind.name(),
        kind => format!("{} {of}", kind.name()),
    }
}

/// Lists why a session ended, and what was cut off since, for people.
fn ended_by(receipt: &ReceiptV1) -> Vec<String> {
    let moment = |ns: u64| Moment { ns };
    let cuts = [
        receipt.cut_from_ns.map(|ns| format!("cut --from {}", moment(ns))),
        receipt.cut_to_ns.map(|ns| format!("cut --to {}", moment(ns))),
        receipt.kept_samples.map(|samples| format!("samples kept: {samples}")),
    ];
    std::iter::once(receipt.end_reason.name()).chain(cuts.into_iter().flatten()).collect()
}

impl UnknownRow {
    pub(super) fn new(skipped: &icecore_profile::recording::load::Skipped) -> Self {
        Self {
            kind: skipped.kind.name(),
            version: skipped.version,
            blocks: skipped.blocks,
            stored_bytes: skipped.stored_bytes,
        }
    }
}

fn blocks(recording: &Recording) -> Vec<BlockRow> {
    let row = |entry: &icecore_format::index::Entry| BlockRow {
        kind: entry.header.kind.name(),
        version: entry.header.version,
        codec: match entry.header.codec {
            Codec::Raw => "raw",
            Codec::Zstd => "zstd",
        },
        offset: entry.off,
        stored_len: entry.header.stored_len,
        raw_len: entry.header.raw_len,
        count: entry.header.items,
        first_ns: entry.header.first_ns,
        last_ns: entry.header.last_ns,
    };
    recording.entries().iter().map(row).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
