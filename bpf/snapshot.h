/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Registers and stack of user space at a sample, for unwinding later. */
#ifndef ICECORE_SNAPSHOT_H
#define ICECORE_SNAPSHOT_H

/* The first stack of a process lies so near to where it began; all others lie farther away (the kernel keeps mappings
 * 128 MiB away from it). */
#define FIRST_STACK_BYTES (128ULL << 20)
/* What is copied when half of the ring is full. */
#define SHORTENED_BYTES (16 << 10)
/* The inner part of a stack, which is copied with every sample, and how often the rest of a deeper one is. */
#define INNER_BYTES (32 << 10)
#define WHOLE_EVERY_NS (50 * 1000 * 1000)

/* Numbers of snapshots, by CPU. Perf-event programs do not nest on a CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} snapshot_numbers SEC(".maps");

#if defined(__TARGET_ARCH_x86)
/* `from(field)` reads a register. */
#define COPY_REGISTERS(to, from)                                                                                      \
	do {                                                                                                          \
		(to)[0] = from(ax), (to)[1] = from(dx), (to)[2] = from(cx), (to)[3] = from(bx);                       \
		(to)[4] = from(si), (to)[5] = from(di), (to)[6] = from(bp), (to)[7] = from(sp);                       \
		(to)[8] = from(r8), (to)[9] = from(r9), (to)[10] = from(r10), (to)[11] = from(r11);                   \
		(to)[12] = from(r12), (to)[13] = from(r13), (to)[14] = from(r14), (to)[15] = from(r15);               \
		(to)[16] = from(ip);                                                                                  \
	} while (0)
#define STACK_POINTER 7
#else
#define COPY_REGISTERS(to, from)                                                                                      \
	do {                                                                                                          \
		_Pragma("unroll") for (int i = 0; i < 31; i++)(to)[i] = from(regs[i]);                                \
		(to)[31] = from(sp), (to)[32] = from(pc);                                                             \
	} while (0)
#define STACK_POINTER 31
#endif

static long find_stack(struct task_struct *task, struct vm_area_struct *vma, struct stack_range *range)
{
	range->start = vma->vm_start;
	range->end = vma->vm_end;
	return 0;
}

/* The address behind the stack that a stack pointer is in; 0 if it cannot be found now. */
static __always_inline __u64 stack_end(__u32 tid, __u64 sp)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 first = BPF_CORE_READ(task, mm, start_stack);
	struct stack_range *known, range = {};

	/* Behind it are arguments and environment. */
	if (sp < first && first - sp < FIRST_STACK_BYTES)
		return first;
	known = bpf_map_lookup_elem(&stack_ranges, &tid);
	if (known && known->start <= sp && sp < known->end)
		return known->end;
	/* Fails while another thread changes the mappings. */
	if (bpf_find_vma(task, sp, find_stack, &range, 0))
		return 0;
	bpf_map_update_elem(&stack_ranges, &tid, &range, 0);
	return range.end;
}

struct copy {
	__u64 page;
	__u64 snapshot;
	__u32 cpu;
	__u32 is_full;
};

static long copy_page(__u32 i, struct copy *copy)
{
	struct page_record *record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);

	if (!record) {
		copy->is_full = 1;
		return 1;
	}
	record->type = RECORD_STACK_PAGE;
	record->cpu = copy->cpu;
	record->snapshot = copy->snapshot;
	record->address = copy->page + (__u64)i * STACK_PAGE_LEN;
	/* A page that is not in memory was not touched, or not lately: what is outside of it counts all the same. */
	if (bpf_probe_read_user(record->bytes, STACK_PAGE_LEN, (void *)record->address))
		bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
	else
		bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

/* Bytes that may be copied now: less and less as the ring fills, so that samples are not lost for the sake of stacks. */
static __always_inline __u32 copy_limit(void)
{
	__u64 waiting = bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA);

	if (waiting < ring_half)
		return max_stack_bytes;
	return waiting < ring_three_quarters && max_stack_bytes > SHORTENED_BYTES ? SHORTENED_BYTES : 0;
}

