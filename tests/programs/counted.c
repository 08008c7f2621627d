/*
 * Uses known amounts of memory, CPU time, faults, bytes and threads, and prints what the kernel says of itself.
 *
 *   counted use MIB KIB THREADS MS FILE   touches memory, writes a file, waits in threads, spins; then waits a second, and prints
 *   counted child MIB                     forks a child that touches memory and ends at once; prints the ids of both
 *   counted many N MS                     forks N children that spin so long by the clock, and waits for them
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void spin(clockid_t clock, long ms)
{
	long long until = now_ns(clock) + ms * 1000000LL;

	while (now_ns(clock) < until)
		;
}

/* Touches each page once: a fault for each. */
static void touch(long mib)
{
	size_t len = (size_t)mib << 20, page = sysconf(_SC_PAGESIZE);
	char *memory = mmap(0, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		exit(1);
	madvise(memory, len, MADV_NOHUGEPAGE);
	for (size_t at = 0; at < len; at += page)
		memory[at] = 1;
}

static void *wait_a_while(void *unused)
{
	pause();
	return unused;
}

static long long field(const char *path, const char *name)
{
	char line[256];
	long long value = -1;
	FILE *file = fopen(path, "r");

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, name, strlen(name)))
			value = atoll(line + strlen(name));
	if (file)
		fclose(file);
	return value;
}

static int use(char **arguments)
{
	long mib = atol(arguments[0]), kib = atol(arguments[1]), threads = atol(arguments[2]);
	int file = open(arguments[4], O_CREAT | O_WRONLY | O_TRUNC, 0600);
	char block[1024] = {1};
	struct rusage usage;
	pthread_t thread;

	touch(mib);
	for (long i = 0; i < kib; i++)
		if (write(file, block, sizeof(block)) != sizeof(block))
			return 1;
	for (long i = 0; i < threads; i++)
		pthread_create(&thread, 0, wait_a_while, 0);
	spin(CLOCK_PROCESS_CPUTIME_ID, atol(arguments[3]));
	sleep(1);
	getrusage(RUSAGE_SELF, &usage);
	printf("pid %d\nresident_kib %lld\npeak_kib %ld\nminor %ld\nmajor %ld\nswitches %ld\n", getpid(),
	       field("/proc/self/status", "VmRSS:"), usage.ru_maxrss, usage.ru_minflt, usage.ru_majflt,
	       usage.ru_nvcsw + usage.ru_nivcsw);
	printf("calls_written %lld\ncpu_ns %lld\n", field("/proc/self/io", "wchar:"), now_ns(CLOCK_PROCESS_CPUTIME_ID));
	return 0;
}

static int many(long count, long ms)
{
	for (long i = 0; i < count; i++) {
		if (!fork()) {
			spin(CLOCK_MONOTONIC, ms);
			_exit(0);
		}
	}
	while (wait(0) > 0)
		;
	return 0;
}

static int child(long mib)
{
	pid_t pid = fork();

	if (!pid) {
		touch(mib);
		_exit(0);
	}
	waitpid(pid, 0, 0);
	printf("pid %d\nchild %d\n", getpid(), pid);
	return 0;
}

int main(int count, char **arguments)
{
	if (count == 7 && !strcmp(arguments[1], "use"))
		return use(arguments + 2);
	if (count == 3 && !strcmp(arguments[1], "child"))
		return child(atol(arguments[2]));
	if (count == 4 && !strcmp(arguments[1], "many"))
		return many(atol(arguments[2]), atol(arguments[3]));
	return 2;
}
