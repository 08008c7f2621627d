// Assembly without unwind tables, whose callers can only be guessed, or be read from the code. Usage: guesses PART MILLISECONDS
//
//   stale     a leaf with a block of stack that it has not written to: return addresses of earlier calls are in it, also of
//             a call of the leaf itself
//   pushed    a leaf that has pushed registers which hold numbers
//   middle    a function without a frame pointer between two with: it calls a leaf that has one
//   pointer   the leaf of `stale`, called through a pointer
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <time.h>

__asm__(".text\n"
        ".globl stale\n.type stale, @function\n"
        "stale:\n"
        "  sub $200, %rsp\n"
        "1: dec %rdi\n"
        "  jnz 1b\n"
        "  add $200, %rsp\n"
        "  ret\n"
        ".size stale, . - stale\n"
        ".globl pushed\n.type pushed, @function\n"
        "pushed:\n"
        "  push %rbx\n"
        "  push %r12\n"
        "  push %r13\n"
        "  mov $7777, %ebx\n"
        "  mov $7777, %r12d\n"
        "  push %rbx\n"
        "  push %r12\n"
        "1: dec %rdi\n"
        "  jnz 1b\n"
        "  pop %r12\n"
        "  pop %rbx\n"
        "  pop %r13\n"
        "  pop %r12\n"
        "  pop %rbx\n"
        "  ret\n"
        ".size pushed, . - pushed\n"
        ".globl middle\n.type middle, @function\n"
        "middle:\n"
        "  push %rbx\n"
        "  sub $32, %rsp\n"
        "  mov %rdi, %rbx\n"
        "  call spin\n"
        "  add $32, %rsp\n"
        "  pop %rbx\n"
        "  ret\n"
        ".size middle, . - middle\n");

void stale(long n), pushed(long n), middle(long n);

#define APART __attribute__((noinline, noclone))
static volatile long sink;

APART void spin(long n) {
  for (volatile long i = 0; i < n; i++) sink += i;
}

// Leaves return addresses behind, below the stack pointer of its caller.
APART long leave(int depth) {
  long below = depth > 0 ? leave(depth - 1) : 0;
  if (depth == 6) stale(1);
  sink++;
  return below + depth;
}

static const long ROUND = 400000;

APART void stale_caller(void) {
  leave(12);
  stale(ROUND);
  sink++;
}

APART void pushed_caller(void) {
  pushed(ROUND);
  sink++;
}

APART void outer(void) {
  middle(ROUND);
  sink++;
}

APART void pointer_caller(void (*volatile leaf)(long)) {
  leave(12);
  leaf(ROUND);
  sink++;
}

static long now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  long end = now_ms() + atol(argv[2]);
  while (now_ms() < end) {
    if (!strcmp(argv[1], "stale")) stale_caller();
    else if (!strcmp(argv[1], "pushed")) pushed_caller();
    else if (!strcmp(argv[1], "middle")) outer();
    else if (!strcmp(argv[1], "pointer")) pointer_caller(stale);
    else return 2;
  }
  return 0;
}
