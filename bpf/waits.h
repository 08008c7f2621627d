/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The time that threads wait: for an event, and for a CPU.
 *
 * At a switch to a thread its wait is over, and its length is known. The kernel stack is that of the wait still; the memory of user space
 * cannot be read there. So the thread itself takes its user stack, before it returns to user space (bpf_task_work, 6.18). Elsewhere the
 * stack is walked when the thread leaves its CPU, or a part of it is copied.
 */
#ifndef ICECORE_WAITS_H
#define ICECORE_WAITS_H

#include "kernel.h"
#include "inner_frames.h"
#include "maps.h"
#include "pages.h"
#include "sample.h"
#include "scratch.h"
#include "snapshot.h"
#include "wait_copies.h"
#include "wire.h"

/* libbpf compares the types of the kernel function below with those of the kernel; a declaration is not enough. */
struct bpf_map {
	__u32 id;
} __attribute__((preserve_access_index));

/* include/linux/sched.h */
#define TASK_DEAD 0x80
#define ENOMEM 12
/* The pages of a stack that are brought into memory after a wait: 64 KiB. */
#define TOUCHED_PAGES 16
#define STATE_UNKNOWN (~0U)

/* What is known of a thread that waits, or has waited. */
struct waiting {
	/* When it left its CPU; 0 while it is on one. */
	__u64 began_ns;
	/* How often it had left a CPU in its life by then, by the kernel; and what tells it from other threads that have had its memory. */
	__u64 switches;
	__u64 start_time;
	__u64 epoch;
	/* How long it has waited for a CPU in its life when it began to wait, by the scheduler. */
	__u64 delay_before;
	/* Decided when somebody woke it; 0 if it is no sample. */
	__u64 blocked_weight;
	__u64 ready_ns;
	__u64 waker_ns;
	__u32 waker_tgid;
	__u32 waker_tid;
	char waker_comm[COMM_LEN];
	__u32 state;
	/* The stretch in which it was seen last (`stretch`). */
	__u32 stretch;
	__u8 woken_by;
	__u8 is_decided;
	/* The thread will take its user stack. */
	__u8 is_due;
	struct inner_frames inner;
	struct bpf_task_work work;
};

/* By the address of the task, which is not used again before the task is freed. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, struct waiting);
} waits SEC(".maps");

/* The first content of a value. */
__u8 no_waiting[sizeof(struct waiting)] = {};

extern int bpf_task_work_schedule_resume_impl(struct task_struct *task, struct bpf_task_work *work, void *map,
					      int (*callback)(struct bpf_map *, void *, void *), void *aux) __ksym __weak;
extern int bpf_task_work_schedule_resume(struct task_struct *task, struct bpf_task_work *work, void *map,
					 int (*callback)(struct bpf_map *, void *, void *)) __ksym __weak;

static __always_inline struct waiting *waiting_of(struct task_struct *task)
{
	__u64 key = (__u64)task;

	return bpf_map_lookup_elem(&waits, &key);
}

static __always_inline struct waiting *new_waiting(struct task_struct *task)
{
	__u64 key = (__u64)task;

	if (bpf_map_update_elem(&waits, &key, no_waiting, BPF_NOEXIST))
		count_loss(LOSS_NO_SCRATCH);
	return bpf_map_lookup_elem(&waits, &key);
}

/* A thread executes another program: the stack in which it has waited is gone. */
static __always_inline void leave_wait_stack(struct task_struct *task)
{
	struct waiting *waiting = wait_ns ? waiting_of(task) : 0;

	if (waiting)
		waiting->epoch++;
}

static __always_inline void forget_waits(struct task_struct *task)
{
	__u64 key = (__u64)task;

	if (wait_ns) {
		bpf_map_delete_elem(&waits, &key);
		forget_wait_copy(task);
	}
}

static __always_inline __u32 state_of(struct task_struct *task)
{
	struct task_struct___before_5_14 *old = (void *)task;

	if (bpf_core_field_exists(task->__state))
		return task->__state;
	return BPF_CORE_READ(old, state);
}

/* The field has one byte on some kernels (7.2), and four on others. */
static __always_inline bool is_on_cpu(struct task_struct *task)
{
	return BPF_CORE_READ_BITFIELD_PROBED(task, on_cpu) != 0;
}

