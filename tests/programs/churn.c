/* Programs that never end by themselves. `churn NAME` runs one of them until it is killed.
 *
 * Stacks are as different as can be: what is recorded of them hardly repeats, so that files grow. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KEEP __attribute__((noinline, noclone))

static __thread uint64_t state;

/* xorshift64: the same numbers in every run. */
static uint64_t next(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

static long cpu_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000L + t.tv_nsec / 1000;
}

KEEP void spins(long us)
{
	long until = cpu_us() + us;
	do {
		for (volatile int i = 0; i < 300; i++)
			;
	} while (cpu_us() < until);
}

/* Two functions call each other in random order, 1 to 128 deep. */
KEEP void goes_left(int left, uint64_t turns, long us);
KEEP void goes_right(int left, uint64_t turns, long us)
{
	if (left == 0)
		spins(us);
	else if (turns & 1)
		goes_left(left - 1, turns >> 1 | turns << 63, us);
	else
		goes_right(left - 1, turns >> 1 | turns << 63, us);
	__asm__ volatile("" ::: "memory"); /* no tail call */
}

KEEP void goes_left(int left, uint64_t turns, long us)
{
	if (left == 0)
		spins(us);
	else if (turns & 1)
		goes_right(left - 1, turns >> 1 | turns << 63, us);
	else
		goes_left(left - 1, turns >> 1 | turns << 63, us);
	__asm__ volatile("" ::: "memory");
}

static void wanders(long us)
{
	uint64_t turns = next();
	goes_left(turns % 128, turns, us);
}

/* crowd: three threads, each busy for a quarter of the time. */
static void *wanders_for_ever(void *seed)
{
	state = (uint64_t)(uintptr_t)seed;
	for (;;) {
		wanders(1000);
		usleep(3000);
	}
	return NULL;
}

/* … and processes that live for about two milliseconds, every other of which runs a program. */
static void crowd(void)
{
	pthread_t thread;
	for (uintptr_t seed = 1; seed <= 3; seed++)
		pthread_create(&thread, NULL, wanders_for_ever, (void *)(seed * 0x9e3779b97f4a7c15));
	for (state = 7;; usleep(5000)) {
		pid_t child = fork();
		if (child == 0) {
			wanders(2000);
			if (next() & 1)
				execl("/bin/true", "true", (char *)NULL);
			_exit(0);
		}
		waitpid(child, NULL, 0);
		next();
	}
}

/* nap: waits for SIGUSR1, is busy for a fifth of a second, then asleep for ever. */
static void nap(sigset_t *wake)
{
	int signal;
	sigwait(wake, &signal);
	state = 1;
	for (int i = 0; i < 200; i++)
		wanders(1000);
	for (;;)
		pause();
}

/* doze: busy for a tenth of a second in every half. */
static void doze(void)
{
	for (state = 1;; usleep(400000))
		for (int i = 0; i < 100; i++)
			wanders(1000);
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* not left behind by a test that failed */
	sigset_t wake;
	sigemptyset(&wake);
	sigaddset(&wake, SIGUSR1);
	sigprocmask(SIG_BLOCK, &wake, NULL);
	if (!strcmp(name, "crowd"))
		crowd();
	else if (!strcmp(name, "nap"))
		nap(&wake);
	else if (!strcmp(name, "doze"))
		doze();
	fprintf(stderr, "usage: churn crowd|nap|doze\n");
	return 2;
}
