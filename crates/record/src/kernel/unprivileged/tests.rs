//! Records as the kernel writes them, and what they become.

use super::records::{REGISTERS, Translator, records, register_set};
use super::*;
use crate::kernel::wire::{self, Event as Decoded, NewMapping, PAGE_BYTES, Report};

const TASK: u64 = 7;
const CLOCK: u64 = 8;

/// Makes a record of the fields behind its head.
fn record(kind: u32, misc: u32, body: &[u8]) -> Vec<u8> {
    let size = u16::try_from(8 + body.len()).expect("short");
    [&kind.to_ne_bytes()[..], &(misc as u16).to_ne_bytes(), &size.to_ne_bytes(), body].concat()
}

/// Makes a record that is no sample: with thread, time, CPU and event at its end.
fn told(kind: u32, misc: u32, body: &[u8], time_ns: u64) -> Vec<u8> {
    let end = [words(&[20, 21]), time_ns.to_ne_bytes().to_vec(), words(&[3, 0]), TASK.to_ne_bytes().to_vec()];
    record(kind, misc, &[body, &end.concat()[..]].concat())
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn long(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Makes a sample of thread 21 of process 20, with the stack pointer at `sp` and a stack.
fn sample(sp: u64, stack: &[u8], size: u64) -> Vec<u8> {
    let user = 0_u64.wrapping_sub(512);
    let mut body = long(&[CLOCK, 0x1000]);
    body.extend(words(&[20, 21]));
    body.extend(long(&[500]));
    body.extend(words(&[3, 0]));
    body.extend(long(&[1_000_000, 3, user, 0x1000, 0x2000]));
    body.extend(long(&[libbpf_sys::PERF_SAMPLE_REGS_ABI_64.into()]));
    // Each register holds 100 + its number in the kernel, in the order of these.
    for number in (0..64_u64).filter(|number| register_set() & 1 << number != 0) {
        let is_sp = REGISTERS[wire::STACK_POINTER] == number as u8;
        body.extend(long(&[if is_sp { sp } else { 100 + number }]));
    }
    body.extend(long(&[size]));
    body.extend(stack);
    body.resize(body.len() + size as usize - stack.len(), 0);
    body.extend(long(&[stack.len() as u64]));
    record(libbpf_sys::PERF_RECORD_SAMPLE, 2, &body)
}

/// Translates bytes of a queue.
fn translated(translator: &mut Translator, bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    let all: Vec<Record> = records(bytes).collect();
    for record in all {
        translator.translate(&record, &|_, _| Some(0x7000..0x1_0000), &mut |bytes| out.push(bytes.to_vec()));
    }
    out
}

fn translator() -> Translator {
    let mut translator = Translator::default();
    translator.event(CLOCK, 2);
    translator.thread(20, 20, b"main");
    translator.thread(20, 21, b"worker");
    translator
}

#[test]
fn a_sample_has_registers_pages_and_the_callers_of_the_kernel() {
    let mut translator = translator();
    let stack: Vec<u8> = (0..5000_u32).map(|n| n as u8).collect();
    let sp = 0x7000 + PAGE_BYTES - 8;
    let out = translated(&mut translator, &sample(sp, &stack, 8192));
    let decoded: Vec<Decoded<'_>> = out.iter().map(|bytes| wire::decode(bytes).expect("whole")).collect();
    let [
        Decoded::Registers(registers),
        Decoded::StackPage(first),
        Decoded::StackPage(second),
        Decoded::StackPage(_),
        Decoded::Stack(pages),
        Decoded::Sample(sample),
    ] = &decoded[..]
    else {
        panic!("{decoded:?}")
    };
    for (at, number) in REGISTERS.into_iter().enumerate() {
        let value = if at == wire::STACK_POINTER { sp } else { 100 + u64::from(number) };
        assert_eq!(registers.values[at], value, "register {at}");
    }
    assert_eq!((registers.stack_end.0, registers.top), (0x1_0000, &stack[..128]));
    assert_eq!((first.address.0, second.address.0), (0x7000, 0x7000 + PAGE_BYTES));
    assert_eq!((&first.bytes[4088..], second.bytes), (&stack[..8], &stack[8..8 + 4096]));
    assert!(first.bytes[..4088].iter().all(|byte| *byte == 0));
    assert_eq!((pages.low.0, pages.high.0), (sp, sp + 5000));
    assert_eq!(pages.pages().count(), 3);
    let callers: Vec<u64> = sample.user.leaf_first().map(|at| at.0).collect();
    assert_eq!(callers, [0x1000, 0x2000]);
    assert_eq!((sample.head.comm, sample.head.cpu, sample.head.time_ns), (&b"worker"[..], 3, 500));
    assert_eq!((sample.weight, sample.event, sample.snapshot), (1_000_000, 2, registers.snapshot));
    assert_eq!(translator.said.taken.get(&(3, 2)), Some(&(1, 1_000_000)));
}

#[test]
fn a_copy_that_was_cut_goes_on_where_its_stack_is_not_known() {
    let mut translator = translator();
    let bytes = sample(0x9000, &[1; 64], 64);
    let record = records(&bytes).next().expect("one");
    let mut ends = Vec::new();
    translator.translate(&record, &|_, _| None, &mut |bytes| {
        if let Ok(Decoded::Registers(registers)) = wire::decode(bytes) {
            ends.push(registers.stack_end.0);
        }
    });
    assert_eq!(ends, [0x9000 + 64 + 8]);
}

#[test]
fn threads_and_programs_come_and_go() {
    let mut translator = translator();
    let fork = |tgid, tid| told(libbpf_sys::PERF_RECORD_FORK, 0, &words(&[tgid, 20, tid, 21, 0, 0]), 1);
    let exit = |tgid, tid| told(libbpf_sys::PERF_RECORD_EXIT, 0, &words(&[tgid, 1, tid, 1, 0, 0]), 3);
    let name = [words(&[30, 30]), b"program\0".to_vec()].concat();
    let exec = told(libbpf_sys::PERF_RECORD_COMM, libbpf_sys::PERF_RECORD_MISC_COMM_EXEC, &name, 2);
    let bytes = [fork(30, 30), exec, exit(30, 30), exit(20, 21), exit(20, 20)].concat();
    assert_eq!(records(&bytes).filter_map(|record| record.new_thread()).collect::<Vec<_>>(), [30]);
    let out = translated(&mut translator, &bytes);
    let said: Vec<String> = out
        .iter()
        .map(|bytes| match wire::decode(bytes).expect("whole") {
            Decoded::Fork { head, parent_tgid, .. } => {
                format!("fork {} of {parent_tgid} {}", head.tid, head.comm.escape_ascii())
            }
            Decoded::Comm { head } => format!("comm {} {}", head.tid, head.comm.escape_ascii()),
            Decoded::Exec { head } => {
                format!("exec {} {} at {}", head.tid, head.comm.escape_ascii(), head.time_ns)
            }
            Decoded::Exit { head, whole_group, .. } => {
                format!("exit {} {whole_group} on {}", head.tid, head.cpu)
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        said,
        [
            "fork 30 of 20 worker",
            "comm 30 program",
            "exec 30 program at 2",
            "exit 30 true on 3",
            "exit 21 false on 3",
            "exit 20 true on 3",
        ]
    );
    assert_eq!(translator.processes().count(), 0);
}

#[test]
fn mappings_are_reported_as_those_of_the_queues_and_losses_are_counted() {
    let mut translator = translator();
    let mut body = words(&[20, 20]);
    body.extend(long(&[0x40_0000, 0x2000, 0x1000]));
    body.extend(words(&[0xfe, 1]));
    body.extend(long(&[77, 0]));
    body.extend(words(&[libc::PROT_EXEC as u32, 0]));
    body.extend(b"/bin/it\0");
    let lost = told(libbpf_sys::PERF_RECORD_LOST, 0, &long(&[CLOCK, 12]), 9);
    let bytes = [told(libbpf_sys::PERF_RECORD_MMAP2, 0, &body, 5), lost].concat();
    assert!(translated(&mut translator, &bytes).is_empty());
    let reports: Vec<Report<'_>> = wire::reports(&translator.said.reports).collect();
    let [Report::Mapping(NewMapping { time_ns, tgid, start, len, path, .. })] = &reports[..] else {
        panic!("{reports:?}")
    };
    assert_eq!((*time_ns, *tgid, start.0, *len, *path), (5, 20, 0x40_0000, 0x2000, &b"/bin/it"[..]));
    assert_eq!(translator.said.lost, 12);
}

#[test]
fn the_levels_of_distributions_are_named_with_the_command_that_opens_them() {
    for level in [3, 4] {
        let why = why_refused(Some(libc::EACCES), Some(level));
        assert!(why.contains(&format!("kernel.perf_event_paranoid is {level}")), "{why}");
        assert!(why.contains("sysctl kernel.perf_event_paranoid=2") && why.contains("setcap"), "{why}");
    }
    let of_another = why_refused(Some(libc::EACCES), Some(2));
    assert!(of_another.contains("another user") && !of_another.contains("sysctl"), "{of_another}");
    assert!(why_refused(Some(libc::EMFILE), Some(2)).contains("ulimit -n"));
    assert!(why_refused(Some(libc::ENOENT), Some(2)).contains("cpu-clock"));
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes: Vec<u8>) {
        translated(&mut translator(), &bytes);
    }

    #[test]
    fn no_cut_or_flip_makes_it_panic(cut in 0..600_usize, at in 8..600_usize, byte: u8) {
        let mut bytes = sample(0x7ff8, &[1; 100], 128);
        let at = at % bytes.len();
        bytes[at] = byte;
        let size = u16::try_from(cut.clamp(8, bytes.len())).expect("short");
        bytes.truncate(size.into());
        bytes[6..8].copy_from_slice(&size.to_ne_bytes());
        translated(&mut translator(), &bytes);
    }
}
