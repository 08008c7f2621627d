/* Two libraries that take turns at the same addresses: their functions have frames of different sizes. It takes CPU time for so many
 * milliseconds, a quarter of it below `small`, the rest below `large`. The program is compiled from this file, and each library:
 * `-DFUNCTION=small -DROOM=64`. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KEEP __attribute__((noinline, noclone))
#define CALL(call) do { call; __asm__ volatile("" ::: "memory"); } while (0)

#ifdef FUNCTION
KEEP void FUNCTION(void (*work)(long), long us)
{
	char room[ROOM];

	memset(room, 1, sizeof(room));
	__asm__ volatile("" ::"r"(room) : "memory");
	CALL(work(us));
}
#else
static long cpu_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

KEEP void spin(long us)
{
	for (long n = us * 300; n > 0; n--)
		__asm__ volatile("" ::: "memory");
}

KEEP void work(long us)
{
	for (long until = cpu_us() + us; cpu_us() < until;)
		CALL(spin(20));
}

/* Returns where the function was. */
KEEP void *turn(const char *library, const char *function, long us)
{
	void *handle = dlopen(library, RTLD_NOW);
	void (*called)(void (*)(long), long) = handle ? dlsym(handle, function) : 0;

	if (!called)
		exit(2);
	CALL(called(work, us));
	dlclose(handle);
	return called;
}

/* swapped SMALL.so LARGE.so MILLISECONDS; ends with 3 if the functions did not lie in the same page.
 * swapped LIBRARY.so FUNCTION MILLISECONDS calls one function alone. */
int main(int argc, char **argv)
{
	bool is_one = argc == 4 && strchr(argv[2], '/') == 0;
	long until = cpu_us() + (argc > 3 ? atol(argv[3]) * 1000 : 0);
	long pages = 0;

	while (cpu_us() < until) {
		if (is_one) {
			turn(argv[1], argv[2], 8000);
			continue;
		}
		long small = (long)turn(argv[1], "small", 2000), large = (long)turn(argv[2], "large", 6000);

		pages |= small >> 12 ^ large >> 12;
	}
	return pages ? 3 : 0;
}
#endif
