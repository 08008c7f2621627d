/* What a user without privileges records: functions with known shares, in a thread, in other threads and in another process.
 * `own NAME MILLISECONDS`; time is CPU time of each thread. Frames are small: their stacks fit into 16 KiB.
 *
 * shares:  `ten`, `thirty` and `sixty` call `spin`; the time of each is what its name says.
 * threads: `in_first` and `in_second` do, a thread each.
 * child:   `in_child` does, in a process that is forked, and `in_parent` in this one.
 * kernel:  reads from /dev/zero, nearly all of the time in the kernel.
 * waits:   says `ready`, and does `shares` for a second when a line comes in. */
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
/* What follows a call keeps it from becoming a jump. */
#define CALL(call) do { call; __asm__ volatile("" ::: "memory"); } while (0)

static long limit_ms;

static long cpu_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* A look at the clock, about every tenth of a millisecond, says when it is over. */
KEEP void spin(long us)
{
	for (long until = cpu_us() + us; cpu_us() < until;)
		for (long n = 100000; n > 0; n--)
			__asm__ volatile("" ::: "memory");
}

KEEP void ten(long us) { CALL(spin(us)); }
KEEP void thirty(long us) { CALL(spin(us * 3)); }
KEEP void sixty(long us) { CALL(spin(us * 6)); }

KEEP void shares(void)
{
	for (long until = cpu_us() + limit_ms * 1000; cpu_us() < until;) {
		CALL(ten(1000));
		CALL(thirty(1000));
		CALL(sixty(1000));
	}
}

KEEP void *in_first(void *unused) { CALL(spin(limit_ms * 1000)); return unused; }
KEEP void *in_second(void *unused) { CALL(spin(limit_ms * 1000)); return unused; }
KEEP void in_child(void) { CALL(spin(limit_ms * 1000)); }
KEEP void in_parent(void) { CALL(spin(limit_ms * 1000)); }

static void threads(void)
{
	pthread_t first, second;
	pthread_create(&first, NULL, in_first, NULL);
	pthread_create(&second, NULL, in_second, NULL);
	pthread_join(first, NULL);
	pthread_join(second, NULL);
}

static void child(void)
{
	pid_t pid = fork();
	if (pid == 0) {
		in_child();
		_exit(0);
	}
	in_parent();
	waitpid(pid, NULL, 0);
}

static void kernel(void)
{
	static char room[1 << 16];
	int zero = open("/dev/zero", O_RDONLY);
	for (long until = cpu_us() + limit_ms * 1000; cpu_us() < until;)
		for (int n = 0; n < 20; n++)
			if (read(zero, room, sizeof(room)) < 0)
				exit(1);
}

int main(int argc, char **argv)
{
	char line[8];

	if (argc < 3)
		return 2;
	limit_ms = atol(argv[2]);
	if (!strcmp(argv[1], "shares"))
		shares();
	else if (!strcmp(argv[1], "threads"))
		threads();
	else if (!strcmp(argv[1], "child"))
		child();
	else if (!strcmp(argv[1], "kernel"))
		kernel();
	else if (!strcmp(argv[1], "waits")) {
		puts("ready");
		fflush(stdout);
		if (!fgets(line, sizeof(line), stdin))
			return 1;
		shares();
	}
	return 0;
}
