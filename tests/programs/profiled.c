/* `profiled MILLISECONDS` calls functions all the time. Compiled with -pg, it spends most of it in `mcount`. */
#include <stdlib.h>
#include <time.h>

#define KEEP __attribute__((noinline, noclone))

static volatile long sink;

KEEP void leaf(void)
{
	sink++;
}

KEEP void calls_leaf(void)
{
	for (int i = 0; i < 1000; i++)
		leaf();
}

int main(int argc, char **argv)
{
	clock_t end = (argc > 1 ? atol(argv[1]) : 0) * (CLOCKS_PER_SEC / 1000);

	while (clock() < end)
		calls_leaf();
}
