/* holds FILE: computes, and holds the lock of its own memory for as long as whoever serves FILE does not answer when it is written: to map
 * memory over a changed page of the file, the kernel writes that page first. Nobody can read `/proc/PID/maps` meanwhile. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>

__attribute__((noinline)) void computes(void)
{
	for (;;)
		__asm__ volatile("" ::: "memory");
}

static void *thread(void *unused)
{
	computes();
	return unused;
}

int main(int argc, char **argv)
{
	int file = argc > 1 ? open(argv[1], O_RDWR) : -1;
	char *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	pthread_t computing;

	if (page == MAP_FAILED || pthread_create(&computing, 0, thread, 0))
		return 2;
	page[0]++;
	puts("maps");
	fflush(stdout);
	mmap(page, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	return 1;
}
