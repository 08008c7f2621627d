/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The programs filter events, copy records, and count what does not fit. They interpret nothing. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "wire.h"
#include "maps.h"
#include "go.h"
#include "returns.h"
#include "walk.h"
#include "pages.h"
#include "believed.h"
#include "registers.h"
#include "interrupted.h"
#include "snapshot.h"
#include "account.h"
#include "events.h"
#include "sample.h"
#include "wait_copies.h"
#include "waits.h"
#include "counters.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* These make the skeleton contain the Rust types of the contract. */
struct sample_record wire_sample = {};
struct task_record wire_task = {};
struct cgroup_record wire_cgroup = {};
struct registers_record wire_registers = {};
struct page_record wire_page = {};
struct stack_record wire_stack = {};
struct cpu_time_record wire_cpu_time = {};
struct choice wire_choice = {};
struct wait_record wire_wait = {};
struct process_record wire_process = {};
enum record_type wire_type = RECORD_SAMPLE;
enum walk_end wire_walk_end = WALK_NONE;
enum loss_cause wire_loss_cause = LOSS_RING_FULL_SAMPLE;
enum target_mode wire_target_mode = TARGET_SYSTEM;
enum copy_mode wire_copy_mode = COPY_NOTHING;
enum target_state wire_target_state = TARGET_LIVE;
enum account_moment wire_account_moment = ACCOUNT_RUNNING;
enum weight wire_weight = WEIGHT_DURATION;
enum waker wire_waker = WAKER_UNKNOWN;
enum process_has wire_process_has = PROCESS_HAS_ENDED;

/* Returns true if the current task may have a user stack that the kernel can walk. */
static __always_inline bool has_user_stack(bool in_user)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();

	return in_user || (BPF_CORE_READ(task, mm) && !(BPF_CORE_READ(task, flags) & PF_KTHREAD));
}

/* A counter has overflowed. */
static __always_inline int sample_counter(struct bpf_perf_event_data *ctx, bool with_loop)
{
	__u64 tgid_tid = bpf_get_current_pid_tgid();
	bool in_user = CONTEXT_IN_USER(ctx);
	struct scratch *scratch;
	__u32 slot;

	if (!(in_user ? take_user : take_kernel) || !is_wanted(tgid_tid >> 32, (__u32)tgid_tid))
		return 0;
	scratch = claim_scratch_of(&slot, 0);
	if (!scratch) {
		count_loss(LOSS_NO_SCRATCH);
		return 0;
	}
	begin_sample(scratch, EVENT_OF(ctx), ctx->sample_period);
	if (!in_user)
		walk_kernel(ctx, scratch, 0);
	if (take_user && !with_loop) {
		if (has_user_stack(in_user))
			walk_by_helper(ctx, scratch);
	} else if (with_loop && take_user && in_user) {
#define FROM_CONTEXT(field) (*(volatile unsigned long *)&ctx->regs.field)
		COPY_REGISTERS(scratch->registers.registers, FROM_CONTEXT);
		take_user_stack(slot, 0);
	} else if (with_loop && take_user && take_entry_registers(scratch)) {
		take_user_stack(slot, 0);
	}
	send_sample(scratch);
	free_scratch(scratch);
	return 0;
}

/* Takes the sample of a hit in the kernel that weighs so much. The innermost kernel frames, so many, are ours. */
static __always_inline int sample_in_kernel(void *ctx, __u32 event, __u64 hit_weighs, __u32 ours, bool with_loop)
{
	__u64 weight = weigh(event, hit_weighs);
	struct scratch *scratch;
	__u32 slot;

	if (!weight)
		return 0;
	scratch = claim_scratch(&slot);
	if (!scratch) {
		count_loss(LOSS_NO_SCRATCH);
		return 0;
	}
	begin_sample(scratch, event, weight);
	if (take_kernel)
		walk_kernel(ctx, scratch, ours);
	if (take_user && !with_loop) {
		if (has_user_stack(0))
			walk_by_helper(ctx, scratch);
	} else if (with_loop && take_user && take_entry_registers(scratch)) {
		take_user_stack(slot, 0);
	}
	send_sample(scratch);
	free_scratch(scratch);
	return 0;
}

