// Waits for files that are no data: ROUNDS times 50 ms in each function, for what the function is named after.
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/msg.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define KEEP __attribute__((noinline, noclone))

static const struct timespec pause_ = {.tv_nsec = 50 * 1000 * 1000};
static int event, timer, signals, changes, queue, locked[2];
static char path[64];
static pid_t own;
static atomic_int begins;

KEEP static void wait_event(void) { uint64_t n; if (read(event, &n, sizeof n) != sizeof n) abort(); }
KEEP static void wait_signal(void) { struct signalfd_siginfo s; if (read(signals, &s, sizeof s) != sizeof s) abort(); }
KEEP static void wait_change(void) { char b[4096]; if (read(changes, b, sizeof b) <= 0) abort(); }
KEEP static void wait_lock(void) { if (flock(locked[1], LOCK_EX)) abort(); flock(locked[1], LOCK_UN); }
KEEP static void wait_message(void) { struct { long t; char c; } m; if (msgrcv(queue, &m, 1, 0, 0) < 0) abort(); }
KEEP static void wait_timer(void)
{
	struct itimerspec once = {.it_value = pause_};
	uint64_t n;
	timerfd_settime(timer, 0, &once, 0);
	if (read(timer, &n, sizeof n) != sizeof n) abort();
}

static void end_event(void) { uint64_t one = 1; if (write(event, &one, sizeof one) < 0) abort(); }
static void end_signal(void) { kill(own, SIGUSR1); }
static void end_change(void) { if (write(locked[0], "x", 1) != 1) abort(); }
static void end_lock(void) { flock(locked[0], LOCK_UN); }
static void end_message(void) { struct { long t; char c; } m = {1, 'x'}; msgsnd(queue, &m, 1, 0); }

static void *ends(void *end)
{
	while (!begins) sched_yield();
	nanosleep(&pause_, 0);
	((void (*)(void))end)();
	return 0;
}

static void both(void (*wait)(void), void (*end)(void))
{
	pthread_t other;
	begins = 0;
	if (pthread_create(&other, 0, ends, (void *)end)) abort();
	begins = 1;
	wait();
	pthread_join(other, 0);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 1;
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, 0);
	own = getpid();
	snprintf(path, sizeof path, "/tmp/waits_in_files.%d", own);
	locked[0] = open(path, O_CREAT | O_RDWR, 0600);
	locked[1] = open(path, O_RDWR);
	event = eventfd(0, 0);
	timer = timerfd_create(CLOCK_MONOTONIC, 0);
	signals = signalfd(-1, &set, 0);
	changes = inotify_init();
	queue = msgget(IPC_PRIVATE, 0600);
	if (locked[0] < 0 || locked[1] < 0 || event < 0 || timer < 0 || signals < 0 || changes < 0 || queue < 0) abort();
	if (inotify_add_watch(changes, path, IN_MODIFY) < 0) abort();
	for (int i = 0; i < rounds; i++) {
		both(wait_event, end_event);
		wait_timer();
		both(wait_signal, end_signal);
		both(wait_change, end_change);
		flock(locked[0], LOCK_EX);
		both(wait_lock, end_lock);
		both(wait_message, end_message);
	}
	msgctl(queue, IPC_RMID, 0);
	unlink(path);
	return 0;
}
