/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Frames of V8, the virtual machine of JavaScript. The code that it makes, and the code that it brings along, has no unwind tables and keeps a
 * frame pointer, below which each frame says what it is:
 *
 *   fp + 8    return address
 *   fp        the caller's fp
 *   fp - 8    a function's context, which is a pointer; or the kind of the frame, a number
 *   fp - 16   the function
 *   fp - 32   its bytecode, if it is not optimized
 *
 * Pointers are odd, numbers are even. A frame that says nothing of this kind is not left: then the stack is copied.
 */
#ifndef ICECORE_V8_H
#define ICECORE_V8_H

#include "kernel.h"
#include "code.h"
#include "interpreted.h"
#include "returns.h"
#include "scratch.h"
#include "wire.h"

/* The part of a frame that is read, and what its words are. */
#define V8_FRAME_BELOW 32
#define V8_FRAME_BYTES 48
enum v8_word {
	V8_BYTECODE,
	V8_ARGUMENTS,
	V8_FUNCTION,
	V8_KIND,
	V8_CALLER,
	V8_RETURN,
};

/* rdi, by DWARF's numbers */
#define V8_FUNCTION_REGISTER 5
/* There are fewer kinds of frames. */
#define V8_KINDS 64
/* What is looked at of the code around a place where it was interrupted, and how much of it lies before that place. */
#define V8_CODE_BYTES 64
#define V8_CODE_BEFORE 32
/* Functions of V8 itself are smaller. */
#define V8_NEAR 8192
/* A number is in the upper half of a word. */
#define V8_NUMBER(word) ((__u32)((word) >> 32))

/* Where code that was interrupted has its return address. */
enum v8_place {
	/* Above the word at its frame pointer. */
	V8_FRAME,
	/* At its stack pointer, or a word above. */
	V8_AT_SP,
	V8_ABOVE_SP,
	/* At its frame pointer, or it is making its frame or giving it back. */
	V8_UNSURE,
};

/* What the word at a stack pointer is: in code without a frame it is the return address, elsewhere perhaps one that another function has left there,
 * in code that has not used the end of its frame yet. */
enum v8_word_at_sp {
	V8_OTHER_WORD,
	/* The call before it has called other code, which may have gone on to this one; it may have called any code; it has called this code. */
	V8_RETURN_OF_OTHER,
	V8_RETURN_OF_ANY,
	V8_RETURN_OF_THIS,
};

static __always_inline enum v8_word_at_sp v8_word_at(struct interpreted *into, __u64 sp, __u64 ip)
{
	__u64 *word = &into->read[0], *code = &into->read[1];

	if (READ_USER(*word, sp) || !follows_call(*word) || READ_USER(*code, *word - sizeof(*code)))
		return V8_OTHER_WORD;
	/* call with a distance */
	if ((*code >> 24 & 0xff) == 0xe8)
		return ip - (*word + (__s32)(*code >> 32)) < V8_NEAR ? V8_RETURN_OF_THIS : V8_RETURN_OF_OTHER;
	return V8_RETURN_OF_ANY;
}

/* The begin of a function that is compiled without optimization, which calls what makes its frame: a load of r12 with eight bytes, and a call. */
#define V8_LOADS_R12(at) ((at)[0] == 0x49 && (at)[1] == 0xbc)
#define V8_LOAD_BYTES 10
#define V8_CALL 0xe8
#define V8_CALL_BYTES 5

/* Returns true if code is at that begin: at the load, at one of rbx before it, or at the call. */
static __always_inline bool is_at_begin(const __u8 *code)
{
	return (V8_LOADS_R12(code) && code[V8_LOAD_BYTES] == V8_CALL) ||
	       (code[0] == 0x33 && code[1] == 0xdb && V8_LOADS_R12(code + 2) && code[2 + V8_LOAD_BYTES] == V8_CALL) ||
	       (code[0] == 0xbb && V8_LOADS_R12(code + 5) && code[5 + V8_LOAD_BYTES] == V8_CALL) ||
	       (code[0] == V8_CALL && V8_LOADS_R12(code - V8_LOAD_BYTES));
}

/* Returns true if an address is that to which the call at the begin of baseline code returns. */
static __always_inline bool is_behind_begin(struct interpreted *into, __u64 ip)
{
	const __u8 *code = (const __u8 *)into->words;

	return !bpf_probe_read_user(into->words, 16, (void *)(ip - 16)) && V8_LOADS_R12(code + 16 - V8_CALL_BYTES - V8_LOAD_BYTES) &&
	       code[16 - V8_CALL_BYTES] == V8_CALL;
}

