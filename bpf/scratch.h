/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The buffers in which a program puts a sample together: a few for each CPU, because the stack of a program has 512 bytes. */
#ifndef ICECORE_SCRATCH_H
#define ICECORE_SCRATCH_H

#include "kernel.h"
#include "code.h"
#include "go.h"
#include "maps.h"
#include "returns.h"
#include "wire.h"

/* How many ranges of code a walk remembers: a power of two. */
#define KNOWN_CODE 8

/* The stack is read in pieces of so many words: a power of two. A call that reads memory of a program costs as much as half a piece. */
#define WINDOW_WORDS 64

/* A range of code with unwind tables. */
struct known_code {
	struct code_range range;
	struct table table;
};

/* A state of the mappings of a process. */
struct known_of {
	__u64 mm;
	/* Of the thread: a process may get the number and the memory of one that has ended. */
	__u64 start_time;
	__u64 exec_id;
	/* The kernel counts here how often its mappings may have changed. */
	__u64 sequence;
	/* Of the tables. */
	__u64 epoch;
};

/* A walk by unwind tables. */
struct table_walk {
	__u64 ip;
	__u64 sp;
	__u64 fp;
	__u32 fp_is_lost;
	/* `ip` is that of an instruction, and not one that a call returns to. */
	__u32 is_interrupted;
	/* How often the stack was left for another one, and where the walk began on this one. */
	__u32 switches;
	__u64 begin;
	/* The walk came to the beginning of the stack. */
	__u32 is_whole;
	/* The walk went over to the stack that a goroutine has left. */
	__u32 is_over;
	/* A piece of the stack, and its address. */
	__u64 window_at;
	__u64 window[WINDOW_WORDS];
	/* The code that was last looked up. */
	struct known_code code;
	struct known_code known[KNOWN_CODE];
	/* What the known ranges are of. */
	struct known_of known_of;
	__u32 next;
	/* The stack pointer of the frame that is left. */
	__u64 left_sp;
	struct no_table_record missing;
	struct tree_search search;
};

/* The most interpreters that a thread can be in; a power of two. */
#define MAX_STATES 4

/* A run of the eval loop of an interpreter: an address in its machine frame, and the position of its outermost function. */
struct interpreter_run {
	__u64 at;
	__u32 last;
	__u32 zero;
};

/* The fields of a frame lie in so many words at its begin; a power of two. */
#define FRAME_WORDS 16
/* Frames are read in pieces of so many words; a power of two. */
#define FRAME_WINDOW_WORDS 128

/* The fields of a code object that tell it from others lie in so many words at its begin; a power of two. */
#define CODE_WORDS 32
/* How often memory of a process may not be readable until its list is given up: a fault takes as long as 50 frames. */
#define MAX_FAULTS 64

/* A walk along the frames of an interpreter. */
struct list_walk {
	__u64 frame;
	/* The C stack. */
	__u64 low;
	__u64 high;
	/* 3.11: the structure of the run whose frames are read, the next one outwards, and the frame with which that one begins. */
	__u64 run;
	__u64 outer_run;
	__u64 outer_frame;
	/* The frame that was read last, and the address and the length of the piece that was. */
	__u64 inner_frame;
	__u64 window_at;
	__u64 window_len;
	/* The position of the first frame among those of the sample, and that behind the last one. */
	__u32 base;
	__u32 len;
	__u32 end;
	__u32 zero;
};

