/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The true return addresses of functions whose end is probed.
 *
 * While such a function runs, the kernel has its own trampoline stand on the stack in place of the return address, and keeps the true one
 * in a list of the thread. Nothing that the recorder sends may show the trampoline.
 */
#ifndef ICECORE_RETURNS_H
#define ICECORE_RETURNS_H

#include "kernel.h"
#include "wire.h"

/* The kernel's own limit for a thread (MAX_URETPROBE_DEPTH). */
#define MAX_RETURNS 64
/* The part of the kernel's page for probes that the trampoline has (UPROBE_XOL_SLOT_BYTES). */
#define TRAMPOLINE_BYTES 128
/* Where its system call returns to. */
#define TRAMPOLINE_CALL_END 13

/* kernel/events/uprobes.c */
struct return_instance {
	unsigned long stack;
	unsigned long orig_ret_vaddr;
	struct return_instance *next;
} __attribute__((preserve_access_index));

struct uprobe_task {
	struct return_instance *return_instances;
	unsigned int depth;
	/* The instruction that the thread has executed elsewhere last, or executes there now: where it belongs, and where it stands. */
	unsigned long vaddr;
	unsigned long xol_vaddr;
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

/* The instruction that the kernel puts where a probe lies. */
#define BREAKPOINT 0xcc

struct replaced {
	/* Where the return address lies. */
	__u64 at;
	__u64 address;
};

/* The replaced return addresses of a thread, the innermost first. */
struct returns {
	__u64 trampoline;
	__u64 count;
	/* The thread was in the kernel when the sample hit. */
	__u64 is_in_kernel;
	struct replaced all[MAX_RETURNS];
};

/* Returns what the kernel knows of the probes of a thread; 0 if it hit none yet. */
static __always_inline struct uprobe_task *uprobe_task(struct task_struct *of)
{
	struct task_struct___with_uprobes *task = (void *)of;

	/* A constant to the verifier: the kernel may have been built without uprobes. */
	return bpf_core_field_exists(task->utask) ? BPF_CORE_READ(task, utask) : 0;
}

/* Returns the address of the trampoline in the process of a thread. */
static __always_inline __u64 trampoline(struct task_struct *of)
{
	struct task_struct___with_uprobes *task = (void *)of;

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

/* Returns the true return address that belongs at a location of the stack; 0 if it is not known. */
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

/* Returns the true return address for one that was read at a location of the stack; 0 if it is not known. */
static __always_inline __u64 true_return(const struct returns *returns, __u64 at, __u64 read)
{
	return read && read == returns->trampoline ? replaced_at(returns, at) : read;
}

/* Notes the replaced return addresses of a thread. On arm64 the kernel does not note where they lie. */
static __always_inline void find_returns(struct returns *returns, struct task_struct *task)
{
	struct noting noting = { .returns = returns };
	struct uprobe_task *utask = 0;

#if defined(__TARGET_ARCH_x86)
	utask = uprobe_task(task);
#endif
	returns->count = 0;
	returns->trampoline = utask ? trampoline(task) : 0;
	if (!returns->trampoline)
		return;
	noting.next = BPF_CORE_READ(utask, return_instances);
	if (noting.next)
		bpf_loop(MAX_RETURNS, note_return, &noting, 0);
}

/* Returns true if the kernel is about to replace the return address of the function that begins now: it writes the address of the
 * trampoline over it, byte by byte, and notes it only then. In between only the kernel's own registers have it. */
static __always_inline bool is_being_replaced(const struct returns *returns, const __u64 *registers)
{
	__u64 sp = registers[STACK_POINTER], word;
	__u8 code;

	if (!returns->trampoline || !returns->is_in_kernel || READ_USER(word, sp) || (word ^ returns->trampoline) & 0xff ||
	    replaced_at(returns, sp))
		return 0;
	return !READ_USER(code, registers[REGISTER_COUNT - 1]) && code == BREAKPOINT;
}

/* The longest instruction. */
#define MAX_INSTRUCTION_BYTES 16

/* Lets the program counter be where a probed instruction belongs, if the kernel has moved that away for the thread. */
static __always_inline void leave_slot(__u64 *registers, struct task_struct *task)
{
	struct uprobe_task *utask = uprobe_task(task);
	__u64 into;

	if (!utask)
		return;
	into = registers[REGISTER_COUNT - 1] - BPF_CORE_READ(utask, xol_vaddr);
	if (into < MAX_INSTRUCTION_BYTES)
		registers[REGISTER_COUNT - 1] = BPF_CORE_READ(utask, vaddr) + into;
}

/* Returns true if registers are in the trampoline. */
static __always_inline bool is_in_trampoline(const struct returns *returns, const __u64 *registers)
{
	return returns->trampoline && registers[REGISTER_COUNT - 1] - returns->trampoline < TRAMPOLINE_BYTES;
}

/* Lets registers be those at the end of a return, where the stack pointer is `end`. Returns false if the kernel forgot the address. */
static __always_inline bool end_return(const struct returns *returns, __u64 *registers, __u64 end)
{
	__u64 address = replaced_at(returns, end - 8);

	if (!address)
		return 0;
	registers[REGISTER_COUNT - 1] = address;
	registers[STACK_POINTER] = end;
	return 1;
}

/* The same, if the thread is in the trampoline and not behind its system call. At 1, it may also stand behind a breakpoint. */
static __always_inline bool leave_early_trampoline(const struct returns *returns, __u64 *registers)
{
	__u64 sp = registers[STACK_POINTER], off = registers[REGISTER_COUNT - 1] - returns->trampoline;

	if (off > TRAMPOLINE_CALL_END)
		return 0;
	return end_return(returns, registers, sp + (off < 3 ? 8 * off : 24)) || (off == 1 && end_return(returns, registers, sp));
}

/* Returns true if the stack has, from an address on, what the trampoline has saved: r11, rcx and rax. */
static __always_inline bool has_saved(const __u64 *registers, __u64 at)
{
	__u64 saved[3] = {};

	return !READ_USER(saved, at) && saved[0] == registers[11] && saved[1] == registers[2] && saved[2] == registers[0];
}

/*
 * Lets registers of the current thread be those at the end of the return, if it is in the trampoline. Returns false if the kernel alone has
 * them.
 *
 * Kernels before 6.11 have a breakpoint there, and change the registers before they forget the address. Later ones have a system call,
 * around which the thread keeps three registers on its stack:
 *
 *    0  push rax, rcx, r11     `end` is the stack pointer before
 *   13  returns to here        the kernel has written the return address over rax, and forgot it
 *   15  pop r11 is done
 *   16  pop rcx is done: ret
 *
 * In the system call the kernel sets the registers back to those at `end`; then the program counter, first to that of each call which
 * longjmp has left.
 */
static __always_inline bool leave_trampoline(const struct returns *returns, __u64 *registers)
{
#if defined(__TARGET_ARCH_x86)
	__u64 sp = registers[STACK_POINTER], ip = registers[REGISTER_COUNT - 1], off = ip - returns->trampoline, address, word = 0;
	bool is_in_kernel = returns->is_in_kernel, is_set_back;

	if (!returns->trampoline)
		return 1;
	is_set_back = is_in_kernel && has_saved(registers, sp - 24);
	if (!is_in_trampoline(returns, registers)) {
		/* The kernel has set the stack pointer back already, and the program counter not yet. */
		if (is_in_kernel && has_saved(registers, sp))
			registers[STACK_POINTER] = sp + 24;
		address = is_in_kernel ? replaced_at(returns, sp - 8) : 0;
		if (!address || address == ip)
			return 1;
		return !is_set_back && (READ_USER(word, sp - 8) || word != returns->trampoline);
	}
	if (is_set_back && off == TRAMPOLINE_CALL_END)
		return end_return(returns, registers, sp);
	if (leave_early_trampoline(returns, registers))
		return 1;
	sp += off <= TRAMPOLINE_CALL_END ? 16 : off == 15 ? 8 : 0;
	if (READ_USER(word, sp) || (is_in_kernel && word == registers[0]))
		return 0;
	registers[REGISTER_COUNT - 1] = word;
	registers[STACK_POINTER] = sp + 8;
#endif
	return 1;
}

/* Whether registers are as if nothing were probed. */
enum left {
	LEFT,
	/* The kernel alone has them. */
	LEFT_BY_KERNEL,
	/* The function has just begun, and only the kernel knows where it returns to. */
	LEFT_BEFORE_RETURN,
};

/* Notes the replaced return addresses of the current thread, and lets its registers be as if nothing were probed. Returns an `enum left`.
 * (It is a function of its own so that what comes later has its stack.) */
VERIFIED_ALONE int leave_probes(struct returns *returns, struct registers_record *taken)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	if (!returns || !taken)
		return LEFT_BY_KERNEL;
	leave_slot(taken->registers, task);
	find_returns(returns, task);
	if (!leave_trampoline(returns, taken->registers))
		return LEFT_BY_KERNEL;
	return is_being_replaced(returns, taken->registers) ? LEFT_BEFORE_RETURN : LEFT;
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
