/* Two libraries that take turns at the same addresses: their functions have frames of different sizes. It takes CPU time for so many
 * milliseconds, a quarter of it below `small`, the rest below `large`. The program is compiled from this file, and each library:
 * `-DFUNCTION=small -DROOM=256`. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define KEEP __attribute__((noinline, noclone))
#define CALL(call) do { call; __asm__ volatile("" ::: "memory"); } while (0)

#ifdef FUNCTION
/* Fills its frame with a word. It calls nobody else, so that it has no other words there. */
KEEP void FUNCTION(void (*work)(long), long us, long word)
{
	long room[ROOM / 8];

	for (int i = 0; i < ROOM / 8; i++) {
		room[i] = word;
		__asm__ volatile("" ::"r"(room) : "memory");
	}
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
	void (*called)(void (*)(long), long, long) = handle ? dlsym(handle, function) : 0;

	if (!called)
		exit(2);
	CALL(called(work, us, 7));
	dlclose(handle);
	return called;
}

KEEP long returns_to(void)
{
	return (long)__builtin_return_address(0);
}

static long (*volatile any)(void) = returns_to;

/* Returns an address behind a call of its own, which may have called anybody. Its frame has 16 bytes. */
KEEP long decoy(void)
{
	long address = any();

	__asm__ volatile("" ::: "memory");
	return address;
}

static void overwrite(const char *library, const char *by)
{
	static char bytes[65536];
	int from = open(by, O_RDONLY), to = open(library, O_WRONLY | O_CREAT, 0755);
	long len = read(from, bytes, sizeof(bytes));

	if (len <= 0 || write(to, bytes, len) != len)
		exit(2);
	close(from);
	close(to);
}

/* Returns where a function lies in a library. */
static long place_of(const char *library, const char *function)
{
	void *handle = dlopen(library, RTLD_NOW), *found = handle ? dlsym(handle, function) : 0;
	Dl_info of;

	if (!found || !dladdr(found, &of))
		exit(2);
	dlclose(handle);
	return (char *)found - (char *)of.dli_fbase;
}

/* Calls the function of a library that stays mapped while two others overwrite its file in turn. The frame of the function has addresses
 * that look like those of callers. */
KEEP void overwritten(const char *library, char **others, long ms)
{
	void (*called)(void (*)(long), long, long);

	if (place_of(others[0], "small") != place_of(others[1], "large"))
		exit(3);
	overwrite(library, others[0]);
	called = dlsym(dlopen(library, RTLD_NOW), "small");
	for (long i = 0; i * 250 < ms; i++) {
		overwrite(library, others[i % 2]);
		CALL(called(work, 250000, decoy()));
	}
}
/* swapped SMALL.so LARGE.so MILLISECONDS; ends with 3 if the functions did not lie in the same page.
 * swapped LIBRARY.so FUNCTION MILLISECONDS calls one function alone.
 * swapped SMALL.so LARGE.so MILLISECONDS LIBRARY.so: the two overwrite the third; ends with 3 if the functions lie at different places. */
int main(int argc, char **argv)
{
	bool is_one = argc == 4 && strchr(argv[2], '/') == 0;
	long until = cpu_us() + (argc > 3 ? atol(argv[3]) * 1000 : 0);
	long pages = 0;

	if (argc == 5) {
		overwritten(argv[4], argv + 1, atol(argv[3]));
		/* What would end the libraries has moved. */
		_exit(0);
	}
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
