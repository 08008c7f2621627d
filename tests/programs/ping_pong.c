/* Two processes that take turns on one CPU: while one of them runs, the other waits.
 *
 *   ping_pong MS    MS milliseconds long they pass a byte to each other through pipes; prints the ns that it took, and the number of turns
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000 + time.tv_nsec;
}

static int pass(int from, int to)
{
	char byte = 0;

	return write(to, &byte, 1) == 1 && read(from, &byte, 1) == 1;
}

int main(int argc, char **argv)
{
	long ms = argc > 1 ? atol(argv[1]) : 0, turns = 0, begin;
	int there[2], back[2];
	cpu_set_t last;

	CPU_ZERO(&last);
	CPU_SET(sysconf(_SC_NPROCESSORS_ONLN) - 1, &last);
	if (sched_setaffinity(0, sizeof(last), &last) || pipe(there) || pipe(back))
		return 1;
	if (!fork()) {
		char byte;

		close(there[1]);
		if (read(there[0], &byte, 1) == 1)
			while (pass(there[0], back[1]))
				;
		_exit(0);
	}
	begin = now();
	do {
		for (int i = 0; i < 100 && pass(back[0], there[1]); i++)
			turns += 2;
	} while (now() - begin < ms * 1000000);
	printf("%ld %ld\n", now() - begin, turns);
	close(there[1]);
	wait(0);
	return 0;
}
