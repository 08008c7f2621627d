/* All ways in which C makes stacks. What runs between the two int3 instructions is followed step by step. */
#define _GNU_SOURCE
#include <alloca.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#ifdef __clang__
#define KEEP __attribute__((noinline))
#else
#define KEEP __attribute__((noinline, noclone))
#endif

static volatile long sink;

KEEP static long leaf(long x) { return x * 3 + sink; }

KEEP static long recursion(long depth) { return depth ? recursion(depth - 1) + leaf(depth) : leaf(7); }

/* A frame of a KiB: a hundred of them are more than 64 KiB. */
KEEP static long deep(long depth)
{
	volatile char frame[1024];
	frame[depth] = (char)depth;
	return depth ? deep(depth - 1) + frame[depth] : leaf(3);
}

KEEP static long with_alloca(long size)
{
	volatile char *bytes = alloca(size);
	for (long i = 0; i < size; i += 64)
		bytes[i] = (char)i;
	return leaf(bytes[0]) + bytes[size - 1];
}

/* Dynamic alignment: the CFA is found through memory. */
KEEP static long aligned(long depth)
{
	_Alignas(64) volatile long line[8];
	line[depth & 7] = depth;
	sink += (long)line & 63;
	return depth ? aligned(depth - 1) + line[depth & 7] : leaf(1);
}

KEEP static long aligned_alloca(long size)
{
	_Alignas(64) volatile long line[8];
	volatile char *bytes = alloca(size);
	line[1] = size;
	bytes[size / 2] = 1;
	return leaf(line[1]) + bytes[size / 2];
}

KEEP static long many_arguments(long a, long b, long c, long d, long e, long f, long g, long h, long i)
{
	return leaf(a + b) + leaf(c + d) + leaf(e + f) + leaf(g + h + i);
}

KEEP static long tail_target(long x) { return leaf(x) + 1; }
KEEP static long tail(long x) { return tail_target(x + 1); }

KEEP static long sum(int count, ...)
{
	va_list list;
	long total = 0;
	va_start(list, count);
	while (count-- > 0)
		total += leaf(va_arg(list, long));
	va_end(list);
	return total;
}

KEEP static int compare(const void *a, const void *b)
{
	return (int)(leaf(*(const int *)a) - leaf(*(const int *)b));
}

KEEP static void sort(void)
{
	int numbers[] = { 5, 2, 9, 4, 1, 8, 7 };
	qsort(numbers, 7, sizeof *numbers, compare);
	sink += numbers[3];
}

KEEP static void on_signal(int number) { sink += leaf(number) + recursion(2); }

KEEP static void on_alternate(int number)
{
	sink += leaf(number);
	raise(SIGUSR1);
}

KEEP static long signals(void)
{
	/* A stack of its own mapping, as the fibers have. */
	stack_t stack = { .ss_size = 65536 };
	stack.ss_sp = mmap(NULL, stack.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct sigaction plain = { .sa_handler = on_signal };
	struct sigaction alternate = { .sa_handler = on_alternate, .sa_flags = SA_ONSTACK };
	sigaction(SIGUSR1, &plain, NULL);
	sigaction(SIGUSR2, &alternate, NULL);
	sigaltstack(&stack, NULL);
	raise(SIGUSR1);
	raise(SIGUSR2);
	return sink;
}

#ifdef SWITCHES
/* Here stacks are left and entered by other means than calls. */
static jmp_buf target;
KEEP static void jump(long depth)
{
	if (depth == 0)
		longjmp(target, 1);
	jump(depth - 1);
	sink++;
}

KEEP static long jumps(void)
{
	if (setjmp(target) == 0)
		jump(5);
	return leaf(2);
}

static ucontext_t outside, inside;
KEEP static void fiber(int x)
{
	sink += recursion(x);
	swapcontext(&inside, &outside);
	sink += leaf(x);
}

KEEP static void fibers(void)
{
	size_t size = 65536;
	getcontext(&inside);
	inside.uc_stack.ss_sp = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	inside.uc_stack.ss_size = size;
	inside.uc_link = &outside;
	makecontext(&inside, (void (*)(void))fiber, 1, 3);
	swapcontext(&outside, &inside);
	sink += leaf(4);
	swapcontext(&outside, &inside);
}
#else
KEEP static long jumps(void) { return leaf(2); }
KEEP static void fibers(void) { sink += leaf(4); }
#endif

KEEP static void library(void)
{
	char text[200];
	snprintf(text, sizeof text, "%d %s %.3f", 42, "text", 2.5);
	sink += (long)strlen(text) + atoi("77");
	char *copy = malloc(3000);
	memset(copy, 1, 3000);
	memmove(copy + 1, copy, 2000);
	sink += strtod("3.25e2", NULL) > 3;
	free(copy);
}

int main(void)
{
	char go;
	if (read(0, &go, 1) != 1)
		return 1;
	long (*volatile pointer)(long) = leaf;
	__asm__ volatile("int3");
	sink += pointer(1) + recursion(6) + with_alloca(300) + aligned(3) + aligned_alloca(200);
	sink += many_arguments(1, 2, 3, 4, 5, 6, 7, 8, 9) + tail(4) + sum(4, 1L, 2L, 3L, 4L);
	sort();
	sink += signals() + jumps();
	fibers();
	library();
	sink += deep(100);
	__asm__ volatile("int3");
	return 0;
}
