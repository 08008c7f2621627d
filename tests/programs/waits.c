/* Threads that wait in known functions. Each prints the name of its function and how long it waited there, ns, by its own clock; threads that
 * share a CPU print how long they lived and how long they ran. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define KEPT __attribute__((noinline))
/* Keeps a function from ending in a jump. */
#define END __asm__ volatile("" ::: "memory")

static int milliseconds = 5, times = 40;
static int fds[2];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t round_begins, is_held;
static char *page;
static int faults = -1;

static long now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

/* Counts the time that this thread does not run. While the machine below takes a CPU away, the thread runs. */
static long off_cpu(void)
{
	return now(CLOCK_MONOTONIC) - now(CLOCK_THREAD_CPUTIME_ID);
}

static void nap(int ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000L };

	nanosleep(&t, 0);
}

KEPT void sleeps(void)
{
	nap(milliseconds);
	END;
}

KEPT void polls(void)
{
	poll(0, 0, milliseconds);
	END;
}

KEPT void reads(void)
{
	char c;

	if (read(fds[0], &c, 1) != 1)
		abort();
	END;
}

KEPT void writes(void)
{
	if (write(fds[1], "x", 1) != 1)
		abort();
	END;
}

KEPT void locks(void)
{
	pthread_mutex_lock(&mutex);
	END;
}

KEPT void unlocks(void)
{
	pthread_mutex_unlock(&mutex);
	END;
}

KEPT void faults_in(void)
{
	*(volatile char *)page = 1;
	END;
}

static void *sleeper(void *told)
{
	long begun = off_cpu();

	for (int i = 0; i < times; i++)
		sleeps();
	printf("sleeps %ld\n", off_cpu() - begun);
	return 0;
}

static void *poller(void *told)
{
	long begun = off_cpu();

	for (int i = 0; i < times; i++)
		polls();
	printf("polls %ld\n", off_cpu() - begun);
	return 0;
}

static void *reader(void *told)
{
	long begun = off_cpu();

	for (int i = 0; i < times; i++)
		reads();
	printf("reads %ld\n", off_cpu() - begun);
	return 0;
}

static void *writer(void *told)
{
	for (int i = 0; i < times; i++) {
		nap(milliseconds);
		writes();
	}
	return 0;
}

static void *holder(void *told)
{
	for (int i = 0; i < times; i++) {
		pthread_barrier_wait(&round_begins);
		pthread_mutex_lock(&mutex);
		pthread_barrier_wait(&is_held);
		nap(milliseconds);
		unlocks();
	}
	return 0;
}

static void *locker(void *told)
{
	long waited = 0;

	for (int i = 0; i < times; i++) {
		pthread_barrier_wait(&round_begins);
		pthread_barrier_wait(&is_held);
		long begun = off_cpu();
		locks();
		waited += off_cpu() - begun;
		pthread_mutex_unlock(&mutex);
	}
	printf("locks %ld\n", waited);
	return 0;
}

/* Fills the page of `faults_in` a while after somebody touched it. */
static void *filler(void *told)
{
	static char source[4096] __attribute__((aligned(4096)));
	struct uffd_msg message;

	for (int i = 0; i < times; i++) {
		if (read(faults, &message, sizeof(message)) != sizeof(message))
			abort();
		nap(milliseconds);
		struct uffdio_copy copy = { .dst = (unsigned long)page, .src = (unsigned long)source, .len = 4096 };
		if (ioctl(faults, UFFDIO_COPY, &copy))
			abort();
	}
	return 0;
}

static void *faulter(void *told)
{
	long waited = 0;

	for (int i = 0; i < times; i++) {
		madvise(page, 4096, MADV_DONTNEED);
		long begun = off_cpu();
		faults_in();
		waited += off_cpu() - begun;
	}
	printf("faults_in %ld\n", waited);
	return 0;
}

KEPT void computes(long ns)
{
	while (now(CLOCK_THREAD_CPUTIME_ID) < ns)
		END;
}

