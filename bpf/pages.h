/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Copies of user stacks: the pages that changed since they were last sent, and the hashes of all pages. */
#ifndef ICECORE_PAGES_H
#define ICECORE_PAGES_H

#include "kernel.h"
#include "maps.h"
#include "returns.h"
#include "scratch.h"
#include "wire.h"

/* The first stack of a process lies within this distance below its start; all others lie farther away, because the kernel
 * keeps mappings 128 MiB away. */
#define FIRST_STACK_BYTES (128ULL << 20)
/* The most bytes that are sent of a stack when half of the ring is full. */
#define SHORTENED_BYTES (16 << 10)

static long find_stack(struct task_struct *task, struct vm_area_struct *vma, struct stack_range *range)
{
	range->start = vma->vm_start;
	range->end = vma->vm_end;
	return 0;
}

/* The largest stack that is taken for one that ends at the thread's own memory: the default of a large `ulimit -s`. */
#define MAX_THREAD_STACK (64ULL << 20)

/* Returns the address of the thread's own memory if it lies above a stack pointer; else 0. The C libraries put it at the end of the stack
 * that they make for a thread. */
static __always_inline __u64 thread_block_above(struct task_struct *task, __u64 sp)
{
#if defined(__TARGET_ARCH_x86)
	__u64 block = BPF_CORE_READ(task, thread.fsbase);

	return block - sp < MAX_THREAD_STACK ? block : 0;
#else
	return 0;
#endif
}

/* Returns the address after the stack of a thread that contains a stack pointer if it is the first stack of the process, or was looked up
 * before; else 0. */
static __always_inline __u64 noted_stack_end(struct task_struct *task, __u32 tid, __u64 sp)
{
	__u64 first = BPF_CORE_READ(task, mm, start_stack);
	struct stack_range *known;

	/* Arguments and environment follow after it. */
	if (sp < first && first - sp < FIRST_STACK_BYTES)
		return first;
	known = bpf_map_lookup_elem(&stack_ranges, &tid);
	return known && known->start <= sp && sp < known->end ? known->end : 0;
}

/* Returns the same, or else the address of the thread's own memory, of a thread that need not be the current one. */
static __always_inline __u64 known_stack_end(struct task_struct *task, __u32 tid, __u64 sp)
{
	__u64 end = noted_stack_end(task, tid, sp);

	return end ? end : thread_block_above(task, sp);
}

/* Returns the address after the stack that contains a stack pointer; 0 if it cannot be found now. */
VERIFIED_ALONE __u64 stack_end(__u32 tid, __u64 sp)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 end = noted_stack_end(task, tid, sp);
	struct stack_range range = {};

	if (end)
		return end;
	/* Fails while another thread changes the mappings. */
	if (bpf_find_vma(task, sp, find_stack, &range, 0)) {
		end = thread_block_above(task, sp);
		if (!end)
			count_loss(LOSS_STACK_SHORTENED);
		return end;
	}
	bpf_map_update_elem(&stack_ranges, &tid, &range, 0);
	return range.end;
}

struct copy {
	struct scratch *scratch;
	__u64 first_page;
	/* The number of bytes that may still be sent. */
	__u32 room;
	__u32 is_short;
};

static __always_inline __u64 mixed(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * 0x9E3779B97F4A7C15ULL;
	return hash ^ hash >> 32;
}

/* Hashes a page in four lanes, which processors compute in parallel. Each step is reversible, so that a change of one word always
 * changes the hash; other changes keep it with a probability of 2^-64. */
VERIFIED_ALONE __u64 hash_page(const struct page_record *page)
{
	__u64 a = hash_seed, b = ~hash_seed, c = hash_seed << 1, d = hash_seed >> 1;
	const __u64 *words;

	if (!page)
		return 0;
	words = (const __u64 *)page->bytes;
#pragma clang loop unroll(disable)
	for (int i = 0; i < STACK_PAGE_LEN / 8; i += 8) {
		a = mixed(a, words[i]), b = mixed(b, words[i + 1]);
		c = mixed(c, words[i + 2]), d = mixed(d, words[i + 3]);
		a = mixed(a, words[i + 4]), b = mixed(b, words[i + 5]);
		c = mixed(c, words[i + 6]), d = mixed(d, words[i + 7]);
	}
	a = mixed(mixed(mixed(a, b), c), d);
	return a ? a : 1;
}

