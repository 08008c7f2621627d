/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Walks a user stack by the unwind tables of the code. */
#ifndef ICECORE_TABLE_WALK_H
#define ICECORE_TABLE_WALK_H

#include "kernel.h"
#include "code.h"
#include "go.h"
#include "interpreted.h"
#include "maps.h"
#include "returns.h"
#include "scratch.h"
#include "signals.h"
#include "tables.h"
#include "v8.h"
#include "wire.h"

/* How often a walk goes to another stack: from a handler of a signal, and from functions that switch stacks. */
#define MAX_SWITCHES 8
/* Where a signal's frame has the alternate stack and its size, and registers, from its stack pointer on (struct rt_sigframe). */
#define SIGNAL_STACK 16
#define SIGNAL_STACK_SIZE 32
#define SIGNAL_FP 120
#define SIGNAL_SP 160
#define SIGNAL_IP 168
/* Instead of an address: the code has no unwind table, and may be V8's. */
#define IN_V8 1
/* No word has an address that is as close behind. */
#define NO_WINDOW 1
/* What programs may use below the stack pointer, and signals do not overwrite (x86-64 psABI). */
#define RED_ZONE 128

/* Forgets the known ranges if they are of another process, or its mappings may have changed since, or tables were taken away. */
VERIFIED_ALONE int forget_old_code(__u32 slot)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct mm_struct___with_number *by_number = (void *)task->mm;
	struct mm_struct___with_seqcount *by_seqcount = (void *)task->mm;
	struct known_of of = { .mm = (__u64)task->mm, .start_time = task->start_time, .epoch = current_epoch() };
	struct scratch *scratch = scratch_of(slot);
	struct table_walk *walk;

	if (!scratch)
		return 0;
	walk = &scratch->walk;
	if (bpf_core_field_exists(by_seqcount->mm_lock_seq)) {
		of.exec_id = task->self_exec_id;
		of.sequence = by_seqcount->mm_lock_seq.sequence;
	} else if (bpf_core_field_exists(by_number->mm_lock_seq)) {
		of.exec_id = task->self_exec_id;
		of.sequence = by_number->mm_lock_seq;
	}
	if (of.exec_id && of.mm == walk->known_of.mm && of.start_time == walk->known_of.start_time &&
	    of.exec_id == walk->known_of.exec_id && of.sequence == walk->known_of.sequence &&
	    of.epoch == walk->known_of.epoch)
		return 0;
	walk->known_of = of;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < KNOWN_CODE; i++)
		walk->known[i & (KNOWN_CODE - 1)].range.len = 0;
	return 0;
}

/* Makes the code at an address the current range; returns false if it has no table. */
VERIFIED_ALONE int enter_code(__u32 slot, __u64 address)
{
	struct scratch *scratch = scratch_of(slot);
	struct table_walk *walk;
	struct code_range *range;
	struct file_key *key;
	struct table *table;

	if (!scratch)
		return 0;
	walk = &scratch->walk;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < KNOWN_CODE; i++) {
		struct known_code *known = &walk->known[i & (KNOWN_CODE - 1)];

		if (address - known->range.start >= known->range.len)
			continue;
		if (is_unchanged(&known->range)) {
			walk->code = *known;
			count_hit(&walk->code.table);
			return 1;
		}
		known->range.len = 0;
	}
	/* Not on the program's own stack, of which there is little. */
	key = &walk->missing.file;
	range = &walk->code.range;
	__builtin_memset(key, 0, sizeof(*key));
	range->len = 0;
	if (!find_file(address, &walk->search, range, key)) {
		if (address - range->start >= range->len)
			range->len = 0;
		if (!range->len || !scratch->interpreted.of.shared)
			return 0;
		/* Code that the process has made: it has a table without rows. */
		__builtin_memset(&walk->code.table, 0, sizeof(walk->code.table));
		walk->code.table.number = MAX_TABLES;
		walk->known[walk->next++ & (KNOWN_CODE - 1)] = walk->code;
		return 1;
	}
	table = bpf_map_lookup_elem(&tables_of_files, key);
	if (!table) {
		walk->missing.type = RECORD_NO_TABLE;
		walk->missing.tgid = scratch->record.head.tgid;
		walk->missing.start = range->start;
		walk->missing.end = range->start + range->len;
		walk->missing.uid = bpf_get_current_uid_gid();
		/* A record that is lost costs a copy: the next walk that comes there sends another one. */
		bpf_ringbuf_output(&ring, &walk->missing, sizeof(walk->missing), BPF_RB_NO_WAKEUP);
		range->len = 0;
		return 0;
	}
	walk->code.table = *table;
	walk->known[walk->next++ & (KNOWN_CODE - 1)] = walk->code;
	count_hit(table);
	return 1;
}