/* Shares a CPU with others of its kind. */
static void *sharer(void *told)
{
	cpu_set_t cpus;
	long begun, ran;

	CPU_ZERO(&cpus);
	CPU_SET(0, &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	begun = now(CLOCK_MONOTONIC);
	ran = now(CLOCK_THREAD_CPUTIME_ID);
	computes(200000000);
	ran = now(CLOCK_THREAD_CPUTIME_ID) - ran;
	printf("computes %ld %ld\n", now(CLOCK_MONOTONIC) - begun, ran);
	return 0;
}

/* Waits from before a recording until after it. */
static void *idler(void *told)
{
	pause();
	return 0;
}

static pthread_t thread(void *(*run)(void *), const char *name)
{
	pthread_t thread;

	if (pthread_create(&thread, 0, run, 0))
		abort();
	pthread_setname_np(thread, name);
	return thread;
}

static int can_wait_for_faults(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .range = { .len = 4096 }, .mode = UFFDIO_REGISTER_MODE_MISSING };

	page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	range.range.start = (unsigned long)page;
	faults = syscall(SYS_userfaultfd, O_CLOEXEC);
	return faults >= 0 && !ioctl(faults, UFFDIO_API, &api) && !ioctl(faults, UFFDIO_REGISTER, &range);
}

/* Sleeps below `frames` calls of itself, each of which has at least 128 bytes of the stack. */
KEPT void goes_down(int frames)
{
	char frame[112];

	__asm__ volatile("" ::"r"(frame) : "memory");
	if (frames > 1)
		goes_down(frames - 1);
	else
		for (int i = 0; i < times; i++)
			sleeps();
	END;
}

/* Passes a byte to and fro between two threads that share a CPU, and prints how often they waited. */
static int answers[2];

static void *answerer(void *told)
{
	char c;

	for (int i = 0; i < times; i++)
		if (read(fds[0], &c, 1) != 1 || write(answers[1], &c, 1) != 1)
			abort();
	return 0;
}

static void pass_to_and_fro(void)
{
	struct rusage used;
	pthread_t other;
	cpu_set_t cpu;
	char c = 0;

	CPU_ZERO(&cpu);
	CPU_SET(0, &cpu);
	sched_setaffinity(0, sizeof(cpu), &cpu);
	if (pipe(fds) || pipe(answers))
		abort();
	other = thread(answerer, "answerer");
	long begun = now(CLOCK_MONOTONIC);
	for (int i = 0; i < times; i++)
		if (write(fds[1], &c, 1) != 1 || read(answers[0], &c, 1) != 1)
			abort();
	pthread_join(other, 0);
	begun = now(CLOCK_MONOTONIC) - begun;
	getrusage(RUSAGE_SELF, &used);
	printf("waits %ld %ld\n", used.ru_nvcsw, begun);
}

/* waits [MILLISECONDS [TIMES [idle | deep | pass]]] */
int main(int argc, char **argv)
{
	pthread_t threads[16];
	int count = 0;

	setvbuf(stdout, 0, _IOLBF, 0);
	if (argc > 1)
		milliseconds = atoi(argv[1]);
	if (argc > 2)
		times = atoi(argv[2]);
	if (argc > 3 && !strcmp(argv[3], "pass")) {
		pass_to_and_fro();
		return 0;
	}
	if (argc > 3 && !strcmp(argv[3], "deep")) {
		goes_down(100);
		return 0;
	}
	if (argc > 3) {
		threads[count++] = thread(idler, "idler");
		puts("idle");
		nap(milliseconds);
		return 0;
	}
	if (pipe(fds))
		abort();
	pthread_barrier_init(&round_begins, 0, 2);
	pthread_barrier_init(&is_held, 0, 2);
	threads[count++] = thread(sleeper, "sleeper");
	threads[count++] = thread(poller, "poller");
	threads[count++] = thread(reader, "reader");
	threads[count++] = thread(writer, "writer");
	threads[count++] = thread(holder, "holder");
	threads[count++] = thread(locker, "locker");
	if (can_wait_for_faults()) {
		threads[count++] = thread(filler, "filler");
		threads[count++] = thread(faulter, "faulter");
	}
	while (count)
		pthread_join(threads[--count], 0);
	for (int i = 0; i < 3; i++)
		threads[count++] = thread(sharer, "sharer");
	while (count)
		pthread_join(threads[--count], 0);
	return 0;
}
