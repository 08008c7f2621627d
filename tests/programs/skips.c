/* Stacks that are known, in which a walk along frame pointers skips callers or goes where nobody has called: `skips SCENARIO` spends a
 * second of CPU time in `leaf`.
 *
 * copy:       `large` has 2 MiB on the stack, more than is copied. It and `main` use the frame pointer, their callers and callees do not.
 * pointer:    `main` uses the frame pointer, nobody else does, and `leaf` is called through a pointer.
 * table:      a thread; `jumps` has a jump table, so that its code does not show where its return address lies.
 * fiber:      `fiber` returns to the first byte of a function, and `switch_stacks`, which never called it, ends just there.
 * red_zone:   `in_red_zone` has saved the frame pointer of its caller below the stack pointer, and has that of `outer_frame` in its place.
 * lies:       `lies` has unwind tables that take the frame of its caller, `above_lies`, for a part of its own.
 * coroutine:  the stack of `resumed` is the one on which a signal handler has returned long ago.
 * injected:   a signal handler lets the program go on in `landing`, as if the first instruction of `get` had called it.
 * in_place:   as `coroutine`, and another function has the place of what the signal interrupted. */
#define _GNU_SOURCE
#include <alloca.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define KEEP __attribute__((noinline, noclone))
/* What follows a call keeps it from becoming a jump. */
#define CALL(call) do { call; __asm__ volatile("" ::: "memory"); } while (0)

static volatile unsigned long sink;

static int is_over(void) { return clock() >= CLOCKS_PER_SEC; }

KEEP void leaf(int n)
{
	for (int i = 0; i < n; i++)
		sink += i * sink;
}
static void (*volatile leaf_pointer)(int) = leaf;

KEEP void large(int n, long size)
{
	char *room = alloca(size);

	room[0] = room[size - 1] = 1;
	__asm__ volatile("" ::"r"(room) : "memory");
	CALL(leaf(n));
}
KEEP void above_large(int n) { CALL(large(n, 2 << 20)); }
KEEP void ten(int n) { CALL(above_large(n)); }
KEEP void ninety(int n) { CALL(above_large(n)); }
KEEP void either(int i)
{
	if (i % 10 == 0)
		CALL(ten(20000));
	else
		CALL(ninety(20000));
}

KEEP void calls_pointer(int n) { CALL(leaf_pointer(n)); }
KEEP void above_pointer(int n) { CALL(calls_pointer(n)); }

KEEP void jumps(int n)
{
	switch (sink % 7) {
	case 0: leaf(n); sink++; break;
	case 1: leaf(n + 1); sink += 3; break;
	case 2: leaf(n + 2); sink ^= 5; break;
	case 3: leaf(n + 3); sink *= 9; break;
	case 4: leaf(n + 4); sink -= 9; break;
	case 5: leaf(n + 5); sink |= 9; break;
	default: leaf(n + 6); sink &= ~7; break;
	}
	sink++;
}
KEEP void above_jumps(int n) { CALL(jumps(n)); }
KEEP void *thread(void *none)
{
	while (!is_over())
		CALL(above_jumps(20000));
	return none;
}

__asm__(".text\n.globl lies\n.type lies,@function\nlies:\n.cfi_startproc\nsub $8, %rsp\n.cfi_def_cfa_offset 48\n"
	"call leaf@PLT\nadd $8, %rsp\nret\n.cfi_endproc\n.size lies,.-lies\n"
	".globl above_lies\n.type above_lies,@function\nabove_lies:\n.cfi_startproc\nsub $24, %rsp\n.cfi_def_cfa_offset 32\n"
	"call lies\nadd $24, %rsp\nret\n.cfi_endproc\n.size above_lies,.-above_lies\n");
void above_lies(int n);
KEEP void calls_lies(int n) { CALL(above_lies(n)); }

__asm__(".text\n.globl in_red_zone\n.type in_red_zone,@function\nin_red_zone:\n.cfi_startproc\nmov %rbp, -8(%rsp)\n"
	".cfi_offset %rbp, -16\nmov (%rbp), %rbp\n1: dec %edi\njnz 1b\nmov -8(%rsp), %rbp\n.cfi_restore %rbp\nret\n.cfi_endproc\n"
	".size in_red_zone,.-in_red_zone\n");
void in_red_zone(int n);
#define FRAME __attribute__((optimize("no-omit-frame-pointer")))
KEEP FRAME void inner_frame(int n) { CALL(in_red_zone(n)); }
KEEP FRAME void outer_frame(int n) { CALL(inner_frame(n)); }

/* Saves the registers and goes to another stack. Behind its last byte `after_fiber` begins. */
__asm__(".text\n.globl switch_stacks\n.type switch_stacks,@function\nswitch_stacks:\n.cfi_startproc\n"
	"push %rbp\n.cfi_adjust_cfa_offset 8\npush %rbx\n.cfi_adjust_cfa_offset 8\npush %r12\n.cfi_adjust_cfa_offset 8\n"
	"push %r13\n.cfi_adjust_cfa_offset 8\npush %r14\n.cfi_adjust_cfa_offset 8\npush %r15\n.cfi_adjust_cfa_offset 8\n"
	"mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
	"pop %r15\n.cfi_adjust_cfa_offset -8\npop %r14\n.cfi_adjust_cfa_offset -8\npop %r13\n.cfi_adjust_cfa_offset -8\n"
	"pop %r12\n.cfi_adjust_cfa_offset -8\npop %rbx\n.cfi_adjust_cfa_offset -8\npop %rbp\n.cfi_adjust_cfa_offset -8\n"
	"ret\n.cfi_endproc\n.size switch_stacks,.-switch_stacks\n"
	".globl after_fiber\n.type after_fiber,@function\nafter_fiber:\n.cfi_startproc\nud2\n.cfi_endproc\n"
	".size after_fiber,.-after_fiber\n");
