/* Throws exceptions through functions that know each other only by pointers, for a second of CPU time. Stacks are the beginning of this, from
 * `main` on: main, catches, first, second, third, throws; `first` and `second` clean up. */
#include <ctime>

#define KEEP __attribute__((noinline, noclone))
/* What follows a call keeps it from becoming a jump. */
#define CALL(call) do { call; __asm__ volatile("" ::: "memory"); } while (0)

static volatile unsigned long sink;

struct cleanup {
	KEEP ~cleanup() { sink++; }
};

extern "C" {
KEEP void throws(void) { throw 1; }
static void (*volatile throws_pointer)(void) = throws;
KEEP void third(void) { CALL(throws_pointer()); }
static void (*volatile third_pointer)(void) = third;
KEEP void second(void)
{
	cleanup own;
	CALL(third_pointer());
}
static void (*volatile second_pointer)(void) = second;
KEEP void first(void)
{
	cleanup own;
	CALL(second_pointer());
}
static void (*volatile first_pointer)(void) = first;
KEEP void catches(void)
{
	try {
		CALL(first_pointer());
	} catch (int) {
		sink++;
	}
}

}

int main(void)
{
	while (clock() < CLOCKS_PER_SEC)
		for (int i = 0; i < 100; i++)
			CALL(catches());
}