/* Returns the row of an address in the current range; 0 if there is none. */
static __always_inline __u64 row_of(const struct table_walk *walk, __u64 address)
{
	__u64 place = address + walk->code.range.to_off - walk->code.table.begin;

	return place < walk->code.table.len ? row_at(walk->code.table.first_position, place) : 0;
}

/* Reads a word of the stack; returns false if it cannot be read. Words of a frame are asked for in the order of their addresses, so that a
 * piece which begins with the first one has the others and those of some callers. */
static __always_inline bool read_word(struct table_walk *walk, __u64 address, __u64 *word)
{
	__u64 at = address - walk->window_at;

	if (address & 7)
		return 0;
	if (at >= sizeof(walk->window)) {
		if (bpf_probe_read_user(walk->window, sizeof(walk->window), (void *)address)) {
			walk->window_at = NO_WINDOW;
			return !READ_USER(*word, address);
		}
		walk->window_at = address;
		at = 0;
	}
	*word = walk->window[at / 8 & (WINDOW_WORDS - 1)];
	return 1;
}

/* Goes over to the stack that a goroutine has left, from a function of Go that switches stacks, and makes the place where it was left the
 * current one. Returns false if that is not known. */
static __always_inline bool go_to_goroutine(struct table_walk *walk, const struct go_stacks *go)
{
	if (walk->is_interrupted || walk->is_over || !go->is_left)
		return 0;
	walk->is_over = 1;
	walk->ip = go->pc;
	/* Since Go 1.21 `systemstack` has a frame there, which is empty. */
	walk->sp = go->sp == go->bp ? go->sp + 8 : go->sp;
	walk->begin = walk->sp;
	walk->fp_is_lost = 1;
	return 1;
}

/* Returns the CFA of a function of Go that has called C, on the stack that it was called on; 0 if it is not known. It keeps the goroutine
 * and how deep its stack was: a callback from C may have moved that stack. */
static __always_inline __u64 cfa_behind_c(struct table_walk *walk, const struct go_stacks *go, __u64 row)
{
	__u64 slot = walk->sp + 8 * ROW_FP(row), goroutine, depth;

	if (walk->is_interrupted || !read_word(walk, slot - 8, &depth) || !read_word(walk, slot, &goroutine))
		return 0;
	if (!goroutine)
		return depth + 8 * ROW_CFA(row) > slot ? depth + 8 * ROW_CFA(row) : 0;
	if (goroutine != go->goroutine || depth > go->high - go->low || walk->switches++ >= MAX_SWITCHES)
		return 0;
	walk->begin = go->high - depth;
	return walk->begin + 8 * ROW_CFA(row);
}

/* Goes from the frame of a signal to what the signal interrupted, and returns its address; 0 if it is not known. A handler on an alternate
 * stack leaves its frame there when it returns, and the program may use this stack for something else: what was interrupted then has gone
 * on long since. On the same stack, nothing is left of the frame. */
VERIFIED_ALONE __u64 leave_handler(__u32 slot)
{
	struct scratch *scratch = scratch_of(slot);
	__u64 stack, size, fp, sp, ip;
	struct table_walk *walk;

	if (!scratch)
		return 0;
	walk = &scratch->walk;
	if (walk->switches++ >= MAX_SWITCHES || !read_word(walk, walk->sp + SIGNAL_STACK, &stack) ||
	    !read_word(walk, walk->sp + SIGNAL_STACK_SIZE, &size) || !read_word(walk, walk->sp + SIGNAL_FP, &fp) ||
	    !read_word(walk, walk->sp + SIGNAL_SP, &sp) || !read_word(walk, walk->sp + SIGNAL_IP, &ip))
		return 0;
	if (walk->sp - stack < size && sp - stack >= size && !is_handled(slot, walk->sp - sizeof(__u64)))
		return 0;
	walk->fp = fp;
	walk->sp = sp;
	walk->begin = sp;
	walk->ip = ip;
	walk->fp_is_lost = 0;
	walk->is_interrupted = 1;
	return ip ? ip | FRAME_INTERRUPTED : 0;
}

