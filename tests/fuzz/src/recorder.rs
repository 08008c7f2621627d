//! What the recorder's parsers promise: each function takes bytes that a hostile kernel, process or file could send, and panics if
//! the parser breaks a promise.

use std::collections::BTreeSet;
use std::mem::offset_of;

use icecore_elf::frame_pointers::frames;
use icecore_elf::{Avma, Layout, static_probes};

use icecore_jit::Piece;
use icecore_jit::{Requested, dump, perf_map};
use icecore_record::collect::{functions, rules_for, sections};
use icecore_record::frame_pointers;
use icecore_record::kernel::wire::{self, Event, Report};
use icecore_record::machine::build_id;
use icecore_record::proc::kallsyms::Kallsyms;
use icecore_record::proc::{cgroup, cpus, maps, scan};
use icecore_record::skeleton::types::{
    cgroup_record, cpu_time_record, page_record, process_record, record_head, record_type, registers_record,
    sample_record, stack_record, task_record, wait_record,
};

/// Decodes a record of the ring; returns true if it is valid.
pub(crate) fn record(bytes: &[u8]) -> bool {
    let decoded = wire::decode(bytes);
    if let Ok(Event::Sample(sample)) = &decoded {
        let frames = sample.kernel.leaf_first().chain(sample.user.leaf_first()).count();
        assert!(frames * 8 <= bytes.len() - size_of::<sample_record>());
        assert!(!sample.head.comm.contains(&0));
    }
    decoded.is_ok()
}

