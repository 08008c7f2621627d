/* Moves code onto memory that is mapped from no file, at the same addresses, as programs do for huge pages: `moved` with its caller, and
 * `patched`, whose page then differs from the file in a byte that is not executed. It takes CPU time for so many milliseconds, half of it
 * in `moved`, a quarter each in `patched` and in `stays`, which stays where it was. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define PAGE 4096
#define KEEP __attribute__((noinline, noclone))
#define IN(name) KEEP __attribute__((section(name)))
#define CALL(call) do { call; __asm__ volatile("" ::: "memory"); } while (0)
#define SPIN \
	for (long n = us * 300; n > 0; n--) \
		__asm__ volatile("" ::: "memory")

/* Each section has a page of its own. */
__asm__(".pushsection .code_a,\"ax\"; .balign 4096; .popsection");
__asm__(".pushsection .code_b,\"ax\"; .balign 4096; .popsection");
__asm__(".pushsection .code_c,\"ax\"; .balign 4096; .fill 4096, 1, 0xcc; .popsection");

IN(".code_a") void moved(long us) { SPIN; }
IN(".code_a") void calls_moved(long us) { CALL(moved(us)); }
IN(".code_b") void patched(long us) { SPIN; }
KEEP void stays(long us) { SPIN; }

static long cpu_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static char *page_of(void *code)
{
	return (char *)((unsigned long)code & -PAGE);
}

static void move(char *page)
{
	char bytes[PAGE];

	memcpy(bytes, page, PAGE);
	if (mmap(page, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != page)
		exit(2);
	memcpy(page, bytes, PAGE);
}

int main(int argc, char **argv)
{
	long until = cpu_us() + (argc > 1 ? atol(argv[1]) * 1000 : 0);

	if (page_of(moved) == page_of(patched) || page_of(moved) == page_of(stays) || page_of(patched) == page_of(stays))
		return 3;
	move(page_of(moved));
	move(page_of(patched));
	page_of(patched)[PAGE - 1] ^= 1;
	while (cpu_us() < until) {
		CALL(calls_moved(2000));
		CALL(patched(1000));
		CALL(stays(1000));
	}
	return 0;
}
