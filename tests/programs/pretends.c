/* Pretends to be CPython 3.13, with frames and code that do harm: `circle`, `threads`, `names`, `wild`. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { HEAD = 100, NEXT = 0, THREADS = 8, T_NEXT = 0, T_FRAME = 8, T_ID = 16, PREVIOUS = 0, CODE = 8, INSTRUCTION = 16 };
enum { TYPE = 1, LEN = 2, FILE_NAME = 4, NAME = 5, QUALIFIED = 6, LINES = 7, FIRST_LINE = 8, INSTRUCTIONS = 13 };

__attribute__((section(".PyRuntime"), used)) uint64_t runtime[128] = {
	[1] = 0x030d00f0, [5] = 8 * HEAD, [8] = NEXT, [9] = THREADS,
	[21] = T_NEXT, [23] = T_FRAME, [24] = T_ID, [29] = PREVIOUS, [30] = CODE, [31] = INSTRUCTION,
	[35] = 8 * FILE_NAME, [36] = 8 * NAME, [37] = 8 * QUALIFIED, [38] = 8 * LINES, [39] = 8 * FIRST_LINE,
	[43] = 8 * INSTRUCTIONS, [45] = 8, [47] = 24,
	[0] = 0x7970677562656478 /* xdebugpy */,
};

static char code_name[16];
static uint64_t interpreter[2], threads[2][3], frames[2][8], code[64], type[8], name[1 << 16], lines[1 << 16];

static __attribute__((noinline)) void spin(double seconds)
{
	struct timespec begin, now;
	volatile long x = 0;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		for (int i = 0; i < 100000; i++)
			x += i;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec - begin.tv_sec + (now.tv_nsec - begin.tv_nsec) * 1e-9 < seconds);
}

static __attribute__((noinline)) void evaluate(const char *way, double seconds)
{
	/* An entry frame on the stack of C. */
	volatile uint64_t entry[8] = { 0 };

	frames[0][CODE / 8] = (uint64_t)code;
	frames[0][INSTRUCTION / 8] = (uint64_t)&code[INSTRUCTIONS];
	frames[0][PREVIOUS / 8] = (uint64_t)entry;
	if (!strcmp(way, "circle"))
		entry[PREVIOUS / 8] = (uint64_t)frames[0];
	if (!strcmp(way, "wild")) {
		entry[PREVIOUS / 8] = 0xffff888000000000;
		entry[CODE / 8] = 0xdeadbeefdeadbeef;
		code[NAME] = 3;
		code[LINES] = ~0ULL - 8;
		code[LEN] = ~0ULL;
	}
	spin(seconds);
}

int main(int argc, char **argv)
{
	const char *way = argv[1];

	(void)argc;
	strcpy(code_name, "code");
	type[3] = (uint64_t)code_name;
	code[0] = 1;
	code[TYPE] = (uint64_t)type;
	code[LEN] = 16;
	code[FIRST_LINE] = 7;
	code[11] = 99;
	/* A string of a billion characters, a table of lines without an end. */
	name[2] = !strcmp(way, "names") ? 1 << 30 : 5;
	name[4] = (1 | 8 | 16) << 2;
	memset(&name[5], 'a', sizeof(name) - 40);
	lines[2] = ~0ULL >> 1;
	memset(&lines[4], 0xe9, sizeof(lines) - 32);
	code[FILE_NAME] = code[NAME] = code[QUALIFIED] = (uint64_t)name;
	code[LINES] = (uint64_t)lines;
	runtime[HEAD] = (uint64_t)interpreter;
	interpreter[THREADS / 8] = (uint64_t)threads[0];
	threads[0][T_ID / 8] = !strcmp(way, "threads") ? 1 : (uint64_t)pthread_self();
	threads[0][T_NEXT / 8] = !strcmp(way, "threads") ? (uint64_t)threads[0] : 0;
	threads[0][T_FRAME / 8] = (uint64_t)frames[0];
	evaluate(way, atof(argv[2]));
	return 0;
}
