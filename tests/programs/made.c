/* JIT code whose stacks are known: `made HOW MILLISECONDS`. In all of them `outer` calls `middle`, which calls `leaf`, directly,
 * with frame pointers; a perf map names them. What `leaf` has on top of its stack is an address of such code that is no return
 * address.
 *
 * inside    the second instruction of `middle`
 * first     the first byte of `middle`
 * direct    nothing: the argument of the loop
 * replaced  an address in `middle`, in front of which there is no call; when half of the time is over, `middle` is made anew, so
 *           that there is one, of `other`, which is what runs then, with nothing on top of its stack */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define CODE 0x10000000UL
#define SIZE 0x100UL
enum { OUTER, MIDDLE, LEAF, OTHER, PIECES };
static const char *const names[] = {"outer", "middle", "leaf", "other"};

static unsigned char *at(int piece)
{
	return (unsigned char *)(CODE + piece * SIZE);
}

#if defined(__x86_64__)
/* push %rbp; mov %rsp, %rbp; so many `inc %eax`; call the callee; pop %rbp; ret */
static void make_caller(int piece, int callee, int pads)
{
	unsigned char *code = at(piece);
	memcpy(code, "\x55\x48\x89\xe5", 4);
	code += 4;
	for (int i = 0; i < pads; i++, code += 2)
		memcpy(code, "\xff\xc0", 2);
	*code = 0xe8;
	int32_t distance = at(callee) - (code + 5);
	memcpy(code + 1, &distance, sizeof distance);
	memcpy(code + 5, "\x5d\xc3", 2);
}

/* push %rbp; mov %rsp, %rbp; push %rsi; 1: dec %rdi; jnz 1b; pop %rsi; pop %rbp; ret */
static void make_leaf(int piece)
{
	memcpy(at(piece), "\x55\x48\x89\xe5\x56\x48\xff\xcf\x75\xfb\x5e\x5d\xc3", 13);
}
/* Where a call ends that is the first instruction behind the frame. */
#define BEHIND_CALL 9
/* The call comes later by so many instructions. */
#define PADS 3
#elif defined(__aarch64__)
static void make_caller(int piece, int callee, int pads)
{
	uint32_t *code = (uint32_t *)at(piece);
	*code++ = 0xa9bf7bfd;
	*code++ = 0x910003fd;
	for (int i = 0; i < pads; i++)
		*code++ = 0x11000400;
	*code = 0x94000000 | ((((uint32_t *)at(callee) - code)) & 0x3ffffff);
	*++code = 0xa8c17bfd;
	*++code = 0xd65f03c0;
}

static void make_leaf(int piece)
{
	static const uint32_t code[] = {0xa9be7bfd, 0x910003fd, 0xf9000be1, 0xf1000400, 0x54ffffe1, 0xa8c27bfd, 0xd65f03c0};
	memcpy(at(piece), code, sizeof code);
}
#define BEHIND_CALL 12
#define PADS 3
#endif

static void run(unsigned long stale, long ms)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	uint64_t now = t.tv_sec * 1000000000UL + t.tv_nsec, until = now + ms * 1000000UL;
	while (now < until) {
		((void (*)(long, unsigned long))at(OUTER))(200000, stale);
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
		now = t.tv_sec * 1000000000UL + t.tv_nsec;
	}
}

static void flush(void)
{
	__builtin___clear_cache((char *)CODE, (char *)CODE + PIECES * SIZE);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	long ms = atol(argv[2]);
	int is_replaced = strcmp(argv[1], "replaced") == 0;
	if (mmap((void *)(CODE - 0x1000), 0x2000, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		return 1;
	make_caller(OUTER, MIDDLE, 0);
	make_caller(MIDDLE, LEAF, is_replaced ? PADS : 0);
	make_leaf(LEAF);
	make_leaf(OTHER);
	flush();
	char path[64];
	snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
	FILE *map = fopen(path, "w");
	if (!map)
		return 1;
	for (int i = 0; i < PIECES; i++)
		fprintf(map, "%lx %lx %s\n", (unsigned long)at(i), SIZE, names[i]);
	fclose(map);
	unsigned long stale = 0;
	if (strcmp(argv[1], "inside") == 0)
#if defined(__x86_64__)
		stale = (unsigned long)at(MIDDLE) + 1;
#else
		stale = (unsigned long)at(MIDDLE) + 4;
#endif
	else if (strcmp(argv[1], "first") == 0)
		stale = (unsigned long)at(MIDDLE);
	else if (is_replaced)
		stale = (unsigned long)at(MIDDLE) + BEHIND_CALL;
	run(stale, is_replaced ? ms / 2 : ms);
	if (is_replaced) {
		make_caller(MIDDLE, OTHER, 0);
		flush();
		run(0, ms / 2);
	}
	unlink(path);
	return 0;
}