/* Goes over a trampoline, through which CPython calls its loop for each function (`-X perf`), if the walk has come to one: the function stands
 * in its place. It has no unwind table, and its code shows that it has one word besides its return address. */
VERIFIED_ALONE int skip_trampoline(__u32 slot)
{
	struct scratch *scratch = scratch_of(slot);
	struct table_walk *walk;
	__u64 before, behind, *read;

	if (!scratch)
		return 0;
	walk = &scratch->walk;
	read = scratch->interpreted.read;
	if (READ_USER(read[0], walk->ip - sizeof(read[0])) || READ_USER(read[1], walk->ip))
		return 0;
	before = read[0] >> 16;
	behind = read[1];
	/* sub $8, %rsp; call *%rcx, and add $8, %rsp; ret; or push %rbp; mov %rsp, %rbp; call *%rcx, and pop %rbp; ret */
	if (!(before == 0xd1ff08ec8348 && (behind & 0xffffffffff) == 0xc308c48348) && !(before == 0xd1ffe5894855 && (behind & 0xffff) == 0xc35d))
		return 0;
	if (READ_USER(read[0], walk->sp) || READ_USER(read[1], walk->sp + 8)) {
		walk->ip = 0;
		return 0;
	}
	if (before == 0xd1ffe5894855)
		walk->fp = read[0];
	walk->ip = read[1];
	walk->sp += 16;
	return 0;
}

/* Goes to the caller of the walk's last frame. Returns its address, with FRAME_INTERRUPTED if it has not called but was interrupted; 0 if
 * there is none, or it is not known. */
VERIFIED_ALONE __u64 step_out(__u32 slot)
{
	struct scratch *scratch = scratch_of(slot);
	__u64 pc, sp, fp, row, cfa, saved, word = 0;
	struct table_walk *walk;

	if (!scratch)
		return 0;
	walk = &scratch->walk;
	pc = walk->ip - !walk->is_interrupted;
	sp = walk->sp;
	fp = walk->fp;
	if (pc - walk->code.range.start >= walk->code.range.len && !enter_code(slot, pc))
		return 0;
	row = row_of(walk, pc);
	if (ROW_KIND(row) == ROW_SWITCH && !ROW_CFA(row)) {
		if (!go_to_goroutine(walk, &scratch->go))
			return 0;
		pc = walk->ip;
		sp = walk->sp;
		if (pc - walk->code.range.start >= walk->code.range.len && !enter_code(slot, pc))
			return 0;
		row = row_of(walk, pc);
		/* `morestack` notes its caller, `systemstack` a mark. */
		if (ROW_KIND(row) != ROW_MARK)
			return walk->ip;
	}
	/* Nobody has called from there: a program has begun a stack with this address by hand. */
	if (row & ROW_IS_START && !walk->is_interrupted && !follows_call(walk->ip))
		return 0;
	saved = ROW_FP(row);
	switch (ROW_KIND(row)) {
	case ROW_SP:
	case ROW_MARK:
		cfa = sp + 8 * ROW_CFA(row);
		break;
	case ROW_FP:
		if (walk->fp_is_lost)
			return 0;
		cfa = fp + 8 * ROW_CFA(row);
		break;
	case ROW_STUB:
		cfa = sp + 8 + 8 * ((walk->ip & 15) >= ROW_CFA(row));
		break;
	case ROW_ALIGNED:
		if (walk->fp_is_lost || !read_word(walk, fp - ROW_CFA(row), &cfa) || !read_word(walk, fp, &word))
			return 0;
		walk->fp = word;
		saved = 0;
		break;
	case ROW_SWITCH:
		cfa = cfa_behind_c(walk, &scratch->go, row);
		if (!cfa || cfa & 7 || !read_word(walk, cfa - 8, &word))
			return 0;
		walk->fp_is_lost = 1;
		walk->ip = word;
		walk->sp = cfa;
		return walk->ip;
	case ROW_UNKNOWN:
		return scratch->interpreted.of.shared ? IN_V8 : 0;
	case ROW_SIGNAL:
		return leave_handler(slot);
	case ROW_ROOT:
		walk->is_whole = 1;
		return 0;
	default:
		return 0;
	}
	if (cfa & 7)
		return 0;
	/* A frame pointer may lead to another stack, and not to a part of this one that was passed. */
	if (cfa <= sp) {
		if (ROW_KIND(row) != ROW_FP || cfa >= walk->begin || walk->switches++ >= MAX_SWITCHES)
			return 0;
		walk->begin = cfa;
		sp = 0;
	}
	/* What lies below the red zone was restored: in an epilogue, rules go on to name its place. In the red zone it is still there, and a leaf
	 * may have saved it there and not restored it yet. */
	if (saved == ROW_FP_LOST || (saved && cfa - 8 * saved + RED_ZONE >= sp)) {
		walk->fp_is_lost = saved == ROW_FP_LOST || !read_word(walk, cfa - 8 * saved, &word);
		walk->fp = word;
	}
	if (!read_word(walk, cfa - 8, &word))
		return 0;
	walk->ip = true_return(&scratch->returns, cfa - 8, word);
	walk->sp = cfa;
	walk->is_interrupted = 0;
	return walk->ip;
}

