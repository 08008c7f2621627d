/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Finds the functions that an interpreter runs. CPython links a frame for each of its functions into a list, which begins at the state of
 * the thread. Since 3.12 each run of its eval loop has an entry frame on the C stack, at the end of the part of the list that the run has
 * made; in 3.11 it has a structure there (`_PyCFrame`). So the machine frame around that address is the one that runs these functions.
 * CPython up to 3.10 and PHP have such lists, too, and nothing of them on the C stack: their frames tell where runs end, and user space counts
 * the frames of the eval loop.
 *
 *   list                                   C stack
 *   handler  ──► dispatch ──► entry ·······► frame of the eval loop      runs handler, dispatch
 *                               │            frame of sorted()
 *                               ▼
 *                 main ──► entry ··········► frame of the eval loop      runs main
 */
#ifndef ICECORE_INTERPRETED_H
#define ICECORE_INTERPRETED_H

#include "kernel.h"
#include "maps.h"
#include "pages.h"
#include "scratch.h"
#include "wire.h"

/* The most states of threads that are searched for those of one thread. */
#define MAX_THREAD_STATES 4096
/* Pointers to code have marks in their lowest bits. */
#define CODE_MARKS 7ULL

/* Processes with an interpreter, and where it keeps its frames; user space has read that from its file. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct interpreter);
} interpreters SEC(".maps");

/* Looks for frames of an interpreter in a new process if its parent has one: it has the same memory. */
static __always_inline void inherit_interpreter(__u32 parent_tgid, __u32 tgid)
{
	struct interpreter *of = bpf_map_lookup_elem(&interpreters, &parent_tgid);

	/* The id may have belonged to another process. */
	if (of)
		bpf_map_update_elem(&interpreters, &tgid, of, 0);
	else
		bpf_map_delete_elem(&interpreters, &tgid);
}

/* What is known of a thread: its state, 0 if it has none, as long as the first state of the list is this one, of this thread. New ones come
 * first, and memory of one that has ended may become that of another one. */
struct known_thread {
	__u64 state;
	__u64 first;
	__u64 of_first;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct known_thread);
} interpreted_tids SEC(".maps");

struct thread_search {
	struct interpreted *into;
	__u64 interpreter;
	__u64 state;
	__u64 thread;
};

/* Looks at one state of a thread, or goes to the next interpreter of the process. */
static long search_thread(__u32 i, struct thread_search *search)
{
	struct interpreted *into = search->into;
	__u64 thread = 0, next = 0;

	if (!search->state) {
		if (!search->interpreter || READ_USER(search->state, search->interpreter + into->of.threads))
			return 1;
		if (READ_USER(next, search->interpreter + into->of.next_interpreter))
			return 1;
		search->interpreter = next;
		return 0;
	}
	if (READ_USER(thread, search->state + into->of.thread) || READ_USER(next, search->state + into->of.next_thread))
		return 1;
	if (thread == search->thread) {
		into->states[into->state_count & (MAX_STATES - 1)] = search->state;
		/* A thread has one in each interpreter. */
		if (++into->state_count >= MAX_STATES)
			return 1;
		next = 0;
	}
	search->state = next;
	return 0;
}

/* Stores the states of the current thread: one in each interpreter of the process that it has entered. */
static __always_inline void find_states(struct interpreted *into, __u32 tid)
{
	struct thread_search search = { .into = into };
	struct known_thread *known = bpf_map_lookup_elem(&interpreted_tids, &tid);
	const struct interpreter *of = &into->of;
	struct known_thread now = {};
	__u64 thread = 0, others = 0;

	into->state_count = 0;
	if (!of->thread) {
		into->states[0] = of->runtime;
		into->state_count = 1;
		return;
	}
#if defined(__TARGET_ARCH_x86)
	search.thread = BPF_CORE_READ(bpf_get_current_task_btf(), thread.fsbase);
#endif
	if (READ_USER(search.interpreter, of->runtime + of->first_interpreter) || !search.interpreter ||
	    READ_USER(others, search.interpreter + of->next_interpreter) ||
	    READ_USER(now.first, search.interpreter + of->threads) || READ_USER(now.of_first, now.first + of->thread))
		return;
	if (known && !others && known->first == now.first && known->of_first == now.of_first) {
		if (!known->state)
			return;
		if (!READ_USER(thread, known->state + of->thread) && thread == search.thread) {
			into->states[0] = known->state;
			into->state_count = 1;
			return;
		}
	}
	bpf_loop(MAX_THREAD_STATES, search_thread, &search, 0);
	now.state = into->state_count ? into->states[0] : 0;
	bpf_map_update_elem(&interpreted_tids, &tid, &now, 0);
}

