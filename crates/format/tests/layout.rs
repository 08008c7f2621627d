//! The layouts of docs/FORMAT.md §5, as compiled: a change of rkyv, of its features or of a record that
//! would change bytes on disk fails here.

use icecore_format::records::{Payload as _, Sample, SamplesV1, StacksV1, StringsV1, Task, TasksV1, WalkEnd};

/// Sizes of the archived roots, bytes. A vector is 8 (relative pointer, length), a u64 aligns to 8.
#[test]
fn archived_roots_have_the_documented_sizes() {
    use icecore_format::records as r;
    fn size<P: r::Payload>() -> usize {
        size_of::<P::View>()
    }
    assert_eq!(size::<r::StringsV1>(), 20);
    assert_eq!(size::<r::TasksV1>(), 28);
    assert_eq!(size::<r::LifecycleV1>(), 64);
    assert_eq!(size::<r::ImagesV1>(), 68);
    assert_eq!(size::<r::MappingsV1>(), 72);
    assert_eq!(size::<r::StacksV1>(), 20);
    assert_eq!(size::<r::SamplesV1>(), 88);
    assert_eq!(size::<r::KernelSymbolsV1>(), 32);
    assert_eq!(size::<r::LossesV1>(), 32);
    assert_eq!(size::<r::SessionV1>(), 144);
    assert_eq!(size::<r::ReceiptV1>(), 96);
}

#[test]
fn small_payloads_have_exactly_these_bytes() {
    let mut strings = StringsV1::starting_at(1);
    strings.push(b"abc");
    strings.push(b"de");
    let bytes = strings.to_bytes().expect("fits");
    // bytes, padding, ends; then the root: first_id, (pointer, length) of both columns.
    assert_eq!(
        bytes[..],
        [
            b'a', b'b', b'c', b'd', b'e', 0, 0, 0, 3, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 0xec, 0xff, 0xff,
            0xff, 5, 0, 0, 0, 0xec, 0xff, 0xff, 0xff, 2, 0, 0, 0
        ]
    );
    let tasks = TasksV1::from_rows(9, &[Task { tgid: 1, tid: 2, comm: 3 }]).to_bytes().expect("fits");
    assert_eq!(tasks[..12], [1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]);
    assert_eq!(tasks.len(), 12 + 28);
}

#[test]
fn numbers_on_disk_are_little_endian_whatever_the_machine() {
    let row = Sample {
        time_ns: 0x0102_0304_0506_0708,
        cpu: 1,
        event: 0,
        user_end: WalkEnd::ROOT,
        kernel_end: WalkEnd::NONE,
        task: 0,
        user_stack: 0,
        kernel_stack: 0,
        weight: 0,
    };
    let bytes = SamplesV1::from_rows(&[row]).expect("one row").to_bytes().expect("fits");
    let first_ns = bytes.len() - 88;
    assert_eq!(bytes[first_ns..first_ns + 8], [8, 7, 6, 5, 4, 3, 2, 1]);
    let stacks = StacksV1::starting_at(0x0a0b).to_bytes().expect("fits");
    assert_eq!(stacks[..4], [0x0b, 0x0a, 0, 0]);
}
