/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The programs filter events, copy records, and count what does not fit. They interpret nothing. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "wire.h"
#include "maps.h"
#include "go.h"
#include "walk.h"
#include "pages.h"
#include "believed.h"
#include "registers.h"
#include "interrupted.h"
#include "snapshot.h"
#include "account.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* These make the skeleton contain the Rust types of the contract. */
struct sample_record wire_sample = {};
struct task_record wire_task = {};
struct cgroup_record wire_cgroup = {};
struct registers_record wire_registers = {};
struct page_record wire_page = {};
struct stack_record wire_stack = {};
struct cpu_time_record wire_cpu_time = {};
enum record_type wire_type = RECORD_SAMPLE;
enum walk_end wire_walk_end = WALK_NONE;
enum loss_cause wire_loss_cause = LOSS_RING_FULL_SAMPLE;
enum target_mode wire_target_mode = TARGET_SYSTEM;
enum copy_mode wire_copy_mode = COPY_NOTHING;
enum target_state wire_target_state = TARGET_LIVE;
enum account_moment wire_account_moment = ACCOUNT_RUNNING;

static __always_inline bool is_wanted(__u32 tgid, __u32 tid, bool in_user)
{
	if (tid == 0 && !take_idle)
		return 0;
	if (in_user ? !take_user : !take_kernel)
		return 0;
	if (target_mode == TARGET_THREADS)
		return bpf_map_lookup_elem(&target_tids, &tid) != 0;
	if (target_mode == TARGET_CGROUPS)
		return is_in_target_cgroup();
	return is_target_process(tgid);
}

/* A constant to the verifier, which then skips code that reads missing fields. */
static __always_inline bool has_cgroups(void)
{
	return bpf_core_field_exists(((struct task_struct *)0)->cgroups);
}

static __always_inline int sample(struct bpf_perf_event_data *ctx, bool with_loop)
{
	__u64 tgid_tid = bpf_get_current_pid_tgid();
	__u32 tgid = tgid_tid >> 32, tid = (__u32)tgid_tid;
	bool in_user = CONTEXT_IN_USER(ctx);
	struct user_regs regs = { .ip = CONTEXT_IP(ctx), .fp = CONTEXT_FP(ctx) };

	if (!is_wanted(tgid, tid, in_user))
		return 0;

	struct scratch *scratch = scratch_here();
	if (!scratch) {
		count_loss(LOSS_NO_SCRATCH);
		return 0;
	}
	struct sample_record *record = &scratch->record;
	record->head.type = RECORD_SAMPLE;
	record->head.cpu = bpf_get_smp_processor_id();
	record->head.time_ns = bpf_ktime_get_ns();
	record->head.tgid = tgid;
	record->head.tid = tid;
	bpf_get_current_comm(record->head.comm, COMM_LEN);
	record->head.cgroup_id = has_cgroups() ? bpf_get_current_cgroup_id() : 0;
	record->weight = ctx->sample_period;
	record->kernel_len = 0;
	record->user_len = 0;
	record->kernel_end = WALK_NONE;
	record->user_end = WALK_NONE;
	record->snapshot = 0;

	if (!in_user)
		walk_kernel(ctx, scratch);
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	bool has_user = in_user || (BPF_CORE_READ(task, mm) && !(BPF_CORE_READ(task, flags) & PF_KTHREAD));
	if (take_user && has_user) {
		if (!with_loop) {
			walk_by_helper(ctx, scratch);
		} else {
			if (!in_user) {
				/* The registers that user space had when it entered the kernel. */
				struct pt_regs *entry = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());

				regs.ip = TASK_IP(entry);
				regs.fp = TASK_FP(entry);
			}
			/* Kernel workers that share a process's memory (io_uring) never came from user space. */
			if (regs.ip) {
				walk_by_loop(regs.ip, regs.fp);
				if (copy_mode != COPY_NOTHING)
					take_snapshot(ctx, record, in_user);
			}
		}
	}

	__u64 frames = (record->kernel_len & 127) + (record->user_len & (2 * MAX_USER_FRAMES - 1));
	__u64 bytes = sizeof(*record) + frames * sizeof(__u64);
	if (bytes > sizeof(*scratch))
		bytes = sizeof(*scratch);
	if (bpf_ringbuf_output(&ring, scratch, bytes, wakeup_flags()))
		count_loss(LOSS_RING_FULL_SAMPLE);
	return 0;
}

SEC("perf_event")
int sample_by_loop(struct bpf_perf_event_data *ctx)
{
	return sample(ctx, 1);
}

SEC("perf_event")
int sample_by_helper(struct bpf_perf_event_data *ctx)
{
	return sample(ctx, 0);
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
