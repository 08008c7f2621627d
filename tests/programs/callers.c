/* One deep function under several callers: who called is known, also where it lies far outside of what changes.
 * `callers NAME MILLISECONDS`; time is CPU time of the thread.
 *
 * buffer:    `work` has a buffer of 64 KiB; `ten`, `thirty` and `sixty` call it, and the time of each is what its name says.
 * recursion: 400 frames of `deep`, entered by `left` (a quarter of the time) and `right` (the rest).
 * deepest:   the same with 4,000 frames: `far_left` and `far_right`.
 * broad:     the frame of `broad` has 600 KiB, that of `broader` 3 MiB; half of the time each.
 * exec:      `before` and, after an exec of the same program in the same thread, `after` call the same function with the
 *            same stack pointers; half of the time each. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define KEEP __attribute__((noinline, noclone))
/* What follows a call keeps it from becoming a jump. */
#define CALL(call) do { call; __asm__ volatile("" ::: "memory"); } while (0)

static long cpu_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* No call: a sample hits here, and the stack is as deep as it gets. */
KEEP void spin(long us)
{
	for (long n = us * 300; n > 0; n--)
		__asm__ volatile("" ::: "memory");
}

/* Time is told by a clock and not by counting, so that shares hold on a machine that others use as well. */
KEEP void work(long us)
{
	char room[64 << 10];

	memset(room, 1, sizeof(room));
	__asm__ volatile("" ::"r"(room) : "memory");
	for (long until = cpu_us() + us; cpu_us() < until;)
		CALL(spin(20));
}

KEEP void ten(void) { CALL(work(1000)); }
KEEP void thirty(void) { CALL(work(3000)); }
KEEP void sixty(void) { CALL(work(6000)); }

KEEP void deep(int n, long us)
{
	char room[200];

	memset(room, n, sizeof(room));
	__asm__ volatile("" ::"r"(room) : "memory");
	if (n > 1) {
		CALL(deep(n - 1, us));
		return;
	}
	for (long until = cpu_us() + us; cpu_us() < until;)
		CALL(spin(20));
}

KEEP void left(void) { CALL(deep(400, 2000)); }
KEEP void right(void) { CALL(deep(400, 6000)); }

KEEP void far_left(void) { CALL(deep(4000, 2000)); }
KEEP void far_right(void) { CALL(deep(4000, 6000)); }

#define KEEP_WITH_FRAME(name, size) \
	KEEP void name(long us) \
	{ \
		char room[size]; \
\
		__asm__ volatile("" ::"r"(room) : "memory"); \
		for (long until = cpu_us() + us; cpu_us() < until;) \
			CALL(spin(20)); \
		__asm__ volatile("" ::"r"(room) : "memory"); \
	}
KEEP_WITH_FRAME(broad, 600 << 10)
KEEP_WITH_FRAME(broader, 3 << 20)

KEEP void before(long us) { CALL(work(us)); }
KEEP void after(long us) { CALL(work(us)); }

int main(int argc, char **argv)
{
	const char *name = argv[1];
	long ms = argc > 2 ? atol(argv[2]) : 0, until = cpu_us() + ms * 1000;

	if (!strcmp(name, "buffer")) {
		for (; cpu_us() < until; ten(), thirty(), sixty())
			;
	} else if (!strcmp(name, "recursion")) {
		for (; cpu_us() < until; left(), right())
			;
	} else if (!strcmp(name, "deepest")) {
		for (; cpu_us() < until; far_left(), far_right())
			;
	} else if (!strcmp(name, "broad")) {
		for (; cpu_us() < until; broad(3000), broader(3000))
			;
	} else if (!strcmp(name, "exec")) {
		before(ms * 500);
		/* The same length of arguments, so that stacks begin at the same distance. */
		execl("/proc/self/exe", argv[0], "ecex", argv[2], (char *)0);
	} else {
		after(ms * 500);
	}
	return 0;
}
