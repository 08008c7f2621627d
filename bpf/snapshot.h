/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Registers and stack of user space at a sample, for unwinding later. */
#ifndef ICECORE_SNAPSHOT_H
#define ICECORE_SNAPSHOT_H

/* The first stack of a process lies so near to where it began; all others lie farther away (the kernel keeps mappings
 * 128 MiB away from it). */
#define FIRST_STACK_BYTES (128ULL << 20)
/* What is sent of a stack when half of the ring is full. */
#define SHORTENED_BYTES (16 << 10)
/* The most that is sent of the stack of a leaf whose callers keep frame pointers. */
#define LEAF_BYTES (64 << 10)
/* Stacks that Go makes for its threads have so many at most; others are made by C, which may have more around what Go knows. */
#define MAX_OWN_STACK_BYTES (32 << 10)
/* Bits of the number of a page: addresses of user space have 48 (57 with five levels; what those lack makes two pages one entry). */
#define PAGE_NUMBER_BITS 36

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
#define FRAME_POINTER 6
#else
#define COPY_REGISTERS(to, from)                                                                                      \
	do {                                                                                                          \
		_Pragma("unroll") for (int i = 0; i < 31; i++)(to)[i] = from(regs[i]);                                \
		(to)[31] = from(sp), (to)[32] = from(pc);                                                             \
	} while (0)
#define STACK_POINTER 31
#define FRAME_POINTER 29
#endif

static long find_stack(struct task_struct *task, struct vm_area_struct *vma, struct stack_range *range)
{
	range->start = vma->vm_start;
	range->end = vma->vm_end;
	return 0;
}

/* The address behind the stack that a stack pointer is in; 0 if it cannot be found now. */
VERIFIED_ALONE __u64 stack_end(__u32 tid, __u64 sp)
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

/* The stack that is being looked at. */
struct looking {
	struct registers_record registers;
	struct page_record page;
	struct stack_record stack;
	/* A power of two lets the verifier bound an index with a mask. */
	__u64 hashes[512];
};

_Static_assert(MAX_STACK_PAGES <= 512, "a stack has more pages than there are hashes");

/* Perf-event programs do not nest on a CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct looking);
} lookings SEC(".maps");

struct copy {
	struct looking *looking;
	__u64 first_page;
	/* Bytes that may still be sent. */
	__u32 room;
	__u32 is_short;
};

static __always_inline __u64 mixed(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * 0x9E3779B97F4A7C15ULL;
	return hash ^ hash >> 32;
}

/* Hashes a page in four lanes, which processors compute side by side. Each step is reversible, so that one word that differs
 * always shows; of pages that differ elsewhere one in 2^64 looks the same. */
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

/* Notes what a page holds, and sends it if that is not what was sent before. */
static long look_at_page(__u32 i, struct copy *copy)
{
	struct looking *looking = copy->looking;
	__u64 address = copy->first_page + (__u64)i * STACK_PAGE_LEN, hash = 0;
	__u64 number = address / STACK_PAGE_LEN & ((1ULL << PAGE_NUMBER_BITS) - 1);
	__u64 key = (__u64)looking->stack.tid << PAGE_NUMBER_BITS | number;

	/* A page that is not in memory was not touched, or not lately: what is outside of it counts all the same. */
	if (!bpf_probe_read_user(looking->page.bytes, STACK_PAGE_LEN, (void *)address)) {
		__u64 *sent = bpf_map_lookup_elem(&sent_pages, &key);

		hash = hash_page(&looking->page);
		if (!sent || *sent != hash) {
			looking->page.address = address;
			if (copy->room < STACK_PAGE_LEN ||
			    bpf_ringbuf_output(&ring, &looking->page, sizeof(looking->page), BPF_RB_NO_WAKEUP)) {
				copy->is_short = 1;
			} else {
				copy->room -= STACK_PAGE_LEN;
				bpf_map_update_elem(&sent_pages, &key, &hash, 0);
			}
		}
	}
	looking->hashes[i & 511] = hash;
	return 0;
}

