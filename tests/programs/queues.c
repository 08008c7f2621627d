/* Threads that wait for somebody, and then for a CPU behind a thread that does not give it up.
 *
 *   queues moves N     N times: `moved` waits for 50 ms or more, and then for the CPU until it is moved to another one after 60 ms
 *   queues ends        `queued` waits for 300 ms, and then for the CPU for 2 s
 *   queues begins      for the CPU for 5 s
 *   queues again N     N times: a child calls `hit` once and ends, and another one with the same number calls it six times
 *
 * `moves` prints how long each `moved` waited for the CPU, as the scheduler says, ns; `ends` how long `queued` waited for somebody.
 */
#define _GNU_SOURCE
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int event;
static long hog_ms = 100;
static volatile pid_t waits;

static void pin(pid_t tid, int cpu)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	sched_setaffinity(tid, sizeof(cpus), &cpus);
}

static long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Keeps CPU 0. */
static void *hog(void *told)
{
	struct sched_param first = { 50 };
	long until;

	pin(0, 0);
	if (sched_setscheduler(0, SCHED_FIFO, &first))
		abort();
	until = now() + hog_ms * 1000000;
	while (now() < until)
		;
	return 0;
}

static void *moved(void *told)
{
	unsigned long long ran, delayed;
	uint64_t value;
	char path[64];
	FILE *file;

	pthread_setname_np(pthread_self(), "moved");
	pin(0, 0);
	waits = gettid();
	if (read(event, &value, sizeof(value)) < 0)
		abort();
	snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", gettid());
	file = fopen(path, "r");
	if (!file || fscanf(file, "%llu %llu", &ran, &delayed) != 2)
		abort();
	fclose(file);
	printf("%llu\n", delayed);
	return 0;
}

static void *queued(void *told)
{
	uint64_t value;

	pthread_setname_np(pthread_self(), "queued");
	pin(0, 0);
	waits = gettid();
	if (told && read(event, &value, sizeof(value)) < 0)
		abort();
	for (;;)
		;
}

static void wake(void)
{
	uint64_t one = 1;

	if (write(event, &one, sizeof(one)) < 0)
		abort();
}

static void moves(int times)
{
	for (int i = 0; i < times; i++) {
		pthread_t waiting, running;

		waits = 0;
		pthread_create(&waiting, 0, moved, 0);
		while (!waits)
			usleep(1000);
		usleep(50000);
		pthread_create(&running, 0, hog, 0);
		usleep(10000);
		wake();
		usleep(60000);
		pin(waits, 1);
		pthread_join(waiting, 0);
		pthread_join(running, 0);
	}
}

static void stays(int sleeps)
{
	pthread_t waiting, running;
	long since;

	/* The test starts a recorder for the running thread; that takes up to some seconds on a busy machine. */
	hog_ms = sleeps ? 2000 : 5000;
	pthread_create(&waiting, 0, queued, (void *)(long)sleeps);
	while (!waits)
		usleep(100);
	since = now();
	usleep(290000);
	pthread_create(&running, 0, hog, 0);
	usleep(10000);
	if (sleeps) {
		wake();
		printf("%ld\n", now() - since);
		fflush(stdout);
	}
	pthread_join(running, 0);
	exit(0);
}

__attribute__((noipa)) void hit(void)
{
	__asm__ volatile("" ::: "memory");
}

static void again(int times)
{
	for (int i = 0; i < times; i++) {
		pid_t first = fork(), second;
		struct clone_args as_first = { .exit_signal = SIGCHLD, .set_tid = (uint64_t)(uintptr_t)&first, .set_tid_size = 1 };

		if (!first) {
			hit();
			_exit(0);
		}
		waitpid(first, 0, 0);
		second = syscall(SYS_clone3, &as_first, sizeof(as_first));
		if (second < 0)
			abort();
		if (!second) {
			hit();
			usleep(30000);
			for (int k = 0; k < 5; k++)
				hit();
			_exit(0);
		}
		waitpid(second, 0, 0);
	}
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	int times = argc > 2 ? atoi(argv[2]) : 1;

	event = eventfd(0, 0);
	pin(0, 1);
	if (!strcmp(what, "moves"))
		moves(times);
	if (!strcmp(what, "ends") || !strcmp(what, "begins"))
		stays(!strcmp(what, "ends"));
	if (!strcmp(what, "again"))
		again(times);
	return 0;
}