/* The state of the bound on parts of waits that are kept: the current window, the parts that it has, and how long a part must be now to be
 * kept for certain. */
__u64 wait_window = 0;
__u32 waits_kept = 0;
__u64 raised_wait_ns = 0;

/* Returns how long a part of a wait must be to be kept for certain: `wait_ns`, or longer while the recorder samples less often, and while
 * more parts are kept than `most_waits` in a window. It doubles whenever a window has too many, and halves after each window with less than half of the most. It depends only on
 * earlier waits, so the weights stay right. */
static __always_inline __u64 certain_ns(void)
{
	__u64 window, before = wait_window, certain = raised_wait_ns, least = rare_wait_ns;

	if (least < wait_ns)
		least = wait_ns;
	if (!most_waits)
		return least;
	window = bpf_ktime_get_ns() >> WINDOW_BITS;
	if (window != before && __sync_val_compare_and_swap(&wait_window, before, window) == before) {
		if (waits_kept < most_waits / 2)
			certain = window - before < 64 ? certain >> (window - before) : 0;
		waits_kept = 0;
		if (certain < least)
			certain = least;
		raised_wait_ns = certain;
	}
	return certain < least ? least : certain;
}

/* Returns true with the probability ns / certain, by a random number. */
static __always_inline bool is_drawn(__u64 random, __u64 ns, __u64 certain)
{
	/* The product must not overflow; such a long time needs no exact one. */
	if (certain >> 32)
		return (random * (certain >> 16)) >> 16 < ns;
	return (random * certain) >> 32 < ns;
}

/* Returns the weight of a part of a wait. A long part is kept, and weighs what it took. A shorter one is kept with the probability
 * length / `certain_ns`, and weighs that, so that sums are right. */
static __always_inline __u64 weight_of_wait(__u64 ns)
{
	__u64 certain = certain_ns(), random;

	if (ns < certain) {
		random = bpf_get_prandom_u32();
		if (!is_drawn(random, ns, certain)) {
			if (certain > wait_ns && (ns >= wait_ns || is_drawn(random, ns, wait_ns)))
				count_loss(LOSS_RATE_LOWERED);
			return 0;
		}
	}
	if (most_waits && __sync_fetch_and_add(&waits_kept, 1) + 1 >= most_waits) {
		waits_kept = most_waits / 2;
		raised_wait_ns = certain >> 40 ? certain : certain * 2;
	}
	return ns < certain ? certain : ns;
}

/* Returns the time between two moments. Another CPU may have noted the first one after this one looked at its clock. */
static __always_inline __u64 passed(__u64 from, __u64 to)
{
	return to > from ? to - from : 0;
}

#define DELAY_UNKNOWN (~0ULL)

/* Returns how long a thread has waited for a CPU in its life, up to when it was queued last. */
static __always_inline __u64 delay_of(struct task_struct *task)
{
	return bpf_core_field_exists(task->sched_info) ? task->sched_info.run_delay : DELAY_UNKNOWN;
}

/* Returns when a thread that waits since `began` was ready to run. When the scheduler moves a queued thread to another CPU, it adds to the
 * delay, and queues the thread anew. Its clock is not CLOCK_MONOTONIC, but it counts the same nanoseconds. Returns `now` if the kernel does
 * not tell. */
static __always_inline __u64 ready_since(struct task_struct *task, __u64 began, __u64 delay_before, __u64 now)
{
	__u64 queued, clock, delay;

	if (!bpf_core_field_exists(task->sched_info) || !bpf_core_field_exists(task->se.cfs_rq))
		return now;
	queued = task->sched_info.last_queued;
	clock = task->se.cfs_rq->rq->clock;
	delay = queued && queued <= clock ? clock - queued : 0;
	if (delay_before != DELAY_UNKNOWN)
		delay += delay_of(task) - delay_before;
	return delay < passed(began, now) ? now - delay : began;
}

/* Returns how often a thread has left a CPU in its life. The kernel counts a switch before it calls programs. */
static __always_inline __u64 switches_of(struct task_struct *task)
{
	return task->nvcsw + task->nivcsw;
}

/* Returns true if what is known of a thread is so still. In a pause no program runs at switches: a thread that has left its CPU since it was
 * seen last waits for something else now, or for the same again. */
