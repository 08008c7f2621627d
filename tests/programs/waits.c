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
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KEPT __attribute__((noinline))
/* Keeps a function from ending in a jump. */
#define END __asm__ volatile("" ::: "memory")

static int milliseconds = 5, times = 40;
static int fds[2];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t round_begins, is_held, write_begins, is_writing;
/* A page that is missing until its thread fills it. */
static struct missing {
	char *page;
	int faults;
	pthread_barrier_t *noticed;
} touched, written = { .noticed = &is_writing };
static int file = -1;

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
	*(volatile char *)touched.page = 1;
	END;
}

/* Waits for the lock of a file. */
KEPT void overwrites(void)
{
	if (pwrite(file, "x", 1, 0) != 1)
		abort();
	END;
}

/* Waits for an argument of another program. */
KEPT void executes(void)
{
	char *arguments[] = { "true", touched.page, 0 };

	execv("/bin/true", arguments);
	END;
}

/* Waits until the child ends. */
KEPT void spawns(void)
{
	if (!vfork()) {
		prctl(PR_SET_NAME, "child");
		nap(milliseconds);
		_exit(0);
	}
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

/* Fills a page a while after somebody touched it. */
static void *filler(void *of)
{
	static char source[4096] __attribute__((aligned(4096)));
	struct missing *missing = of;
	struct uffd_msg message;

	for (int i = 0; i < times; i++) {
		if (read(missing->faults, &message, sizeof(message)) != sizeof(message))
			abort();
		if (missing->noticed)
			pthread_barrier_wait(missing->noticed);
		nap(milliseconds);
		struct uffdio_copy copy = { .dst = (unsigned long)missing->page, .src = (unsigned long)source, .len = 4096 };
		if (ioctl(missing->faults, UFFDIO_COPY, &copy))
			abort();
	}
	return 0;
}

/* Writes a missing page to a file, whose lock it holds until the page is there. */
static void *slow_writer(void *told)
{
	for (int i = 0; i < times; i++) {
		madvise(written.page, 4096, MADV_DONTNEED);
		pthread_barrier_wait(&write_begins);
		if (pwrite(file, written.page, 4096, 0) != 4096)
			abort();
	}
	return 0;
}

static void *overwriter(void *told)
{
	long waited = 0;

	for (int i = 0; i < times; i++) {
		pthread_barrier_wait(&write_begins);
		pthread_barrier_wait(&is_writing);
		long begun = off_cpu();
		overwrites();
		waited += off_cpu() - begun;
	}
	printf("overwrites %ld\n", waited);
	return 0;
}

static void *spawner(void *told)
{
	long waited = 0;

	for (int i = 0; i < times; i++) {
		long begun = off_cpu();
		spawns();
		waited += off_cpu() - begun;
		wait(0);
	}
	printf("spawns %ld\n", waited);
	return 0;
}

static void *faulter(void *told)
{
	long waited = 0;

	for (int i = 0; i < times; i++) {
		madvise(touched.page, 4096, MADV_DONTNEED);
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

static pthread_t thread_of(void *(*run)(void *), const char *name, void *argument)
{
	pthread_t thread;

	if (pthread_create(&thread, 0, run, argument))
		abort();
	pthread_setname_np(thread, name);
	return thread;
}

static pthread_t thread(void *(*run)(void *), const char *name)
{
	return thread_of(run, name, 0);
}

static int is_missing(struct missing *missing)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .range = { .len = 4096 }, .mode = UFFDIO_REGISTER_MODE_MISSING };

	missing->page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	range.range.start = (unsigned long)missing->page;
	missing->faults = syscall(SYS_userfaultfd, O_CLOEXEC);
	return missing->faults >= 0 && !ioctl(missing->faults, UFFDIO_API, &api) && !ioctl(missing->faults, UFFDIO_REGISTER, &range);
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

/* waits [MILLISECONDS [TIMES [idle | deep | pass | read | write | execute]]] */
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
	if (argc > 3 && !strcmp(argv[3], "read")) {
		fds[0] = 0;
		reader(0);
		return 0;
	}
	if (argc > 3 && !strcmp(argv[3], "execute")) {
		if (is_missing(&touched)) {
			thread_of(filler, "filler", &touched);
			executes();
		}
		return 0;
	}
	if (argc > 3 && !strcmp(argv[3], "write")) {
		fds[1] = 1;
		writer(0);
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
	threads[count++] = thread(spawner, "spawner");
	if (is_missing(&touched) && is_missing(&written)) {
		threads[count++] = thread_of(filler, "filler", &touched);
		threads[count++] = thread(faulter, "faulter");
		file = memfd_create("overwritten", MFD_CLOEXEC);
		pthread_barrier_init(&write_begins, 0, 2);
		pthread_barrier_init(&is_writing, 0, 2);
		threads[count++] = thread_of(filler, "filler", &written);
		threads[count++] = thread(slow_writer, "slow_writer");
		threads[count++] = thread(overwriter, "overwriter");
	}
	while (count)
		pthread_join(threads[--count], 0);
	for (int i = 0; i < 3; i++)
		threads[count++] = thread(sharer, "sharer");
	while (count)
		pthread_join(threads[--count], 0);
	return 0;
}
