/*
 * replaced TIMES PROGRAM: children, one after the other, execute a program in the function `first`. PROGRAM is this file once more,
 * compiled with -DFUNCTION=second: it has the function `second` at the same addresses, in which nobody executes anything, and ends at once.
 */
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef FUNCTION
#define FUNCTION first
#endif

static char *args[2], *environment[1];

/* The linker puts it at an address of its own. */
__attribute__((noinline, noclone, section(".replaced"))) long FUNCTION(const char *program)
{
	long done = -1;

	if (!program)
		return done;
#if defined(__x86_64__)
	__asm__ volatile("syscall" : "=a"(done) : "a"(SYS_execve), "D"(program), "S"(args), "d"(environment) : "rcx", "r11", "memory");
#else
	done = execve(program, args, environment);
#endif
	return done;
}

int main(int argc, char **argv)
{
	int failed = 0, status;

	args[0] = argv[0];
	if (argc < 3)
		return FUNCTION(0) != -1;
	for (int times = atoi(argv[1]); times > 0; times--) {
		int pid = fork();

		if (!pid) {
			FUNCTION(argv[2]);
			_exit(1);
		}
		failed |= waitpid(pid, &status, 0) != pid || status != 0;
	}
	return failed;
}
