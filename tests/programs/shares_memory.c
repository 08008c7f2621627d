/* Two processes, no threads of one, that share their memory: each works in a library that the other one has loaded. The command line
 * has the libraries, with the functions `small` and `large`. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KEEP __attribute__((noinline, noclone))
#define CALL(call) do { call; __asm__ volatile("" ::: "memory"); } while (0)

typedef void function(void (*work)(long), long us, long word);

static function *volatile small, *volatile large;
static char **libraries;

KEEP void spin(long us)
{
	for (long n = us * 300; n > 0; n--)
		__asm__ volatile("" ::: "memory");
}

KEEP void work(long us)
{
	CALL(spin(us));
}

static function *loaded(const char *library, const char *name)
{
	void *handle = dlopen(library, RTLD_NOW);
	function *found = handle ? (function *)dlsym(handle, name) : 0;

	if (!found)
		_exit(2);
	return found;
}

KEEP void in_helper(void)
{
	CALL(large(work, 9000000, 7));
}

KEEP void in_creator(void)
{
	CALL(small(work, 9000000, 7));
}

static int helper(void *unused)
{
	(void)unused;
	small = loaded(libraries[1], "small");
	while (!large)
		usleep(1000);
	in_helper();
	_exit(0);
}

int main(int argc, char **argv)
{
	long room = 1 << 20;
	char *stack = mmap(0, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int status = 1, pid;

	if (argc != 3 || stack == MAP_FAILED)
		return 2;
	libraries = argv;
	pid = clone(helper, stack + room, CLONE_VM | SIGCHLD, 0);
	if (pid < 0)
		return 2;
	while (!small)
		usleep(1000);
	in_creator();
	large = loaded(libraries[2], "large");
	return waitpid(pid, &status, 0) != pid || status != 0;
}
