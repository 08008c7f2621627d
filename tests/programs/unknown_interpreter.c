/* Exports what an interpreter exports whose frames nobody knows: CPython of no version, with -DPHP PHP with threads, with -DV8 V8 whose pointers
 * are half a word. */
#include <stdlib.h>
#include <time.h>

#if defined(V8)
int v8dbg_SmiShiftSize = 0;
#elif !defined(PHP)
char _PyRuntime[64];
#endif

__attribute__((noinline)) long execute_ex(long n)
{
	volatile long sum = 0;

	for (long i = 0; i < n; i++)
		sum += i;
	return sum;
}

int main(int argc, char **argv)
{
	struct timespec now;
	long end;

	clock_gettime(CLOCK_MONOTONIC, &now);
	end = now.tv_sec * 1000 + now.tv_nsec / 1000000 + atol(argv[1]);
	do {
		execute_ex(100000);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec * 1000 + now.tv_nsec / 1000000 < end);
	return 0;
}
