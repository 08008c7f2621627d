/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What is known of processes and threads, over a pause. In it, the programs that follow tasks may be detached: an id can be that of another
 * process afterwards, or its process can have executed another program. Before they are detached, it is noted who is on the lists of processes,
 * and when they are attached again, who is not the same any more leaves them. Who is forked later leaves them or takes the entry of its parent
 * (on_fork). Of threads that wait, user space forgets those that are not there any more.
 */
#ifndef ICECORE_PAUSES_H
#define ICECORE_PAUSES_H

#include "kernel.h"
#include "go.h"
#include "interpreted.h"
#include "maps.h"
#include "waits.h"

/* What tells a program that a process runs from all others that have had its id. */
struct running {
	__u64 start_time;
	__u64 exec_id;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct running);
} before_pause SEC(".maps");

/* Who is on the lists is noted; otherwise who has changed leaves them, and the reader gets the keys of threads in `waits`. */
bool notes_processes = 0;

SEC("iter/task")
int on_every_listed(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct running now = {}, *before;
	__u64 key = (__u64)task;
	__u32 tgid;

	if (task && wait_ns && !notes_processes && waiting_of(task))
		bpf_seq_write(ctx->meta->seq, &key, sizeof(key));
	if (!task || task->pid != task->tgid)
		return 0;
	tgid = task->tgid;
	if (!bpf_map_lookup_elem(&trusted_tgids, &tgid) && !bpf_map_lookup_elem(&go_tgids, &tgid) && !bpf_map_lookup_elem(&interpreters, &tgid))
		return 0;
	now.start_time = task->start_time;
	now.exec_id = task->self_exec_id;
	if (notes_processes) {
		bpf_map_update_elem(&before_pause, &tgid, &now, 0);
		return 0;
	}
	before = bpf_map_lookup_elem(&before_pause, &tgid);
	if (before && before->start_time == now.start_time && before->exec_id == now.exec_id)
		return 0;
	bpf_map_delete_elem(&trusted_tgids, &tgid);
	bpf_map_delete_elem(&go_tgids, &tgid);
	bpf_map_delete_elem(&interpreters, &tgid);
	return 0;
}

#endif