/* Bytes that may be sent now: less and less as the ring fills, so that samples are not lost for the sake of stacks. */
static __always_inline __u32 room_for_stack(void)
{
	__u64 waiting = bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA);

	if (waiting < ring_half)
		return MAX_STACK_BYTES + STACK_PAGE_LEN;
	return waiting < ring_three_quarters ? SHORTENED_BYTES : 0;
}

/* Sends what changed of the stack from `low` to `high`, and the hashes of all its pages. */
VERIFIED_ALONE int send_stack(__u64 low, __u64 high)
{
	struct copy copy = { .first_page = low & -(__u64)STACK_PAGE_LEN, .room = room_for_stack() };
	struct scratch *scratch = scratch_here();
	struct sample_record *record;
	__u32 zero = 0, bytes;
	__u64 pages;

	copy.looking = bpf_map_lookup_elem(&lookings, &zero);
	if (!copy.looking || !scratch)
		return 0;
	record = &scratch->record;
	pages = (high - copy.first_page + STACK_PAGE_LEN - 1) / STACK_PAGE_LEN;
	if (pages > MAX_STACK_PAGES)
		pages = MAX_STACK_PAGES;
	copy.looking->page.type = RECORD_STACK_PAGE;
	copy.looking->page.cpu = record->head.cpu;
	copy.looking->page.snapshot = record->snapshot;
	copy.looking->stack.type = RECORD_STACK;
	copy.looking->stack.cpu = record->head.cpu;
	copy.looking->stack.snapshot = record->snapshot;
	copy.looking->stack.low = low;
	copy.looking->stack.high = high;
	copy.looking->stack.tid = record->head.tid;
	copy.looking->stack.len = pages;
	bpf_loop(pages, look_at_page, &copy, 0);
	bytes = sizeof(copy.looking->stack) + (pages & 511) * sizeof(__u64);
	if (bpf_ringbuf_output(&ring, &copy.looking->stack, bytes, BPF_RB_NO_WAKEUP) || copy.is_short)
		count_loss(LOSS_STACK_SHORTENED);
	return 0;
}

/* Tells whether a thread runs on its alternate signal stack. */
static __always_inline bool is_on_signal_stack(__u64 sp)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 into = sp - BPF_CORE_READ(task, sas_ss_sp);

	return into < BPF_CORE_READ(task, sas_ss_size);
}

#if defined(__TARGET_ARCH_x86)
/* What a process does about its signals, in the room of a page. */
static __always_inline const struct k_sigaction *read_actions(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct sighand_struct *handlers = BPF_CORE_READ(task, sighand);
	struct looking *looking;
	__u32 zero = 0;

	looking = bpf_map_lookup_elem(&lookings, &zero);
	if (!looking ||
	    bpf_probe_read_kernel(looking->page.bytes, sizeof(handlers->action), &handlers->action))
		return 0;
	return (const void *)looking->page.bytes;
}

/* Where the handlers of a process return to: its C library's trampoline, and perhaps one of its own. */
struct trampolines {
	const __u64 *frames;
	__u64 one;
	__u64 other;
	bool is_passed;
};

static long pass_frame(__u32 i, struct trampolines *trampolines)
{
	__u64 address = trampolines->frames[i & (MAX_USER_FRAMES - 1)];

	trampolines->is_passed = address == trampolines->one || address == trampolines->other;
	return trampolines->is_passed;
}

/* Tells whether a walk passes through a signal: what that has interrupted is not on the chain of frame pointers. */
static __always_inline bool passes_signal(struct scratch *scratch)
{
	struct trampolines found = { .frames = &scratch->frames[scratch->record.kernel_len & 127] };
	const struct k_sigaction *actions = read_actions();

	if (!actions)
		return 0;
#pragma clang loop unroll(disable)
	for (int i = 0; i < 64; i++) {
		__u64 to = (__u64)actions[i].sa.sa_restorer;

		if (to && to != found.one) {
			found.other = found.one;
			found.one = to;
		}
	}
	if (found.one)
		bpf_loop(scratch->record.user_len, pass_frame, &found, 0);
	return found.is_passed;
}
#else
static __always_inline bool passes_signal(struct scratch *scratch)
{
	return 0;
}
#endif

