/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Which file an address of the current process is mapped from, by the kernel's own tree of mappings.
 *
 * The tree is read without its lock, which a program in an interrupt can take only once: nodes and mappings that another thread replaces
 * meanwhile stay readable, and what does not contain the address does not count. (Linux 6.1 and later have this tree.)
 */
#ifndef ICECORE_CODE_H
#define ICECORE_CODE_H

#include "kernel.h"
#include "wire.h"

/* linux/maple_tree.h. A node has 256 bytes. Ranges end at pivots, and pivots that are not used are 0. */
#define MAPLE_NODE_WORDS 32
/* A tree of the most mappings that a process may have is not deeper. */
#define MAPLE_DEPTH 8

enum maple_type {
	maple_dense,
	maple_leaf_64,
	maple_range_64,
	maple_arange_64,
};

struct maple_range_64 {
	unsigned long pivot[15];
	void *slot[16];
} __attribute__((preserve_access_index));

struct maple_arange_64 {
	unsigned long pivot[9];
	void *slot[10];
} __attribute__((preserve_access_index));

struct maple_tree {
	void *ma_root;
} __attribute__((preserve_access_index));

struct mm_struct___with_tree {
	struct maple_tree mm_mt;
} __attribute__((preserve_access_index));

/* The kernel counts changes of the mappings: since 6.4 in a number, and since 6.13 in a structure. */
struct mm_struct___with_number {
	int mm_lock_seq;
} __attribute__((preserve_access_index));

typedef struct seqcount {
	unsigned int sequence;
} __attribute__((preserve_access_index)) seqcount_t;

struct mm_struct___with_seqcount {
	seqcount_t mm_lock_seq;
} __attribute__((preserve_access_index));

struct vm_area_struct___of_file {
	unsigned long vm_start;
	unsigned long vm_end;
	unsigned long vm_pgoff;
	struct file *vm_file;
} __attribute__((preserve_access_index));

struct inode___with_size {
	struct super_block *i_sb;
	unsigned long i_ino;
	__u32 i_generation;
	long long i_size;
} __attribute__((preserve_access_index));

struct vdso_image;

/* Where the vDSO of a process is, and which one: x86-64 has several. */
struct mm_struct___with_vdso {
	struct {
		void *vdso;
		const struct vdso_image *vdso_image;
	} context;
} __attribute__((preserve_access_index));

struct timespec64 {
	long long tv_sec;
	long tv_nsec;
} __attribute__((preserve_access_index));

/* When a file was changed: the names are those before 6.6, before 6.11, and since. */
struct inode___with_ctime {
	struct timespec64 i_ctime;
} __attribute__((preserve_access_index));

struct inode___with_private_ctime {
	struct timespec64 __i_ctime;
} __attribute__((preserve_access_index));

struct inode___with_split_ctime {
	long long i_ctime_sec;
	__u32 i_ctime_nsec;
} __attribute__((preserve_access_index));

/* The kernel notes in the nanoseconds that somebody has asked for them (6.13). */
#define CTIME_NSEC_MASK 0x7fffffff
#define SECOND_NS 1000000000ULL

struct file___of_inode {
	struct inode___with_size *f_inode;
} __attribute__((preserve_access_index));

#define FIRST_WORD(type, field) (bpf_core_field_offset(struct type, field) / sizeof(__u64))
/* Mappings begin and end with pages: comparing pages leaves room for a sign. */
#define PAGE_OF(address) ((__s64)((address) >> 12))

/* A search in a tree: the entry that was found last, and the node that it leads to. */
struct tree_search {
	__u64 entry;
	__u64 node[MAPLE_NODE_WORDS];
};

/* Returns the number of the slot of a node that covers an address: the number of pivots below it. Branches would make the verifier follow
 * each of them. */
static __always_inline __u32 slot_of(const __u64 *node, __u32 first_pivot, __u32 pivots, __u64 address)
{
	__u32 slot = 0;

#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < pivots; i++) {
		__s64 pivot = PAGE_OF(node[(first_pivot + i) & (MAPLE_NODE_WORDS - 1)]);
		__s64 below = pivot - PAGE_OF(address), unused = pivot - 1;

		asm volatile("" : "+r"(below), "+r"(unused));
		slot += below >> 63 & ~(unused >> 63) & 1;
	}
	return slot;
}

/* Goes one level down in a tree; returns true if what was found is no node. */
VERIFIED_ALONE int go_down(struct tree_search *search, __u64 address)
{
	__u32 type, at;

	if (!search)
		return 1;
	type = search->entry >> 3 & 15;
	/* The address of a node is a multiple of 256; below that is its type. */
	if (bpf_probe_read_kernel(search->node, sizeof(search->node), (void *)(search->entry & ~0xffULL))) {
		search->entry = 0;
		return 1;
	}
	if (type == bpf_core_enum_value(enum maple_type, maple_arange_64))
		at = FIRST_WORD(maple_arange_64, slot) + slot_of(search->node, FIRST_WORD(maple_arange_64, pivot), 9, address);
	else
		at = FIRST_WORD(maple_range_64, slot) + slot_of(search->node, FIRST_WORD(maple_range_64, pivot), 15, address);
	search->entry = search->node[at & (MAPLE_NODE_WORDS - 1)];
	return !search->entry || type == bpf_core_enum_value(enum maple_type, maple_leaf_64);
}