/*
 * Since 6.13 the stack of such a program belongs to its CPU. The kernel can preempt programs of probes in user space, and lets another
 * thread run the same program on the same stack: it would read what the first one wrote, or crash. So the program itself keeps its CPU.
 */
extern void bpf_preempt_disable(void) __ksym __weak;
extern void bpf_preempt_enable(void) __ksym __weak;

static __always_inline void keep_cpu(void)
{
	if (is_stack_of_cpu && bpf_ksym_exists(bpf_preempt_disable))
		bpf_preempt_disable();
}

static __always_inline void let_cpu_go(void)
{
	if (is_stack_of_cpu && bpf_ksym_exists(bpf_preempt_enable))
		bpf_preempt_enable();
}

/* Returns true if the current task, on this CPU, may be sampled by a probe. */
static __always_inline bool is_hit_wanted(void)
{
	__u64 tgid_tid = bpf_get_current_pid_tgid();

	return is_wanted_here() && is_wanted(tgid_tid >> 32, (__u32)tgid_tid);
}

/* A probe in a program was hit. */
static __always_inline void sample_in_user(void *ctx, bool with_loop)
{
	struct scratch *scratch;
	struct choice *choice;
	__u32 event, slot;
	__u64 weight;

	if (!take_user || !is_hit_wanted())
		return;
	event = EVENT_OF(ctx);
	weight = weigh(event, weight_by_registers(event, ctx));
	choice = bpf_map_lookup_elem(&choices, &event);
	if (!weight || !choice)
		return;
	scratch = claim_scratch(&slot);
	if (!scratch) {
		count_loss(LOSS_NO_SCRATCH);
		return;
	}
	begin_sample(scratch, event, weight);
	if (with_loop) {
		COPY_REGISTERS(scratch->registers.registers, PROBED);
		take_user_stack(slot, choice->at_entry);
	} else {
		walk_by_helper(ctx, scratch);
	}
	send_sample(scratch);
	free_scratch(scratch);
}

/* A function begins whose return will be weighed by the time in between. */
static __always_inline void note_call_of(void *ctx)
{
	__u64 tgid_tid = bpf_get_current_pid_tgid(), sp = PROBED(sp);
	struct uprobe_task *utask = uprobe_task((void *)bpf_get_current_task());

	if (!is_wanted(tgid_tid >> 32, (__u32)tgid_tid))
		return;
	/* The kernel will not tell of the return. */
	if (utask && BPF_CORE_READ(utask, depth) >= MAX_RETURNS) {
		count_loss(LOSS_UNPAIRED);
		return;
	}
	note_call(EVENT_OF(ctx), sp + RETURN_ADDRESS_BYTES);
}

/* A function of the kernel begins, or returns to where the registers lead. */
static __always_inline int sample_at_kprobe(void *ctx, bool with_loop)
{
	__u32 event = EVENT_OF(ctx);

	return is_hit_wanted() ? sample_in_kernel(ctx, event, weight_by_registers(event, ctx), 0, with_loop) : 0;
}

static __always_inline int sample_at_tracepoint(void *ctx, bool with_loop)
{
	return is_hit_wanted() ? sample_in_kernel(ctx, EVENT_OF(ctx), 1, 0, with_loop) : 0;
}

/* A function of the kernel that calls one of our programs itself begins or ends. */
static __always_inline void sample_at_call(void *ctx, __u32 number)
{
	__u32 event = events_of_calls[number];

	if (is_hit_wanted())
		sample_in_kernel(ctx, event, weight_by_call(event, ctx), frames_before_call(ctx), 1);
}

SEC("uprobe")
int uprobe_of_call(void *ctx)
{
	keep_cpu();
	note_call_of(ctx);
	let_cpu_go();
	return 0;
}

/* Each program comes twice: with our own walk, and for kernels without bpf_loop with the kernel's. */
SEC("perf_event")
int sample_by_loop(struct bpf_perf_event_data *ctx)
{
	return sample_counter(ctx, 1);
}

SEC("perf_event")
int sample_by_helper(struct bpf_perf_event_data *ctx)
{
	return sample_counter(ctx, 0);
}

