// Has secrets in every kind of memory while it works for a second: on the stack, in registers, on the heap, in the environment, and in
// front of the return addresses of code in memory that is writable and executable: anonymous, of a file, of a memfd, and of a huge page.
//
// A secret is 16 bytes: `KIND`, a letter for the kind of memory, and 11 bytes that follow from both. The file of this program has none of
// them: they are made when it runs. `secrets print` writes them, one a line, and ends.

#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define APART __attribute__((noinline, noclone))
enum { SECRET = 16, KINDS = 8, REGION = 2 << 20 };
static const char LETTERS[KINDS + 1] = "srheafmt";

static void secret(int kind, char out[SECRET]) {
  uint32_t state = 0x9e3779b9u * (uint32_t)(kind + 1);
  memcpy(out, "KIND", 4);
  out[4] = LETTERS[kind];
  for (int i = 5; i < SECRET; i++) {
    state = state * 1664525u + 1013904223u;
    out[i] = (char)('!' + (state >> 24) % 90);
  }
}

static volatile unsigned long sink;
static unsigned char *regions[4];
static struct timespec end;

APART static int is_over(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec > end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec > end.tv_nsec);
}

APART static void spin(void) {
  for (unsigned long i = 0; i < 20000; i++) sink += i;
}

typedef void work(long depth);
static work go;

// Calls the function in %rsi with %rdi, with a secret directly in front of the call.
static void make(unsigned char *at, int kind) {
#if defined(__x86_64__)
  static const unsigned char BEGIN[] = {0x55, 0x48, 0x89, 0xe5, 0xeb, SECRET};  // push %rbp; mov %rsp,%rbp; jmp over the secret
  static const unsigned char END[] = {0xff, 0xd6, 0x5d, 0xc3};                  // call *%rsi; pop %rbp; ret
#else
  static const uint32_t BEGIN[] = {0xa9bf7bfd, 0x910003fd, 0x14000005};  // stp x29, x30, [sp, #-16]!; mov x29, sp; b over the secret
  static const uint32_t END[] = {0xd63f0020, 0xa8c17bfd, 0xd65f03c0};    // blr x1; ldp x29, x30, [sp], #16; ret
#endif
  memcpy(at, BEGIN, sizeof BEGIN);
  secret(kind, (char *)at + sizeof BEGIN);
  memcpy(at + sizeof BEGIN + SECRET, END, sizeof END);
  // And everywhere behind it.
  for (int i = 0; i < 64; i++) secret(kind, (char *)at + 256 + i * SECRET);
  __builtin___clear_cache((char *)at, (char *)at + 4096);
}

APART static void go(long depth) {
  char local[32][SECRET];
  for (int i = 0; i < 32; i++) secret(0, local[i]);
  char inner[SECRET];
  secret(1, inner);
  uint64_t words[2];
  memcpy(words, inner, sizeof words);
  // The compiler keeps both in registers that calls save, as long as it can.
  register uint64_t first = words[0], second = words[1];
  __asm__ volatile("" : "+r"(first), "+r"(second), "+m"(local));
  if (depth < 4)
    ((void (*)(long, work *))regions[depth])(depth + 1, go);
  else
    spin();
  __asm__ volatile("" : "+r"(first), "+r"(second), "+m"(local));
  sink += first ^ second ^ (unsigned char)local[depth][0];
}

static unsigned char *map(int fd) {
  int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void *at = mmap(NULL, 2 * REGION, PROT_READ | PROT_WRITE | PROT_EXEC, flags, fd, 0);
  if (at == MAP_FAILED) {
    perror("mmap");
    exit(2);
  }
  return at;
}

static int sized(int fd) {
  if (fd < 0 || ftruncate(fd, 2 * REGION)) {
    perror("a file");
    exit(2);
  }
  return fd;
}

int main(int argc, char **argv) {
  char text[SECRET + 1] = {0};
  if (argc > 1 && strcmp(argv[1], "print") == 0) {
    for (int kind = 0; kind < KINDS; kind++) {
      secret(kind, text);
      puts(text);
    }
    return 0;
  }
  char *heap[64];
  for (int i = 0; i < 64; i++) {
    heap[i] = malloc(4096);
    for (int at = 0; at < 4096; at += SECRET) secret(2, heap[i] + at);
  }
  secret(3, text);
  setenv("SECRET", text, 1);
  char name[] = "/tmp/secretsXXXXXX";
  int file = mkstemp(name);
  regions[0] = map(-1);
  regions[1] = map(sized(file));
  regions[2] = map(sized(memfd_create("secrets", 0)));
  unsigned char *huge = map(-1);
  regions[3] = huge + (REGION - (uintptr_t)huge % REGION);
  madvise(regions[3], REGION, MADV_HUGEPAGE);
  unlink(name);
  for (int region = 0; region < 4; region++) make(regions[region], 4 + region);
  clock_gettime(CLOCK_MONOTONIC, &end);
  end.tv_sec++;
  while (!is_over()) go(0);
  sink += (unsigned char)heap[3][5];
  return 0;
}
