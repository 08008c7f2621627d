/* Programs whose chains of callers are known, to be compiled with frame pointers and without.
 * `stacks NAME MILLISECONDS` runs one of them; time is CPU time of the thread. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <time.h>

#define KEEP __attribute__((noinline, noclone))
/* What follows a call keeps it from becoming a jump. */
#define CALL(call) do { call; __asm__ volatile("" ::: "memory"); } while (0)

static long cpu_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* The time goes here: a millisecond or so, without calling anybody. */
KEEP void leaf(void)
{
	for (volatile int i = 0; i < 400000; i++)
		;
}

/* chain: main, chain, a, b, leaf. */
KEEP void b(int n) { char room[128]; memset(room, n, sizeof(room)); __asm__ volatile("" ::"r"(room)); CALL(leaf()); }
KEEP void a(int n) { CALL(b(n + 1)); }
KEEP void chain(long ms)
{
	for (long until = cpu_ms() + ms; cpu_ms() < until;)
		CALL(a(1));
}

/* copies: most of the time is the C library's, which makes no frame there. */
static char from[16384], to[16384];
KEEP void copies(int n)
{
	void *(*volatile copy)(void *, const void *, size_t) = memcpy;
	for (int i = 0; i < n; i++)
		copy(to, from, sizeof(to));
}
KEEP void memory(long ms)
{
	for (long until = cpu_ms() + ms; cpu_ms() < until;)
		CALL(copies(2000));
}

/* deep: 300 frames of half a KiB, which makes 150 KiB of stack. */
KEEP void deep(int n)
{
	char room[480];
	memset(room, n, sizeof(room));
	__asm__ volatile("" ::"r"(room));
	if (n > 1)
		CALL(deep(n - 1));
	else
		CALL(leaf());
}
KEEP void recursion(long ms)
{
	for (long until = cpu_ms() + ms; cpu_ms() < until;)
		CALL(deep(300));
}

/* thread: the same chain as `chain`, in another thread. */
static long thread_ms;
static void *in_thread(void *unused) { CALL(chain(thread_ms)); return unused; }
KEEP void thread(long ms)
{
	pthread_t one;
	thread_ms = ms;
	pthread_create(&one, NULL, in_thread, NULL);
	pthread_join(one, NULL);
}

/* handler: a signal handler, on a stack of its own or on that of the thread. */
KEEP void handler(int unused) { (void)unused; CALL(leaf()); }
KEEP void raises(void) { CALL(raise(SIGUSR1)); }
KEEP void handled(long ms, int flags)
{
	size_t len = 64 << 10;
	stack_t other = { .ss_size = len };
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };
	other.ss_sp = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigaltstack(&other, NULL);
	sigaction(SIGUSR1, &action, NULL);
	for (long until = cpu_ms() + ms; cpu_ms() < until;)
		CALL(raises());
}

/* alternates: a handler on many stacks of its own, small and large, whose tops lie all over a page; of each only the pages that are used
 * are there. */
KEEP void alternates(void)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_ONSTACK };
	size_t sizes[] = { getauxval(AT_MINSIGSTKSZ) + 1024, 64 << 10 };

	sigaction(SIGUSR1, &action, NULL);
	for (int i = 0; i < 32; i++) {
		stack_t other = { .ss_size = sizes[i % 2] };
		char *pages = mmap(NULL, 128 << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		madvise(pages, 128 << 10, MADV_NOHUGEPAGE);
		other.ss_sp = pages + i / 2 * 256;
		sigaltstack(&other, NULL);
		CALL(raises());
	}
}

int main(int argc, char **argv)
{
	const char *name = argc > 2 ? argv[1] : "";
	long ms = argc > 2 ? atol(argv[2]) : 0;

	if (!strcmp(name, "chain"))
		CALL(chain(ms));
	else if (!strcmp(name, "copies"))
		CALL(memory(ms));
	else if (!strcmp(name, "deep"))
		CALL(recursion(ms));
	else if (!strcmp(name, "thread"))
		CALL(thread(ms));
	else if (!strcmp(name, "handler"))
		CALL(handled(ms, 0));
	else if (!strcmp(name, "alternate"))
		CALL(handled(ms, SA_ONSTACK));
	else if (!strcmp(name, "alternates"))
		CALL(alternates());
	else
		return 2;
	return 0;
}