/* Looks at a byte of the code around an address, and the three before it. */
static long scan_v8_code(__u32 i, struct interpreted **context)
{
	struct interpreted *into = *context;
	const __u8 *code = (const __u8 *)into->words;
	struct v8_scan *scan = &into->scan;
	__u32 at = i & (V8_CODE_BYTES - 1), four;

	four = scan->four >> 8 | (__u32)code[at] << 24;
	scan->four = four;
	/* push rbp; mov rbp, rsp: the second one may be next */
	if (at >= V8_CODE_BEFORE + 2 && !scan->is_over && (four == 0xe5894855 || four == 0xec8b4855)) {
		/* push rsi; push rdi: context and function. In code that V8 makes, the next function is farther away. */
		into->is_at_begin = code[at + 1] == 0x56 && code[at + 2] == 0x57;
		scan->place = V8_UNSURE;
		if (at == V8_CODE_BEFORE + 2)
			scan->place = V8_ABOVE_SP;
		else if (at == V8_CODE_BEFORE + 3 || (into->is_at_begin && !scan->is_of_file))
			scan->place = V8_AT_SP;
		return 1;
	}
	if (at >= V8_CODE_BEFORE) {
		/* Between functions there are traps. */
		scan->is_over |= at > V8_CODE_BEFORE && four >> 16 == 0xcccc;
		return 0;
	}
	/* mov rsp, rbp; pop rbp; or leave, and a pop of the return address */
	if (four == 0x5de58b48 || four == 0x5dec8948 || (four >> 16 & 0xf8ff) == 0x58c9)
		scan->is_given_back = 1;
	/* Behind a ret, with or without a number of bytes, another part begins. */
	else if (four >> 24 == 0xc3 || (four & 0xff00ff00) == 0xc200)
		scan->is_given_back = 0;
	return 0;
}

/* Looks at the code around an address where it was interrupted, and stores whether that is the begin of a function, which is in a register then. */
static __always_inline enum v8_place v8_place_at(struct interpreted *into, __u64 ip, bool is_of_file)
{
	const __u8 *code = (const __u8 *)into->words;

	_Static_assert(V8_CODE_BYTES + 2 <= sizeof(into->words), "there is no room for code");
	if (bpf_probe_read_user(into->words, V8_CODE_BYTES + 2, (void *)(ip - V8_CODE_BEFORE)))
		return V8_UNSURE;
	into->is_at_begin = is_at_begin(code + V8_CODE_BEFORE);
	/* ret */
	if (into->is_at_begin || code[V8_CODE_BEFORE] == 0xc3 || code[V8_CODE_BEFORE] == 0xc2)
		return V8_AT_SP;
	into->scan.four = into->scan.is_over = into->scan.is_given_back = 0;
	into->scan.is_of_file = is_of_file;
	into->scan.place = V8_FRAME;
	bpf_loop(V8_CODE_BYTES, scan_v8_code, &into, 0);
	if (into->scan.place == V8_UNSURE)
		into->is_at_begin = 0;
	return into->scan.is_given_back && into->scan.place == V8_FRAME ? V8_UNSURE : into->scan.place;
}

/* Stores which function a frame runs; returns false if it is none. */
static __always_inline bool note_v8_function(struct interpreted *into, __u64 function)
{
	const struct interpreter *of = &into->of;
	__u64 *shared = &into->read[0], *script = &into->read[1], *which = &into->read[2];
	__u32 *number = (__u32 *)&into->read[3];

	/* Functions call themselves, and others of their script. */
	if (function == into->last_function) {
		into->found.code = into->last_code;
		into->found.check = into->last_check;
		return 1;
	}
	/* Pointers are one too high. */
	if ((function & 7) != 1 || READ_USER(*shared, function - 1 + of->shared) || (*shared & 7) != 1)
		return 0;
	*shared -= 1;
	if (READ_USER(*number, *shared + of->number) || READ_USER(*script, *shared + of->script) || (*script & 7) != 1)
		return 0;
	/* Functions that are part of V8 have no number in a script. */
	if ((__s32)*number < 0) {
		if (READ_USER(*which, *shared + of->name))
			return 0;
	} else if (*script == into->last_script) {
		*which = into->last_script_number;
	} else {
		if (READ_USER(*which, *script - 1 + of->script_number))
			return 0;
		into->last_script = *script;
		into->last_script_number = *which;
	}
	into->found.code = *shared;
	into->found.check = *number * 0x9e3779b1 + V8_NUMBER(*which) + (__u32)*which * 3;
	into->last_function = function;
	into->last_code = into->found.code;
	into->last_check = into->found.check;
	return 1;
}

