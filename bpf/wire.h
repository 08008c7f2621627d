/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The contract between the programs and the recorder: every record that goes through the ring, and
 * every number that both sides know. Rust sees these types through the skeleton.
 *
 * All fields are in the byte order of the machine. Every record begins with its type, most with `struct record_head`.
 */
#ifndef ICECORE_WIRE_H
#define ICECORE_WIRE_H

#include "kernel.h"

/* The numbers that both sides know. */
enum limits {
	COMM_LEN = 16,
	/* The deepest user stack that --max-depth may ask for; a power of two. */
	MAX_USER_FRAMES = 4096,
	/* The kernel's own limit (kernel.perf_event_max_stack) for bpf_get_stack. */
	MAX_KERNEL_FRAMES = 127,
	/* The longest path of a cgroup that is reported, and the most cgroups that may be targets. */
	CGROUP_PATH_LEN = 1024,
	MAX_TARGET_CGROUPS = 64,
	/* The size of the pages in which a stack is sent, and the largest value of --stack-bytes. */
	STACK_PAGE_LEN = 4096,
	MAX_STACK_BYTES = 1 << 20,
	/* Bits of the number of a page. Addresses of user space have 48 bits; of 57 (five levels) the upper ones are lost, so that two pages
	 * can share one entry. */
	PAGE_NUMBER_BITS = 36,
	/* Programs that interrupt each other on a CPU each take a buffer of their own; a CPU has this many. */
	LANES = 4,
	/* The lower bits of a snapshot's number count up; the bits above are the number of the buffer: CPU * LANES + lane. */
	SNAPSHOT_BITS = 40,
	/* The most addresses that one look for names of kernel functions asks for. */
	MAX_ASKED = 512,
	/* The most events of one recording. The cookie of a program's attachment is the number of its event. */
	MAX_EVENTS = 64,
	/* The most functions of the kernel that call programs of a recording themselves (fentry, fexit). */
	MAX_CALLING = 4,
	/* The rate of an event is bounded in steps of 2 to this power nanoseconds: 17 ms. */
	WINDOW_BITS = 24,
	/* The most CPUs that --cpu can choose from for probes; the counters of other CPUs need no such list. */
	MAX_CPUS = 4096,
	/* Unwind tables: the rows of a chunk, the chunks of a segment, and the most segments (64 MiB) and files. */
	CHUNK_ROWS = 512,
	SEGMENT_CHUNKS = 256,
	MAX_SEGMENTS = 64,
	MAX_TABLES = 4096,
	/* How many rows each CPU remembers. */
	KNOWN_ROWS = 4096,
	/* Rows are looked up in blocks of code of 2 to this power bytes. */
	CODE_BLOCK_BITS = 8,
	/* The lowest bits of a position are the number of rows that follow. */
	POSITION_COUNT_BITS = 9,
	/* A user frame's address with this bit is that of an instruction that a signal has interrupted. */
	FRAME_INTERRUPTED_BIT = 63,
	/* The functions of Go that stacks begin with. */
	GO_TOPS = 4,
	/* The bytes of what a tracepoint reports in which fields are found, a power of two; and the most bytes of a field in a sample. */
	REPORTED_LEN = 512,
	MAX_FIELD_LEN = 64,
	/* The most frames of an interpreter in a sample, and the most runs of its eval loop; powers of two. */
	MAX_INTERPRETED_FRAMES = 4096,
	MAX_INTERPRETER_RUNS = 1024,
/* Registers in the order of DWARF, up to the program counter. x86-64: rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 to r15,
 * rip. arm64: x0 to x30, sp, pc. */
#if defined(__TARGET_ARCH_x86)
	REGISTER_COUNT = 17,
	STACK_POINTER = 7,
#else
	REGISTER_COUNT = 33,
	STACK_POINTER = 31,
#endif
};