/* Stores the hash of a page, and sends the page if its hash is not the one that was sent before. */
static long look_at_page(__u32 i, struct copy *copy)
{
	struct scratch *scratch = copy->scratch;
	__u64 address = copy->first_page + (__u64)i * STACK_PAGE_LEN, hash = 0;
	__u64 number = address / STACK_PAGE_LEN & ((1ULL << PAGE_NUMBER_BITS) - 1);
	__u64 key = (__u64)scratch->stack.tid << PAGE_NUMBER_BITS | number;

	/* A page that is not in memory was not used lately. It is skipped, and the pages after it are sent all the same. */
	if (!bpf_probe_read_user(scratch->page.bytes, STACK_PAGE_LEN, (void *)address)) {
		__u64 *sent = bpf_map_lookup_elem(&sent_pages, &key);

		if (scratch->returns.count)
			put_into_page(&scratch->returns, &scratch->page, address);
		hash = hash_page(&scratch->page);
		if (!sent || *sent != hash) {
			scratch->page.address = address;
			scratch->page.hash = hash;
			if (copy->room < STACK_PAGE_LEN ||
			    bpf_ringbuf_output(&ring, &scratch->page, sizeof(scratch->page), BPF_RB_NO_WAKEUP)) {
				copy->is_short = 1;
			} else {
				copy->room -= STACK_PAGE_LEN;
				bpf_map_update_elem(&sent_pages, &key, &hash, 0);
			}
		}
	}
	scratch->hashes[i & 511] = hash;
	return 0;
}

/* Returns how many bytes may be sent now: fewer as the ring fills, so that copies of stacks do not cost samples. */
static __always_inline __u32 room_for_stack(void)
{
	__u64 waiting = bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA);

	if (waiting < ring_half)
		return MAX_STACK_BYTES + STACK_PAGE_LEN;
	return waiting < ring_three_quarters ? SHORTENED_BYTES : 0;
}

/* Sends the pages of the stack from `low` to `high` that changed, and the hashes of all its pages. */
VERIFIED_ALONE int send_stack(__u32 slot, __u64 low, __u64 high)
{
	struct copy copy = { .first_page = low & -(__u64)STACK_PAGE_LEN, .room = room_for_stack() };
	struct scratch *scratch = scratch_of(slot);
	__u64 pages;
	__u32 bytes;

	if (!scratch)
		return 0;
	copy.scratch = scratch;
	pages = (high - copy.first_page + STACK_PAGE_LEN - 1) / STACK_PAGE_LEN;
	if (pages > MAX_STACK_PAGES)
		pages = MAX_STACK_PAGES;
	scratch->page.type = RECORD_STACK_PAGE;
	scratch->page.tid = scratch->record.head.tid;
	scratch->page.snapshot = scratch->record.snapshot;
	scratch->stack.type = RECORD_STACK;
	scratch->stack.tid = scratch->record.head.tid;
	scratch->stack.snapshot = scratch->record.snapshot;
	scratch->stack.low = low;
	scratch->stack.high = high;
	scratch->stack.len = pages;
	bpf_loop(pages, look_at_page, &copy, 0);
	bytes = sizeof(scratch->stack) + (pages & 511) * sizeof(__u64);
	if (bpf_ringbuf_output(&ring, &scratch->stack, bytes, BPF_RB_NO_WAKEUP) || copy.is_short)
		count_loss(LOSS_STACK_SHORTENED);
	return 0;
}

static __always_inline void send_whole_stack(__u32 slot, __u64 sp, __u64 end)
{
	if (end > sp)
		send_stack(slot, sp, end - sp > max_stack_bytes ? sp + max_stack_bytes : end);
}

#endif
