/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The fields of tracepoints: what a hit weighs by them, and those that travel with samples. */
#ifndef ICECORE_FIELDS_H
#define ICECORE_FIELDS_H

#include "kernel.h"
#include "events.h"
#include "scratch.h"
#include "wire.h"

/* The length of what a system call reports: two words, and six arguments. */
#define SYSCALL_LEN (8 * sizeof(__u64))

/* The first bytes of what a tracepoint reports. Linux 6.1 adds no variable offset to a context, so a program copies so many bytes and looks
 * for fields in the copy. If less is reported, the copy has other bytes of the kernel behind it, in which no field lies. Programs of
 * tracepoints do not interrupt each other on a CPU. */
struct reported {
	__u8 bytes[REPORTED_LEN];
	/* What begins in the copy may not end in it. */
	__u8 behind[MAX_FIELD_LEN];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct reported);
} reports SEC(".maps");

/* Returns the copy of what a tracepoint reports, if an event has fields; else 0. */
static __always_inline struct reported *report_of(const struct choice *choice, void *ctx)
{
	struct reported *reported;
	__u32 first = 0;

	if (!choice->weighed.kind && !choice->sent.kind)
		return 0;
	reported = bpf_map_lookup_elem(&reports, &first);
	if (!reported)
		return 0;
	/* What system calls report is on the kernel's stack, which may end before so many bytes do. A read that fails leaves zeros. */
	if (bpf_probe_read_kernel(reported->bytes, REPORTED_LEN, ctx) && bpf_probe_read_kernel(reported->bytes, SYSCALL_LEN, ctx))
		return 0;
	return reported;
}

/* Returns what a hit weighs by the integer of a field; 0 if it is no sample. */
static __always_inline __u64 weight_by_field(const struct field *field, const struct reported *reported)
{
	__u32 unused = 64 - 8 * field->size & 63;
	__u64 value = 0;

	if (bpf_probe_read_kernel(&value, sizeof(value), &reported->bytes[field->off & (REPORTED_LEN - 1)]))
		return 0;
	value <<= unused;
	return field->kind == FIELD_SIGNED && (__s64)value < 0 ? 0 : value >> unused;
}

/* Puts the bytes of a field behind the frames of a sample. */
static __always_inline void take_field(struct scratch *scratch, const struct field *field, const struct reported *reported)
{
	struct sample_record *record = &scratch->record;
	__u32 at = (record->kernel_len & 127) + (record->user_len & (2 * MAX_USER_FRAMES - 1));
	__u32 off = field->off & (REPORTED_LEN - 1), size = field->size;

	if (field->kind == FIELD_LOCATED || field->kind == FIELD_LOCATED_BEHIND) {
		__u32 located = 0;

		bpf_probe_read_kernel(&located, sizeof(located), &reported->bytes[off]);
		off = (located & 0xffff) + (field->kind == FIELD_LOCATED_BEHIND ? off + sizeof(located) : 0);
		size = located >> 16;
	}
	if (size > MAX_FIELD_LEN)
		size = MAX_FIELD_LEN;
	if (off >= REPORTED_LEN || off + size > REPORTED_LEN || at > 128 + MAX_USER_FRAMES)
		return;
	/* Older verifiers want a size that is constant. */
	if (!bpf_probe_read_kernel(&scratch->frames[at], MAX_FIELD_LEN, &reported->bytes[off & (REPORTED_LEN - 1)]))
		record->field_len = size;
}

#endif