static __always_inline bool is_known_still(const struct waiting *waiting, struct task_struct *task)
{
	return waiting->stretch == stretch || (waiting->start_time == task->start_time && waiting->switches == switches_of(task));
}

/* Notes that a thread is seen. */
static __always_inline void see(struct waiting *waiting, struct task_struct *task)
{
	waiting->stretch = stretch;
	waiting->start_time = task->start_time;
}

/* Notes that the current thread leaves its CPU. */
static __always_inline void leave_cpu(void *ctx, struct task_struct *prev, bool preempt, __u64 now, bool makes_copies)
{
	__u32 tgid = prev->tgid, tid = prev->pid, state = preempt ? 0 : state_of(prev);
	struct waiting *waiting;

	if (tid == 0 || state & TASK_DEAD || !is_wanted(tgid, tid))
		return;
	waiting = waiting_of(prev);
	if (!waiting)
		waiting = new_waiting(prev);
	if (!waiting)
		return;
	/* The kernel did not tell that it got a CPU. */
	if (waiting->began_ns && waiting->stretch == stretch)
		count_loss(LOSS_MISSED_RUNS);
	see(waiting, prev);
	waiting->switches = switches_of(prev);
	waiting->state = state;
	waiting->woken_by = state ? WAKER_UNKNOWN : WAKER_NOBODY;
	waiting->is_decided = 0;
	waiting->waker_ns = 0;
	waiting->waker_tid = 0;
	waiting->began_ns = now;
	waiting->delay_before = delay_of(prev);
	take_inner_frames(ctx, &waiting->inner, state);
	if (makes_copies)
		copy_for_wait(prev);
}

/* Touches the innermost pages of a stack, so that they can be read: while a thread waits, the kernel may move its memory or take it away.
 * This may sleep. */
static __always_inline void bring_into_memory(struct task_struct *task)
{
	struct pt_regs *entry = (void *)bpf_task_pt_regs(task);
	__u64 word, sp = entry->sp, end = known_stack_end(task, task->pid, sp);

	if (!has_user_memory(task))
		return;

#pragma clang loop unroll(disable)
	for (__u32 page = 0; page < TOUCHED_PAGES; page++)
		if ((page && sp + page * STACK_PAGE_LEN >= end) || bpf_copy_from_user(&word, sizeof(word), (void *)(sp + page * STACK_PAGE_LEN)))
			break;
}

/* Takes the user stack of a thread that has waited and returns to user space now. */
static int take_wait_stack(struct bpf_map *map, void *key, void *value)
{
	struct waiting *waiting = value;
	struct scratch *scratch;
	__u32 slot;

	/* A thread that sleeps must have no buffer: a CPU has few. */
	if (take_user)
		bring_into_memory(bpf_get_current_task_btf());
	scratch = claim_scratch(&slot);
	if (scratch) {
		begin_sample(scratch, 0, waiting->epoch);
		scratch->record.head.type = RECORD_WAIT_STACK;
		if (take_user && take_entry_registers(scratch))
			take_user_stack(slot, 0);
		/* The wait itself was sent before. */
		if (!try_send_sample(scratch))
			count_loss(LOSS_STACK_SHORTENED);
	} else {
		count_loss(LOSS_STACK_SHORTENED);
	}
	/* Until here this stack is also that of waits of this program: the kernel would not run it once more for them. */
	waiting->epoch++;
	waiting->is_due = 0;
	if (scratch)
		free_scratch(scratch);
	return 0;
}

/* Returns true if the thread will take its user stack. */
static __always_inline bool is_stack_due(struct task_struct *task, struct waiting *waiting)
{
	int refused = 1;

	if (waiting->is_due)
		return 1;
	if (bpf_ksym_exists(bpf_task_work_schedule_resume))
		refused = bpf_task_work_schedule_resume(task, &waiting->work, &waits, take_wait_stack);
	else if (bpf_ksym_exists(bpf_task_work_schedule_resume_impl))
		refused = bpf_task_work_schedule_resume_impl(task, &waiting->work, &waits, take_wait_stack, 0);
	waiting->is_due = !refused;
	/* Some kernels have this memory only where the processor has a certain instruction (7.2: cmpxchg16b), which no repetition changes. */
	if (refused == -ENOMEM) {
		makes_wait_copies = 1;
		__sync_fetch_and_add(&refused_task_work, 1);
	}
	return !refused;
}

