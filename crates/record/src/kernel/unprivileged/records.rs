//! Turns records of perf events into those of the ring (`bpf/wire.h`): pure.
//!
//! ```text
//!  SAMPLE ─► registers, pages of the stack, their hashes, sample     FORK, EXIT ─► the same
//!  COMM   ─► comm; with an exec also exec                            MMAP2      ─► a report of the mapping queue
//! ```

use std::hash::{BuildHasher as _, RandomState};
use std::mem::offset_of;
use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::kernel::wire::{PAGE_BYTES, REGISTER_COUNT, STACK_POINTER, u16_at, u32_at, u64_at};
use crate::skeleton::types::{
    page_record, record_head, record_type, registers_record, sample_record, stack_record, task_record,
    walk_end,
};

/// `struct perf_event_header`, and behind it the first field.
const HEAD: usize = 8;
/// What follows records that are no samples: thread, time, CPU and event (`OF_OWN` in sys/perf.rs).
const TAIL: usize = 32;
/// The fields of a sample: event, instruction, thread, time, CPU, weight; then the addresses of its callers, their number first.
const SAMPLE_PID: usize = 24;
const SAMPLE_TID: usize = 28;
const SAMPLE_TIME: usize = 32;
const SAMPLE_CPU: usize = 40;
const SAMPLE_PERIOD: usize = 48;
const SAMPLE_CALLERS: usize = 56;
/// Addresses from this one on say what the next ones are.
const CONTEXTS: u64 = 0_u64.wrapping_sub(4095);
/// The most bytes of a stack that go with its registers.
const TOP_BYTES: usize = 128;
/// The length of what stands for a stack that was not found: no mapping has it.
const UNKNOWN_BYTES: u64 = PAGE_BYTES + 1;
const COMM_BYTES: usize = offset_of!(record_head, cgroup_id) - offset_of!(record_head, comm);

/// The kernel's numbers of the registers of a snapshot, in the order of DWARF up to the program counter.
///
/// # Source
/// uapi/asm/perf_regs.h of x86 and arm64
pub(super) const REGISTERS: [u8; REGISTER_COUNT] = registers();

#[cfg(target_arch = "x86_64")]
const fn registers() -> [u8; REGISTER_COUNT] {
    // rax rdx rcx rbx rsi rdi rbp rsp r8 … r15 rip
    [0, 3, 2, 1, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23, 8]
}

#[cfg(not(target_arch = "x86_64"))]
const fn registers() -> [u8; REGISTER_COUNT] {
    // x0 … x30 sp pc
    let (mut all, mut number) = ([0; REGISTER_COUNT], 0);
    while number < REGISTER_COUNT {
        all[number] = number as u8;
        number += 1;
    }
    all
}

/// The set of these registers, as `perf_event_attr` takes it.
pub(super) fn register_set() -> u64 {
    REGISTERS.iter().fold(0, |set, number| set | 1 << number)
}

/// One record of a perf event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) time_ns: u64,
    bytes: Vec<u8>,
}

impl Record {
    /// Returns the thread that was made, if one was.
    pub(super) fn new_thread(&self) -> Option<u32> {
        (u32_at(&self.bytes, 0) == Some(libbpf_sys::PERF_RECORD_FORK)).then_some(ids(&self.bytes)?[2])
    }
}

/// Cuts the bytes of a queue into records. The first one that is none ends the list.
pub(super) fn records(mut bytes: &[u8]) -> impl Iterator<Item = Record> {
    std::iter::from_fn(move || {
        let size = usize::from(u16_at(bytes, 6)?);
        let (record, rest) = bytes.split_at_checked(size).filter(|_| size >= HEAD)?;
        bytes = rest;
        let time_off = match u32_at(record, 0)? {
            libbpf_sys::PERF_RECORD_SAMPLE => SAMPLE_TIME,
            _ => size.checked_sub(TAIL - 8)?,
        };
        Some(Record { time_ns: u64_at(record, time_off)?, bytes: record.to_vec() })
    })
}

