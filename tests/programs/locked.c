// Functions on whose first instruction there can be no probe, between others: `locked ROUNDS` calls `plain_hit`, `locked_hit` and
// `vector_hit` so often, and ends with 1 if one of them computes a wrong result. `odd_hit` is never called: the kernel cannot decode
// what it begins with.
#include <pthread.h>
#include <stdlib.h>

#define KEEP __attribute__((noinline, noclone, used))

static int count;

KEEP void plain_hit(void) { count++; __asm__ volatile(""); }

// The compiler puts nothing before the locked instruction, because the function has no frame.
KEEP void locked_hit(int *counter) { __asm__ volatile("lock incl %0" : "+m"(*counter)); }

typedef unsigned long long pair __attribute__((vector_size(16)));

// The kernel takes `vpor` for a short jump.
KEEP __attribute__((target("avx"))) pair vector_hit(pair a, pair b) {
  __asm__("vpor %1, %0, %0" : "+x"(a) : "x"(b));
  return a;
}

__asm__(
    ".text\n.globl odd_hit\n.type odd_hit,@function\nodd_hit:\n"
    " .byte 0xf2,0x0f,0x7f,0xc0\n ret\n.size odd_hit,.-odd_hit\n");

int main(int argc, char **argv) {
  pthread_spinlock_t lock;
  int locked = 0, wrong = 0, rounds = argc > 1 ? atoi(argv[1]) : 0;
  pthread_spin_init(&lock, 0);
  for (int i = 0; i < rounds; i++) {
    plain_hit();
    locked_hit(&locked);
    if (__builtin_cpu_supports("avx")) {
      pair both = vector_hit((pair){1, i}, (pair){2, 1});
      wrong += both[0] != 3 || both[1] != (i | 1);
    }
    pthread_spin_lock(&lock);
    pthread_spin_unlock(&lock);
  }
  return locked != count || wrong;
}
