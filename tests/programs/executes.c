/*
 * executes SECONDS: a thread that is not the first one works for so long, and then executes the same program, which works for three
 * times as long under the id of the first thread.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static char **args;

__attribute__((noinline)) static void work(double seconds)
{
	struct timespec time;
	double begin = 0, now;

	do {
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
		now = time.tv_sec + time.tv_nsec / 1e9;
		begin = begin ? begin : now;
	} while (now < begin + seconds);
}

static void *executes(void *seconds)
{
	char *again[] = { args[0], args[1], "again", 0 };

	work(*(double *)seconds);
	execv("/proc/self/exe", again);
	return 0;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 0.3;
	pthread_t thread;

	args = argv;
	if (argc > 2) {
		work(3 * seconds);
		return 0;
	}
	pthread_create(&thread, 0, executes, &seconds);
	pause();
	return 1;
}