/* Numbers of the programs alone: the frame pointer, and what a call pushes. */
#if defined(__TARGET_ARCH_x86)
#define FRAME_POINTER 6
#define RETURN_ADDRESS_BYTES 8
#else
#define FRAME_POINTER 29
#define RETURN_ADDRESS_BYTES 0
#endif
/* Bytes of the stack that are sent with the registers, and the most of them if a Go leaf has a larger frame. */
#define TOP_LEN 128
#define MAX_TOP_LEN 2048
/* The number of pages that the largest stack touches. */
#define MAX_STACK_PAGES (MAX_STACK_BYTES / STACK_PAGE_LEN + 1)
#define FRAME_INTERRUPTED (1ULL << FRAME_INTERRUPTED_BIT)

enum record_type {
	RECORD_SAMPLE = 1,
	RECORD_FORK = 2,
	RECORD_EXEC = 3,
	RECORD_COMM = 4,
	RECORD_EXIT = 5,
	RECORD_CGROUP = 6,
	RECORD_REGISTERS = 7,
	RECORD_STACK_PAGE = 8,
	RECORD_STACK = 9,
	RECORD_CPU_TIME = 10,
	RECORD_WAIT = 11,
	RECORD_WAIT_STACK = 12,
	RECORD_NO_TABLE = 13,
	RECORD_INTERPRETED = 14,
	RECORD_PROCESS = 20,
};

/* How a row of unwind tables finds the caller; the numbers are those of `RowKind` in crates/elf/src/walk_rows.rs. */
enum row_kind {
	ROW_UNKNOWN = 0,
	ROW_SP = 1,
	ROW_FP = 2,
	ROW_ROOT = 3,
	ROW_SIGNAL = 4,
	ROW_STUB = 5,
	ROW_ALIGNED = 6,
	ROW_SWITCH = 7,
	ROW_MARK = 8,
};

/* A file, as the kernel knows it; overwritten in its place it is another one. The vDSO has no device. */
struct file_key {
	__u64 inode;
	__u64 size;
	/* When it was changed, nanoseconds since 1970. */
	__u64 changed_ns;
	__u32 dev;
	__u32 generation;
};

/* The unwind tables of a file: the code that they cover, as an offset and bytes, and where the position of its first block is. */
struct table {
	__u64 begin;
	__u32 len;
	__u32 first_position;
	/* By which its hits are counted. */
	__u32 number;
	__u32 unused;
};

/* How a stack walk ended; the numbers are those of docs/FORMAT.md, `walk end`. */
enum walk_end {
	WALK_NONE = 0,
	WALK_ROOT = 1,
	WALK_DEPTH = 2,
	WALK_UNREADABLE = 3,
	WALK_NOT_MONOTONIC = 4,
	WALK_MISALIGNED = 5,
	WALK_ZERO_RETURN = 6,
	WALK_UNSAID = 7,
	/* By unwind tables alone, to the beginning of the stack. */
	WALK_BY_TABLES = 10,
};

/* Why something is missing; the numbers are those of docs/FORMAT.md, `loss cause`. */
enum loss_cause {
	LOSS_RING_FULL_SAMPLE = 0,
	LOSS_RING_FULL_TASK = 1,
	LOSS_NO_SCRATCH = 2,
	LOSS_TARGETS_FULL = 3,
	LOSS_STACK_SHORTENED = 4,
	LOSS_RATE_LOWERED = 5,
	LOSS_UNPAIRED = 6,
	LOSS_MISSED_RUNS = 7,
	LOSS_CAUSES = 8,
	/* Losses are counted by event, and apart if they are of none, or of an unknown one. */
	NO_EVENT = MAX_EVENTS,
	LOSS_EVENTS = MAX_EVENTS + 1,
};


/* The most arguments of a function that a hit can weigh. */
#define MAX_ARGUMENTS 8

/* What the hit of a probe can weigh besides an argument. */
enum weight {
	/* A bit: the lower half of the argument, as functions take `int`. */
	WEIGHT_INT = 32,
	WEIGHT_RETURN_VALUE = 64,
	/* The lower half of it, as functions return `int`. */
	WEIGHT_RETURN_INT = 65,
	WEIGHT_DURATION = 66,
};