/// What records say besides events.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// Reports of mappings, as the mapping queues have them.
    pub(super) reports: Vec<u8>,
    /// Records that found no room.
    pub(super) lost: u64,
    /// Samples of each CPU and event, and their weight.
    pub(super) taken: FxHashMap<(u32, u8), (u64, u64)>,
}

/// What records leave out, because others have said it before.
#[derive(Debug, Default)]
pub(super) struct Translator {
    /// The names of threads.
    names: FxHashMap<u32, [u8; COMM_BYTES]>,
    /// The threads of each process that have not ended.
    threads: FxHashMap<u32, FxHashSet<u32>>,
    /// The position of each event in the session, by the number that samples have.
    events: FxHashMap<u64, u8>,
    /// Where the stacks of threads lie; empty where that is not known.
    stacks: FxHashMap<u32, Range<u64>>,
    snapshots: u64,
    random: RandomState,
    pub(super) said: Said,
}

impl Translator {
    /// Notes a thread that exists already.
    pub(super) fn thread(&mut self, tgid: u32, tid: u32, name: &[u8]) {
        self.names.insert(tid, padded(name));
        self.threads.entry(tgid).or_default().insert(tid);
    }

    /// Forgets a process or thread that has ended before it could be followed.
    pub(super) fn forget(&mut self, id: u32) {
        self.threads.remove(&id);
    }

    /// Notes an event, by the number that its samples have.
    pub(super) fn event(&mut self, id: u64, event: u8) {
        self.events.insert(id, event);
    }

    /// Lists the processes that have not ended.
    pub(super) fn processes(&self) -> impl Iterator<Item = u32> {
        self.threads.keys().copied()
    }

    /// Gives `take` the records of the ring that say the same. `find_stack` finds the mapping of a process in which an address lies.
    pub(super) fn translate(
        &mut self,
        record: &Record,
        find_stack: &dyn Fn(u32, u64) -> Option<Range<u64>>,
        take: &mut dyn FnMut(&[u8]),
    ) {
        let bytes = &record.bytes[..];
        // A record that is too short says nothing.
        let _ = match u32_at(bytes, 0) {
            Some(libbpf_sys::PERF_RECORD_SAMPLE) => self.sample(record, find_stack, take),
            Some(libbpf_sys::PERF_RECORD_COMM) => self.comm(record, take),
            Some(libbpf_sys::PERF_RECORD_FORK) => self.fork(record, take),
            Some(libbpf_sys::PERF_RECORD_EXIT) => self.exit(record, take),
            Some(libbpf_sys::PERF_RECORD_MMAP2) => self.mapping(record),
            Some(libbpf_sys::PERF_RECORD_LOST) => self.lost(record),
            _ => None,
        };
    }

