/* Programs whose call graph and time shares are known. `target NAME MILLISECONDS` runs one of them.
 *
 * Time is CPU time of the thread, so the shares hold however busy the machine is. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KEEP __attribute__((noinline, noclone))

static long cpu_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000L + t.tv_nsec / 1000;
}

/* Spins inside the caller, so that the caller is the function with the time. */
#define SPIN_UNTIL(deadline_us) \
	do { \
		for (volatile int i = 0; i < 3000; i++) \
			; \
	} while (cpu_us() < (deadline_us))

/* shares: half, tenths three and two. The lengths have no common factor with usual rates. */
KEEP void takes_half(void) { long until = cpu_us() + 1735; SPIN_UNTIL(until); }
KEEP void takes_three_tenths(void) { long until = cpu_us() + 1041; SPIN_UNTIL(until); }
KEEP void takes_a_fifth(void) { long until = cpu_us() + 694; SPIN_UNTIL(until); }

KEEP void shares(long ms)
{
	long until = cpu_us() + ms * 1000;
	while (cpu_us() < until) {
		takes_half();
		takes_three_tenths();
		takes_a_fifth();
	}
}

/* threads: each function runs in one thread only. */
KEEP void only_in_first(long ms) { long until = cpu_us() + ms * 1000; SPIN_UNTIL(until); }
KEEP void only_in_second(long ms) { long until = cpu_us() + ms * 1000; SPIN_UNTIL(until); }

static long thread_ms;
static void *first(void *unused) { pthread_setname_np(pthread_self(), "first"); only_in_first(thread_ms); return unused; }
static void *second(void *unused) { pthread_setname_np(pthread_self(), "second"); only_in_second(thread_ms); return unused; }

KEEP void threads(long ms)
{
	pthread_t a, b;
	thread_ms = ms;
	pthread_create(&a, NULL, first, NULL);
	pthread_create(&b, NULL, second, NULL);
	pthread_join(a, NULL);
	pthread_join(b, NULL);
}

/* syscalls: time in the kernel, on behalf of one function. The system call is made here and not through the C
 * library: that has no frame pointers in most distributions, and would hide its caller from a walk. */
static inline long kernel_read(long fd, char *buffer, long size)
{
#if defined(__x86_64__)
	long result;
	__asm__ volatile("syscall" : "=a"(result) : "a"(0L), "D"(fd), "S"(buffer), "d"(size) : "rcx", "r11", "memory");
	return result;
#elif defined(__aarch64__)
	register long result __asm__("x0") = fd;
	register char *x1 __asm__("x1") = buffer;
	register long x2 __asm__("x2") = size, number __asm__("x8") = 63;
	__asm__ volatile("svc 0" : "+r"(result) : "r"(x1), "r"(x2), "r"(number) : "memory");
	return result;
#endif
}

KEEP void asks_the_kernel(int fd, char *buffer, long size)
{
	cpu_us(); /* a function that calls keeps its frame from the start */
	for (int i = 0; i < 20; i++)
		if (kernel_read(fd, buffer, size) < 0)
			__builtin_trap();
}

KEEP void syscalls(long ms)
{
	long until = cpu_us() + ms * 1000, size = 1 << 20;
	char *buffer = malloc(size);
	int fd = open("/dev/zero", O_RDONLY);
	while (cpu_us() < until)
		asks_the_kernel(fd, buffer, size);
	free(buffer);
	close(fd);
}

/* recursion: exactly 500 frames of one function above the spinning leaf. */
KEEP void at_the_bottom(long ms) { long until = cpu_us() + ms * 1000; SPIN_UNTIL(until); }
KEEP void goes_down(int left, long ms)
{
	if (left > 1)
		goes_down(left - 1, ms);
	else
		at_the_bottom(ms);
	__asm__ volatile("" ::: "memory"); /* no tail call */
}

/* deeper: as recursion, with more frames than any walk takes by default. */
KEEP void goes_deeper(int left, long ms)
{
	if (left > 1)
		goes_deeper(left - 1, ms);
	else
		at_the_bottom(ms);
	__asm__ volatile("" ::: "memory");
}

/* mutual: exactly 200 frames each of two functions that call each other. */
KEEP void pings(int left, long ms);
KEEP void pongs(int left, long ms)
{
	if (left > 1)
		pings(left - 1, ms);
	else
		at_the_bottom(ms);
	__asm__ volatile("" ::: "memory");
}
KEEP void pings(int left, long ms)
{
	pongs(left, ms);
	__asm__ volatile("" ::: "memory");
}

/* phases: all of the time in one function, then three tenths of it in another, in turns that no usual rate beats with. */
KEEP void always(long us) { long until = cpu_us() + us; SPIN_UNTIL(until); }
KEEP void only_later(long us) { long until = cpu_us() + us; SPIN_UNTIL(until); }

KEEP void phases(long ms)
{
	always(ms * 500);
	for (long until = cpu_us() + ms * 500; cpu_us() < until;) {
		always(1617);
		only_later(693);
	}
}

/* family: a parent, a forked child, and a grandchild that runs this program anew. */
KEEP void in_parent(long ms) { long until = cpu_us() + ms * 1000; SPIN_UNTIL(until); }
KEEP void in_forked_child(long ms) { long until = cpu_us() + ms * 1000; SPIN_UNTIL(until); }
KEEP void after_exec(long ms) { long until = cpu_us() + ms * 1000; SPIN_UNTIL(until); }

KEEP void family(const char *self, char *ms)
{
	pid_t child = fork();
	if (child == 0) {
		in_forked_child(atol(ms));
		execl(self, "target", "after_exec", ms, (char *)NULL);
		_exit(1);
	}
	in_parent(atol(ms));
	waitpid(child, NULL, 0);
}

/* brief: ten processes, one after the other, each alive for about 20 ms. */
KEEP void lives_briefly(void) { long until = cpu_us() + 20000; SPIN_UNTIL(until); }

KEEP void brief(const char *self)
{
	for (int i = 0; i < 10; i++) {
		pid_t child = fork();
		if (child == 0) {
			execl(self, "target", "lives_briefly", "0", (char *)NULL);
			_exit(1);
		}
		waitpid(child, NULL, 0);
	}
}

int main(int argc, char **argv)
{
	if (argc < 3) {
		fprintf(stderr, "usage: target NAME MILLISECONDS\n");
		return 2;
	}
	const char *name = argv[1];
	long ms = atol(argv[2]);

	if (!strcmp(name, "shares"))
		shares(ms);
	else if (!strcmp(name, "threads"))
		threads(ms);
	else if (!strcmp(name, "syscalls"))
		syscalls(ms);
	else if (!strcmp(name, "recursion"))
		goes_down(500, ms);
	else if (!strcmp(name, "deeper"))
		goes_deeper(3000, ms);
	else if (!strcmp(name, "mutual"))
		pings(200, ms);
	else if (!strcmp(name, "phases"))
		phases(ms);
	else if (!strcmp(name, "family"))
		family(argv[0], argv[2]);
	else if (!strcmp(name, "after_exec"))
		after_exec(ms);
	else if (!strcmp(name, "brief"))
		brief(argv[0]);
	else if (!strcmp(name, "lives_briefly"))
		lives_briefly();
	else if (!strcmp(name, "exit"))
		return (int)ms;
	else
		return 2;
	return 0;
}
