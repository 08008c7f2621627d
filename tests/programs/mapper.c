/* Maps and unmaps executable memory as fast as it can: a neighbour whose mapping reports fill every queue.
 * `mapper SECONDS` */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

int main(int argc, char **argv)
{
	time_t until = time(NULL) + (argc > 1 ? atol(argv[1]) : 1);
	for (unsigned long n = 0; n % 1024 != 0 || time(NULL) < until; n++) {
		void *page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (page == MAP_FAILED) {
			perror("mmap");
			return 1;
		}
		munmap(page, 4096);
	}
	return 0;
}
