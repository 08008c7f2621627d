// What callbacks/main.go calls: without frame pointers.
#include <pthread.h>
#include <stdint.h>
extern uint64_t goBack(uint64_t n);
static __attribute__((noinline)) uint64_t c_leaf(uint64_t n) {
	volatile uint64_t x = n;
	for (int i = 0; i < 3000; i++) x = x * 31 + i;
	return x;
}
static __attribute__((noinline)) uint64_t c_two(uint64_t n) {
	volatile char room[200];
	room[n % 200] = 1;
	return c_leaf(n) + room[n % 200];
}
uint64_t c_one(uint64_t n) { return c_two(n) + 1; }
uint64_t c_back(uint64_t n) { return goBack(n) + 1; }
static void *c_thread(void *n) {
	for (int i = 0; i < 100; i++) *(uint64_t *)n += goBack(i);
	return 0;
}
// A thread that Go has not made.
void c_threads(uint64_t n) {
	pthread_t thread;
	if (pthread_create(&thread, 0, c_thread, &n) == 0) pthread_join(thread, 0);
}