/* Tells whether the walk shows the stack: it came to the end without passing through a signal, and either all of it is code of
 * Go, or user space has seen that the code of the process keeps frame pointers, and it has no other code by now. A walk of one
 * frame ends wherever the frame pointer is not used. */
VERIFIED_ALONE int is_believed(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct scratch *scratch = scratch_here();
	bool is_of_go;
	__u64 *pages;
	__u32 tgid;

	if (copy_mode != COPY_UNTRUSTED || !scratch || scratch->record.user_len < 2)
		return 0;
	is_of_go = scratch->go.places.code_len && !scratch->go.is_foreign;
	/* Of a walk of Go as many frames were asked for as unwinding gives. */
	if (scratch->record.user_end != WALK_ROOT && (!is_of_go || scratch->record.user_end != WALK_DEPTH))
		return 0;
	if (is_of_go)
		return 1;
	tgid = scratch->record.head.tgid;
	pages = bpf_map_lookup_elem(&trusted_tgids, &tgid);
	return pages && *pages == BPF_CORE_READ(task, mm, exec_vm) && !passes_signal(scratch);
}

/* Begins a snapshot; the registers are to be filled in. */
static __always_inline struct registers_record *begin_snapshot(struct sample_record *record, bool is_outer)
{
	__u32 zero = 0;
	__u64 *number = bpf_map_lookup_elem(&snapshot_numbers, &zero);
	struct looking *looking = bpf_map_lookup_elem(&lookings, &zero);
	struct registers_record *taken;

	if (!looking || !number)
		return 0;
	taken = &looking->registers;
	taken->type = RECORD_REGISTERS;
	taken->cpu = record->head.cpu;
	taken->snapshot = ++*number;
	taken->is_outer = is_outer;
	return taken;
}

/* The stack of a leaf of Go from the stack pointer to the return address of the frame that the frame pointer is of, and a word
 * more: in its prologue and epilogue, a function's own return address lies below. */
static __always_inline __u64 top_len(const struct registers_record *taken)
{
	__u64 sp = taken->registers[STACK_POINTER], fp = taken->registers[FRAME_POINTER], len;

	/* Go calls what clears and copies memory with a frame pointer below the stack, which leads to its own. */
	if (sp - fp <= 2 * sizeof(fp) && bpf_probe_read_user(&fp, sizeof(fp), (void *)fp))
		fp = 0;
	len = fp + 3 * sizeof(fp) - sp;
	if (len <= TOP_LEN || len >= MAX_TOP_LEN)
		len = TOP_LEN;
	/* The verifier forgets what was compared. */
	asm volatile("" : "+r"(len));
	return len & (MAX_TOP_LEN - 8);
}

/* Sends registers and the top of their stack; returns false if there is no room. */
static __always_inline bool send_registers(struct sample_record *record, struct registers_record *taken, __u64 end,
					   bool is_of_go)
{
	__u64 sp = taken->registers[STACK_POINTER];
	__u64 len = is_of_go ? top_len(taken) : TOP_LEN;

	taken->stack_end = end;
	if (bpf_probe_read_user(taken->top, len, (void *)sp))
		len = 0;
	taken->top_len = len;
	if (bpf_ringbuf_output(&ring, taken, offsetof(struct registers_record, top) + len, BPF_RB_NO_WAKEUP)) {
		count_loss(LOSS_STACK_SHORTENED);
		return 0;
	}
	record->snapshot = taken->snapshot;
	return 1;
}

/* Returns the address behind the stack that a sample hit. The mapping does not tell where a stack of Go ends, since Go makes them in its
 * heap: its own notes tell. */
