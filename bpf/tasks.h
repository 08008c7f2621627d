/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The programs that tell of tasks and cgroups: begin, exec, name, end. */
#ifndef ICECORE_TASKS_H
#define ICECORE_TASKS_H

#include "kernel.h"
#include "account.h"
#include "go.h"
#include "interpreted.h"
#include "maps.h"
#include "sample.h"
#include "waits.h"
#include "wire.h"

static __always_inline void send_task(__u32 type, struct task_struct *task, __u64 time_ns, const char *comm,
				      __u32 parent_tgid, __u16 whole_group, __u16 shares_memory, __u64 flags)
{
	struct task_record *record;

	if (is_paused)
		return;
	record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);
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
	record->shares_memory = shares_memory;
	bpf_ringbuf_submit(record, flags);
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	__u32 parent_tgid = parent->tgid, child_tgid = child->tgid;
	__u32 child_tid = child->pid;
	__u8 live = TARGET_LIVE;
	__u16 shares_memory;

	/* A target that the kernel has not removed yet may have had the same number. */
	if (has_target_lists() && child_tgid == child_tid && bpf_map_lookup_elem(&target_tgids, &child_tgid))
		bpf_map_delete_elem(&target_tgids, &child_tgid);
	if (target_mode == TARGET_THREADS && bpf_map_lookup_elem(&target_tids, &child_tid))
		bpf_map_delete_elem(&target_tids, &child_tid);
	if (!is_followed(parent_tgid))
		return 0;
	if (target_mode == TARGET_THREADS && parent_tgid != child_tgid && !follows_all)
		return 0;
	if (target_mode == TARGET_PROCESSES && parent_tgid != child_tgid && is_target_process(parent_tgid) &&
	    bpf_map_update_elem(&target_tgids, &child_tgid, &live, 0))
		count_loss(LOSS_TARGETS_FULL);
	if (copy_mode == COPY_UNTRUSTED && parent_tgid != child_tgid)
		inherit_trust(parent_tgid, child_tgid);
	if (parent_tgid != child_tgid)
		inherit_interpreter(parent_tgid, child_tgid);
	shares_memory = parent_tgid != child_tgid && child->mm && child->mm == parent->mm;
	send_task(RECORD_FORK, child, bpf_ktime_get_ns(), child->comm, parent_tgid, 0, shares_memory, wakeup_flags());
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
	__u64 *renamed = bpf_map_lookup_elem(&renamed_ns, &tid), now = bpf_ktime_get_ns();
	__u8 live = TARGET_LIVE;

	/* A thread that executes a program takes over the id of its process. */
	if (target_mode == TARGET_THREADS && old != tid && bpf_map_lookup_elem(&target_tids, &old)) {
		bpf_map_update_elem(&target_tids, &tid, &live, 0);
		bpf_map_delete_elem(&target_tids, &old);
	}

	if (old != tid)
		send_account_until_exec(task, old);
	leave_wait_stack(task);
	bpf_map_delete_elem(&go_tgids, &tgid);
	if (copy_mode == COPY_UNTRUSTED)
		bpf_map_delete_elem(&trusted_tgids, &tgid);
	if (is_followed(tgid))
		send_task(RECORD_EXEC, task, renamed && *renamed >= tasks_since_ns ? *renamed : now, task->comm, 0, 0, 0,
			  !is_paused && is_first_exec(task) ? BPF_RB_FORCE_WAKEUP : wakeup_flags());
	return 0;
}

SEC("tp_btf/task_rename")
int BPF_PROG(on_rename, struct task_struct *task, const char *comm)
{
	__u32 tid = task->pid;
	__u64 now = bpf_ktime_get_ns();

	if (!is_followed(task->tgid))
		return 0;
	bpf_map_update_elem(&renamed_ns, &tid, &now, 0);
	send_task(RECORD_COMM, task, now, comm, 0, 0, 0, wakeup_flags());
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	__u32 tgid = task->tgid, tid = task->pid;
	__u32 whole_group = task->signal->live.counter == 0;
	__u8 ending = TARGET_ENDING;

	if (!is_followed(tgid))
		return 0;
	send_task(RECORD_EXIT, task, bpf_ktime_get_ns(), task->comm, task->exit_code, whole_group, 0, wakeup_flags());
	if (copy_mode == COPY_UNTRUSTED && whole_group)
		bpf_map_delete_elem(&trusted_tgids, &tgid);
	if (!is_target_process(tgid))
		return 0;
	send_account(task, ACCOUNT_ENDING);
	if (whole_group && has_target_lists())
		bpf_map_update_elem(&target_tgids, &tgid, &ending, 0);
	if (target_mode == TARGET_THREADS && bpf_map_lookup_elem(&target_tids, &tid))
		bpf_map_update_elem(&target_tids, &tid, &ending, 0);
	return 0;
}

SEC("tp_btf/sched_process_free")
int BPF_PROG(on_free, struct task_struct *task)
{
	__u32 tgid = task->tgid, tid = task->pid;
	__u8 *state;

	send_account(task, ACCOUNT_FREED);
	forget_waits(task);
	/* A new task may have the number already. */
	if (has_target_lists() && tgid == tid) {
		state = bpf_map_lookup_elem(&target_tgids, &tgid);
		if (state && *state == TARGET_ENDING)
			bpf_map_delete_elem(&target_tgids, &tgid);
	}
	if (target_mode == TARGET_THREADS) {
		state = bpf_map_lookup_elem(&target_tids, &tid);
		if (state && *state == TARGET_ENDING)
			bpf_map_delete_elem(&target_tids, &tid);
	}
	return 0;
}

/* Reports the path of every new cgroup, so that the path is known after the cgroup is gone. It is not attached if the kernel has no cgroups. */
SEC("tp_btf/cgroup_mkdir")
int BPF_PROG(on_mkdir_cgroup, struct cgroup *cgroup, const char *path)
{
	__u64 tgid_tid = bpf_get_current_pid_tgid();
	struct cgroup_record *record;

	/* Hierarchies of version 1 have ids of their own. */
	if (is_paused || BPF_CORE_READ(cgroup, root, hierarchy_id) != 0)
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
	/* It may be a target that was removed and is made again: the recorder looks at once. */
	bpf_ringbuf_submit(record, target_mode == TARGET_CGROUPS ? BPF_RB_FORCE_WAKEUP : wakeup_flags());
	return 0;
}

#endif
