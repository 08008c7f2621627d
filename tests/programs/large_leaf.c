/* A program without any library, all of which keeps frame pointers but one leaf, whose frame is 4 KiB large. It is called through a pointer
 * by `ten` and `ninety`, a tenth and the rest of the time. It takes a second of CPU time. x86-64. */
typedef unsigned long word;

#define KEEP __attribute__((noinline, noclone))
#define CALL(call) do { call; __asm__ volatile("" ::: "memory"); } while (0)

__asm__(".globl _start\n.type _start,@function\n_start:\n.cfi_startproc\n.cfi_undefined rip\n"
	"xor %ebp, %ebp\nand $-16, %rsp\ncall begin\n"
	"mov $231, %eax\nxor %edi, %edi\nsyscall\n.cfi_endproc\n.size _start,.-_start\n");

static volatile word sink;

KEEP __attribute__((optimize("omit-frame-pointer"))) word leaf(word seed)
{
	volatile unsigned room[1024];
	word sum = 0;

	for (int i = 0; i < 1024; i++)
		room[i] = seed + i;
	for (int i = 0; i < 40 * 1024; i++) {
		sum = sum * 31 + room[i * 7 & 1023];
		room[i & 1023] = sum;
	}
	return sum;
}
static word (*volatile pointer)(word) = leaf;

KEEP void ten(void) { CALL(sink += pointer(1)); }
KEEP void ninety(void) { CALL(sink += pointer(2)); }
static void (*volatile to_ten)(void) = ten, (*volatile to_ninety)(void) = ninety;
KEEP void either(int i)
{
	if (i % 10 == 0)
		CALL(to_ten());
	else
		CALL(to_ninety());
}

/* So that the leaf is a small part of the code. */
#define MORE(n) KEEP word more##n(word x) { CALL(sink += x * n); if (x > 3) CALL(more##n(x - 1)); return x + n; }
#define TEN_MORE(n) MORE(n##0) MORE(n##1) MORE(n##2) MORE(n##3) MORE(n##4) MORE(n##5) MORE(n##6) MORE(n##7) MORE(n##8) MORE(n##9)
TEN_MORE(1) TEN_MORE(2) TEN_MORE(3) TEN_MORE(4) TEN_MORE(5) TEN_MORE(6) TEN_MORE(7) TEN_MORE(8) TEN_MORE(9)

/* Seconds of CPU time of this process. */
static double cpu(void)
{
	long t[2], result;

	__asm__ volatile("syscall" : "=a"(result) : "a"(228L), "D"(2L), "S"(t) : "rcx", "r11", "memory");
	return t[0] + t[1] / 1e9;
}

void begin(void)
{
	for (int i = 0; cpu() < 1; i++)
		CALL(either(i));
}
