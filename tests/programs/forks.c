/* A program whose calls of `hit` are known, in processes that are just made.
 *
 *   forks fork N     N children, one after the other; each calls `hit` 10 times at once, and the parent once: 11 * N
 *   forks deep N     a child of a child of a child ..., N of them; each calls `hit` 10 times: 10 * N
 *   forks thread N   two threads make N children each, which call `hit` 10 times, and have a thread that does: 40 * N
 *   forks vfork N    N children with the memory of their parent, which call `hit` 10 times: 10 * N
 *   forks exec N     it executes itself N times, in turn in the first thread and in another, and calls `hit` 10 times each time: 10 * N
 *   forks leave N    N children have a child each and end; it calls `hit` 10 times before and after that: 20 * N
 *   forks spin       calls `hit` for ever, and says every 100 ms the first byte of `hit` and how many ns a call took
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

__attribute__((noinline, noclone)) void hit(long n)
{
	__asm__ volatile("" ::"r"(n) : "memory");
}

static void *ten(void *unused)
{
	for (int i = 0; i < 10; i++)
		hit(i);
	return unused;
}

static void *in_thread(void *(*function)(void *), void *with)
{
	pthread_t thread;

	if (pthread_create(&thread, 0, function, with))
		abort();
	pthread_join(thread, 0);
	return 0;
}

static void *forks(void *n)
{
	for (long i = 0; i < (long)n; i++) {
		pid_t child = fork();

		if (!child) {
			ten(0);
			in_thread(ten, 0);
			_exit(0);
		}
		waitpid(child, 0, 0);
	}
	return 0;
}

static int shares(void *unused)
{
	ten(unused);
	return 0;
}

static void *executes(void *argv)
{
	execv("/proc/self/exe", argv);
	abort();
}

static long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000 + time.tv_nsec;
}

static void spin(void)
{
	for (;;) {
		long begin = now(), calls = 0, took;

		do {
			for (int i = 0; i < 1000; i++)
				hit(i);
			calls += 1000;
			took = now() - begin;
		} while (took < 100000000);
		printf("%02x %.2f\n", *(unsigned char *)hit, (double)took / calls);
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	long n = argc > 2 ? atol(argv[2]) : 0;

	if (!strcmp(what, "spin"))
		spin();
	if (!strcmp(what, "fork"))
		for (long i = 0; i < n; i++) {
			pid_t child = fork();

			if (!child) {
				ten(0);
				_exit(0);
			}
			hit(i);
			waitpid(child, 0, 0);
		}
	if (!strcmp(what, "deep"))
		for (long i = 0; i < n; i++) {
			pid_t child = fork();

			if (child) {
				waitpid(child, 0, 0);
				break;
			}
			ten(0);
		}
	if (!strcmp(what, "thread")) {
		pthread_t threads[2];

		for (int i = 0; i < 2; i++)
			pthread_create(&threads[i], 0, forks, (void *)n);
		for (int i = 0; i < 2; i++)
			pthread_join(threads[i], 0);
	}
	if (!strcmp(what, "leave"))
		for (long i = 0; i < n; i++) {
			int ended[2], done[2];
			char byte;

			if (pipe(ended) || pipe(done))
				abort();
			if (!fork()) {
				if (fork())
					_exit(0);
				close(ended[1]);
				close(done[0]);
				ten(0);
				/* Until the last other process has closed its end. */
				if (read(ended[0], &byte, 1))
					abort();
				ten(0);
				_exit(0);
			}
			wait(0);
			close(ended[1]);
			close(done[1]);
			if (read(done[0], &byte, 1))
				abort();
			close(ended[0]);
			close(done[0]);
		}
	if (!strcmp(what, "vfork"))
		for (long i = 0; i < n; i++) {
			static char stack[1 << 16] __attribute__((aligned(16)));
			pid_t child = clone(shares, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, 0);

			waitpid(child, 0, 0);
		}
	if (!strcmp(what, "exec") && n > 0) {
		char left[24];
		char *next[] = { argv[0], argv[1], left, 0 };

		ten(0);
		snprintf(left, sizeof(left), "%ld", n - 1);
		if (n % 2)
			in_thread(executes, next);
		else
			executes(next);
	}
	return 0;
}