/* What a field of a tracepoint is. */
enum field_kind {
	FIELD_NONE = 0,
	FIELD_UNSIGNED = 1,
	FIELD_SIGNED = 2,
	/* Characters, ended by NUL if they do not fill it. */
	FIELD_TEXT = 3,
	/* The field tells where characters are: their offset, and in the upper half their length, NUL included. */
	FIELD_LOCATED = 4,
	/* The same, and the offset counts from the end of the field. */
	FIELD_LOCATED_BEHIND = 5,
};

/* Where a field is in what a tracepoint reports; its offset and size in bytes. */
struct field {
	__u16 off;
	__u8 size;
	/* enum field_kind */
	__u8 kind;
};

/* Which stacks are copied. */
enum copy_mode {
	COPY_NOTHING = 0,
	/* All of a stack; if its walk is complete, only the top. */
	COPY_UNTRUSTED = 1,
	/* All of the stack with every sample. */
	COPY_ALWAYS = 2,
};

/* The state of a followed process. */
enum target_state {
	TARGET_ENDING = 0,
	TARGET_LIVE = 1,
};

/* Which tasks are sampled. */
enum target_mode {
	TARGET_SYSTEM = 0,
	TARGET_PROCESSES = 1,
	TARGET_THREADS = 2,
	TARGET_CGROUPS = 3,
};

/*
 *  off size
 *    0    4  type      enum record_type
 *    4    4  cpu
 *    8    8  time_ns   CLOCK_MONOTONIC
 *   16    4  tgid
 *   20    4  tid
 *   24   16  comm      NUL-padded name of the thread
 *   40    8  cgroup_id of the thread, in the hierarchy of cgroup2; 0 if the kernel has no cgroups. RECORD_CGROUP: the new one
 */
struct record_head {
	__u32 type;
	__u32 cpu;
	__u64 time_ns;
	__u32 tgid;
	__u32 tid;
	char comm[COMM_LEN];
	__u64 cgroup_id;
};

/*
 *  off size
 *    0   48  head
 *   48    8  weight       the event's period: ns for cpu-clock
 *   56    2  kernel_len   frames
 *   58    2  user_len     frames
 *   60    1  kernel_end   enum walk_end
 *   61    1  user_end     enum walk_end
 *   62    1  event        its position in the recording's list of events
 *   63    1  field_len    bytes; 0 if the sample has no field
 *   64    8  snapshot     number of the snapshot that came before in the same buffer; 0 if there is none
 *   72    8  interpreted  number of the frames of an interpreter that came before in the same buffer; 0 if there are none
 *   80       kernel_len addresses, leaf first, then user_len addresses, leaf first
 *            field_len bytes of a field of a tracepoint
 */
struct sample_record {
	struct record_head head;
	__u64 weight;
	__u16 kernel_len;
	__u16 user_len;
	__u8 kernel_end;
	__u8 user_end;
	__u8 event;
	__u8 field_len;
	__u64 snapshot;
	__u64 interpreted;
};

/* Where an interpreter keeps its frames: an address, and offsets in bytes. */
struct interpreter {
	/* The state of the interpreters of a process; if threads have no numbers (`thread`), that of the only thread that runs functions. */
	__u64 runtime;
	/* In it, the first interpreter; in an interpreter the next one, and its first thread. */
	__u32 first_interpreter;
	__u32 next_interpreter;
	__u32 threads;
	/* In a thread: the next one, its number in the C library (`pthread_self`), its innermost frame, or run if it `has_runs`. */
	__u32 next_thread;
	__u32 thread;
	__u32 frame;
	/* In a run of the eval loop (`_PyCFrame`): the innermost frame, and the run that called it; 0 if frames themselves tell. */
	__u32 has_runs;
	__u32 run_frame;
	__u32 outer_run;
	/* In a frame: the one that called it, its code, its instruction, and bits that say whether it is the outermost one of a run; they lie in
	 * its first bytes, so many. */
	__u32 previous;
	__u32 code;
	__u32 instruction;
	__u32 flags;
	__u32 entered;
	__u32 frame_bytes;
	/* The registers in which the eval loop has its frame and its instruction; 0 if it has none. */
	__u32 frame_register;
	__u32 instruction_register;
	/* In a code object: a number of four bytes that tells it from others, and, if that number alone does not, its file, its name, its class and
	 * its table of lines; 0 of what is not there. In a class, its name. */
	__u32 number;
	__u32 file;
	__u32 name;
	__u32 class;
	__u32 class_name;
	__u32 lines;
	/* The first bytes of a code object hold these fields, so many; at most 184. */
	__u32 code_bytes;
	/* A function whose first byte is this one is part of the interpreter and has neither number nor file; 0 if code objects have no such byte. */
	__u32 builtin;
	/* In a text, its length and its hash, the latter first or not; its characters; and how many bytes of its end tell it where its hash is not
	 * known, 16 or 32. */
	__u32 text_head;
	__u32 is_hash_first;
	__u32 characters;
	__u32 end_bytes;
	/* In an instruction, its line, four bytes; 0 if it has none. */
	__u32 line;
	/* Where functions have machine frames of their own (V8): in a function, what is shared with others of the same source; in that, its script; in
	 * a script, its number. 0 elsewhere. */
	__u32 shared;
	__u32 script;
	__u32 script_number;
	/* In what an object begins with, its type, two bytes; and that of bytecode. */
	__u32 type;
	__u32 bytecode_type;
	__u32 zero;
};