    fn comm(&mut self, record: &Record, take: &mut dyn FnMut(&[u8])) -> Option<()> {
        let bytes = &record.bytes[..];
        let (tgid, tid) = (u32_at(bytes, HEAD)?, u32_at(bytes, HEAD + 4)?);
        let name = bytes.get(HEAD + 8..bytes.len().checked_sub(TAIL)?)?;
        self.names.insert(tid, padded(name));
        let mut task = self.task(record_type::RECORD_COMM, record, tgid, tid);
        take(&task);
        if u32::from(u16_at(bytes, 4)?) & libbpf_sys::PERF_RECORD_MISC_COMM_EXEC != 0 {
            // Its other threads have ended.
            self.stacks.remove(&tid);
            self.threads.insert(tgid, std::iter::once(tid).collect());
            put(&mut task, offset_of!(record_head, r#type), &record_type::RECORD_EXEC.0.to_ne_bytes());
            take(&task);
        }
        Some(())
    }

    fn fork(&mut self, record: &Record, take: &mut dyn FnMut(&[u8])) -> Option<()> {
        let [tgid, parent, tid, creator] = ids(&record.bytes)?;
        if let Some(name) = self.names.get(&creator).copied() {
            self.names.insert(tid, name);
        }
        self.threads.entry(tgid).or_default().insert(tid);
        let mut task = self.task(record_type::RECORD_FORK, record, tgid, tid);
        put(&mut task, offset_of!(task_record, parent_tgid), &parent.to_ne_bytes());
        take(&task);
        Some(())
    }

    fn exit(&mut self, record: &Record, take: &mut dyn FnMut(&[u8])) -> Option<()> {
        let [tgid, _, tid, _] = ids(&record.bytes)?;
        let threads = self.threads.entry(tgid).or_default();
        threads.remove(&tid);
        let whole_group = threads.is_empty();
        if whole_group {
            self.threads.remove(&tgid);
        }
        let mut task = self.task(record_type::RECORD_EXIT, record, tgid, tid);
        put(&mut task, offset_of!(task_record, whole_group), &u16::from(whole_group).to_ne_bytes());
        take(&task);
        self.names.remove(&tid);
        self.stacks.remove(&tid);
        Some(())
    }

    /// Reports a mapping as the mapping queues do, whose records end with the time alone.
    fn mapping(&mut self, record: &Record) -> Option<()> {
        let body = record.bytes.get(..record.bytes.len().checked_sub(TAIL)?)?;
        let begin = self.said.reports.len();
        self.said.reports.extend_from_slice(body);
        self.said.reports.extend_from_slice(&record.time_ns.to_ne_bytes());
        let len = u16::try_from(self.said.reports.len() - begin).ok()?;
        put(&mut self.said.reports[begin..], 6, &len.to_ne_bytes());
        Some(())
    }

    fn lost(&mut self, record: &Record) -> Option<()> {
        self.said.lost += u64_at(&record.bytes, HEAD + 8)?;
        Some(())
    }

    fn sample(
        &mut self,
        record: &Record,
        find_stack: &dyn Fn(u32, u64) -> Option<Range<u64>>,
        take: &mut dyn FnMut(&[u8]),
    ) -> Option<()> {
        let bytes = &record.bytes[..];
        let event = *self.events.get(&u64_at(bytes, HEAD)?)?;
        let (tgid, tid) = (u32_at(bytes, SAMPLE_PID)?, u32_at(bytes, SAMPLE_TID)?);
        let (cpu, weight) = (u32_at(bytes, SAMPLE_CPU)?, u64_at(bytes, SAMPLE_PERIOD)?);
        let callers = usize::try_from(u64_at(bytes, SAMPLE_CALLERS)?).ok()?;
        let (callers, copied) = bytes.get(SAMPLE_CALLERS + 8..)?.split_at_checked(callers.checked_mul(8)?)?;
        let snapshot = match copied {
            [] => 0,
            copied => self.snapshot(tid, copied, &|sp| find_stack(tgid, sp), take).unwrap_or(0),
        };
        let frames: Vec<u8> = callers
            .as_chunks::<8>()
            .0
            .iter()
            .filter(|at| u64::from_ne_bytes(**at) < CONTEXTS)
            .flatten()
            .copied()
            .collect();
        let mut sample = vec![0; size_of::<sample_record>()];
        self.head(&mut sample, record_type::RECORD_SAMPLE, (record.time_ns, cpu), tgid, tid);
        let user_end = if frames.is_empty() { walk_end::WALK_NONE } else { walk_end::WALK_UNSAID };
        put(&mut sample, offset_of!(sample_record, weight), &weight.to_ne_bytes());
        put(&mut sample, offset_of!(sample_record, user_len), &((frames.len() / 8) as u16).to_ne_bytes());
        put(&mut sample, offset_of!(sample_record, kernel_end), &[walk_end::WALK_NONE.0 as u8]);
        put(&mut sample, offset_of!(sample_record, user_end), &[user_end.0 as u8]);
        put(&mut sample, offset_of!(sample_record, event), &[event]);
        put(&mut sample, offset_of!(sample_record, snapshot), &snapshot.to_ne_bytes());
        sample.extend_from_slice(&frames);
        take(&sample);
        let taken = self.said.taken.entry((cpu, event)).or_default();
        *taken = (taken.0 + 1, taken.1.wrapping_add(weight));
        Some(())
    }

    /// Sends registers and stack; returns the number of the snapshot. Programs of 32 bits have none.
    ///
    /// ```text
    /// u64 abi   u64 each register, by its number in the kernel   u64 size   size bytes of the stack   u64 how many of them are filled
    /// ```
    fn snapshot(
        &mut self,
        tid: u32,
        copied: &[u8],
        find_stack: &dyn Fn(u64) -> Option<Range<u64>>,
        take: &mut dyn FnMut(&[u8]),
    ) -> Option<u64> {
        if u64_at(copied, 0)? != u64::from(libbpf_sys::PERF_SAMPLE_REGS_ABI_64) {
            return None;
        }
        let mut by_number = REGISTERS;
        by_number.sort_unstable();
        let value = |number: u8| u64_at(copied, 8 + by_number.binary_search(&number).ok()? * 8);
        let stack = copied.get(8 + REGISTER_COUNT * 8..)?;
        let size = usize::try_from(u64_at(stack, 0)?).ok()?;
        let filled =
            if size == 0 { 0 } else { usize::try_from(u64_at(stack, size.checked_add(8)?)?).ok()? };
        let stack = stack.get(8..)?.get(..filled.min(size))?;
        let low = value(REGISTERS[STACK_POINTER])?;
        let high = low.checked_add(stack.len() as u64)?;

        let stack_end = self.stack_end(tid, low, find_stack);
        // Nobody knows how far a copy goes on that is as long as it may be, but it does.
        let goes_on = stack_end == 0 && filled == size;
        let stack_end = if goes_on { high.saturating_add(8) } else { stack_end };

        self.snapshots += 1;
        let snapshot = self.snapshots;
        let top = &stack[..stack.len().min(TOP_BYTES)];
        let mut registers = vec![0; offset_of!(registers_record, top)];
        put(
            &mut registers,
            offset_of!(registers_record, r#type),
            &record_type::RECORD_REGISTERS.0.to_ne_bytes(),
        );
        put(&mut registers, offset_of!(registers_record, snapshot), &snapshot.to_ne_bytes());
        put(&mut registers, offset_of!(registers_record, stack_end), &stack_end.to_ne_bytes());
        put(&mut registers, offset_of!(registers_record, top_len), &(top.len() as u32).to_ne_bytes());
        for (at, number) in REGISTERS.into_iter().enumerate() {
            put(
                &mut registers,
                offset_of!(registers_record, registers) + at * 8,
                &value(number)?.to_ne_bytes(),
            );
        }
        registers.extend_from_slice(top);
        take(&registers);

        let mut hashes = Vec::new();
        let mut page = vec![0; size_of::<page_record>()];
        put(&mut page, offset_of!(page_record, r#type), &record_type::RECORD_STACK_PAGE.0.to_ne_bytes());
        put(&mut page, offset_of!(page_record, tid), &tid.to_ne_bytes());
        put(&mut page, offset_of!(page_record, snapshot), &snapshot.to_ne_bytes());
        let (mut at, mut rest) = (low, stack);
        while !rest.is_empty() {
            let (begin, off) = (at - at % PAGE_BYTES, (at % PAGE_BYTES) as usize);
            let (part, behind) = rest.split_at(rest.len().min(PAGE_BYTES as usize - off));
            // What is not copied of a page reads as zero, and lies outside of the known stack.
            let bytes = &mut page[offset_of!(page_record, bytes)..];
            bytes.fill(0);
            bytes[off..off + part.len()].copy_from_slice(part);
            let hash = self.random.hash_one(&*bytes).max(1);
            put(&mut page, offset_of!(page_record, address), &begin.to_ne_bytes());
            put(&mut page, offset_of!(page_record, hash), &hash.to_ne_bytes());
            take(&page);
            hashes.extend_from_slice(&hash.to_ne_bytes());
            (at, rest) = (at + part.len() as u64, behind);
        }
        let mut pages = vec![0; size_of::<stack_record>()];
        put(&mut pages, offset_of!(stack_record, r#type), &record_type::RECORD_STACK.0.to_ne_bytes());
        put(&mut pages, offset_of!(stack_record, tid), &tid.to_ne_bytes());
        put(&mut pages, offset_of!(stack_record, snapshot), &snapshot.to_ne_bytes());
        put(&mut pages, offset_of!(stack_record, low), &low.to_ne_bytes());
        put(&mut pages, offset_of!(stack_record, high), &high.to_ne_bytes());
        put(&mut pages, offset_of!(stack_record, len), &((hashes.len() / 8) as u32).to_ne_bytes());
        pages.extend_from_slice(&hashes);
        take(&pages);
        Some(snapshot)
    }

    /// Returns the end of the stack in which a thread is; 0 if it is not known.
    fn stack_end(&mut self, tid: u32, sp: u64, find: &dyn Fn(u64) -> Option<Range<u64>>) -> u64 {
        let known = self.stacks.get(&tid).filter(|stack| stack.contains(&sp));
        let stack = match known {
            Some(stack) => stack.clone(),
            // It is not looked for again as long as the thread is near.
            None => {
                find(sp).unwrap_or(sp - sp % PAGE_BYTES..(sp - sp % PAGE_BYTES).saturating_add(UNKNOWN_BYTES))
            }
        };
        let end = if stack.end - stack.start == UNKNOWN_BYTES { 0 } else { stack.end };
        self.stacks.insert(tid, stack);
        end
    }

    /// Makes the record of a task that changed.
    fn task(&self, kind: record_type, record: &Record, tgid: u32, tid: u32) -> Vec<u8> {
        let mut task = vec![0; size_of::<task_record>()];
        let cpu = record.bytes.len().checked_sub(16).and_then(|at| u32_at(&record.bytes, at)).unwrap_or(0);
        self.head(&mut task, kind, (record.time_ns, cpu), tgid, tid);
        task
    }

    fn head(&self, into: &mut [u8], kind: record_type, (time_ns, cpu): (u64, u32), tgid: u32, tid: u32) {
        put(into, offset_of!(record_head, r#type), &kind.0.to_ne_bytes());
        put(into, offset_of!(record_head, cpu), &cpu.to_ne_bytes());
        put(into, offset_of!(record_head, time_ns), &time_ns.to_ne_bytes());
        put(into, offset_of!(record_head, tgid), &tgid.to_ne_bytes());
        put(into, offset_of!(record_head, tid), &tid.to_ne_bytes());
        put(into, offset_of!(record_head, comm), &self.names.get(&tid).copied().unwrap_or_default());
    }
}

/// Reads what `PERF_RECORD_FORK` and `PERF_RECORD_EXIT` begin with: process, its parent, thread, its creator.
fn ids(bytes: &[u8]) -> Option<[u32; 4]> {
    Some([u32_at(bytes, 8)?, u32_at(bytes, 12)?, u32_at(bytes, 16)?, u32_at(bytes, 20)?])
}

/// Returns a name as records of the ring have it.
fn padded(name: &[u8]) -> [u8; COMM_BYTES] {
    let mut padded = [0; COMM_BYTES];
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    let len = name.len().min(COMM_BYTES - 1);
    padded[..len].copy_from_slice(&name[..len]);
    padded
}

fn put(into: &mut [u8], at: usize, bytes: &[u8]) {
    into[at..at + bytes.len()].copy_from_slice(bytes);
}