/* Stores the kernel stack of a thread that is on no CPU. `waiting` may be 0. */
static __always_inline void walk_waiting(struct task_struct *task, const struct waiting *waiting, struct scratch *scratch)
{
	struct wait_record *record = &scratch->wait;
	__u32 inner = 0;
	long bytes;

	if (waiting && waiting->inner.len) {
		inner = waiting->inner.len & 15;
		__builtin_memcpy(scratch->wait_frames, waiting->inner.frames, sizeof(waiting->inner.frames));
		record->inner_len = inner;
		record->inner_from = waiting->inner.from;
	}
	bytes = bpf_get_task_stack(task, scratch->wait_frames + inner, MAX_KERNEL_FRAMES * sizeof(__u64), 0);
	record->kernel_len = bytes > 0 ? bytes / sizeof(__u64) : 0;
	record->kernel_end = bytes <= 0 ? WALK_UNREADABLE : record->kernel_len >= max_kernel_frames ? WALK_DEPTH : WALK_ROOT;
}

/* Fills the record of a wait except for its weights, its stack and its end. */
static __always_inline void begin_wait(struct wait_record *record, struct task_struct *task, __u64 now)
{
	record->head.type = RECORD_WAIT;
	record->head.cpu = bpf_get_smp_processor_id();
	record->head.time_ns = now;
	record->head.tgid = task->tgid;
	record->head.tid = task->pid;
	bpf_probe_read_kernel_str(record->head.comm, COMM_LEN, task->comm);
	record->head.cgroup_id = has_cgroups() ? BPF_CORE_READ(task, cgroups, dfl_cgrp, kn, id) : 0;
	record->epoch = 0;
	record->waker_ns = 0;
	record->waker_tgid = 0;
	record->waker_tid = 0;
	record->woken_by = WAKER_UNKNOWN;
	record->flags = 0;
	record->kernel_len = 0;
	record->kernel_end = WALK_NONE;
	record->inner_len = 0;
	record->inner_from = 0;
}

/* Returns the length of the record of a wait and of its frames. */
static __always_inline __u64 wait_bytes(const struct wait_record *record)
{
	return sizeof(*record) + ((record->inner_len & 15) + (record->kernel_len & 127)) * sizeof(__u64);
}

/* When a wait began, and in which state. */
struct wait_begin {
	__u64 ns;
	__u32 state;
	__u8 woken_by;
	__u8 flags;
};

/* Returns when the first wait of a thread began. The thread of a recording that has just begun left its CPU before; a new thread waits from
 * its beginning. */
static __always_inline struct wait_begin first_wait(struct task_struct *task)
{
	struct wait_begin begin = { .ns = task->start_time, .woken_by = WAKER_NOBODY };

	if (task->start_time < waits_since_ns) {
		begin.ns = waits_since_ns;
		begin.state = STATE_UNKNOWN;
		begin.woken_by = WAKER_UNKNOWN;
		begin.flags = WAIT_BEGAN_BEFORE;
	}
	return begin;
}

static __always_inline void fill_begin(struct wait_record *record, const struct wait_begin *begin)
{
	record->began_ns = begin->ns;
	record->state = begin->state;
	record->woken_by = begin->woken_by;
	record->flags = begin->flags;
}

/* Fills in who has ended a wait. */
static __always_inline void note_waker(struct wait_record *record, const struct waiting *waiting)
{
	record->waker_ns = waiting->waker_ns;
	record->waker_tgid = waiting->waker_tgid;
	record->waker_tid = waiting->waker_tid;
	__builtin_memcpy(record->waker_comm, waiting->waker_comm, COMM_LEN);
}

/* Counts the samples that are lost with a wait. */
static __always_inline void count_lost_wait(__u32 cause, __u64 blocked_weight, __u64 delay_weight)
{
	if (blocked_weight)
		count_lost_sample(cause, off_cpu_event, blocked_weight);
	if (delay_weight)
		count_lost_sample(cause, run_delay_event, delay_weight);
}

/* Returns when a wait began, or since when it counts; 0 if there is none. */
static __always_inline __u64 began_since(const struct waiting *waiting)
{
	__u64 began = waiting->began_ns;

	return began && began < waits_since_ns ? waits_since_ns : began;
}