/*
 * A function that an interpreter runs.
 *
 *  off size
 *    0    8  code           address of its code object
 *    8    8  instruction    address; the upper 16 bits are the lower ones of its line, if instructions have lines
 *   16    4  check          what tells the code object from others at its address
 *   20    2  machine_frame  1 + the position in the stack of the frame whose eval loop runs this function and those before it, behind the
 *                           last one that ran one; 0 if it is that of the next function that has one, or not known
 *   22    2  flags          enum interpreted_flags
 */
struct interpreted_frame {
	__u64 code;
	__u64 instruction;
	__u32 check;
	__u16 machine_frame;
	__u16 flags;
};

enum interpreted_flags {
	/* Nothing that this interpreter runs is in it; further ones belong to another interpreter. */
	INTERPRETED_INNERMOST = 1,
	/* Native code called it, so it is the outermost one of a run of the eval loop. */
	INTERPRETED_ENTERED = 2,
	/* Registers have held the frame and the instruction. */
	INTERPRETED_IN_REGISTERS = 4,
};

/*
 * The functions that interpreters run in the thread of the next sample of the same buffer: of each interpreter, the innermost first.
 *
 *  off size
 *    0    4  type    RECORD_INTERPRETED
 *    4    2  len     frames
 *    6    2  end     enum walk_end
 *    8    8  number  counts up in a buffer, from 1; the upper bits are the number of the buffer
 *   16       frames; only so many are sent
 */
struct interpreted_record {
	__u32 type;
	__u16 len;
	__u16 end;
	__u64 number;
	struct interpreted_frame frames[MAX_INTERPRETED_FRAMES];
};

/*
 * The state of user space at a sample. Pages of the stack follow, then the list of its pages, then the sample, all of one buffer.
 * If the thread is on an alternate signal stack, the state that the signal interrupted follows after the list of pages in the same way.
 *
 *  off size
 *    0    4  type       RECORD_REGISTERS
 *    4    4  zero
 *    8    8  snapshot   counts up in a buffer, from 1; the upper bits are the number of the buffer
 *   16    8  stack_end  address after the stack; 0 if it is unknown
 *   24    4  is_outer   1: the state of outer code, which a signal interrupted or which called Go; 0: the state at the sample
 *   28    4  top_len    bytes that `top` has; 0 if they could not be read
 *   32       registers
 *            top        the stack at the stack pointer; only so much is sent
 */
struct registers_record {
	__u32 type;
	__u32 zero;
	__u64 snapshot;
	__u64 stack_end;
	__u32 is_outer;
	__u32 top_len;
	__u64 registers[REGISTER_COUNT];
	__u8 top[MAX_TOP_LEN];
};

/*
 * A walk has come to code of a file without unwind tables in the kernel.
 *
 *  off size
 *    0    4  type  RECORD_NO_TABLE
 *    4    4  tgid
 *    8   40  file
 *   48    8  start of its mapping in the process
 *   56    8  end
 *   64    4  uid  of the thread
 *   68    4  0
 */