SEC("tracepoint")
int tracepoint_by_loop(void *ctx)
{
	return sample_at_tracepoint(ctx, 1);
}

SEC("tracepoint")
int tracepoint_by_helper(void *ctx)
{
	return sample_at_tracepoint(ctx, 0);
}

SEC("kprobe")
int kprobe_by_loop(void *ctx)
{
	return sample_at_kprobe(ctx, 1);
}

SEC("kprobe")
int kprobe_by_helper(void *ctx)
{
	return sample_at_kprobe(ctx, 0);
}

/* A function of the kernel begins whose return will be weighed by the time in between. */
SEC("kprobe")
int kprobe_of_call(void *ctx)
{
	__u64 sp = PROBED(sp);

	if (is_hit_wanted())
		note_call(EVENT_OF(ctx), sp + RETURN_ADDRESS_BYTES);
	return 0;
}

/* The kernel binds such a program to one function when it loads it (MAX_CALLING). */
#define CALLED_PROGRAM(number)                 \
	SEC("fentry")                          \
	int called_##number(void *ctx)         \
	{                                      \
		keep_cpu();                    \
		sample_at_call(ctx, number);   \
		let_cpu_go();                  \
		return 0;                      \
	}
CALLED_PROGRAM(0)
CALLED_PROGRAM(1)
CALLED_PROGRAM(2)
CALLED_PROGRAM(3)

SEC("uprobe")
int uprobe_by_loop(void *ctx)
{
	keep_cpu();
	sample_in_user(ctx, 1);
	let_cpu_go();
	return 0;
}

SEC("uprobe")
int uprobe_by_helper(void *ctx)
{
	keep_cpu();
	sample_in_user(ctx, 0);
	let_cpu_go();
	return 0;
}

static __always_inline void send_task(__u32 type, struct task_struct *task, __u64 time_ns, const char *comm,
				      __u32 parent_tgid, __u32 whole_group, __u64 flags)
{
	struct task_record *record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);

	if (!record) {
		count_loss(LOSS_RING_FULL_TASK);
		return;
	}
	record->head.type = type;
	record->head.cpu = bpf_get_smp_processor_id();
	record->head.time_ns = time_ns;
	record->head.tgid = task->tgid;
	record->head.tid = task->pid;
	bpf_probe_read_kernel_str(record->head.comm, COMM_LEN, comm);
	record->head.cgroup_id = has_cgroups() ? BPF_CORE_READ(task, cgroups, dfl_cgrp, kn, id) : 0;
	record->parent_tgid = parent_tgid;
	record->whole_group = whole_group;
	bpf_ringbuf_submit(record, flags);
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	__u32 parent_tgid = parent->tgid, child_tgid = child->tgid;
	__u8 live = TARGET_LIVE;

	if (!is_target_process(parent_tgid))
		return 0;
	if (target_mode == TARGET_THREADS && parent_tgid != child_tgid)
		return 0;
	if (target_mode == TARGET_PROCESSES && parent_tgid != child_tgid &&
	    bpf_map_update_elem(&target_tgids, &child_tgid, &live, 0))
		count_loss(LOSS_TARGETS_FULL);
	if (copy_mode == COPY_UNTRUSTED && parent_tgid != child_tgid)
		inherit_trust(parent_tgid, child_tgid);
	send_task(RECORD_FORK, child, bpf_ktime_get_ns(), child->comm, parent_tgid, 0, wakeup_flags());
	return 0;
}

/* Returns true if a program is executed for the first time. The caller then wakes user space to open the file, since both process and
 * file may be gone a few milliseconds later. */
