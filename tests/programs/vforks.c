/* vforks TIMES: children of `vfork`, one after the other, execute this program, which then ends at once. The parent goes on below `reuses`
 * while a child still leaves the memory that both share, and uses the stack that the child had below `executes`. A thread that changes
 * the mappings all the time makes the children wait there. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEEP __attribute__((noinline, noclone))
#define CALL(call) do { call; __asm__ volatile("" ::: "memory"); } while (0)

static char *args[2];

KEEP void executes(void)
{
	CALL(execve("/proc/self/exe", args, args + 1));
}

KEEP void reuses(void)
{
	for (int n = 0; n < 1000; n++)
		CALL(getppid());
}

KEEP int spawns(void)
{
	int status = 1, pid = vfork();

	if (!pid) {
		executes();
		_exit(1);
	}
	CALL(reuses());
	return waitpid(pid, &status, 0) != pid || status != 0;
}

static void *changes(void *unused)
{
	long room = 16 << 20;
	char *all = mmap(0, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	(void)unused;
	for (int n = 0; all != MAP_FAILED; n++)
		mprotect(all, room, n % 2 ? PROT_READ | PROT_WRITE : PROT_READ);
	return 0;
}

int main(int argc, char **argv)
{
	int failed = 0;
	pthread_t thread;

	args[0] = argv[0];
	if (argc > 1)
		pthread_create(&thread, 0, changes, 0);
	for (int times = argc > 1 ? atoi(argv[1]) : 0; times > 0; times--)
		failed |= spawns();
	return failed;
}