/* Returns true if a frame that was read is one of a function that is not optimized: it has used all of its words. */
static __always_inline bool is_unoptimized(struct interpreted *into)
{
	__u64 bytecode = into->words[V8_BYTECODE], *map = &into->read[0];
	__u16 *type = (__u16 *)&into->read[1];

	return into->words[V8_KIND] & 1 && (bytecode & 7) == 1 && !READ_USER(*map, bytecode - 1) && (*map & 7) == 1 &&
	       !READ_USER(*type, *map - 1 + into->of.type) && *type == into->of.bytecode_type;
}

/* Goes to the caller of a frame of V8. Returns its address; 0 if the frame does not say what it is. */
VERIFIED_ALONE __u64 leave_v8(__u32 slot)
{
	struct scratch *scratch = scratch_of(slot);
	struct interpreted *into;
	struct table_walk *walk;
	__u64 kind, caller, returns;
	enum v8_place place;
	bool is_of_file;

	if (!scratch)
		return 0;
	into = &scratch->interpreted;
	walk = &scratch->walk;
	if (!into->of.shared)
		return 0;
	is_of_file = walk->code.table.number != MAX_TABLES;
	into->is_at_begin = 0;
	if (walk->is_interrupted)
		place = v8_place_at(into, walk->ip, is_of_file);
	else
		place = into->was_bare && is_behind_begin(into, walk->ip) ? V8_AT_SP : V8_FRAME;
	if (walk->fp_is_lost || walk->fp & 7 || walk->fp < walk->sp + 8 ||
	    bpf_probe_read_user(into->words, V8_FRAME_BYTES, (void *)(walk->fp - V8_FRAME_BELOW)))
		into->words[V8_KIND] = 0;
	if (walk->is_interrupted && (place == V8_FRAME || place == V8_UNSURE)) {
		enum v8_word_at_sp word = v8_word_at(into, walk->sp, walk->ip);

		/* Code of V8 itself has a frame of its own, or that of the function which runs it. */
		if (is_of_file ? word == V8_RETURN_OF_THIS || (word == V8_RETURN_OF_ANY && into->words[V8_KIND] & 1) :
				 word != V8_OTHER_WORD && is_unoptimized(into))
			place = V8_AT_SP;
		else if (is_of_file && word == V8_RETURN_OF_ANY)
			place = V8_UNSURE;
	}
	into->was_bare = place == V8_AT_SP;
	if (place == V8_AT_SP || place == V8_ABOVE_SP) {
		if (into->is_at_begin && walk->sp == scratch->registers.registers[STACK_POINTER])
			note_v8_function(into, scratch->registers.registers[V8_FUNCTION_REGISTER]);
		walk->sp += place == V8_AT_SP ? 8 : 16;
		if (READ_USER(into->read[0], walk->sp - 8))
			return 0;
		walk->ip = true_return(&scratch->returns, walk->sp - 8, into->read[0]);
		walk->is_interrupted = 0;
		return walk->ip;
	}
	if (place == V8_UNSURE)
		return 0;
	kind = into->words[V8_KIND];
	caller = into->words[V8_CALLER];
	returns = into->words[V8_RETURN];
	if (kind & 1 ? walk->fp < walk->sp + 16 || !note_v8_function(into, into->words[V8_FUNCTION]) : !kind || kind >= 2 * V8_KINDS)
		return 0;
	walk->ip = true_return(&scratch->returns, walk->fp + 8, returns);
	walk->sp = walk->fp + 16;
	walk->fp = caller;
	walk->is_interrupted = 0;
	return walk->ip;
}

/* Notes the machine frame, a position in the stack, that was left last, if it runs a function. */
static __always_inline void place_v8_function(struct interpreted *into, __u32 position)
{
	__u32 at = into->record.len;

	if (!into->found.code || at >= MAX_INTERPRETED_FRAMES)
		return;
	into->found.machine_frame = position + 1;
	into->record.frames[at & (MAX_INTERPRETED_FRAMES - 1)] = into->found;
	into->record.len = at + 1;
	into->found.code = 0;
}

#endif
