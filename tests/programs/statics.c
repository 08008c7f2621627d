/* Static probes (<sys/sdt.h>) that are hit a known number of times.
 *
 *   statics N    main -> sells, N calls, each of which hits shop:sold in `sells` and in `resells`, which it calls; and while somebody
 *                listens to shop:priced, `sells` calls `prices`, which hits that. Prints how often it did.
 */
#include <stdio.h>
#include <stdlib.h>

#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

#define KEPT __attribute__((noinline, noclone))
/* Keeps a function from ending in a jump. */
#define END __asm__ volatile("" ::: "memory")
#define COUNTER(probe) __extension__ unsigned short probe##_semaphore __attribute__((section(".probes")))

COUNTER(shop_sold);
COUNTER(shop_priced);
static long priced;

KEPT void prices(long n)
{
	priced++;
	STAP_PROBE1(shop, priced, n);
	END;
}

KEPT void resells(long n)
{
	STAP_PROBE1(shop, sold, n);
	END;
}

KEPT void sells(long n)
{
	STAP_PROBE1(shop, sold, n);
	resells(n);
	if (*(volatile unsigned short *)&shop_priced_semaphore)
		prices(n);
	END;
}

int main(int argc, char **argv)
{
	long n = argc > 1 ? atol(argv[1]) : 0;

	for (long i = 0; i < n; i++)
		sells(i);
	printf("priced %ld\n", priced);
	return 0;
}