/* Notes that a run ends with the frame before the position `end`; `at` is its address on the C stack. */
static __always_inline void end_run(struct interpreted *into, __u64 at, __u32 end)
{
	__u32 run = into->run_count;

	if (run >= MAX_INTERPRETER_RUNS)
		return;
	into->runs[run & (MAX_INTERPRETER_RUNS - 1)].at = at;
	into->runs[run & (MAX_INTERPRETER_RUNS - 1)].last = end - 1;
	into->run_count = run + 1;
}

/* 3.11: makes the next run outwards the current one. */
static __always_inline void next_run(struct interpreted *into, __u64 run)
{
	struct list_walk *walk = &into->list;

	walk->run = run;
	walk->outer_run = walk->outer_frame = 0;
	if (!run || READ_USER(walk->outer_run, run + into->of.outer_run) || !walk->outer_run)
		return;
	if (READ_USER(walk->outer_frame, walk->outer_run + into->of.run_frame))
		walk->outer_frame = 0;
}

/* Returns what tells a text from others: its hash, or if that is not known its end. */
static __always_inline __u64 check_of_text(struct interpreted *into, __u64 text)
{
	const struct interpreter *of = &into->of;
	__u64 *words = into->words;
	__u64 hash, end;

	if (!text)
		return 0;
	if (bpf_probe_read_user(words, 16, (void *)(text + of->text_head))) {
		into->faults++;
		return 0;
	}
	hash = words[of->is_hash_first ? 0 : 1];
	end = text + of->characters + words[of->is_hash_first ? 1 : 0];
	if (hash && hash != ~0ULL)
		return hash;
	words[2] = words[3] = 0;
	/* Kernels refuse a length that they do not know for sure. */
	if (of->end_bytes == 32 ? bpf_probe_read_user(words, 32, (void *)(end - 32)) : bpf_probe_read_user(words, 16, (void *)(end - 16))) {
		into->faults++;
		return 0;
	}
	return words[0] ^ words[1] * 3 ^ words[2] * 5 ^ words[3] * 7;
}

/* Where a function that is part of PHP has its name and its class: in so many bytes. */
#define BUILTIN_BYTES 24
/* Where an object of bytes has their number, and the bytes themselves. */
#define BYTES_LENGTH 16
#define BYTES_BEGIN 32

/* Returns what tells an object of bytes from others: their number and their end. */
static __always_inline __u64 check_of_bytes(struct interpreted *into, __u64 bytes)
{
	__u64 *words = into->words;
	__u64 len = 0, mixed, end;

	if (READ_USER(len, bytes + BYTES_LENGTH)) {
		into->faults++;
		return 0;
	}
	end = bytes + BYTES_BEGIN + len;
	for (int i = 2; i < 8; i++)
		words[i] = 0;
	if (len < 24 ? bpf_probe_read_user(words, 16, (void *)(end - 16)) :
	    len < 56 ? bpf_probe_read_user(words, 32, (void *)(end - 32)) :
		       bpf_probe_read_user(words, 64, (void *)(end - 64))) {
		into->faults++;
		return 0;
	}
	mixed = len;
	for (int i = 0; i < 8; i++)
		mixed = mixed * 31 + words[i];
	return mixed;
}

/* Returns a field of the code object whose begin was read. */
static __always_inline __u64 code_field(const struct interpreted *into, __u32 off)
{
	return into->code_begin[off / 8 & (CODE_WORDS - 1)];
}

/* Returns what tells a code object from the next one at its address. */
static __always_inline __u32 check_of_code(struct interpreted *into, __u64 code)
{
	const struct interpreter *of = &into->of;
	__u64 mixed = 0, file, class = 0;
	__u32 number = 0;

	if (!of->file) {
		if (READ_USER(number, code + of->number))
			into->faults++;
		return number;
	}
	if (of->code_bytes > sizeof(into->code_begin) || bpf_probe_read_user(into->code_begin, of->code_bytes, (void *)code)) {
		into->faults++;
		/* Functions that are part of the interpreter have fewer bytes. */
		into->code_begin[0] = 0;
		if (!of->builtin || bpf_probe_read_user(into->code_begin, BUILTIN_BYTES, (void *)code) || (__u8)into->code_begin[0] != of->builtin)
			return 0;
	}
	if (!of->builtin || (__u8)into->code_begin[0] != of->builtin) {
		number = code_field(into, of->number) >> 8 * (of->number & 4);
		file = code_field(into, of->file);
		/* Mostly it is that of the last one. */
		if (file != into->last_file) {
			into->last_file = file;
			into->last_file_check = check_of_text(into, file);
		}
		mixed = into->last_file_check * 3;
	}
	mixed += check_of_text(into, code_field(into, of->name));
	if (of->class)
		class = code_field(into, of->class);
	if (class && READ_USER(class, class + of->class_name))
		into->faults++;
	else
		mixed += check_of_text(into, class) * 5;
	if (of->lines)
		mixed += check_of_bytes(into, code_field(into, of->lines)) * 7;
	return number * 0x9e3779b1 + (__u32)mixed + (__u32)(mixed >> 32);
}