struct table_step {
	struct scratch *scratch;
	__u32 slot;
	__u32 base; /* index of the leaf frame: after the kernel frames */
	__u32 len;
};

/* Completes a step out of a frame, a position in the stack, where an interpreter runs: leaves a frame of V8, goes over a trampoline, and notes
 * which functions the frame runs. Returns the address of the caller. It is apart from `table_step`, because all functions that call each other
 * have 512 bytes of stack. */
VERIFIED_ALONE __u64 complete_step(__u32 slot, __u32 position, __u64 address)
{
	struct scratch *scratch = scratch_of(slot);
	struct interpreted *into;
	struct table_walk *walk;

	if (!scratch)
		return 0;
	into = &scratch->interpreted;
	walk = &scratch->walk;
	if (address == IN_V8)
		address = leave_v8(slot);
	/* Trampolines lie outside the interpreter. */
	if (into->record.len && address == walk->ip && address - walk->code.range.start >= walk->code.range.len) {
		skip_trampoline(slot);
		address = walk->ip;
	}
	if (!address)
		return 0;
	place_run(into, walk->left_sp, walk->sp, position);
	place_v8_function(into, position);
	return address;
}

/* One step outwards; the index comes from the loop's own counter, as in `walk_step`. */
static long table_step(__u32 i, struct table_step *step)
{
	__u32 at = step->base + 1 + (i & (MAX_USER_FRAMES - 1));
	__u64 address;

	step->scratch->walk.left_sp = step->scratch->walk.sp;
	address = step_out(step->slot);
	if (address && is_interpreted(&step->scratch->interpreted))
		address = complete_step(step->slot, i, address);
	if (!address || at >= 128 + MAX_USER_FRAMES)
		return 1;
	step->scratch->frames[at] = address;
	step->len = i + 2;
	return 0;
}

/* Walks the stack of the registers in the buffer by unwind tables. Returns true if it came to the beginning of the stack. */
VERIFIED_ALONE int walk_by_tables(__u32 slot)
{
	struct scratch *scratch = scratch_of(slot);
	struct table_step step = { .scratch = scratch, .slot = slot, .len = 1 };
	struct table_walk *walk;
	__u64 *registers;

	if (!scratch)
		return 0;
	walk = &scratch->walk;
	registers = scratch->registers.registers;
	step.base = scratch->record.kernel_len & 127;
	walk->ip = registers[REGISTER_COUNT - 1];
	walk->sp = registers[STACK_POINTER];
	walk->fp = registers[FRAME_POINTER];
	walk->fp_is_lost = 0;
	walk->is_interrupted = 1;
	walk->is_whole = 0;
	walk->is_over = 0;
	walk->switches = 0;
	walk->begin = walk->sp;
	walk->window_at = NO_WINDOW;
	walk->code.range.len = 0;
	forget_old_code(slot);
	scratch->frames[step.base] = walk->ip;
	bpf_loop(MAX_USER_FRAMES - 1, table_step, &step, 0);
	if (!walk->is_whole)
		return 0;
	scratch->record.user_len = step.len;
	scratch->record.user_end = WALK_BY_TABLES;
	return 1;
}

#endif
