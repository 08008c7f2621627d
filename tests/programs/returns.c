/* Functions that last known times, and return known numbers. Those with times are called `timed_…`.
 *
 *   returns times N    N rounds in each of two threads: a short function; one that calls itself, 12 levels deep; one that longjmp leaves
 *                      in every other round, from three levels further in
 *   returns fork 1     a function that forks: two processes return from it
 *   returns leaps N    N calls of `stays`, whose end comes after longjmp has left two levels of `leaps` below it
 *   returns deep N     a function that calls itself, N levels deep
 *   returns jumps N    N times functions that end in a jump to the next one, all of which return at once: two that jump to each other, and
 *                      a last one
 *   returns give N     `gives` and `gives_int` return -N, … N; of `gives_int` argument and result are `int`, with 7 in the upper half
 *
 * Prints a line for each return of a timed function, in order: the thread, the time inside of the function, and the time around its call.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KEPT __attribute__((noinline, noclone))
/* Keeps a function from ending in a jump. */
#define END __asm__ volatile("" ::: "memory")

struct calls {
	struct {
		long inside_ns, around_ns;
	} all[1 << 16];
	long count;
};

static __thread struct calls *calls;

static long now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000 + now.tv_nsec;
}

static void spin(long us)
{
	for (long end = now() + us * 1000; now() < end;)
		;
}

#define BEGIN long begin_ns = now()
#define RETURN                                                   \
	do {                                                     \
		calls->all[calls->count++].inside_ns = now() - begin_ns; \
		END;                                             \
		return;                                          \
	} while (0)
/* Calls a timed function. It has returned just now, so the last row is its own. */
#define CALL(call)                                                           \
	do {                                                                 \
		long from_ns = now();                                        \
		call;                                                        \
		calls->all[calls->count - 1].around_ns = now() - from_ns;    \
	} while (0)

KEPT void timed_short(long us)
{
	BEGIN;
	spin(us);
	RETURN;
}

KEPT void timed_nests(long levels, long us)
{
	BEGIN;
	spin(us);
	if (levels > 1)
		CALL(timed_nests(levels - 1, us));
	RETURN;
}

static __thread jmp_buf out;

KEPT void timed_leaves(long levels, int is_left)
{
	BEGIN;
	spin(5);
	if (levels > 1)
		CALL(timed_leaves(levels - 1, is_left));
	else if (is_left)
		longjmp(out, 1);
	RETURN;
}

/* Sets the mark for longjmp again in each round, and lasts longer than what is left. */
KEPT void timed_stays(int is_left)
{
	BEGIN;
	if (!setjmp(out))
		CALL(timed_leaves(4, is_left));
	spin(10);
	RETURN;
}

KEPT void leaps(long levels)
{
	if (!levels)
		longjmp(out, 1);
	leaps(levels - 1);
	END;
}

KEPT void stays(void)
{
	if (!setjmp(out))
		leaps(1);
	END;
}

KEPT static long returns_to(void)
{
	return (long)__builtin_return_address(0);
}

static long (*volatile any)(void) = returns_to;

/* Returns an address behind a call of its own, which may have called anybody. Its frame has 16 bytes. */
KEPT long decoy(void)
{
	long address = any();

	END;
	return address;
}

/* Its frame has addresses that look like those of callers. */
KEPT void calls_stays(long n)
{
	long room[32];

	for (int i = 0; i < 32; i++)
		room[i] = decoy();
	for (long i = 0; i < n; i++) {
		__asm__ volatile("" ::"r"(room) : "memory");
		stays();
	}
}

KEPT void timed_forks(void)
{
	BEGIN;
	pid_t child = fork();

	if (child)
		waitpid(child, 0, 0);
	RETURN;
}

#define JUMPS 4
static __thread long jumped_ns[JUMPS], ended_ns;

KEPT void timed_last(void)
{
	jumped_ns[0] = now();
	spin(20);
	ended_ns = now();
	END;
}

KEPT void timed_bounces(long levels);

KEPT void timed_jumps(long levels)
{
	jumped_ns[levels] = now();
	spin(10);
	if (levels > 1)
		timed_bounces(levels - 1);
	else
		timed_last();
}

KEPT void timed_bounces(long levels)
{
	jumped_ns[levels] = now();
	spin(30);
	timed_jumps(levels - 1);
}

/* The last one to begin is the first one to return. */
static void jumps(void)
{
	long from_ns = now();

	timed_jumps(JUMPS - 1);
	for (long level = 0; level < JUMPS; level++) {
		calls->all[calls->count].inside_ns = ended_ns - jumped_ns[level];
		calls->all[calls->count++].around_ns = now() - (level == JUMPS - 1 ? from_ns : jumped_ns[level + 1]);
	}
}

KEPT long gives(long n)
{
	__asm__ volatile("" : "+r"(n));
	return n;
}

KEPT int gives_int(long n)
{
	__asm__ volatile("" : "+r"(n));
	return n;
}

static void tell(struct calls *calls)
{
	for (long i = 0; i < calls->count; i++)
		printf("%d %ld %ld\n", gettid(), calls->all[i].inside_ns, calls->all[i].around_ns);
	fflush(stdout);
}

static pthread_mutex_t telling = PTHREAD_MUTEX_INITIALIZER;

static void *times(void *told)
{
	calls = calloc(1, sizeof(*calls));
	for (long i = 0; i < (long)told; i++) {
		CALL(timed_short(i % 20));
		CALL(timed_nests(12, 3));
		CALL(timed_stays(i % 2));
	}
	pthread_mutex_lock(&telling);
	tell(calls);
	pthread_mutex_unlock(&telling);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[1] : "";
	long n = argc > 2 ? atol(argv[2]) : 0;
	pid_t self = getpid();

	calls = calloc(1, sizeof(*calls));
	if (!strcmp(what, "times")) {
		pthread_t threads[2];

		for (int i = 0; i < 2; i++)
			pthread_create(&threads[i], 0, times, (void *)n);
		for (int i = 0; i < 2; i++)
			pthread_join(threads[i], 0);
	}
	if (!strcmp(what, "leaps"))
		calls_stays(n);
	if (!strcmp(what, "fork"))
		CALL(timed_forks());
	if (!strcmp(what, "deep"))
		CALL(timed_nests(n, 1));
	if (!strcmp(what, "jumps"))
		for (long i = 0; i < n; i++)
			jumps();
	if (!strcmp(what, "give"))
		for (long i = -n; i <= n; i++)
			gives(i), gives_int((7L << 32) + i);
	if (getpid() == self)
		tell(calls);
	return 0;
}
