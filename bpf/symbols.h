/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Names of functions of the kernel, for addresses that were hit. */
#ifndef ICECORE_SYMBOLS_H
#define ICECORE_SYMBOLS_H

#include "kernel.h"
#include "wire.h"

/* Addresses that user space asks for; 0 asks for nothing. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_ASKED);
	__type(key, __u32);
	__type(value, __u64);
} asked_addresses SEC(".maps");

/* Writes to the reader of the iterator which function an address lies in: `address name+0xDISTANCE/0xLENGTH [module]`. */
SEC("iter/bpf_map_elem")
int name_address(struct bpf_iter__bpf_map_elem *ctx)
{
	__u64 *asked = ctx->value;

	if (asked && *asked)
		BPF_SEQ_PRINTF(ctx->meta->seq, "%llx %pS\n", *asked, *asked);
	return 0;
}

#endif
