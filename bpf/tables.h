/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Unwind tables of files, as user space has compiled them (crates/elf/src/walk_rows.rs).
 *
 *   tables_of_files   file ─► the code that it covers, and the position of its first block
 *   segments          chunks: of positions, one for each block of code, and of rows
 *   table_hits        how often walks came to the code of a file, by the number of its table
 *   tables_epoch      how often user space has taken tables away
 *
 * User space may give the chunks of one file to another. It first removes the file, and counts the epoch: a walk that begins then forgets what
 * it knows of tables. It waits until earlier walks have ended, and makes the known rows forgotten (kernel/sampler/tables.rs).
 *
 * Tables are large and seldom read, so what costs time is memory that is not in the cache: a lookup reads one position, and the rows of one
 * block.
 */
#ifndef ICECORE_TABLES_H
#define ICECORE_TABLES_H

#include "kernel.h"
#include "wire.h"

/* Rows in order, or positions of rows, one for each block of code: that of the row which holds at its begin, and how many rows follow it in
 * the block; 0: none. A chunk of rows ends with the first row of the next one. */
union table_chunk {
	__u64 rows[CHUNK_ROWS];
	__u32 positions[2 * CHUNK_ROWS];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_TABLES);
	__type(key, struct file_key);
	__type(value, struct table);
} tables_of_files SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, MAX_SEGMENTS);
	__type(key, __u32);
	__array(values, struct {
		__uint(type, BPF_MAP_TYPE_ARRAY);
		__uint(max_entries, SEGMENT_CHUNKS);
		__uint(key_size, sizeof(__u32));
		__uint(value_size, sizeof(union table_chunk));
	});
} segments SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_TABLES);
	__type(key, __u32);
	__type(value, __u64);
} table_hits SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} tables_epoch SEC(".maps");

static __always_inline void count_hit(const struct table *table)
{
	__u32 number = table->number;
	__u64 *hits = bpf_map_lookup_elem(&table_hits, &number);

	if (hits)
		*hits += 1;
}

static __always_inline __u64 current_epoch(void)
{
	__u32 key = 0;
	volatile __u64 *epoch = bpf_map_lookup_elem(&tables_epoch, &key);

	return epoch ? *epoch : 0;
}

/* A row; the bits are those of `Row::bits` in crates/elf/src/walk_rows.rs. */
#define ROW_PLACE(row) ((__u32)(row))
#define ROW_CFA(row) ((row) >> 32 & 0x7ffff)
#define ROW_FP(row) ((row) >> 51 & 0xff)
#define ROW_KIND(row) ((row) >> 59 & 0xf)
#define ROW_IS_START (1ULL << 63)
#define ROW_FP_LOST 0xff

static __always_inline union table_chunk *chunk_at(__u32 number)
{
	__u32 segment = number / SEGMENT_CHUNKS, at = number % SEGMENT_CHUNKS;
	void *chunks = bpf_map_lookup_elem(&segments, &segment);

	return chunks ? bpf_map_lookup_elem(chunks, &at) : 0;
}

/* A row that a walk has looked up before, by its table and place. `mixed` is both of them together: what another program has half
 * written fits neither. */
struct known_row {
	__u64 mixed;
	__u64 row;
};

/* KNOWN_ROWS of each CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct known_row);
} known_rows SEC(".maps");

/* Returns the row of a place in a table; 0 if it has none. ROW_IS_START is set if a function begins at the byte after the place. */
VERIFIED_ALONE __u64 find_row(__u32 first_position, __u32 place)
{
	__u32 position = first_position + (place >> CODE_BLOCK_BITS), at, count;
	union table_chunk *chunk = chunk_at(position / (2 * CHUNK_ROWS));
	__u64 row, next;

	if (!chunk)
		return 0;
	position = chunk->positions[position & (2 * CHUNK_ROWS - 1)];
	at = position >> POSITION_COUNT_BITS;
	count = position & ((1 << POSITION_COUNT_BITS) - 1);
	chunk = position ? chunk_at(at / CHUNK_ROWS) : 0;
	if (!chunk)
		return 0;
	/* Without branches, which the verifier would follow one by one. */
#pragma clang loop unroll(disable)
	for (int i = 0; i < CODE_BLOCK_BITS + 1 && count; i++) {
		__u32 half = (count + 1) / 2, is_passed;
		__s64 distance = (__s64)place - ROW_PLACE(chunk->rows[(at + half) & (CHUNK_ROWS - 1)]);

		asm volatile("" : "+r"(distance));
		is_passed = ~(distance >> 63);
		at += half & is_passed;
		count = is_passed ? count - half : half - 1;
	}
	row = chunk->rows[at & (CHUNK_ROWS - 1)];
	next = chunk->rows[(at + 1) & (CHUNK_ROWS - 1)];
	if (ROW_PLACE(row) > place)
		return 0;
	row &= ~ROW_IS_START;
	return ROW_PLACE(next) == place + 1 ? row | (next & ROW_IS_START) : row;
}

/* Returns the same, from the rows that were found before if it is there: most callers are those of the last sample. */
static __always_inline __u64 row_at(__u32 first_position, __u32 place)
{
	__u64 of = (__u64)first_position << 32 | place;
	__u32 at = bpf_get_smp_processor_id() * KNOWN_ROWS + (of * 0x9e3779b97f4a7c15ULL >> 32) % KNOWN_ROWS;
	struct known_row *known = bpf_map_lookup_elem(&known_rows, &at);
	__u64 row;

	if (!known)
		return 0;
	row = *(volatile __u64 *)&known->row;
	if ((*(volatile __u64 *)&known->mixed ^ row) == of)
		return row;
	row = find_row(first_position, place);
	known->row = row;
	known->mixed = of ^ row;
	return row;
}

#endif