/// Returns seeds: a sample of two kernel frames and a user frame, and one record of each task event.
pub(crate) fn records() -> Vec<Vec<u8>> {
    let mut sample = vec![0; size_of::<sample_record>()];
    sample[offset_of!(sample_record, kernel_len)] = 2;
    sample[offset_of!(sample_record, user_len)] = 1;
    sample.extend([0xffff_ffff_8100_0010_u64, 0xffff_ffff_8100_0020, 0x5000].map(u64::to_ne_bytes).concat());
    let mut wait = vec![0; size_of::<wait_record>() + 8];
    wait[offset_of!(wait_record, kernel_len)] = 1;
    let task = vec![0; size_of::<task_record>()];
    let mut cgroup = vec![0; size_of::<cgroup_record>()];
    cgroup[offset_of!(cgroup_record, path)..][..6].copy_from_slice(b"/slice");
    let records = [
        (record_type::RECORD_SAMPLE, sample.clone()),
        (record_type::RECORD_WAIT, wait),
        (record_type::RECORD_WAIT_STACK, sample),
        (record_type::RECORD_FORK, task.clone()),
        (record_type::RECORD_EXEC, task.clone()),
        (record_type::RECORD_COMM, task.clone()),
        (record_type::RECORD_EXIT, task),
        (record_type::RECORD_CGROUP, cgroup),
        (record_type::RECORD_REGISTERS, vec![0; size_of::<registers_record>()]),
        (record_type::RECORD_STACK_PAGE, vec![0; size_of::<page_record>()]),
        (record_type::RECORD_STACK, vec![0; size_of::<stack_record>()]),
        (record_type::RECORD_CPU_TIME, vec![0; size_of::<cpu_time_record>()]),
        (record_type::RECORD_PROCESS, vec![0; size_of::<process_record>()]),
    ];
    let records = records.into_iter().map(|(kind, mut bytes)| {
        bytes[offset_of!(record_head, r#type)] = kind.0 as u8;
        bytes[offset_of!(record_head, comm)..][..4].copy_from_slice(b"comm");
        bytes
    });
    records.collect()
}

/// Cuts a mapping queue into reports, and counts them.
pub(crate) fn reports(bytes: &[u8]) -> usize {
    let mut count = 0;
    for report in wire::reports(bytes) {
        count += 1;
        assert!(count <= bytes.len() / 8, "a report was seen twice");
        if let Report::Mapping(mapping) = report {
            assert!(!mapping.path.contains(&0));
        }
    }
    count
}

/// Reads `/proc/PID/maps`.
pub(crate) fn maps(text: &[u8]) {
    for line in maps::executable(text) {
        assert!(line.start < line.end);
        assert!(line.path.len() <= text.len());
    }
}

/// Reads `/proc/PID/status`.
pub(crate) fn status(text: &[u8]) {
    for field in ["Tgid", "PPid"] {
        scan::status_field(text, field);
    }
    scan::can_run(text);
}

/// Reads `/proc/PID/cgroup` and `/proc/PID/mountinfo`.
pub(crate) fn cgroups(text: &[u8]) {
    if let Some(of) = cgroup::membership(text) {
        assert!(of.path.starts_with(b"/") && of.path.len() <= text.len());
    }
    if let Some(mount) = cgroup::mounted(text) {
        assert!(mount.as_os_str().len() <= text.len());
    }
}

/// Reads a list of CPUs.
pub(crate) fn cpu_list(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    let Ok(cpus) = cpus::parse_list(text) else { return };
    assert!(cpus.is_sorted_by(|a, b| a < b));
    assert_eq!(cpus::parse_list(&cpus::show_list(&cpus)).ok(), Some(cpus));
}

/// Reads `/proc/kallsyms`, and looks up the addresses in it and their neighbours.
pub(crate) fn kallsyms(text: &[u8]) {
    let table = Kallsyms::parse(text.to_vec());
    for line in text.split(|&b| b == b'\n') {
        let word = line.split(|&b| b == b' ').next().unwrap_or_default();
        let Some(address) =
            std::str::from_utf8(word).ok().and_then(|word| u64::from_str_radix(word, 16).ok())
        else {
            continue;
        };
        for address in [address.saturating_sub(1), address, address.saturating_add(1)].map(Avma) {
            if let Some(function) = table.find(address) {
                assert!((function.start..function.end).contains(&address));
                assert!(function.name.len() + function.module.len() <= text.len());
            }
        }
    }
}

/// Finds the build-id of an ELF file.
pub(crate) fn elf(file: &[u8]) -> Option<Vec<u8>> {
    build_id::of_elf(file)
}

/// Finds functions, unwind tables and embedded sections all over an ELF file that is its own debug file as well.
pub(crate) fn functions(file: &[u8]) {
    let ranges = sections::ranges(file).unwrap_or_default();
    assert!(ranges.iter().all(|stretch| !stretch.is_empty()));
    assert!(ranges.is_sorted_by(|before, after| before.end < after.start));
    let offsets = (0..file.len() as u64).step_by(file.len() / 256 + 1);
    assert!(rules_for(file, offsets.clone()).iter().all(|rule| rule.bytes.len() <= 16 << 10));
    let frames = Layout::read(file).and_then(|layout| frames(file, &layout, 256, &(0..0)));
    assert!(frames.is_none_or(|frames| (0.0..=1.0).contains(&frames.share())));
    let found = functions::functions(file, Some(file), offsets.clone());
    assert!(found.is_sorted_by(|a, b| a.start < b.start) && found.len() <= offsets.count());
    for function in found {
        assert!(function.start < function.end && function.names.iter().all(|name| name.len() <= file.len()));
    }
    let layout = Layout::read(file);
    let probes = layout.as_ref().and_then(|layout| static_probes(layout, file));
    for probe in probes.into_iter().flatten() {
        assert!(layout.as_ref().is_some_and(|layout| layout.code(probe.at).is_some()));
        assert!(probe.provider.len() + probe.name.len() <= file.len());
    }
}

/// Compiles the unwind tables of a file into the form in which the sampler walks by them.
pub(crate) fn tables(file: &[u8]) {
    frame_pointers::check_tables(file);
}

/// Finds JIT code all over the address space, in a perf map and in a jitdump file.
pub(crate) fn jit(bytes: &[u8]) {
    let addresses: BTreeSet<u64> = (0..1 << 16).step_by(64).chain((0..64).map(|bit| 1 << bit)).collect();
    let addresses: Vec<Avma> = addresses.into_iter().map(Avma).collect();
    let requested = Requested::new(&addresses);
    let is_whole = |piece: &Piece| {
        assert!(!requested.within(piece.start, piece.end).is_empty());
        assert!(!piece.name.is_empty() && piece.name.len() <= bytes.len() && !piece.name.contains(&0));
    };
    let pieces = perf_map::find_in(bytes, bytes.len() as u64 / 2, &requested)
        .expect("bug: memory is read without errors");
    assert!(pieces.len() <= addresses.len());
    pieces.iter().for_each(is_whole);
    dump::find(bytes, &requested).0.iter().for_each(is_whole);
}

/// Returns a jitdump file as a seed.
pub(crate) fn jitdump() -> Vec<u8> {
    dump::example(0)
}

/// Finds the build-id in ELF notes, as `/sys/kernel/notes` has them.
pub(crate) fn notes(notes: &[u8]) -> Option<Vec<u8>> {
    icecore_elf::build_id_of_notes(notes)
}