/* Reads a frame. Mostly its callers lie below it, on a stack that the interpreter keeps for frames: then it reads a piece with some of them,
 * not beyond the page, since a fault takes as long as 50 frames. */
static __always_inline bool read_frame(struct interpreted *into, __u64 frame)
{
	struct list_walk *walk = &into->list;
	__u32 bytes = into->of.frame_bytes, below = 0;
	__u64 off = frame - walk->window_at, len;

	if (frame & 7 || bytes > FRAME_WORDS * 8)
		return 0;
	if (off < walk->window_len && off + bytes <= walk->window_len)
		return 1;
	if (walk->inner_frame - frame < sizeof(into->window)) {
		below = frame & (STACK_PAGE_LEN - 1);
		if (below > sizeof(into->window) - FRAME_WORDS * 8)
			below = sizeof(into->window) - FRAME_WORDS * 8;
	}
	len = below + bytes;
	walk->window_at = frame - below;
	walk->window_len = len;
	return len <= sizeof(into->window) && !bpf_probe_read_user(into->window, len, (void *)walk->window_at);
}

/* Returns a field of the frame that was read. */
static __always_inline __u64 frame_field(const struct interpreted *into, __u64 frame, __u32 off)
{
	return into->window[(frame - into->list.window_at + off) / 8 & (FRAME_WINDOW_WORDS - 1)];
}

/* Reads one frame of the list. */
static long list_step(__u32 i, struct interpreted **context)
{
	struct interpreted *into = *context;
	const struct interpreter *of = &into->of;
	struct list_walk *walk = &into->list;
	struct interpreted_frame *to;
	__u64 frame = walk->frame;
	__u32 at = walk->len, line = 0;
	bool is_on_stack, is_innermost = at == walk->base;

	if (!frame) {
		walk->end = WALK_ROOT;
		return 1;
	}
	if (at >= MAX_INTERPRETED_FRAMES)
		return 1;
	if (of->outer_run && frame == walk->outer_frame) {
		if (!is_innermost)
			end_run(into, walk->run, at);
		next_run(into, walk->outer_run);
	}
	if (into->faults >= MAX_FAULTS || !read_frame(into, frame)) {
		walk->end = WALK_UNREADABLE;
		return 1;
	}
	walk->inner_frame = frame;
	to = &into->record.frames[at & (MAX_INTERPRETED_FRAMES - 1)];
	to->code = frame_field(into, frame, of->code) & ~CODE_MARKS;
	to->instruction = frame_field(into, frame, of->instruction);
	walk->frame = frame_field(into, frame, of->previous);
	is_on_stack = frame - walk->low < walk->high - walk->low;
	/* PHP 7.4 puts frames without a function between a function and those that its native code calls. */
	if (of->entered && is_on_stack && !to->code)
		return 0;
	to->flags = is_innermost ? INTERPRETED_INNERMOST : 0;
	if (frame_field(into, frame, of->flags) & of->entered)
		to->flags |= INTERPRETED_ENTERED;
	if (is_innermost && of->frame_register && frame == into->frame_register) {
		to->instruction = into->instruction_register;
		to->flags |= INTERPRETED_IN_REGISTERS;
	}
	if (of->line) {
		if (to->instruction != into->last_instruction) {
			into->last_instruction = to->instruction;
			if (READ_USER(line, to->instruction + of->line))
				into->faults++;
			into->last_line = line;
		}
		to->instruction |= into->last_line << 48;
	}
	/* Functions call themselves. */
	if (to->code != into->last_code) {
		into->last_code = to->code;
		into->last_check = to->code ? check_of_code(into, to->code) : 0;
	}
	to->check = into->last_check;
	to->machine_frame = 0;
	walk->len = at + 1;
	if (!of->outer_run && !of->entered && is_on_stack)
		end_run(into, frame, at + 1);
	return 0;
}

