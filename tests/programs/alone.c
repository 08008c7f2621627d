/* A program without any library, so that all of its code is compiled as it is asked for here. `alone MILLISECONDS` spends that
 * time in `leaf` and `framed`, eight ninths of it in the former. `alone MILLISECONDS map FILE` then maps a file executable and goes on for as long again,
 * `alone MILLISECONDS exec PROGRAM ARGUMENTS…` becomes that program. x86-64 and arm64. */
typedef unsigned long word;

#define KEEP __attribute__((noinline, noclone))
/* What follows a call keeps it from becoming a jump. */
#define CALL(call) do { call; __asm__ volatile("" ::: "memory"); } while (0)

#if defined(__x86_64__)
enum { OPENAT = 257, MMAP = 9, EXECVE = 59, EXIT = 231, CLOCK_GETTIME = 228 };
static long call(long number, long a, long b, long c, long d, long e, long f)
{
	long result;
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}
__asm__(".globl _start\n.type _start,@function\n_start:\n.cfi_startproc\n.cfi_undefined rip\n"
	"xor %ebp, %ebp\nmov %rsp, %rdi\nand $-16, %rsp\ncall begin\nhlt\n.cfi_endproc\n.size _start,.-_start\n");
/* A leaf without a frame, as assembly has them. */
__asm__(".globl leaf\n.type leaf,@function\nleaf:\n.cfi_startproc\n"
	"mov $100000, %eax\n1: dec %eax\njnz 1b\nret\n.cfi_endproc\n.size leaf,.-leaf\n");
#else
enum { OPENAT = 56, MMAP = 222, EXECVE = 221, EXIT = 94, CLOCK_GETTIME = 113 };
static long call(long number, long a, long b, long c, long d, long e, long f)
{
	register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d, x4 __asm__("x4") = e, x5 __asm__("x5") = f;
	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
	return x0;
}
__asm__(".globl _start\n.type _start,%function\n_start:\n.cfi_startproc\n.cfi_undefined x30\n"
	"mov x29, #0\nmov x30, #0\nmov x0, sp\nbl begin\nbrk #0\n.cfi_endproc\n.size _start,.-_start\n");
__asm__(".globl leaf\n.type leaf,%function\nleaf:\n.cfi_startproc\n"
	"mov w0, #0x86a0\nmovk w0, #1, lsl 16\n1: subs w0, w0, #1\nb.ne 1b\nret\n.cfi_endproc\n.size leaf,.-leaf\n");
#endif

void leaf(void);

static long cpu_us(void)
{
	long t[2];
	call(CLOCK_GETTIME, 3, (long)t, 0, 0, 0, 0);
	return t[0] * 1000000 + t[1] / 1000;
}

KEEP void framed(void)
{
	for (volatile int i = 0; i < 20000; i++)
		;
}

KEEP void calls(int n)
{
	volatile char room[512];
	room[n] = 1;
	for (long until = cpu_us() + 8000; cpu_us() < until;)
		CALL(leaf());
	for (long until = cpu_us() + 1000; cpu_us() < until;)
		CALL(framed());
}

#ifndef OUTER
#define OUTER
#endif
KEEP OUTER void outer(int n) { CALL(calls(n + 1)); }

KEEP void spend(long ms)
{
	/* Much to copy, if it is. */
	volatile char room[24 << 10];
	room[0] = 1;
	for (long until = cpu_us() + ms * 1000; cpu_us() < until;)
		CALL(outer(1));
}

void begin(word *stack)
{
	const char **arguments = (const char **)(stack + 1);
	long ms = 0;

	if (stack[0] > 1)
		for (const char *digit = arguments[1]; *digit; digit++)
			ms = ms * 10 + *digit - '0';
	CALL(spend(ms));
	if (stack[0] > 3 && *arguments[2] == 'm') {
		long file = call(OPENAT, -100, (long)arguments[3], 0, 0, 0, 0);
		/* Readable and executable, private. */
		if (file < 0 || call(MMAP, 0, 4096, 5, 2, file, 0) < 0)
			call(EXIT, 1, 0, 0, 0, 0, 0);
		CALL(spend(ms));
	} else if (stack[0] > 3) {
		call(EXECVE, (long)arguments[3], (long)(arguments + 3), 0, 0, 0, 0);
		call(EXIT, 1, 0, 0, 0, 0, 0);
	}
	call(EXIT, 0, 0, 0, 0, 0, 0);
}
