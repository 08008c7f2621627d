/* Does jobs whose functions have known shares: `work SECONDS PERCENT SEED`, seconds of CPU time. Each job calls every
 * function for a random time; `compresses` takes PERCENT of its usual time. Another build has one function more. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <time.h>

#define KEEP __attribute__((noinline, noclone))

static volatile unsigned sink;

/* A step takes the same time everywhere. Equal functions would be made one by the compiler. */
#define STEPS(count, factor) \
	do { \
		for (long i = 0; i < (count); i++) \
			sink = sink * (factor) + i; \
	} while (0)

KEEP static void compresses(long steps) { STEPS(steps, 0x6b43a9b5); }
KEEP static void hashes(long steps) { STEPS(steps, 0x5851f42d); }
KEEP static void parses(long steps) { STEPS(steps, 0x41c64e6d); }
KEEP static void writes(long steps) { STEPS(steps, 0x343fd7a5); }
#ifdef ADDED
KEEP static void adds(long steps) { STEPS(steps, 0x2545f491); }
#endif

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	double end = now() + atof(argv[1]);
	long percent = atol(argv[2]);
	unsigned random = atoi(argv[3]);
	while (now() < end) {
		random = random * 1103515245 + 12345;
		compresses((1000 + (random >> 16) % 1000) * percent / 10);
		hashes(5000 + (random >> 18) % 8192);
		parses(4000 + (random >> 20) % 2048);
		writes(1000 + (random >> 22) % 1024);
#ifdef ADDED
		adds(4000);
#endif
	}
	return 0;
}