/* Reads the frames that the current thread has in one interpreter, behind those of others. */
static __always_inline void read_list(struct interpreted *into, __u32 number)
{
	struct interpreter_runs *runs = &into->of_states[number & (MAX_STATES - 1)];
	const struct interpreter *of = &into->of;
	struct list_walk *walk = &into->list;

	into->record.end = WALK_UNREADABLE;
	runs->next = runs->end = into->run_count;
	if (READ_USER(walk->frame, into->states[number & (MAX_STATES - 1)] + of->frame))
		return;
	walk->end = WALK_DEPTH;
	walk->base = walk->len = into->record.len;
	walk->outer_frame = walk->inner_frame = 0;
	walk->window_len = 0;
	if (of->has_runs) {
		next_run(into, walk->frame);
		if (!walk->run || READ_USER(walk->frame, walk->run + of->run_frame))
			return;
	}
	bpf_loop(MAX_INTERPRETED_FRAMES, list_step, &into, 0);
	into->record.end = walk->end;
	if (of->outer_run && walk->end == WALK_ROOT && walk->len > walk->base)
		end_run(into, walk->run, walk->len);
	runs->end = into->run_count;
	into->record.len = walk->len;
}

static __always_inline __u64 register_of(struct scratch *scratch, __u32 number)
{
	return number < REGISTER_COUNT ? scratch->registers.registers[number] : 0;
}

/* Reads the frames of the interpreter that the current thread runs, if there is one. The walk of the machine's frames then finds theirs. */
VERIFIED_ALONE int find_interpreted(__u32 slot)
{
	struct scratch *scratch = scratch_of(slot);
	const struct interpreter *of;
	struct interpreted *into;
	__u32 tgid;

	if (!scratch)
		return 0;
	into = &scratch->interpreted;
	into->run_count = into->state_count = 0;
	into->last_code = into->last_check = into->last_instruction = into->last_line = 0;
	into->faults = 0;
	into->last_function = into->last_script = into->last_file = into->last_file_check = 0;
	into->record.len = 0;
	into->of.shared = 0;
	into->found.code = into->was_bare = 0;
	tgid = scratch->record.head.tgid;
	of = bpf_map_lookup_elem(&interpreters, &tgid);
	if (!of)
		return 0;
	into->of = *of;
	/* The walk of the machine's frames finds all of them. */
	if (of->shared) {
		into->record.end = WALK_ROOT;
		return 0;
	}
	into->frame_register = register_of(scratch, of->frame_register);
	into->instruction_register = register_of(scratch, of->instruction_register);
	find_states(into, scratch->record.head.tid);
	if (!into->state_count)
		return 0;
	into->list.low = scratch->registers.registers[STACK_POINTER];
	into->list.high = stack_end(scratch->record.head.tid, into->list.low);
	for (__u32 number = 0; number < MAX_STATES; number++) {
		if (number < into->state_count)
			read_list(into, number);
	}
	return 0;
}

/* Returns true if the current thread may run functions of an interpreter. */
static __always_inline bool is_interpreted(const struct interpreted *into)
{
	return into->record.len || into->of.shared;
}

/* Notes the machine frame, a position in the stack, that lies from `low` on and below `high`, if a run of the interpreter is in it. */
static __always_inline void place_run(struct interpreted *into, __u64 low, __u64 high, __u32 position)
{
	for (__u32 number = 0; number < MAX_STATES; number++) {
		struct interpreter_runs *runs = &into->of_states[number & (MAX_STATES - 1)];
		struct interpreter_run *run = &into->runs[runs->next & (MAX_INTERPRETER_RUNS - 1)];

		if (number >= into->state_count)
			return;
		if (runs->next >= runs->end || run->at < low || run->at >= high)
			continue;
		into->record.frames[run->last & (MAX_INTERPRETED_FRAMES - 1)].machine_frame = position + 1;
		runs->next++;
	}
}

/* Sends the interpreter's frames of a sample, before it. */
static __always_inline void send_interpreted(__u32 slot, struct scratch *scratch)
{
	struct interpreted *into = &scratch->interpreted;
	__u64 bytes = sizeof(into->record) - sizeof(into->record.frames) +
		      (into->record.len & (2 * MAX_INTERPRETED_FRAMES - 1)) * sizeof(into->record.frames[0]);

	if (!into->record.len || bytes > sizeof(into->record))
		return;
	into->record.type = RECORD_INTERPRETED;
	into->record.number = ((__u64)slot << SNAPSHOT_BITS) + (++into->sent & ((1ULL << SNAPSHOT_BITS) - 1));
	scratch->record.interpreted = into->record.number;
	bpf_ringbuf_output(&ring, &into->record, bytes, BPF_RB_NO_WAKEUP);
}

#endif
