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
#include "code.h"
#include "tables.h"
#include "walk.h"
#include "signals.h"
#include "table_walk.h"
#include "pages.h"
#include "complete.h"
#include "registers.h"
#include "interrupted.h"
#include "snapshot.h"
#include "account.h"
#include "events.h"
#include "fields.h"
#include "sample.h"
#include "wait_copies.h"
#include "inner_frames.h"
#include "waits.h"
#include "wakers.h"
#include "open_waits.h"
#include "counters.h"
#include "symbols.h"
#include "probes.h"
#include "tasks.h"
#include "pauses.h"

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
struct no_table_record wire_no_table = {};
struct file_key wire_file_key = {};
struct table wire_table = {};
enum row_kind wire_row_kind = ROW_UNKNOWN;
struct wait_record wire_wait = {};
struct process_record wire_process = {};
enum limits wire_limits = COMM_LEN;
enum wait_flags wire_wait_flags = WAIT_NOT_ENDED;
enum interpreted_flags wire_interpreted_flags = INTERPRETED_INNERMOST;
enum record_type wire_type = RECORD_SAMPLE;
enum walk_end wire_walk_end = WALK_NONE;
enum loss_cause wire_loss_cause = LOSS_RING_FULL_SAMPLE;
enum target_mode wire_target_mode = TARGET_SYSTEM;
enum copy_mode wire_copy_mode = COPY_NOTHING;
enum target_state wire_target_state = TARGET_LIVE;
enum account_moment wire_account_moment = ACCOUNT_RUNNING;
enum weight wire_weight = WEIGHT_DURATION;
enum field_kind wire_field_kind = FIELD_NONE;
enum waker wire_waker = WAKER_UNKNOWN;
enum process_has wire_process_has = PROCESS_HAS_ENDED;

/* Returns the weight of a sample. Of a timer whose period has changed, the kernel still tells the old one. */
static __always_inline __u64 weight_of_overflow(struct bpf_perf_event_data *ctx, __u32 event)
{
	__u64 period = timer_periods[event & (MAX_EVENTS - 1)];

	return period ? period : ctx->sample_period;
}

/* A counter has overflowed. */
static __always_inline int sample_counter(struct bpf_perf_event_data *ctx, bool with_loop)
{
	__u64 tgid_tid = bpf_get_current_pid_tgid();
	__u32 event = EVENT_OF(ctx), slot;
	bool in_user = CONTEXT_IN_USER(ctx);
	struct scratch *scratch;

	if (!(in_user ? take_user : take_kernel) || !is_wanted(tgid_tid >> 32, (__u32)tgid_tid))
		return 0;
	scratch = claim_scratch_of(&slot, 0);
	if (!scratch) {
		count_lost_sample(LOSS_NO_SCRATCH, event, weight_of_overflow(ctx, event));
		return 0;
	}
	begin_sample(scratch, event, weight_of_overflow(ctx, event));
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