/* Notes that a thread gets a CPU. `with_stack`: it can take its user stack itself; `with_copy`: there may be a copy. Most waits are short,
 * and are no samples: whether one is comes first. */
static __always_inline void get_cpu(struct task_struct *next, __u64 now, bool with_stack, bool with_copy)
{
	__u64 began, ready, blocked_weight, delay_weight;
	__u32 tgid = next->tgid, tid = next->pid, slot, state;
	struct wait_begin first;
	struct waiting *waiting;
	struct wait_record *record;
	struct scratch *scratch;
	struct wait_copy *copy = 0;
	bool is_first = 0, is_due = 0;

	if (tid == 0)
		return;
	waiting = waiting_of(next);
	if (!waiting) {
		/* Only the current task can be asked for its cgroup. */
		if (target_mode == TARGET_CGROUPS || !is_wanted(tgid, tid))
			return;
		waiting = new_waiting(next);
		is_first = 1;
		if (!waiting)
			return;
	} else {
		is_first = !is_known_still(waiting, next);
	}
	if (is_first) {
		first = first_wait(next);
		began = first.ns;
		state = first.state;
	} else {
		began = began_since(waiting);
		state = waiting->state;
		if (!began)
			return;
	}
	waiting->began_ns = 0;
	see(waiting, next);
	if (!is_first && waiting->is_decided) {
		ready = waiting->ready_ns;
		blocked_weight = waiting->blocked_weight;
		/* It was woken before a pause. */
		if (ready < began) {
			ready = began;
			blocked_weight = 0;
		}
	} else {
		ready = began;
		if (state)
			ready = ready_since(next, began, is_first ? DELAY_UNKNOWN : waiting->delay_before, now);
		blocked_weight = weight_of_wait(passed(began, ready));
	}
	delay_weight = weight_of_wait(passed(ready, now));
	if (!blocked_weight && !delay_weight)
		return;
	scratch = claim_scratch(&slot);
	if (!scratch) {
		count_lost_wait(LOSS_NO_SCRATCH, blocked_weight, delay_weight);
		return;
	}
	record = &scratch->wait;
	begin_wait(record, next, now);
	/* Asked for again, so that less is on the stack, which has 512 bytes with all that is called (Linux 6.1). */
	if (is_first) {
		first = first_wait(next);
		fill_begin(record, &first);
	} else {
		record->began_ns = began;
		record->state = waiting->state;
		record->woken_by = waiting->woken_by;
		record->flags = began == waits_since_ns ? WAIT_BEGAN_BEFORE : 0;
	}
	record->ready_ns = ready;
	record->blocked_weight = blocked_weight;
	record->delay_weight = delay_weight;
	if (!is_first && waiting->is_decided)
		note_waker(record, waiting);
	if (take_kernel)
		walk_waiting(next, is_first ? 0 : waiting, scratch);
	record->epoch = waiting->epoch;
	if (take_user && has_user_memory(next)) {
		if (with_stack)
			is_due = is_stack_due(next, waiting);
		if (with_copy && !is_due && !is_first) {
			copy = wait_copy_of(next);
			if (!copy)
				count_loss(LOSS_STACK_SHORTENED);
		}
	}
	if (is_due || copy)
		record->flags |= WAIT_HAS_STACK;
	if (bpf_ringbuf_output(&ring, record, wait_bytes(record), wakeup_flags()))
		count_lost_wait(LOSS_RING_FULL_SAMPLE, record->blocked_weight, record->delay_weight);
	else if (copy)
		send_wait_copy(slot, scratch, copy, next, waiting->epoch++);
	free_scratch(scratch);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	__u64 now = bpf_ktime_get_ns();

	leave_cpu(ctx, prev, preempt, now, 1);
	get_cpu(next, now, 1, 1);
	return 0;
}

/* For kernels that cannot run a program in the thread (before 6.18). */
SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch_with_copies, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	__u64 now = bpf_ktime_get_ns();

	leave_cpu(ctx, prev, preempt, now, 1);
	get_cpu(next, now, 0, 1);
	return 0;
}

/* For kernels that do not tell programs the registers of user space, or where stacks are not copied (before 5.17). */
SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch_without_stacks, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	__u64 now = bpf_ktime_get_ns();

	leave_cpu(ctx, prev, preempt, now, 0);
	get_cpu(next, now, 0, 0);
	return 0;
}

#endif
