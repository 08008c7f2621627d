/*
 * alternates SECONDS PERIOD: two functions take turns by the clock: `first` has 30 % of each PERIOD (ns), `second` the rest.
 */
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static int64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

#define WORKS(name)                                          \
	__attribute__((noinline)) static void name(int64_t end) \
	{                                                    \
		while (now() < end)                          \
			;                                    \
		__asm__ volatile("");                        \
	}
WORKS(first)
WORKS(second)

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 1;
	int64_t period = argc > 2 ? atol(argv[2]) : 10000000;
	int64_t begin = now(), end = begin + (int64_t)(seconds * 1e9);

	for (int64_t at = begin; at < end; at += period) {
		first(at + period * 3 / 10);
		second(at + period);
	}
	return 0;
}
