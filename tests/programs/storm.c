/* What a recorder must stand. `storm NAME SECONDS`, where NAME is one of
 *
 *   deep      20 threads, each with 1 MB of stack that is another in every moment
 *   brief     threads that live for some milliseconds and use 200 kB of stack, beside two that go on
 *   maps      60,000 pieces of executable memory of one file, none of which can be merged with another, then the same again
 *   maps-new  5,000 executable mappings a second, all kept up to 30,000
 *   children  20,000 processes at once, a few of which are busy
 *   maps-fast code of a file that is mapped for a moment, 50,000 times a second
 *   forks     processes as fast as they come, each with mappings of its own
 *   forks-fast  processes that end at once, 5,000 a second
 *
 * SECONDS count from when all is there; then the program says `there` on stdout. The fast ones say ten times a second how often they have
 * done what they do, and for how many seconds. */
#define _GNU_SOURCE
#include <alloca.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KEEP __attribute__((noinline, noclone))

static double until;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void is_there(double seconds)
{
	until = now() + seconds;
	puts("there");
	fflush(stdout);
}

static void tells(long n, double begun)
{
	static double told;

	if (now() - told < 0.1)
		return;
	told = now();
	printf("%ld %f\n", n, told - begun);
	fflush(stdout);
}

static void fails(const char *what)
{
	perror(what);
	_exit(1);
}

/* Fills so many bytes of stack with what looks like addresses of it, and goes on in another function. */
KEEP static void fills(long bytes, uint64_t seed)
{
	volatile uint64_t *room = alloca(4096);
	for (int i = 0; i < 512; i += 8)
		room[i] = (uintptr_t)room + (seed += 0x9e3779b97f4a7c15) % 65536;
	if (bytes > 4096)
		fills(bytes - 4096, seed);
	else
		for (int i = 0; i < 2000; i++)
			room[i % 512] += i;
	room[1] = seed;
}

static void *is_deep(void *seed)
{
	for (uint64_t n = (uintptr_t)seed; now() < until; n++)
		fills(1000000, n << 20);
	return NULL;
}

static pthread_t starts(void *(*run)(void *), uintptr_t argument)
{
	pthread_t thread;
	pthread_attr_t attributes;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 2 << 20);
	if (pthread_create(&thread, &attributes, run, (void *)argument) != 0)
		fails("pthread_create");
	return thread;
}

static void deep(double seconds)
{
	pthread_t threads[20];
	is_there(seconds);
	for (int i = 0; i < 20; i++)
		threads[i] = starts(is_deep, i + 1);
	for (int i = 0; i < 20; i++)
		pthread_join(threads[i], NULL);
}

static void *is_brief(void *seed)
{
	for (int i = 0; i < 20; i++)
		fills(200000, (uintptr_t)seed * 31 + i);
	return NULL;
}

static void brief(double seconds)
{
	is_there(seconds);
	pthread_t first = starts(is_deep, 1), second = starts(is_deep, 2);
	for (uintptr_t n = 0; now() < until; n++)
		pthread_join(starts(is_brief, n), NULL);
	pthread_join(first, NULL);
	pthread_join(second, NULL);
}

static int file_of_code(void)
{
	char path[] = "/tmp/storm-XXXXXX";
	int file = mkstemp(path);
	if (file < 0 || ftruncate(file, 65536l * 4096))
		fails(path);
	unlink(path);
	return file;
}

static char *map_one(int file, long number)
{
	/* Every other page of the file, so that neighbours are not merged. */
	char *at = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, number % 32768 * 2 * 4096);
	if (at == MAP_FAILED)
		fails("mmap");
	return at;
}

static void maps(double seconds, long count, double a_second)
{
	int file = file_of_code();
	char **mapped = calloc(count, sizeof *mapped);
	if (a_second == 0)
		for (long i = 0; i < count; i++)
			mapped[i] = map_one(file, i);
	is_there(seconds);
	double begun = now();
	volatile uint64_t sink = 0;
	for (long n = 0; now() < until;) {
		long due = a_second > 0 ? (now() - begun) * a_second : 0;
		for (; n < due; n++) {
			if (mapped[n % count])
				munmap(mapped[n % count], 4096);
			mapped[n % count] = map_one(file, n * 7);
		}
		for (int i = 0; i < 100000; i++)
			sink += i;
	}
}

static void children(double seconds, long count)
{
	struct rlimit most = { 100000, 100000 };
	setrlimit(RLIMIT_NPROC, &most);
	int pipes[2];
	if (pipe(pipes))
		fails("pipe");
	for (long i = 0; i < count; i++) {
		pid_t child = fork();
		if (child < 0)
			fails("fork");
		if (child > 0)
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		char byte;
		close(pipes[1]);
		if (read(pipes[0], &byte, 1) < 0)
			_exit(1);
		_exit(0);
	}
	close(pipes[0]);
	is_there(seconds);
	volatile uint64_t sink = 0;
	while (now() < until)
		sink++;
	close(pipes[1]); /* they end */
	while (wait(NULL) > 0)
		;
}

static void forks(double seconds)
{
	int file = file_of_code();
	is_there(seconds);
	for (long n = 0; now() < until; n++) {
		pid_t child = fork();
		if (child == 0) {
			for (int i = 0; i < 8; i++)
				map_one(file, n + i);
			is_brief((void *)n);
			_exit(0);
		}
		waitpid(child, NULL, 0);
	}
}

static void maps_once(int file, long n)
{
	munmap(map_one(file, n * 7), 4096);
}

static void forks_once(int file, long n)
{
	pid_t child = fork();

	(void)file, (void)n;
	if (child < 0)
		fails("fork");
	if (child == 0)
		_exit(0);
	waitpid(child, NULL, 0);
}

static void fast(double seconds, void (*once)(int, long), double a_second)
{
	int file = file_of_code();

	is_there(seconds);
	double begun = now();
	for (long n = 0; now() < until;) {
		for (long due = (now() - begun) * a_second; n < due && now() < until; n++) {
			once(file, n);
			tells(n, begun);
		}
		usleep(1000);
	}
}

int main(int argc, char **argv)
{
	const char *name = argc > 2 ? argv[1] : "";
	double seconds = argc > 2 ? atof(argv[2]) : 0;
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* not left behind by a test that failed */
	if (!strcmp(name, "deep"))
		deep(seconds);
	else if (!strcmp(name, "brief"))
		brief(seconds);
	else if (!strcmp(name, "maps"))
		maps(seconds, 60000, 0);
	else if (!strcmp(name, "maps-new"))
		maps(seconds, 30000, 5000);
	else if (!strcmp(name, "maps-fast"))
		fast(seconds, maps_once, 50000);
	else if (!strcmp(name, "forks-fast"))
		fast(seconds, forks_once, 5000);
	else if (!strcmp(name, "children"))
		children(seconds, argc > 3 ? atol(argv[3]) : 20000);
	else if (!strcmp(name, "forks"))
		forks(seconds);
	else {
		fprintf(stderr, "usage: storm deep|brief|maps|maps-new|maps-fast|children|forks|forks-fast SECONDS\n");
		return 2;
	}
	return 0;
}
