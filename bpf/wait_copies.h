/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * User stacks of waiting threads where a thread cannot take its stack itself: a copy of the innermost MAX_TOP_LEN bytes, made when the
 * thread leaves its CPU, which is the last moment at which its memory can be read. It is sent if the wait is kept.
 */
#ifndef ICECORE_WAIT_COPIES_H
#define ICECORE_WAIT_COPIES_H

/* By the address of the task, like `waits`. Each value is the record that is sent. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, struct registers_record);
} wait_copies SEC(".maps");

/* The first content of a value. */
struct registers_record no_copy = {};

/* 1: copies are made. User space sets it where no thread can take its stack; the program of switches sets it when the kernel refuses that. */
__u32 makes_wait_copies = 0;
/* How often the kernel had no memory for a thread that was to take its stack. */
__u64 refused_task_work = 0;

static __always_inline bool has_user_memory(struct task_struct *task)
{
	return BPF_CORE_READ(task, mm) && !(BPF_CORE_READ(task, flags) & PF_KTHREAD);
}

static __always_inline struct registers_record *wait_copy_of(struct task_struct *task)
{
	__u64 key = (__u64)task;

	return bpf_map_lookup_elem(&wait_copies, &key);
}

/* Copies registers and stack of the current thread, which leaves its CPU. */
static __always_inline void copy_for_wait(struct task_struct *prev)
{
	__u64 key = (__u64)prev, sp, len = MAX_TOP_LEN;
	struct registers_record *copy;
	struct scratch *probed = 0;
	struct pt_regs *entry;
	__u32 slot;

	if (!makes_wait_copies || !take_user || !has_user_memory(prev))
		return;
	copy = wait_copy_of(prev);
	if (!copy) {
		/* If there are too many threads, each wait that is kept without a copy counts as a loss. */
		bpf_map_update_elem(&wait_copies, &key, &no_copy, BPF_NOEXIST);
		copy = wait_copy_of(prev);
		if (!copy)
			return;
	}
	entry = (void *)bpf_task_pt_regs(prev);
	COPY_REGISTERS(copy->registers, FROM_ENTRY);
	if (uprobe_task(prev)) {
		probed = claim_scratch(&slot);
		if (probed)
			probed->returns.is_in_kernel = 1;
		if (!probed || leave_probes(&probed->returns, copy) != LEFT)
			len = 0;
	}
	sp = copy->registers[STACK_POINTER];
	if (len && bpf_probe_read_user(copy->top, MAX_TOP_LEN, (void *)sp)) {
		/* The stack may end before. */
		len = STACK_PAGE_LEN - (sp & (STACK_PAGE_LEN - 1));
		if (len >= MAX_TOP_LEN || bpf_probe_read_user(copy->top, len, (void *)sp))
			len = 0;
	}
	copy->top_len = len;
	if (probed) {
		put_into_top(&probed->returns, copy, sp);
		free_scratch(probed);
	}
}

/* Begins the sample of a thread's user stack that has only the place at which the thread entered the kernel; the copy shows its callers.
 * `head` is that of the wait. */
static __always_inline void begin_wait_stack(struct sample_record *record, const struct record_head *head, __u64 epoch)
{
	record->head = *head;
	record->head.type = RECORD_WAIT_STACK;
	record->weight = epoch;
	record->kernel_len = 0;
	record->kernel_end = WALK_NONE;
	record->event = 0;
	record->user_len = 1;
	record->user_end = WALK_UNSAID;
	record->snapshot = 0;
}

/* Sends the copy of a thread whose wait was sent, and then its user stack. */
static __always_inline void send_wait_copy(__u32 slot, struct scratch *scratch, struct registers_record *copy, struct task_struct *task,
					   __u64 epoch)
{
	struct sample_record *record = &scratch->record;
	__u64 len = copy->top_len & (2 * MAX_TOP_LEN - 1);

	begin_wait_stack(record, &scratch->wait.head, epoch);
	scratch->frames[0] = copy->registers[REGISTER_COUNT - 1];
	copy->type = RECORD_REGISTERS;
	copy->snapshot = next_snapshot(slot, scratch);
	copy->stack_end = known_stack_end(task, record->head.tid, copy->registers[STACK_POINTER]);
	if (len > MAX_TOP_LEN)
		len = 0;
	if (bpf_ringbuf_output(&ring, copy, offsetof(struct registers_record, top) + len, BPF_RB_NO_WAKEUP))
		count_loss(LOSS_STACK_SHORTENED);
	else
		record->snapshot = copy->snapshot;
	if (bpf_ringbuf_output(&ring, scratch, sizeof(*record) + sizeof(__u64), wakeup_flags()))
		count_loss(LOSS_STACK_SHORTENED);
}

static __always_inline void forget_wait_copy(struct task_struct *task)
{
	__u64 key = (__u64)task;

	if (makes_wait_copies)
		bpf_map_delete_elem(&wait_copies, &key);
}

#endif
