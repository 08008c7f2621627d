/* A fiber as libraries of contexts make it: `fibers MILLISECONDS`. Its first function is entered by a jump, and would return to the middle
 * of code without unwind tables, in front of which stands no call. Half of the time body > middle > leaf on the stack of the fiber,
 * half of it main > scheduler > leaf. */
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define KEEP __attribute__((noinline, noclone))
#define STACK (1L << 18)

__asm__(".text\n.globl switch_to\n.type switch_to,@function\nswitch_to: .cfi_startproc\n"
	" push %rbp\n .cfi_adjust_cfa_offset 8\n .cfi_offset 6,-16\n push %rbx\n .cfi_adjust_cfa_offset 8\n .cfi_offset 3,-24\n"
	" push %r12\n .cfi_adjust_cfa_offset 8\n push %r13\n .cfi_adjust_cfa_offset 8\n"
	" push %r14\n .cfi_adjust_cfa_offset 8\n push %r15\n .cfi_adjust_cfa_offset 8\n"
	" mov %rsp,(%rdi)\n mov %rsi,%rsp\n pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret\n"
	" .cfi_endproc\n.size switch_to,.-switch_to\n"
	".globl begin\n.type begin,@function\nbegin: push %rbp\n jmp *%rbx\n"
	".globl finish\nfinish: xor %edi,%edi\n call _exit\n hlt\n.size begin,.-begin\n");
void switch_to(void **from, void *to), begin(void), finish(void);

static void *of_main, *of_fiber;

static long cpu_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

KEEP void leaf(long ms)
{
	for (long until = cpu_ms() + ms; cpu_ms() < until;)
		for (long i = 0; i < 1000000; i++)
			__asm__ volatile("" ::: "memory");
	__asm__ volatile("" ::: "memory");
}

static long half;

KEEP void middle(void)
{
	leaf(half);
	__asm__ volatile("" ::: "memory");
}

KEEP void body(void)
{
	middle();
	switch_to(&of_fiber, of_main);
	__asm__ volatile("" ::: "memory");
}

KEEP void scheduler(void)
{
	switch_to(&of_main, of_fiber);
	leaf(half);
	__asm__ volatile("" ::: "memory");
}

int main(int argc, char **argv)
{
	char *low = mmap(0, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void **top = (void **)(low + STACK);

	if (argc < 2 || low == MAP_FAILED)
		return 2;
	half = atol(argv[1]) / 2;
	/* What `switch_to` pops: four numbers, the function, its return address in the place of rbp, and where it goes. */
	top[-1] = begin;
	top[-2] = finish;
	top[-3] = body;
	of_fiber = top - 7;
	scheduler();
	return 0;
}