struct no_table_record {
	__u32 type;
	__u32 tgid;
	struct file_key file;
	__u64 start;
	__u64 end;
	__u32 uid;
	__u32 zero;
};

/*
 * A page that holds a part of a stack. It is sent only if it changed since it was last sent for this thread.
 *
 *  off size
 *    0    4  type      RECORD_STACK_PAGE
 *    4    4  tid
 *    8    8  snapshot  that it belongs to
 *   16    8  address
 *   24    8  hash      of the bytes
 *   32 4096  bytes     all of the page, also what is not stack
 */
struct page_record {
	__u32 type;
	__u32 tid;
	__u64 snapshot;
	__u64 address;
	__u64 hash;
	__u8 bytes[STACK_PAGE_LEN];
};

/*
 * The hash of each page of a stack, also of the pages that were not sent again because they did not change. If a page is missing (the
 * ring was full), the stack is known only up to there.
 *
 *  off size
 *    0    4  type      RECORD_STACK
 *    4    4  tid
 *    8    8  snapshot  that it belongs to
 *   16    8  low       address of the first byte
 *   24    8  high      address after the last one
 *   32    4  len       pages
 *   36    4  zero
 *   40       hash of each page, of the one that holds `low` first; 0 if the page could not be read
 */
struct stack_record {
	__u32 type;
	__u32 tid;
	__u64 snapshot;
	__u64 low;
	__u64 high;
	__u32 len;
	__u32 zero;
};

/*
 *  off size
 *    0   48  head           of the task that changed; RECORD_FORK: of the child
 *   48    4  parent_tgid    RECORD_FORK; RECORD_EXIT: how the thread ended, as wait(2) has it
 *   52    2  whole_group    RECORD_EXIT: 1 if the process has no threads left
 *   54    2  shares_memory  RECORD_FORK: 1 if the child is another process with the address space of its creator (CLONE_VM)
 */
struct task_record {
	struct record_head head;
	__u32 parent_tgid;
	__u16 whole_group;
	__u16 shares_memory;
};

/* Who ended a wait; the numbers are those of docs/FORMAT.md, `woken by`. */
enum waker {
	WAKER_UNKNOWN = 0,
	WAKER_THREAD = 1,
	WAKER_HARD_INTERRUPT = 2,
	WAKER_SOFT_INTERRUPT = 3,
	WAKER_NOBODY = 4,
};

#define INNER_FRAMES 12

/* Flags of a wait. */
enum wait_flags {
	WAIT_BEGAN_BEFORE = 1,
	WAIT_NOT_ENDED = 2,
	/* RECORD_WAIT_STACK follows, when the thread returns to user space. */
	WAIT_HAS_STACK = 4,
};

/*
 * A thread is on a CPU again. It waited in two parts: until somebody woke it, and then for a CPU.
 *
 *   began_ns        ready_ns           head.time_ns
 *   ├─ off-CPU ─────┼─ run delay ──────┤
 *
 *  off size
 *    0   48  head            of the thread
 *   48    8  began_ns        when it left its CPU
 *   56    8  ready_ns        when it became runnable; `began_ns` if it was preempted
 *   64    8  blocked_weight  of the first part, ns; 0 if it is no sample
 *   72    8  delay_weight    of the second part, ns; 0 if it is no sample
 *   80    8  epoch           of the RECORD_WAIT_STACK with the user stack
 *   88    8  waker_ns        time of the waker's sample; 0 if there is none
 *   96    4  waker_tgid
 *  100    4  waker_tid
 *  104   16  waker_comm
 *  120    4  state           the kernel's state of the task when it left its CPU; 0: runnable; all ones: unknown
 *  124    2  kernel_len      frames
 *  126    1  kernel_end      enum walk_end
 *  127    1  woken_by        enum waker
 *  128    4  flags
 *  132    2  inner_len       frames, at most INNER_FRAMES
 *  134    2  inner_from      the first of them that is not the scheduler's own
 *  136       inner_len addresses, leaf first: the innermost kernel frames when the thread left its CPU
 *            kernel_len addresses, leaf first: the kernel stack without the functions that the kernel hides (bpf/inner_frames.h)
 *
 * RECORD_WAIT_STACK is a `sample_record` with user frames alone; its weight is the epoch.
 */