/* Returns the mapping of a process whose range covers an address, or one that did so just before; 0 if there is none. */
static __always_inline struct vm_area_struct___of_file *mapping_at(struct mm_struct *of, __u64 address, struct tree_search *search)
{
	struct mm_struct___with_tree *mm = (void *)of;

	search->entry = (__u64)BPF_CORE_READ(mm, mm_mt.ma_root);
#pragma clang loop unroll(disable)
	for (int depth = 0; depth < MAPLE_DEPTH; depth++)
		if (go_down(search, address))
			return (void *)search->entry;
	return 0;
}

/* Code of a process that is mapped from a file. */
struct code_range {
	__u64 start;
	__u64 len;
	/* What is added to an address for its offset in the file. */
	__u64 to_off;
	/* The file, 0 for the vDSO, and when it was changed. */
	struct inode___with_size *inode;
	__u64 changed_ns;
};

/* Returns when a file was changed, nanoseconds since 1970. */
static __always_inline __u64 changed_ns(struct inode___with_size *of)
{
	struct inode___with_ctime *first = (void *)of;
	struct inode___with_private_ctime *then = (void *)of;
	struct inode___with_split_ctime *now = (void *)of;

	if (bpf_core_field_exists(now->i_ctime_nsec))
		return BPF_CORE_READ(now, i_ctime_sec) * SECOND_NS + (BPF_CORE_READ(now, i_ctime_nsec) & CTIME_NSEC_MASK);
	if (bpf_core_field_exists(then->__i_ctime))
		return BPF_CORE_READ(then, __i_ctime.tv_sec) * SECOND_NS + BPF_CORE_READ(then, __i_ctime.tv_nsec);
	return BPF_CORE_READ(first, i_ctime.tv_sec) * SECOND_NS + BPF_CORE_READ(first, i_ctime.tv_nsec);
}

/* The vDSO has no file: its key has the address of its image, and no device. Returns false for other code in no file. */
static __always_inline bool is_vdso(struct mm_struct *of, struct code_range *range, struct file_key *key)
{
#if defined(__TARGET_ARCH_x86)
	struct mm_struct___with_vdso *mm = (void *)of;

	if (range->start != (__u64)BPF_CORE_READ(mm, context.vdso))
		return 0;
	range->to_off = -range->start;
	key->inode = (__u64)BPF_CORE_READ(mm, context.vdso_image);
	return 1;
#else
	return 0;
#endif
}

/* Finds the file that is mapped at an address of the current process; returns false if it is none. */
static __always_inline bool find_file(__u64 address, struct tree_search *search, struct code_range *range, struct file_key *key)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct mm_struct *mm = BPF_CORE_READ(task, mm);
	struct vm_area_struct___of_file *mapping = mm ? mapping_at(mm, address, search) : 0;
	struct file___of_inode *file;
	struct inode___with_size *inode;

	if (!mapping)
		return 0;
	range->start = BPF_CORE_READ(mapping, vm_start);
	range->len = BPF_CORE_READ(mapping, vm_end) - range->start;
	range->to_off = (BPF_CORE_READ(mapping, vm_pgoff) << 12) - range->start;
	file = (void *)BPF_CORE_READ(mapping, vm_file);
	if (address - range->start >= range->len)
		return 0;
	if (!file) {
		range->inode = 0;
		return is_vdso(mm, range, key);
	}
	inode = BPF_CORE_READ(file, f_inode);
	range->inode = inode;
	range->changed_ns = changed_ns(inode);
	key->inode = BPF_CORE_READ(inode, i_ino);
	key->size = BPF_CORE_READ(inode, i_size);
	key->dev = BPF_CORE_READ(inode, i_sb, s_dev);
	key->generation = BPF_CORE_READ(inode, i_generation);
	key->changed_ns = range->changed_ns;
	return 1;
}

/* Returns true if the file of a range was not changed since. */
static __always_inline bool is_unchanged(const struct code_range *range)
{
	return !range->inode || changed_ns(range->inode) == range->changed_ns;
}

/* Returns true if a call may stand before an address: `call` with a distance, or through a register or memory in all its lengths. */
VERIFIED_ALONE int follows_call(__u64 address)
{
	__u8 code[8];

	if (bpf_probe_read_user(code, sizeof(code), (void *)(address - sizeof(code))))
		return 0;
#define IS_INDIRECT(at) (code[at] == 0xff && (code[(at) + 1] & 0x38) == 0x10)
	return code[3] == 0xe8 || IS_INDIRECT(6) || IS_INDIRECT(5) || IS_INDIRECT(4) || IS_INDIRECT(2) || IS_INDIRECT(1);
}

#endif
