// Functions that are compiled so that `.debug_frame` alone has rules for them.
void repeat(void);

#define KEEP __asm__ volatile("" ::: "memory")

__attribute__((noinline)) void inner_without_rules(void) {
  volatile char room[40];
  room[3] = 1;
  repeat();
  KEEP;
}

__attribute__((noinline)) void without_rules(void) {
  volatile char room[72];
  room[3] = 1;
  inner_without_rules();
  KEEP;
}