/* How much of a stack is to be copied: its inner part, and all of it if more than that may have changed since it was. */
static __always_inline __u32 wanted_bytes(struct sample_record *record, __u64 sp, __u64 depth)
{
	__u32 tid = record->head.tid;
	struct whole_copy copy = { .time_ns = record->head.time_ns, .highest_sp = sp };
	struct whole_copy *before = bpf_map_lookup_elem(&whole_copies, &tid);

	if (depth > max_stack_bytes)
		depth = max_stack_bytes;
	if (before && before->highest_sp < sp)
		before->highest_sp = sp;
	if (depth <= INNER_BYTES || copy_mode == COPY_WHOLE)
		return depth;
	if (before && copy.time_ns - before->time_ns < WHOLE_EVERY_NS && before->highest_sp < sp + INNER_BYTES)
		return INNER_BYTES;
	bpf_map_update_elem(&whole_copies, &tid, &copy, 0);
	return depth;
}

/* Tells whether the walk shows the stack: user space has seen that the code of the process keeps frame pointers, it has no other
 * code by now, and the walk came to the end. A walk of one frame ends wherever the frame pointer is not used. */
static __always_inline bool is_believed(struct sample_record *record)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 tgid = record->head.tgid;
	__u64 *pages;

	if (copy_mode != COPY_INNER || record->user_end != WALK_ROOT || record->user_len < 2)
		return 0;
	pages = bpf_map_lookup_elem(&trusted_tgids, &tgid);
	return pages && *pages == BPF_CORE_READ(task, mm, exec_vm);
}

/* Sends registers and stack; the sample that they belong to has its walk. */
static __always_inline void take_snapshot(struct bpf_perf_event_data *ctx, struct sample_record *record, bool in_user)
{
	struct registers_record *taken;
	struct copy copy = { .cpu = record->head.cpu };
	__u32 zero = 0, limit, wanted = 0;
	__u64 sp, end, *number = bpf_map_lookup_elem(&snapshot_numbers, &zero);

	if (!number)
		return;
	taken = bpf_ringbuf_reserve(&ring, sizeof(*taken), 0);
	if (!taken) {
		count_loss(LOSS_STACK_SHORTENED);
		return;
	}
	if (in_user) {
#define FROM_CONTEXT(field) (*(volatile unsigned long *)&ctx->regs.field)
		COPY_REGISTERS(taken->registers, FROM_CONTEXT);
	} else {
		struct pt_regs *entry = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
#define FROM_ENTRY(field) (entry->field)
		COPY_REGISTERS(taken->registers, FROM_ENTRY);
	}
	sp = taken->registers[STACK_POINTER];
	end = stack_end(record->head.tid, sp);
	limit = copy_limit();
	if (end > sp && !is_believed(record))
		wanted = wanted_bytes(record, sp, end - sp);
	if (limit < wanted)
		count_loss(LOSS_STACK_SHORTENED);
	else
		limit = wanted;
	copy.snapshot = ++*number;
	copy.page = sp & -(__u64)STACK_PAGE_LEN;
	taken->type = RECORD_REGISTERS;
	taken->cpu = copy.cpu;
	taken->snapshot = copy.snapshot;
	taken->stack_end = end;
	taken->wanted = limit;
	taken->top_len = TOP_LEN;
	if (bpf_probe_read_user(taken->top, TOP_LEN, (void *)sp))
		taken->top_len = 0;
	bpf_ringbuf_submit(taken, BPF_RB_NO_WAKEUP);
	record->snapshot = copy.snapshot;
	if (limit) {
		__u32 pages = (sp + limit - copy.page + STACK_PAGE_LEN - 1) / STACK_PAGE_LEN;

		bpf_loop(pages, copy_page, &copy, 0);
		if (copy.is_full)
			count_loss(LOSS_STACK_SHORTENED);
	}
}

#endif
