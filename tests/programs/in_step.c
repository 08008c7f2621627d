/*
 * in_step SECONDS: four processes work 2 of every 10 ms, each in a quarter of its own of the 10 ms, and sleep in between. What
 * looks once in 10 ms sees one of them always and the others never. Each writes its name and its CPU time, ns.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PERIOD = 10000000, WORK = 2000000, PROCESSES = 4 };

static int64_t now(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

__attribute__((noinline)) static void work_until(int64_t end)
{
	while (now(CLOCK_MONOTONIC) < end)
		;
}

static void work(int number, int seconds)
{
	int64_t begin = now(CLOCK_MONOTONIC) / PERIOD * PERIOD + PERIOD + number * (PERIOD / PROCESSES);
	char name[16];

	snprintf(name, sizeof(name), "in_step_%d", number);
	prctl(PR_SET_NAME, name);
	for (int64_t at = begin; at < begin + seconds * 1000000000LL; at += PERIOD) {
		struct timespec time = { at / 1000000000, at % 1000000000 };

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
		work_until(at + WORK);
	}
	printf("%s %lld\n", name, (long long)now(CLOCK_PROCESS_CPUTIME_ID));
}

int main(int argc, char **argv)
{
	int seconds = argc > 1 ? atoi(argv[1]) : 1;

	for (int number = 0; number < PROCESSES; number++)
		if (fork() == 0) {
			work(number, seconds);
			exit(0);
		}
	while (wait(NULL) > 0)
		;
	return 0;
}
