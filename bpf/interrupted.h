/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Finds what a signal interrupted whose handler runs on an alternate stack, and sends it. */
#ifndef ICECORE_INTERRUPTED_H
#define ICECORE_INTERRUPTED_H

#include "kernel.h"
#include "pages.h"
#include "registers.h"
#include "scratch.h"
#include "signals.h"
#include "wire.h"

#if defined(__TARGET_ARCH_x86)
/* The frame of a signal lies within this distance below the top of the stack: vector registers may lie between. */
#define MAX_SIGNAL_FRAME (16 << 10)
/* Bytes that lie in one page. */
#define PART_LEN 256
/* The bytes that are searched in one step; the two words that are compared lie 16 bytes apart. */
#define SEARCHED_BYTES (STACK_PAGE_LEN - PART_LEN)

/* The registers in the frame of a signal. */
struct saved_registers {
	unsigned long r8, r9, r10, r11, r12, r13, r14, r15, di, si, bp, bx, dx, ax, cx, sp, ip;
};

struct search {
	struct scratch *scratch;
	__u64 stack;
	__u64 size;
	/* The address of `ss_sp` in the outermost signal frame; 0 if it was not found. */
	__u64 found;
};

/* Finds the last location in a page that holds the address of an alternate stack and, 16 bytes further, its size. Returns the offset, or
 * SEARCHED_BYTES if there is none. */
VERIFIED_ALONE int find_in_page(const struct page_record *page, __u64 sp, __u64 size)
{
	const __u64 *words;

	if (!page)
		return SEARCHED_BYTES;
	words = (const __u64 *)page->bytes;
#pragma clang loop unroll(disable)
	for (__u32 at = SEARCHED_BYTES / 8; at > 0;) {
		__u64 differs;

		at -= 2;
		/* Otherwise the compiler uses negative offsets, which the verifier of 7.2 refuses. */
		barrier_var(at);
		differs = (words[at] ^ sp) | (words[at + 2] ^ size);
		/* Otherwise the compiler makes two conditions of this one, and the verifier has to follow many more paths. */
		barrier_var(differs);
		if (!differs)
			return at * 8;
	}
	return SEARCHED_BYTES;
}

/*
 * Searches the frame of a signal, from the top of an alternate stack downwards. The kernel stores address and size of the stack in it.
 *
 *   struct rt_sigframe, at an odd multiple of 8
 *      0  return address: the trampoline
 *      8  flags, link
 *     24  ss_sp, ss_flags, ss_size    of the alternate stack
 *     48  r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip
 *    304  the signals that were blocked
 */
static long search_page(__u32 i, struct search *search)
{
	/* The last bytes are no loss: a frame of a signal is longer. */
	__u64 top = (search->stack + search->size) & -(__u64)PART_LEN, from = top - i * SEARCHED_BYTES - STACK_PAGE_LEN;
	struct page_record *page = &search->scratch->page;
	__u32 at;

	if (bpf_probe_read_user(page->bytes, STACK_PAGE_LEN, (void *)from)) {
		/* A page below what the handler needs may be missing. What cannot be read becomes zero. */
#pragma clang loop unroll(disable)
		for (__u32 part = 0; part < STACK_PAGE_LEN; part += PART_LEN)
			bpf_probe_read_user(page->bytes + part, PART_LEN, (void *)(from + part));
	}
	at = find_in_page(page, search->stack, search->size);
	if (at < SEARCHED_BYTES && from + at > search->stack)
		search->found = from + at;
	return search->found || from <= search->stack;
}

/* Sends registers and stack of the code that was interrupted by the signal whose handler runs on an alternate stack. */
VERIFIED_ALONE int send_interrupted(__u32 slot)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct search search = { .stack = BPF_CORE_READ(task, sas_ss_sp), .size = BPF_CORE_READ(task, sas_ss_size) };
	struct scratch *scratch = scratch_of(slot);
	struct sample_record *record;
	const struct saved_registers *saved;
	struct registers_record *taken;
	__u64 snapshot, sp, end;

	if (!scratch)
		return 0;
	/* The buffer for a page again: the stack of a program ends at 512 bytes, those of what it calls included. */
	saved = (const void *)scratch->page.bytes;
	search.scratch = scratch;
	bpf_loop(MAX_SIGNAL_FRAME / SEARCHED_BYTES + 1, search_page, &search, 0);
	if (!search.found || !is_handled(slot, search.found - 24) ||
	    bpf_probe_read_user(scratch->page.bytes, sizeof(*saved), (void *)(search.found + 24)))
		return 0;
	record = &scratch->record;
	snapshot = record->snapshot;
	taken = begin_snapshot(slot, scratch, 1);
#define FROM_SAVED(field) (saved->field)
	COPY_REGISTERS(taken->registers, FROM_SAVED);
	sp = saved->sp;
	end = stack_end(record->head.tid, sp);
	if (send_registers(scratch, taken, end, 0))
		send_whole_stack(slot, sp, end);
	record->snapshot = snapshot;
	return 0;
}
#else
static __always_inline void send_interrupted(__u32 slot)
{
}
#endif

#endif