struct wait_record {
	struct record_head head;
	__u64 began_ns;
	__u64 ready_ns;
	__u64 blocked_weight;
	__u64 delay_weight;
	__u64 epoch;
	__u64 waker_ns;
	__u32 waker_tgid;
	__u32 waker_tid;
	char waker_comm[COMM_LEN];
	__u32 state;
	__u16 kernel_len;
	__u8 kernel_end;
	__u8 woken_by;
	__u32 flags;
	__u16 inner_len;
	__u16 inner_from;
};

/* When the account of a thread was read. */
enum account_moment {
	ACCOUNT_RUNNING = 0,
	ACCOUNT_ENDING = 1,
	ACCOUNT_FREED = 2,
};

/*
 * CPU time of a thread since it began.
 *
 *  off size
 *    0    4  type       RECORD_CPU_TIME
 *    4    4  moment     enum account_moment
 *    8    8  time_ns    CLOCK_MONOTONIC
 *   16    8  task       identifies the thread; ids are reused
 *   24    8  start_ns   when the thread began, CLOCK_MONOTONIC
 *   32    4  tgid
 *   36    4  tid
 *   40    8  ran_ns     sum_exec_runtime
 *   48    8  user_ns    utime
 *   56    8  kernel_ns  stime
 */
struct cpu_time_record {
	__u32 type;
	__u32 moment;
	__u64 time_ns;
	__u64 task;
	__u64 start_ns;
	__u32 tgid;
	__u32 tid;
	__u64 ran_ns;
	__u64 user_ns;
	__u64 kernel_ns;
};

/* What is known of a process. */
enum process_has {
	/* The last thread of the process ends. */
	PROCESS_HAS_ENDED = 1,
	PROCESS_HAS_MEMORY = 2,
	PROCESS_HAS_PEAK = 4,
	/* All threads were added up. */
	PROCESS_HAS_SUMS = 8,
	PROCESS_HAS_DISK = 16,
	PROCESS_HAS_CALLS = 32,
};

/*
 * Counters of a process: sums since it began, over all its threads, also those that have ended.
 *
 *  off size
 *    0    4  type                  RECORD_PROCESS
 *    4    4  has                   bits of enum process_has
 *    8    8  time_ns               CLOCK_MONOTONIC
 *   16    8  start_ns              when the process began, CLOCK_MONOTONIC
 *   24    4  tgid
 *   28    4  threads
 *   32    8  cgroup_id             as in record_head
 *   40    8  memory                resident, bytes
 *   48    8  peak                  the most that was resident at one time, bytes
 *   56    8  cpu_ns                sum_exec_runtime
 *   64    8  user_ns               utime
 *   72    8  system_ns             stime
 *   80    8  minor_faults
 *   88    8  major_faults
 *   96    8  voluntary_switches
 *  104    8  involuntary_switches
 *  112    8  disk_read             bytes
 *  120    8  disk_written
 *  128    8  calls_read
 *  136    8  calls_written
 */
struct process_record {
	__u32 type;
	__u32 has;
	__u64 time_ns;
	__u64 start_ns;
	__u32 tgid;
	__u32 threads;
	__u64 cgroup_id;
	__u64 memory;
	__u64 peak;
	__u64 cpu_ns;
	__u64 user_ns;
	__u64 system_ns;
	__u64 minor_faults;
	__u64 major_faults;
	__u64 voluntary_switches;
	__u64 involuntary_switches;
	__u64 disk_read;
	__u64 disk_written;
	__u64 calls_read;
	__u64 calls_written;
};

/*
 *  off size
 *    0   48  head         of the task that made the cgroup
 *   48 1024  path         in the hierarchy of cgroup2, ended by NUL
 */
struct cgroup_record {
	struct record_head head;
	char path[CGROUP_PATH_LEN];
};

#endif