static __always_inline __u64 sampled_stack_end(struct scratch *scratch, __u64 sp)
{
	struct go_stacks *go = &scratch->go;

	if (go->low <= sp && sp < go->high)
		return go->high;
	if (go->thread_low <= sp && sp < go->thread_high && go->thread_high - go->thread_low <= MAX_OWN_STACK_BYTES)
		return go->thread_high;
	return stack_end(scratch->record.head.tid, sp);
}

static __always_inline void send_whole_stack(__u64 sp, __u64 end)
{
	if (end > sp)
		send_stack(sp, end - sp > max_stack_bytes ? sp + max_stack_bytes : end);
}

/* Sends the stack below where the frame pointer leads, if the top is not all of it: a leaf that keeps none has its return address there,
 * and the frame pointer is its caller's. */
static __always_inline void send_leaf(__u64 sp, __u64 fp, __u64 end)
{
	__u64 len = fp + 16 - sp;

	if (len > TOP_LEN && len <= LEAF_BYTES && fp + 16 <= end)
		send_stack(sp, fp + 16);
}

#if defined(__TARGET_ARCH_x86)
/* The most that the kernel saves of vector registers lies between the top of the stack and what is looked for. */
#define MAX_SIGNAL_FRAME (16 << 10)
/* What is looked through in one step; the words that are compared lie 16 bytes apart. */
#define SEARCHED_BYTES (STACK_PAGE_LEN - 16)

#define SIGNAL_FRAME_MASK 304
/* The handler runs on the alternate stack. */
#define SA_ONSTACK 0x08000000

struct search {
	struct looking *looking;
	__u64 stack;
	__u64 size;
	/* Where `ss_sp` of the outermost signal frame lies; 0 if it was not found. */
	__u64 found;
};

/* Finds the last place in a page where the address and, 16 bytes further, the size of an alternate stack stand. Returns its offset, or
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
		/* The compiler would make negative offsets of it, which the verifier of 7.2 refuses. */
		barrier_var(at);
		differs = (words[at] ^ sp) | (words[at + 2] ^ size);
		/* The compiler would make two conditions of this one, and the ways that the verifier follows would multiply. */
		barrier_var(differs);
		if (!differs)
			return at * 8;
	}
	return SEARCHED_BYTES;
}

/*
 * Looks for the frame of a signal, from the top of an alternate stack downwards. The kernel notes in it what that stack is.
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
	__u64 top = search->stack + search->size, from = top - (i + 1) * SEARCHED_BYTES - 16;
	__u32 at;

	from &= -16ULL;
	if (from < search->stack || bpf_probe_read_user(search->looking->page.bytes, STACK_PAGE_LEN, (void *)from))
		return 1;
	at = find_in_page(&search->looking->page, search->stack, search->size);
	if (at >= SEARCHED_BYTES)
		return 0;
	search->found = from + at;
	return 1;
}

/* Tells whether the handler of a signal is still running: as long as it does, its signal is blocked, which it was not before, and those
 * that are to be blocked with it. The frame of one that has returned stays where it was, and a program may use this stack for something
 * else by then (coroutines). Of handlers that do not block their own signal nothing tells. */
static __always_inline bool is_handled(__u64 signal_frame)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 blocked = BPF_CORE_READ(task, blocked.sig[0]), before;
	const struct k_sigaction *actions = read_actions();

	if (!actions ||
	    bpf_probe_read_user(&before, sizeof(before), (void *)(signal_frame + SIGNAL_FRAME_MASK)) || before & ~blocked)
		return 0;
#pragma clang loop unroll(disable)
	for (int i = 0; i < 64; i++)
		if ((blocked & ~before) >> i & 1 && actions[i].sa.sa_flags & SA_ONSTACK && !(actions[i].sa.sa_mask.sig[0] & ~blocked))
			return 1;
	return 0;
}

