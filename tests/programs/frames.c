// Stacks that are known, of which a guess would get frames wrong: `frames SCENARIO` spends its time in `spin` or `at_its_first`.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#ifdef __GLIBC__
#include <ucontext.h>
#endif

#define KEEP __asm__ volatile("" ::: "memory")
#define FUNCTION __attribute__((noinline, noclone))

static volatile unsigned long sink;

FUNCTION void spin(void) {
  for (unsigned long i = 0; i < 1000000; i++) sink += i;
  KEEP;
}

// For a second of CPU time.
FUNCTION void repeat(void) {
  for (clock_t end = clock() + CLOCKS_PER_SEC; clock() < end;) spin();
  KEEP;
}

// A signal interrupts the first instruction of a function. The byte in front of it belongs to another one.
__asm__(".text\n.globl never_called\n.type never_called,@function\nnever_called: .cfi_startproc\n nop\n ret\n .cfi_endproc\n"
        ".size never_called,.-never_called\n"
        ".globl at_its_first\n.type at_its_first,@function\nat_its_first: .cfi_startproc\n1: jmp 1b\n .cfi_endproc\n"
        ".size at_its_first,.-at_its_first\n");
void at_its_first(void);

FUNCTION void handler(int number) {
  (void)number;
  for (clock_t end = clock() + CLOCKS_PER_SEC / 100; clock() < end;) spin();
  KEEP;
}

static void quit(int number) { exit(number & 0); }

FUNCTION void interrupted(int flags) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
  sigaction(SIGPROF, &action, 0);
  action = (struct sigaction){.sa_handler = quit};
  sigaction(SIGVTALRM, &action, 0);
  struct itimerval often = {{0, 60000}, {0, 60000}}, once = {{0, 0}, {1, 500000}};
  setitimer(ITIMER_PROF, &often, 0);
  setitimer(ITIMER_VIRTUAL, &once, 0);
  at_its_first();
  KEEP;
}

// rbp holds a number, which is no address.
void with_a_number(void);
__asm__(".text\n.globl with_a_number\n.type with_a_number,@function\nwith_a_number: .cfi_startproc\n push %rbp\n"
        " .cfi_adjust_cfa_offset 8\n .cfi_rel_offset %rbp,0\n mov $7777,%ebp\n call repeat\n pop %rbp\n"
        " .cfi_adjust_cfa_offset -8\n ret\n .cfi_endproc\n.size with_a_number,.-with_a_number\n");

FUNCTION void with_a_large_frame(void) {
  char buffer[24 << 20];
  memset(buffer, 1, 4096);
  __asm__ volatile("" ::"r"(buffer) : "memory");
  repeat();
  __asm__ volatile("" ::"r"(buffer) : "memory");
}

FUNCTION void *large(void *argument) {
  with_a_large_frame();
  KEEP;
  return argument;
}

FUNCTION void *small(void *argument) {
  repeat();
  KEEP;
  return argument;
}

static void thread(void *(*function)(void *)) {
  pthread_attr_t attributes;
  pthread_t other;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 64 << 20);
  pthread_create(&other, &attributes, function, 0);
  pthread_join(other, 0);
}

// A function without rules whose last instruction is a call, and behind it one with rules.
FUNCTION __attribute__((noreturn)) void for_ever(void) {
  repeat();
  exit(0);
}
void ends_in_a_call(void);
__asm__(".text\n.type ends_in_a_call,@function\nends_in_a_call: sub $8,%rsp\n mov $7777,%ebp\n call for_ever\n"
        ".size ends_in_a_call,.-ends_in_a_call\n"
        ".globl behind_it\n.type behind_it,@function\nbehind_it: .cfi_startproc\n ret\n .cfi_endproc\n.size behind_it,.-behind_it\n");

#ifdef __GLIBC__
static ucontext_t here, there;
FUNCTION void fiber(void) {
  repeat();
  KEEP;
}
#endif

void without_rules(void) __attribute__((weak));

int main(int count, char **arguments) {
  const char *scenario = count > 1 ? arguments[1] : "";
  if (!strcmp(scenario, "signal")) interrupted(0);
  if (!strcmp(scenario, "alternate")) {
    stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
    sigaltstack(&stack, 0);
    interrupted(SA_ONSTACK);
  }
  if (!strcmp(scenario, "number")) with_a_number();
  if (!strcmp(scenario, "large")) thread(large);
  if (!strcmp(scenario, "thread")) thread(small);
  if (!strcmp(scenario, "for_ever")) ends_in_a_call();
  if (!strcmp(scenario, "no_rules")) without_rules();
#ifdef __GLIBC__
  if (!strcmp(scenario, "fiber")) {
    getcontext(&there);
    there.uc_stack.ss_sp = malloc(1 << 16);
    there.uc_stack.ss_size = 1 << 16;
    there.uc_link = &here;
    makecontext(&there, fiber, 0);
    swapcontext(&here, &there);
  }
#endif
  KEEP;
  return 0;
}