void switch_stacks(void **save, void *to);
void after_fiber(void);
static void *main_stack, *fiber_stack;

KEEP void fiber(void)
{
	for (;;) {
		CALL(leaf(300000));
		CALL(switch_stacks(&fiber_stack, main_stack));
	}
}

static void run_fiber(void)
{
	unsigned long *top = (unsigned long *)aligned_alloc(4096, 65536) + 65536 / 8 - 2;

	*--top = (unsigned long)after_fiber;
	*--top = (unsigned long)fiber;
	for (int i = 0; i < 6; i++)
		*--top = 0;
	for (fiber_stack = top; !is_over();)
		switch_stacks(&main_stack, fiber_stack);
}

static jmp_buf coroutine, back;
static char room[65536];

KEEP void resumed(void)
{
	for (;;) {
		CALL(leaf(300000));
		if (!_setjmp(coroutine))
			_longjmp(back, 1);
	}
}
/* The handler returns, and its frame is entered again behind that. */
KEEP void first_time(int number)
{
	(void)number;
	if (_setjmp(coroutine))
		CALL(resumed());
}
KEEP void resume(void)
{
	volatile char buffer[200];

	buffer[0] = 1;
	if (!_setjmp(back))
		_longjmp(coroutine, 1);
	sink += buffer[0];
}
KEEP void make(void) { CALL(raise(SIGUSR1)); }
static void (*volatile make_pointer)(void) = make, (*volatile resume_pointer)(void) = resume;
KEEP void set_up(void) { CALL(make_pointer()); }
KEEP void go_on(void) { CALL(resume_pointer()); }

/* The same with frames of one size: what the signal has interrupted seems to be called by `goes_on`. */
KEEP void makes_here(void)
{
	__asm__ volatile("syscall" ::"a"(SYS_kill), "D"(getpid()), "S"(SIGUSR1) : "rcx", "r11", "memory");
	sink++;
}
KEEP void resumes_here(void)
{
	if (!_setjmp(back))
		_longjmp(coroutine, 1);
	sink++;
}
static void (*volatile makes_pointer)(void) = makes_here, (*volatile resumes_pointer)(void) = resumes_here;
KEEP void makes(void) { CALL(makes_pointer()); }
KEEP void goes_on(void) { CALL(resumes_pointer()); }

static void run_coroutine(void (*set_up)(void), void (*go_on)(void))
{
	stack_t stack = { .ss_sp = room, .ss_size = sizeof(room) };
	sigset_t other;
	struct sigaction action = { .sa_handler = first_time, .sa_flags = SA_ONSTACK };

	sigaltstack(&stack, 0);
	sigaction(SIGUSR1, &action, 0);
	CALL(set_up());
	/* Not the signal that was handled. */
	sigemptyset(&other);
	sigaddset(&other, SIGUSR2);
	sigprocmask(SIG_BLOCK, &other, 0);
	while (!is_over())
		CALL(go_on());
}

static sigjmp_buf round_again;

/* Seems to be called by the first instruction of `get`, which has called nobody. */
KEEP void landing(void)
{
	CALL(leaf(20000));
	siglongjmp(round_again, 1);
}
static void injects(int number, siginfo_t *info, void *context)
{
	greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;

	(void)number, (void)info;
	registers[REG_RSP] -= 8;
	*(greg_t *)registers[REG_RSP] = registers[REG_RIP];
	registers[REG_RIP] = (greg_t)landing;
}
KEEP int get(int *from) { return *from; }
KEEP void gets_it(int *from) { sink += get(from); sink++; }
KEEP void round_of(void)
{
	if (!sigsetjmp(round_again, 1))
		gets_it(0);
	sink++;
}

int main(int argc, char **argv)
{
	volatile char *own = alloca(argc * 16);
	pthread_t made;

	own[0] = 1;
	if (!strcmp(argv[1], "copy")) {
		for (int i = 0; !is_over(); i++)
			CALL(either(i));
	} else if (!strcmp(argv[1], "pointer")) {
		while (!is_over())
			CALL(above_pointer(20000));
	} else if (!strcmp(argv[1], "table")) {
		pthread_create(&made, 0, thread, 0);
		pthread_join(made, 0);
	} else if (!strcmp(argv[1], "lies")) {
		while (!is_over())
			CALL(calls_lies(20000));
	} else if (!strcmp(argv[1], "red_zone")) {
		while (!is_over())
			CALL(outer_frame(200000));
	} else if (!strcmp(argv[1], "fiber")) {
		run_fiber();
	} else if (!strcmp(argv[1], "injected")) {
		struct sigaction action = { .sa_sigaction = injects, .sa_flags = SA_SIGINFO };

		sigaction(SIGSEGV, &action, 0);
		while (!is_over())
			round_of();
	} else if (!strcmp(argv[1], "in_place")) {
		run_coroutine(makes, goes_on);
	} else {
		run_coroutine(set_up, go_on);
	}
	return own[0] - 1;
}
