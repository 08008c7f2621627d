/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The true return addresses of functions whose end is probed.
 *
 * While such a function runs, the kernel has its own trampoline stand on the stack in place of the return address, and keeps the true one
 * in a list of the thread. Nothing that the recorder sends may show the trampoline.
 */
#ifndef ICECORE_RETURNS_H
#define ICECORE_RETURNS_H

/* The kernel's own limit for a thread (MAX_URETPROBE_DEPTH). */
#define MAX_RETURNS 64
/* The part of the kernel's page for probes that the trampoline has (UPROBE_XOL_SLOT_BYTES). */
#define TRAMPOLINE_BYTES 128

/* kernel/events/uprobes.c */
struct return_instance {
	unsigned long stack;
	unsigned long orig_ret_vaddr;
	struct return_instance *next;
} __attribute__((preserve_access_index));

struct uprobe_task {
	struct return_instance *return_instances;
	unsigned int depth;
} __attribute__((preserve_access_index));

struct xol_area {
	unsigned long vaddr;
} __attribute__((preserve_access_index));

struct uprobes_state {
	struct xol_area *xol_area;
} __attribute__((preserve_access_index));

struct mm_struct___with_uprobes {
	struct uprobes_state uprobes_state;
} __attribute__((preserve_access_index));

struct task_struct___with_uprobes {
	struct uprobe_task *utask;
	struct mm_struct___with_uprobes *mm;
} __attribute__((preserve_access_index));

struct replaced {
	/* Where the return address lies. */
	__u64 at;
	__u64 address;
};

/* The replaced return addresses of the current thread, the innermost first. */
struct returns {
	__u64 trampoline;
	__u64 count;
	struct replaced all[MAX_RETURNS];
};

/* Returns what the kernel knows of the probes of the current thread; 0 if it hit none yet. */
static __always_inline struct uprobe_task *uprobe_task(void)
{
	struct task_struct___with_uprobes *task = (void *)bpf_get_current_task();

	/* A constant to the verifier: the kernel may have been built without uprobes. */
	return bpf_core_field_exists(task->utask) ? BPF_CORE_READ(task, utask) : 0;
}

/* Returns the address of the trampoline in the current process. */
static __always_inline __u64 trampoline(void)
{
	struct task_struct___with_uprobes *task = (void *)bpf_get_current_task();

	return bpf_core_field_exists(task->utask) ? BPF_CORE_READ(task, mm, uprobes_state.xol_area, vaddr) : 0;
}

struct noting {
	struct returns *returns;
	struct return_instance *next;
};

static long note_return(__u32 i, struct noting *noting)
{
	struct return_instance *instance = noting->next;
	struct replaced *replaced = &noting->returns->all[i & (MAX_RETURNS - 1)];

	if (!instance)
		return 1;
	replaced->at = BPF_CORE_READ(instance, stack);
	replaced->address = BPF_CORE_READ(instance, orig_ret_vaddr);
	noting->returns->count = i + 1;
	noting->next = BPF_CORE_READ(instance, next);
	return 0;
}

/* Notes the replaced return addresses of the current thread. On arm64 the kernel does not note where they lie. */
static __always_inline void find_returns(struct returns *returns)
{
	struct noting noting = { .returns = returns };
	struct uprobe_task *utask = 0;

#if defined(__TARGET_ARCH_x86)
	utask = uprobe_task();
#endif
	returns->count = 0;
	returns->trampoline = 0;
	if (!utask)
		return;
	noting.next = BPF_CORE_READ(utask, return_instances);
	if (!noting.next)
		return;
	returns->trampoline = trampoline();
	bpf_loop(MAX_RETURNS, note_return, &noting, 0);
}

/* Returns the true return address that belongs at a location of the stack; 0 if none was replaced there. */
VERIFIED_ALONE __u64 replaced_at(const struct returns *returns, __u64 at)
{
	if (!returns)
		return 0;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_RETURNS && i < returns->count; i++)
		if (returns->all[i].at == at)
			return returns->all[i].address;
	return 0;
}

/* Returns the true return address for one that was read at a location of the stack. */
static __always_inline __u64 true_return(const struct returns *returns, __u64 at, __u64 read)
{
	__u64 address = read && read == returns->trampoline ? replaced_at(returns, at) : 0;

	return address ? address : read;
}

/* Lets registers be those at the end of the return, if the thread is in the trampoline. */
static __always_inline void leave_trampoline(const struct returns *returns, __u64 *registers)
{
	if (!returns->count || registers[REGISTER_COUNT - 1] - returns->trampoline >= TRAMPOLINE_BYTES)
		return;
	registers[REGISTER_COUNT - 1] = returns->all[0].address;
	registers[STACK_POINTER] = returns->all[0].at + sizeof(long);
}

/* Puts the true return addresses into the copy of a page. */
VERIFIED_ALONE int put_into_page(const struct returns *returns, struct page_record *page, __u64 address)
{
	__u64 *words;

	if (!returns || !page)
		return 0;
	words = (__u64 *)page->bytes;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_RETURNS && i < returns->count; i++) {
		__u64 word = (returns->all[i].at - address) / sizeof(*words);

		if (word < STACK_PAGE_LEN / sizeof(*words) && words[word] == returns->trampoline)
			words[word] = returns->all[i].address;
	}
	return 0;
}

/* Puts the true return addresses into the copy of the top of a stack. */
VERIFIED_ALONE int put_into_top(const struct returns *returns, struct registers_record *taken, __u64 sp)
{
	__u64 *words;

	if (!returns || !taken)
		return 0;
	words = (__u64 *)taken->top;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < MAX_RETURNS && i < returns->count; i++) {
		__u64 word = (returns->all[i].at - sp) / sizeof(*words);

		if (word < MAX_TOP_LEN / sizeof(*words) && words[word] == returns->trampoline)
			words[word] = returns->all[i].address;
	}
	return 0;
}

#endif