/* The functions that an interpreter runs in a thread. Programs have too little stack for what is needed meanwhile. */
struct interpreted {
	struct list_walk list;
	__u64 window[FRAME_WINDOW_WORDS];
	__u64 words[FRAME_WORDS];
	__u64 code_begin[CODE_WORDS];
	struct interpreter of;
	/* What the registers hold in which the eval loop has its frame and its instruction. */
	__u64 frame_register;
	__u64 instruction_register;
	/* The code object that was read last, and what tells it from others, its file, and its instruction and the line of that. In V8, the function whose code that
	 * is, and the script that was read last, and its number. */
	__u64 last_code;
	__u64 last_check;
	__u64 last_file;
	__u64 last_file_check;
	__u64 last_instruction;
	__u64 last_line;
	__u64 last_function;
	__u64 last_script;
	__u64 last_script_number;
	/* How often memory could not be read. */
	__u64 faults;
	/* The function of the machine frame that was left last; its code is 0 if it has none. */
	struct interpreted_frame found;
	/* The machine frame that was left last is one of V8 that has only a return address. */
	__u32 was_bare;
	/* It is the begin of a function, which is in a register. */
	__u32 is_at_begin;
	/* Words that were read from the process. */
	__u64 read[4];
	/* What was seen of the code around an address (bpf/v8.h). */
	struct v8_scan {
		__u32 four;
		__u32 place;
		__u32 is_of_file;
		__u32 is_over;
		__u32 is_given_back;
		__u32 zero;
	} scan;
	/* The states of the thread, one in each interpreter that it has entered, and the runs of each, the innermost first: that which the walk
	 * of the stack comes to next, and that behind the last one. */
	__u64 states[MAX_STATES];
	struct interpreter_runs {
		__u32 next;
		__u32 end;
	} of_states[MAX_STATES];
	__u32 state_count;
	__u32 run_count;
	struct interpreter_run runs[MAX_INTERPRETER_RUNS];
	struct interpreted_record record;
	/* The number of the last record. */
	__u64 sent;
};

/* The buffers of one program while it takes a sample. */
struct scratch {
	/* Kernel frames are written first and user frames after them, so that the record in the ring has no gap. */
	struct sample_record record;
	/* 128, not 127: a power of two lets the verifier bound an index with a mask. The field of a tracepoint is behind the frames. */
	__u64 frames[128 + MAX_USER_FRAMES + MAX_FIELD_LEN / sizeof(__u64)];
	/* From here on nothing is sent with the sample. */
	struct table_walk walk;
	struct go_stacks go;
	struct returns returns;
	struct registers_record registers;
	struct interpreted interpreted;
	struct page_record page;
	struct stack_record stack;
	/* A power of two, like the frames. */
	__u64 hashes[512];
	/* A wait, and its kernel frames: those of when the thread left its CPU, and those of its stack. */
	struct wait_record wait;
	__u64 wait_frames[16 + 128];
	/* The number of the last snapshot. */
	__u64 snapshots;
	__u32 is_taken;
};

_Static_assert(MAX_STACK_PAGES <= 512, "a stack has more pages than there are hashes");

/* Indexed by CPU and lane. (Values of per-CPU arrays end at 32 KiB.) */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

static __always_inline struct scratch *scratch_of(__u32 slot)
{
	return bpf_map_lookup_elem(&scratches, &slot);
}

/* Takes a free buffer of this CPU, and stores its number. Programs of perf events do not nest on a CPU; those of other kinds interrupt
 * them and each other. What interrupts a program that no thread can preempt gives back what it took before it returns, so such a program
 * needs no atomic operations, which kernels before 5.12 refuse wherever they stand. */
static __always_inline struct scratch *claim_scratch_of(__u32 *slot, bool can_be_preempted)
{
	__u32 first = bpf_get_smp_processor_id() * lanes;

	if (lanes == 1) {
		*slot = first;
		return scratch_of(first);
	}
	for (__u32 lane = 0; lane < LANES; lane++) {
		struct scratch *scratch = scratch_of(first + lane);

		if (!scratch)
			continue;
		if (can_be_preempted ? __sync_val_compare_and_swap(&scratch->is_taken, 0, 1) : *(volatile __u32 *)&scratch->is_taken)
			continue;
		*(volatile __u32 *)&scratch->is_taken = 1;
		*slot = first + lane;
		return scratch;
	}
	return 0;
}

static __always_inline struct scratch *claim_scratch(__u32 *slot)
{
	return claim_scratch_of(slot, 1);
}

static __always_inline void free_scratch(struct scratch *scratch)
{
	if (lanes != 1)
		*(volatile __u32 *)&scratch->is_taken = 0;
}

#endif
