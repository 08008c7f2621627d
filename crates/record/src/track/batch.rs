//! A batch: the rows that go to the writer together. Definitions of ids come before the rows that refer to them.

use icecore_format::records::{
    CgroupsV1, CountersV1, CpuTimesV1, FieldsV1, ImagePartsV1, ImagesV1, JitV1, KernelSymbolsV1, LifecycleV1,
    LossesV1, MappingsV1, Payload, RatesV1, SamplesV1, SnapshotsV1, StackCodeV1, StackMarksV1, StackNodesV1,
    StackPiecesV1, StacksV1, StringsV1, SymbolsV1, TasksV1, UnwindRulesV1, WaitsV1,
};
use icecore_format::write::Writer;

/// About one second, or one mebibyte, of a recording.
#[derive(Debug, Default)]
pub struct Batch {
    pub(crate) strings: StringsV1,
    pub(crate) tasks: TasksV1,
    pub(crate) lifecycle: LifecycleV1,
    pub(crate) cgroups: CgroupsV1,
    pub(crate) images: ImagesV1,
    pub(crate) mappings: MappingsV1,
    pub(crate) stacks: StacksV1,
    pub(crate) stack_marks: StackMarksV1,
    pub(crate) kernel_symbols: KernelSymbolsV1,
    pub(crate) losses: LossesV1,
    pub(crate) rates: RatesV1,
    pub(crate) cpu_times: CpuTimesV1,
    pub(crate) counters: CountersV1,
    pub(crate) stack_code: StackCodeV1,
    pub(crate) stack_pieces: StackPiecesV1,
    pub(crate) stack_nodes: StackNodesV1,
    pub(crate) snapshots: SnapshotsV1,
    pub(crate) samples: SamplesV1,
    pub(crate) waits: WaitsV1,
    pub(crate) fields: FieldsV1,
    pub(crate) symbols: SymbolsV1,
    pub(crate) unwind_rules: UnwindRulesV1,
    /// Written after all samples, when nothing waits for the writer, and when a full disk loses nothing else.
    pub(crate) image_parts: ImagePartsV1,
    pub(crate) jit: JitV1,
}

impl Batch {
    /// Appends the columns that are not empty. After a crash a batch may end between any two blocks, so no
    /// block refers to a later one.
    pub(crate) fn append_to(&self, writer: &mut Writer) -> Result<(), icecore_format::Error> {
        append(writer, &self.strings)?;
        append(writer, &self.tasks)?;
        append(writer, &self.lifecycle)?;
        append(writer, &self.cgroups)?;
        append(writer, &self.images)?;
        append(writer, &self.mappings)?;
        append(writer, &self.stacks)?;
        append(writer, &self.stack_marks)?;
        append(writer, &self.kernel_symbols)?;
        append(writer, &self.losses)?;
        append(writer, &self.rates)?;
        append(writer, &self.cpu_times)?;
        append(writer, &self.counters)?;
        append(writer, &self.stack_code)?;
        append(writer, &self.stack_pieces)?;
        append(writer, &self.stack_nodes)?;
        append(writer, &self.snapshots)?;
        append(writer, &self.samples)?;
        append(writer, &self.waits)?;
        append(writer, &self.fields)?;
        append(writer, &self.symbols)?;
        append(writer, &self.unwind_rules)?;
        append(writer, &self.jit)?;
        append(writer, &self.image_parts)
    }
}

fn append<P: Payload>(writer: &mut Writer, payload: &P) -> Result<(), icecore_format::Error> {
    if payload.items() > 0 {
        writer.append(payload)?;
    }
    Ok(())
}
