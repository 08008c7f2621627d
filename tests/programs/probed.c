/* A program whose calls are known: probes in it must see each of them, with its stack.
 *
 *   probed tick N         main -> twice -> tick, N calls
 *   probed down DEPTH     main -> down -> ... -> down -> tick, DEPTH calls of `down`, one of `tick`
 *   probed sized N        main -> sized(1), sized(2), ... sized(N)
 *   probed paced N        the same, one call in about a millisecond
 *   probed touch N        main -> touches: N pages are touched for the first time
 *   probed yield N        main -> yields: N calls of sched_yield(2)
 *   probed read N         main -> reads: N calls of read(2), of 1, 2, ... N bytes
 *   probed sleep N        main -> sleeps: N calls of nanosleep(2), of 2 ms; prints how long each took, ns
 *   probed stray N        main -> strays: N loops of two instructions, with a frame pointer at an address that nobody has
 *   probed leave N        left -> twice -> tick in a thread, N calls, while the first thread has ended
 *   probed all N          two threads that do all of it, N times
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define KEPT __attribute__((noinline, noclone))
/* Keeps a function from ending in a jump. */
#define END __asm__ volatile("" ::: "memory")

KEPT void tick(long n)
{
	__asm__ volatile("" ::"r"(n) : "memory");
}

KEPT void twice(long n)
{
	tick(n);
	END;
}

KEPT void down(long n)
{
	if (n > 1)
		down(n - 1);
	else
		tick(n);
	END;
}

KEPT void sized(long size, const char *what)
{
	__asm__ volatile("" ::"r"(size), "r"(what) : "memory");
}

KEPT void touches(char *from, long pages)
{
	for (long i = 0; i < pages; i++)
		((volatile char *)from)[i * 4096] = 1;
	END;
}

KEPT void yields(void)
{
	sched_yield();
	END;
}

KEPT void reads(int file, long bytes)
{
	static char into[4096];

	if (read(file, into, bytes) != bytes)
		abort();
	END;
}

static long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000 + time.tv_nsec;
}

KEPT void sleeps(void)
{
	long before = now();

	nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, 0);
	printf("%ld\n", now() - before);
	END;
}

/* Whoever follows the frame pointer meets a page fault. */
KEPT void strays(long loops)
{
#if defined(__x86_64__)
	__asm__ volatile("mov %%rbp, %%r12; mov %1, %%rbp; 1: dec %0; jnz 1b; mov %%r12, %%rbp"
			 : "+r"(loops)
			 : "r"(0x7fffffffdff0)
			 : "r12");
#endif
	END;
}

static void *all(void *told)
{
	for (long i = 0; i < (long)told; i++) {
		twice(i);
		down(1 + i % 40);
		yields();
	}
	return 0;
}

/* Goes on when the first thread of its process has ended. */
static void *left(void *n)
{
	for (long i = 0; i < (long)n; i++) {
		twice(i);
		sleeps();
	}
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[1] : "";
	long n = argc > 2 ? atol(argv[2]) : 0;

	if (!strcmp(what, "tick"))
		for (long i = 0; i < n; i++)
			twice(i);
	if (!strcmp(what, "down"))
		down(n);
	if (!strcmp(what, "sized"))
		for (long i = 1; i <= n; i++)
			sized(i, what);
	if (!strcmp(what, "paced"))
		for (long i = 1; i <= n; i++) {
			sized(i, what);
			usleep(900);
		}
	if (!strcmp(what, "touch")) {
		char *pages = mmap(0, n * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		madvise(pages, n * 4096, MADV_NOHUGEPAGE);
		touches(pages, n);
	}
	if (!strcmp(what, "yield"))
		for (long i = 0; i < n; i++)
			yields();
	if (!strcmp(what, "read")) {
		int file = open("/dev/zero", O_RDONLY);

		for (long i = 1; i <= n; i++)
			reads(file, i);
	}
	if (!strcmp(what, "sleep"))
		for (long i = 0; i < n; i++)
			sleeps();
	if (!strcmp(what, "stray"))
		strays(n);
	if (!strcmp(what, "leave")) {
		pthread_t thread;

		pthread_create(&thread, 0, left, (void *)n);
		pthread_exit(0);
	}
	if (!strcmp(what, "all")) {
		pthread_t threads[2];

		for (int i = 0; i < 2; i++)
			pthread_create(&threads[i], 0, all, (void *)n);
		for (int i = 0; i < 2; i++)
			pthread_join(threads[i], 0);
	}
	return 0;
}
