/* JIT code that keeps no frame pointers: `unframed HOW MILLISECONDS`. main > enter > jit_outer > jit_inner; `jit_inner` has pushed a
 * register, and the frame of `jit_outer` holds return addresses of earlier calls.
 *
 * map      a perf map tells the names
 * dump     a jitdump in the folder at hand does
 * rules    a jitdump that has the unwind tables of both pieces, too
 * frames   the program gives the tables to `__register_frame`, and tells no names
 * named    the same, and a perf map tells the names
 * far      like rules, but the second piece moves when half of the time is over */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define CODE 0x10000000UL
#define SIZE 0x10000UL
#define OUTER (CODE + 0x1100)
#define INNER (CODE + 0x2200)
#define MOVED (CODE + 0x3300)

/* sub $40, %rsp; call *%rsi; add $40, %rsp; ret */
static const unsigned char outer[] = {0x48, 0x83, 0xec, 0x28, 0xff, 0xd6, 0x48, 0x83, 0xc4, 0x28, 0xc3};
/* push %rbx; 1: dec %rdi; jnz 1b; pop %rbx; ret */
static const unsigned char inner[] = {0x53, 0x48, 0xff, 0xcf, 0x75, 0xfb, 0x5b, 0xc3};

/* Version 1, "zR": code by 1, data by -8, return address in 16; addresses are relative, of four bytes. CFA = rsp + 8, rip at CFA - 8. */
static const unsigned char shared[] = {20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0};
/* From byte 4 on the CFA is rsp + 48, and from byte 10 on rsp + 8. */
static const unsigned char outer_rules[] = {0x44, 0x0e, 48, 0x46, 0x0e, 8, 0};
/* From byte 1 on the CFA is rsp + 16, with rbx at CFA - 16; from byte 7 on it is rsp + 8. */
static const unsigned char inner_rules[] = {0x41, 0x0e, 16, 0x83, 2, 0x46, 0x0e, 8};

/* The same with addresses of eight bytes that are not relative: the tables lie anywhere. */
static const unsigned char shared_absolute[] = {20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0, 0x0c, 7, 8, 0x90, 1, 0, 0};
static unsigned char registered[160];

void __register_frame(void *);

static FILE *file;

static uint64_t now_ns(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000UL + t.tv_nsec;
}

static void record(uint32_t kind, const void *body, uint32_t len, const void *behind, uint32_t behind_len)
{
	uint32_t head[2] = {kind, 16 + len + behind_len};
	uint64_t time = now_ns(CLOCK_MONOTONIC);

	fwrite(head, sizeof head, 1, file);
	fwrite(&time, sizeof time, 1, file);
	fwrite(body, len, 1, file);
	fwrite(behind, behind_len, 1, file);
	fflush(file);
}

/* Tells the unwind tables of the code that is loaded next: they lie behind it, at a multiple of 8. */
static void tell_rules(uint64_t len, const unsigned char *rules, size_t rules_len)
{
	unsigned char bytes[96] = {0};
	int32_t at = (len + 7) / 8 * 8, end = sizeof shared + 17 + 11;
	int32_t entry[4] = {24, sizeof shared + 4, -(at + (int32_t)sizeof shared + 8), len};
	/* The index that linkers write, with one function. */
	int32_t index[5] = {0x3b031b01, -(end + 4 + 4), 1, -(at + end + 4), (int32_t)sizeof shared - (end + 4)};
	uint64_t head[3] = {end + 4 + sizeof index, sizeof index, end + 4 + sizeof index};

	memcpy(bytes, shared, sizeof shared);
	memcpy(bytes + sizeof shared, entry, sizeof entry);
	memcpy(bytes + sizeof shared + 17, rules, rules_len);
	memcpy(bytes + end + 4, index, sizeof index);
	record(4, head, sizeof head, bytes, (head[0] + 7) / 8 * 8);
}