/* Sends what was interrupted by the signal whose handler runs on an alternate stack. */
VERIFIED_ALONE int send_interrupted(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct search search = { .stack = BPF_CORE_READ(task, sas_ss_sp), .size = BPF_CORE_READ(task, sas_ss_size) };
	struct scratch *scratch = scratch_here();
	struct sample_record *record;
	__u64 snapshot, sp, end;
	struct registers_record *taken;
	struct {
		unsigned long r8, r9, r10, r11, r12, r13, r14, r15, di, si, bp, bx, dx, ax, cx, sp, ip;
	} saved;
	__u32 zero = 0;

	search.looking = bpf_map_lookup_elem(&lookings, &zero);
	if (!search.looking || !scratch)
		return 0;
	bpf_loop(MAX_SIGNAL_FRAME / SEARCHED_BYTES, search_page, &search, 0);
	if (!search.found || !is_handled(search.found - 24) ||
	    bpf_probe_read_user(&saved, sizeof(saved), (void *)(search.found + 24)))
		return 0;
	record = &scratch->record;
	snapshot = record->snapshot;
	taken = begin_snapshot(record, 1);
	if (!taken)
		return 0;
#define FROM_SAVED(field) (saved.field)
	COPY_REGISTERS(taken->registers, FROM_SAVED);
	sp = saved.sp;
	end = stack_end(record->head.tid, sp);
	if (send_registers(record, taken, end, 0))
		send_whole_stack(sp, end);
	record->snapshot = snapshot;
	return 0;
}
#else
static __always_inline void send_interrupted(void)
{
}
#endif

/* Sends a stack of C from which Go was called. */
static long send_callback(__u32 i, struct scratch **sampled)
{
	struct scratch *scratch = *sampled;
	struct sample_record *record = &scratch->record;
	__u64 snapshot = record->snapshot, at = scratch->go.backs[i & (GO_MAX_BACKS - 1)], pair[2], end;
	struct registers_record *taken;

	if (bpf_probe_read_user(pair, sizeof(pair), (void *)at))
		return 1;
	taken = begin_snapshot(record, 1);
	if (!taken)
		return 1;
	__builtin_memset(taken->registers, 0, sizeof(taken->registers));
	taken->registers[FRAME_POINTER] = pair[0];
	taken->registers[STACK_POINTER] = at + sizeof(pair);
	taken->registers[REGISTER_COUNT - 1] = pair[1];
	end = stack_end(record->head.tid, at);
	if (send_registers(record, taken, end, 0))
		send_whole_stack(at + sizeof(pair), end);
	record->snapshot = snapshot;
	return 0;
}

/* Sends registers and stack; the sample that they belong to has its walk. */
static __always_inline void take_snapshot(struct bpf_perf_event_data *ctx, struct sample_record *record, bool in_user)
{
	struct registers_record *taken = begin_snapshot(record, 0);
	struct scratch *scratch = scratch_here();
	bool has_signal;
	__u64 sp, fp, end;

	if (!taken || !scratch)
		return;
	if (in_user) {
#define FROM_CONTEXT(field) (*(volatile unsigned long *)&ctx->regs.field)
		COPY_REGISTERS(taken->registers, FROM_CONTEXT);
	} else {
		struct pt_regs *entry = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
#define FROM_ENTRY(field) (entry->field)
		COPY_REGISTERS(taken->registers, FROM_ENTRY);
	}
	sp = taken->registers[STACK_POINTER];
	fp = taken->registers[FRAME_POINTER];
	has_signal = is_on_signal_stack(sp);
	end = sampled_stack_end(scratch, sp);
	if (!send_registers(record, taken, end, scratch->go.places.code_len))
		return;
	if (has_signal || !is_believed()) {
		send_whole_stack(sp, end);
		if (has_signal)
			send_interrupted();
	} else if (!scratch->go.places.code_len) {
		send_leaf(sp, fp, end);
	}
	bpf_loop(scratch->go.back_count, send_callback, &scratch, 0);
}

#endif