static __always_inline bool is_first_exec(struct task_struct *task)
{
	struct inode *inode = BPF_CORE_READ(task, mm, exe_file, f_inode);
	struct program_key key = {
		.inode = BPF_CORE_READ(inode, i_ino),
		.dev = BPF_CORE_READ(inode, i_sb, s_dev),
		/* A new file system may have the numbers of an old one. */
		.generation = BPF_CORE_READ(inode, i_generation),
	};
	__u8 known = 1;

	if (bpf_map_lookup_elem(&programs, &key))
		return 0;
	bpf_map_update_elem(&programs, &key, &known, 0);
	return 1;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task, int old_tid)
{
	__u32 tgid = task->tgid, tid = task->pid, old = old_tid;
	__u64 *renamed = bpf_map_lookup_elem(&renamed_ns, &tid);
	__u8 live = TARGET_LIVE;

	/* A thread that executes a program takes over the id of its process. */
	if (target_mode == TARGET_THREADS && old != tid && bpf_map_lookup_elem(&target_tids, &old)) {
		bpf_map_update_elem(&target_tids, &tid, &live, 0);
		bpf_map_delete_elem(&target_tids, &old);
	}

	bpf_map_delete_elem(&go_tgids, &tgid);
	if (copy_mode == COPY_UNTRUSTED)
		bpf_map_delete_elem(&trusted_tgids, &tgid);
	if (is_target_process(tgid))
		send_task(RECORD_EXEC, task, renamed ? *renamed : bpf_ktime_get_ns(), task->comm, 0, 0,
			  is_first_exec(task) ? BPF_RB_FORCE_WAKEUP : wakeup_flags());
	return 0;
}

SEC("tp_btf/task_rename")
int BPF_PROG(on_rename, struct task_struct *task, const char *comm)
{
	__u32 tid = task->pid;
	__u64 now = bpf_ktime_get_ns();

	if (!is_target_process(task->tgid))
		return 0;
	bpf_map_update_elem(&renamed_ns, &tid, &now, 0);
	send_task(RECORD_COMM, task, now, comm, 0, 0, wakeup_flags());
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	__u32 tgid = task->tgid, tid = task->pid;
	__u32 whole_group = task->signal->live.counter == 0;
	__u8 ending = TARGET_ENDING;

	if (!is_target_process(tgid))
		return 0;
	send_task(RECORD_EXIT, task, bpf_ktime_get_ns(), task->comm, 0, whole_group, wakeup_flags());
	send_account(task, ACCOUNT_ENDING);
	if (whole_group && has_target_lists())
		bpf_map_update_elem(&target_tgids, &tgid, &ending, 0);
	if (copy_mode == COPY_UNTRUSTED && whole_group)
		bpf_map_delete_elem(&trusted_tgids, &tgid);
	if (target_mode == TARGET_THREADS && bpf_map_lookup_elem(&target_tids, &tid))
		bpf_map_update_elem(&target_tids, &tid, &ending, 0);
	return 0;
}

SEC("tp_btf/sched_process_free")
int BPF_PROG(on_free, struct task_struct *task)
{
	__u32 tgid = task->tgid, tid = task->pid;

	send_account(task, ACCOUNT_FREED);
	forget_waits(task);
	if (has_target_lists() && tgid == tid)
		bpf_map_delete_elem(&target_tgids, &tgid);
	if (target_mode == TARGET_THREADS)
		bpf_map_delete_elem(&target_tids, &tid);
	return 0;
}

/* Reports the path of every new cgroup, so that the path is known after the cgroup is gone. It is not attached if the kernel has no cgroups. */
SEC("tp_btf/cgroup_mkdir")
int BPF_PROG(on_mkdir_cgroup, struct cgroup *cgroup, const char *path)
{
	__u64 tgid_tid = bpf_get_current_pid_tgid();
	struct cgroup_record *record;

	/* Hierarchies of version 1 have ids of their own. */
	if (BPF_CORE_READ(cgroup, root, hierarchy_id) != 0)
		return 0;
	record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);
	if (!record) {
		count_loss(LOSS_RING_FULL_TASK);
		return 0;
	}
	record->head.type = RECORD_CGROUP;
	record->head.cpu = bpf_get_smp_processor_id();
	record->head.time_ns = bpf_ktime_get_ns();
	record->head.tgid = tgid_tid >> 32;
	record->head.tid = (__u32)tgid_tid;
	bpf_get_current_comm(record->head.comm, COMM_LEN);
	record->head.cgroup_id = BPF_CORE_READ(cgroup, kn, id);
	bpf_probe_read_kernel_str(record->path, CGROUP_PATH_LEN, path);
	bpf_ringbuf_submit(record, wakeup_flags());
	return 0;
}