static void tell(const char *how, uint64_t at, const char *name, const unsigned char *code, uint64_t len, uint64_t number)
{
	uint32_t ids[2] = {getpid(), getpid()};
	uint64_t body[5] = {0, at, at, len, number};
	char behind[64];
	size_t name_len = strlen(name) + 1;

	if (strcmp(how, "frames") == 0)
		return;
	if (strcmp(how, "map") == 0 || strcmp(how, "named") == 0) {
		fprintf(file, "%lx %lx %s\n", at, len, name);
		fflush(file);
		return;
	}
	if (strcmp(how, "dump") != 0) {
		int is_outer = code == outer;
		tell_rules(len, is_outer ? outer_rules : inner_rules, is_outer ? sizeof outer_rules : sizeof inner_rules);
	}
	memcpy(body, ids, sizeof ids);
	memcpy(behind, name, name_len);
	memcpy(behind + name_len, code, len);
	record(0, body, sizeof body, behind, name_len + len);
}

/* Puts the description of code at an offset; returns the offset behind it. */
static size_t describe(size_t at, uint64_t code, uint64_t len, const unsigned char *rules, size_t rules_len)
{
	uint32_t head[2] = {36, at + 4};

	memcpy(registered + at, head, sizeof head);
	memcpy(registered + at + 8, &code, 8);
	memcpy(registered + at + 16, &len, 8);
	memcpy(registered + at + 25, rules, rules_len);
	return at + 40;
}

static void give_frames(void)
{
	size_t end = sizeof shared_absolute;

	memcpy(registered, shared_absolute, sizeof shared_absolute);
	end = describe(end, OUTER, sizeof outer, outer_rules, sizeof outer_rules);
	describe(end, INNER, sizeof inner, inner_rules, sizeof inner_rules);
	__register_frame(registered);
}

static void begin(const char *how, char *path)
{
	int is_map = strcmp(how, "map") == 0 || strcmp(how, "named") == 0;
	uint32_t head[6] = {0x4a695444, 1, 40, 62, 0, getpid()};
	uint64_t rest[2] = {now_ns(CLOCK_MONOTONIC), 0};

	sprintf(path, is_map ? "/tmp/perf-%d.map" : "jit-%d.dump", getpid());
	file = fopen(path, "w+");
	if (!file)
		exit(1);
	if (is_map)
		return;
	fwrite(head, sizeof head, 1, file);
	fwrite(rest, sizeof rest, 1, file);
	fflush(file);
	if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(file), 0) == MAP_FAILED)
		exit(1);
}

__attribute__((noinline, noclone)) void enter(unsigned long callee, long ms)
{
	uint64_t until = now_ns(CLOCK_THREAD_CPUTIME_ID) + ms * 1000000UL;

	while (now_ns(CLOCK_THREAD_CPUTIME_ID) < until) {
		((void (*)(long, unsigned long))OUTER)(2000000, callee);
		__asm__ volatile("" ::: "memory");
	}
}

int main(int argc, char **argv)
{
	char path[64];

	if (argc < 3)
		return 2;
	long ms = atol(argv[2]);
	int is_far = strcmp(argv[1], "far") == 0;
	if (mmap((void *)CODE, SIZE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		return 1;
	if (strcmp(argv[1], "frames") == 0 || strcmp(argv[1], "named") == 0)
		give_frames();
	if (strcmp(argv[1], "frames") != 0)
		begin(argv[1], path);
	memcpy((void *)OUTER, outer, sizeof outer);
	memcpy((void *)INNER, inner, sizeof inner);
	tell(argv[1], OUTER, "jit_outer", outer, sizeof outer, 1);
	tell(argv[1], INNER, "jit_inner", inner, sizeof inner, 2);
	enter(INNER, is_far ? ms / 2 : ms);
	if (is_far) {
		uint32_t ids[2] = {getpid(), getpid()};
		uint64_t body[6] = {0, 0, INNER, MOVED, sizeof inner, 2};

		memcpy(body, ids, sizeof ids);
		memcpy((void *)MOVED, inner, sizeof inner);
		record(1, body, sizeof body, NULL, 0);
		enter(MOVED, ms / 2);
	}
	if (file)
		unlink(path);
	return 0;
}
