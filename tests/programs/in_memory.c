/* Runs a program that is in no file: `in_memory PROGRAM NAME MILLISECONDS` copies it into memory and executes that. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv, char **environment)
{
	struct stat status;
	int from = argc > 1 ? open(argv[1], O_RDONLY) : -1;
	int to = memfd_create("service", MFD_CLOEXEC);

	if (from < 0 || to < 0 || fstat(from, &status) || sendfile(to, from, NULL, status.st_size) != status.st_size) {
		perror("in_memory");
		return 2;
	}
	fexecve(to, argv + 1, environment);
	perror("fexecve");
	return 2;
}
