/* Programs that make code at run time and tell its names. `jit HOW MILLISECONDS [PREFIX]`:
 *
 * map      two pieces of code, told in a perf map that is gone again when the program ends
 * late     the map is written when half of the time is over
 * replaced the map names the wrong things, and is replaced when half of the time is over
 * reused   the first piece is another one when half of the time is over, and the map tells both
 * memfd    the code lies in memory that is mapped twice, as runtimes do that never make memory writable and executable
 * forked   a child runs what its parent has made
 * called   the first piece calls a function that has a number where the frame pointer was, so that no walk along frame
 *          pointers comes to the piece; half of the time in this process, half of it in a child
 * dump     a jitdump in the folder at hand: "first" runs, moves and runs, then "second" is made where it was, and runs;
 *          with source lines: 10 and, in the loop, 11 of first.x, and 20 and 21 of second.x
 * ticks    the same, with times of the processor's counter (x86-64)
 *
 * Every piece spends its share of the time at addresses that are the same in every run. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Counts its argument down to zero, with a frame of its own. */
#if defined(__x86_64__)
static const unsigned char counting[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0xf8, 0x48, 0xff, 0xc8, 0x75, 0xfb, 0x5d, 0xc3};
#define MACHINE 62
/* Calls its argument, with a frame of its own. */
static const unsigned char calling[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
__asm__(".text; .type numbers, @function; numbers: .cfi_startproc\n"
	"push %rbp; .cfi_def_cfa_offset 16; .cfi_offset 6, -16\n"
	"mov $7, %ebp; mov $200000, %eax; 1: dec %eax; jnz 1b\n"
	"pop %rbp; .cfi_restore 6; .cfi_def_cfa_offset 8; ret; .cfi_endproc; .size numbers, .-numbers");
#elif defined(__aarch64__)
static const uint32_t counting[] = {0xa9bf7bfd, 0x910003fd, 0xf1000400, 0x54ffffe1, 0xa8c17bfd, 0xd65f03c0};
#define MACHINE 183
static const uint32_t calling[] = {0xa9bf7bfd, 0x910003fd, 0xd63f0000, 0xa8c17bfd, 0xd65f03c0};
__asm__(".text; .type numbers, %function; numbers: .cfi_startproc\n"
	"stp x29, x30, [sp, #-16]!; .cfi_def_cfa_offset 16; .cfi_offset 29, -16; .cfi_offset 30, -8\n"
	"mov x29, #7; mov w0, #50000; 1: subs w0, w0, #1; b.ne 1b\n"
	"ldp x29, x30, [sp], #16; .cfi_restore 29; .cfi_restore 30; .cfi_def_cfa_offset 0\n"
	"ret; .cfi_endproc; .size numbers, .-numbers");
#endif
/* Has a number in the register of the frame pointer, and saves that of its caller as its unwind tables tell. */
void numbers(void);

#define FIRST 0x10000000UL
#define PAGE 0x10000UL
#define SIZE 0x100UL
/* The loop begins here or right behind. */
#define LOOP 7

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static uint64_t now_ns(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000UL + t.tv_nsec;
}

static void make(unsigned long at, const char *how)
{
	void *page = (void *)at;
	int fd = -1, is_shared = strcmp(how, "memfd") == 0, is_called = strcmp(how, "called") == 0;
	const void *code = is_called ? (const void *)calling : counting;
	size_t len = is_called ? sizeof calling : sizeof counting;
	if (is_shared) {
		fd = memfd_create("doublemapper", 0);
		if (fd < 0 || ftruncate(fd, PAGE) != 0)
			fail("memfd_create");
		void *writable = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		memcpy(writable, code, len);
		page = mmap(page, PAGE, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_FIXED, fd, 0);
		close(fd);
	} else {
		page = mmap(page, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		if (page != MAP_FAILED)
			memcpy(page, code, len);
		if (page != MAP_FAILED && mprotect(page, PAGE, PROT_READ | PROT_EXEC) != 0)
			fail("mprotect");
	}
	if (page == MAP_FAILED)
		fail("mmap");
	__builtin___clear_cache((char *)page, (char *)page + len);
}

__attribute__((noinline)) static void run(unsigned long at, long ms)
{
	uint64_t until = now_ns(CLOCK_THREAD_CPUTIME_ID) + ms * 1000000UL;
	while (now_ns(CLOCK_THREAD_CPUTIME_ID) < until)
		((void (*)(long))at)(200000);
}

__attribute__((noinline)) static void run_calling(unsigned long at, long ms)
{
	uint64_t until = now_ns(CLOCK_THREAD_CPUTIME_ID) + ms * 1000000UL;
	while (now_ns(CLOCK_THREAD_CPUTIME_ID) < until)
		((void (*)(void (*)(void)))at)(numbers);
}

static char map_path[64];

static void tell(const char *prefix, const char *suffix)
{
	char path[80];
	snprintf(path, sizeof path, "%s.new", map_path);
	FILE *map = fopen(path, "w");
	if (!map)
		fail(path);
	fprintf(map, "%lx %lx %salpha%s\n", FIRST, SIZE, prefix, suffix);
	fprintf(map, "0x%lx 0x%lx %sbeta /x y.js:1:2%s\n", FIRST + PAGE, SIZE, prefix, suffix);
	fclose(map);
	if (rename(path, map_path) != 0)
		fail(map_path);
}

static void with_map(const char *how, long ms, const char *prefix)
{
	int is_late = strcmp(how, "late") == 0, is_replaced = strcmp(how, "replaced") == 0;
	int is_reused = strcmp(how, "reused") == 0;
	snprintf(map_path, sizeof map_path, "/tmp/perf-%d.map", getpid());
	make(FIRST, how);
	make(FIRST + PAGE, how);
	if (!is_late)
		tell(prefix, is_replaced ? " wrong" : "");
	if (strcmp(how, "forked") == 0) {
		pid_t child = fork();
		if (child == 0) {
			run(FIRST, ms);
			_exit(0);
		}
		waitpid(child, NULL, 0);
	} else if (strcmp(how, "called") == 0) {
		run_calling(FIRST, ms / 2);
		pid_t child = fork();
		if (child == 0) {
			run_calling(FIRST, ms / 2);
			_exit(0);
		}
		waitpid(child, NULL, 0);
	} else {
		run(FIRST, ms / 2);
		if (is_late || is_replaced)
			tell(prefix, "");
		if (is_reused) {
			FILE *map = fopen(map_path, "a");
			if (!map || fprintf(map, "%lx %lx gamma\n", FIRST, SIZE) < 0 || fclose(map) != 0)
				fail(map_path);
		}
		run(is_reused ? FIRST : FIRST + PAGE, ms / 2);
	}
	unlink(map_path);
}

static FILE *dump;
static int has_ticks;

static uint64_t stamp(void)
{
#if defined(__x86_64__)
	if (has_ticks)
		return __builtin_ia32_rdtsc();
#endif
	return now_ns(CLOCK_MONOTONIC);
}

static void record(uint32_t kind, const void *body, uint32_t len, const char *name)
{
	uint32_t behind = name ? strlen(name) + 1 + sizeof counting : 0;
	uint32_t head[2] = {kind, 16 + len + behind};
	uint64_t time = stamp();
	fwrite(head, sizeof head, 1, dump);
	fwrite(&time, sizeof time, 1, dump);
	fwrite(body, len, 1, dump);
	if (name) {
		fwrite(name, strlen(name) + 1, 1, dump);
		fwrite(counting, sizeof counting, 1, dump);
	}
	fflush(dump);
}

/* Tells the lines of code that is loaded next. */
static void lines(unsigned long at, const char *file, int32_t first)
{
	unsigned char body[128];
	uint64_t head[2] = {at, 2};
	size_t len = sizeof head;
	memcpy(body, head, len);
	for (int i = 0; i < 2; i++) {
		uint64_t address = at + i * LOOP;
		int32_t line[2] = {first + i, 0};
		const char *name = i == 0 ? file : "\xff";
		memcpy(body + len, &address, sizeof address);
		memcpy(body + len + 8, line, sizeof line);
		strcpy((char *)body + len + 16, name);
		len += 16 + strlen(name) + 1;
	}
	record(2, body, len, NULL);
}

static void load(unsigned long at, uint64_t number, const char *name)
{
	uint32_t ids[2] = {getpid(), getpid()};
	uint64_t body[5] = {0, at, at, SIZE, number};
	memcpy(body, ids, sizeof ids);
	make(at, "");
	record(0, body, sizeof body, name);
}

static void with_dump(long ms)
{
	char path[64];
	snprintf(path, sizeof path, "jit-%d.dump", getpid());
	dump = fopen(path, "w+");
	if (!dump)
		fail(path);
	uint32_t head[6] = {0x4a695444, 1, 40, MACHINE, 0, getpid()};
	uint64_t rest[2] = {stamp(), has_ticks};
	fwrite(head, sizeof head, 1, dump);
	fwrite(rest, sizeof rest, 1, dump);
	fflush(dump);
	if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(dump), 0) == MAP_FAILED)
		fail("mmap");
	lines(FIRST, "/src/first.x", 10);
	load(FIRST, 1, "first");
	run(FIRST, ms / 3);
	uint32_t ids[2] = {getpid(), getpid()};
	uint64_t body[6] = {0, 0, FIRST, FIRST + PAGE, SIZE, 1};
	memcpy(body, ids, sizeof ids);
	make(FIRST + PAGE, "");
	record(1, body, sizeof body, NULL);
	run(FIRST + PAGE, ms / 3);
	lines(FIRST, "/src/second.x", 20);
	load(FIRST, 2, "second");
	run(FIRST, ms / 3);
	unlink(path);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	has_ticks = strcmp(argv[1], "ticks") == 0;
	if (strcmp(argv[1], "dump") == 0 || has_ticks)
		with_dump(atol(argv[2]));
	else
		with_map(argv[1], atol(argv[2]), argc > 3 ? argv[3] : "");
	return 0;
}
