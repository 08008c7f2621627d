/* A shop that takes orders, of which each function does what its name says. Two threads price orders; one lock guards the ledger, and
 * who holds it writes to the disk. Prints how many orders it has booked in the given time. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define KEPT __attribute__((noinline, noclone))
/* Keeps a function from ending in a jump. */
#define END __asm__ volatile("" ::: "memory")
#define ITEMS 8000
#define SAVED_TOGETHER 4

struct order {
	int number;
	unsigned items[ITEMS];
	unsigned long price;
};

static pthread_mutex_t door = PTHREAD_MUTEX_INITIALIZER, ledger = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t has_come = PTHREAD_COND_INITIALIZER;
static int waiting, is_closed, booked, file;

KEPT static void read_order(struct order *order, int number)
{
	unsigned random = 2654435761u * (unsigned)(number + 1);

	for (int i = 0; i < ITEMS; i++)
		order->items[i] = random = random * 1664525u + 1013904223u;
	order->number = number;
	END;
}

KEPT static void sift_down(unsigned *items, int at, int len)
{
	for (int child; (child = 2 * at + 1) < len; at = child) {
		unsigned item = items[at];

		if (child + 1 < len && items[child] < items[child + 1])
			child++;
		if (items[child] <= item)
			break;
		items[at] = items[child];
		items[child] = item;
	}
	END;
}

KEPT static void sort_items(struct order *order)
{
	for (int i = ITEMS / 2; i--;)
		sift_down(order->items, i, ITEMS);
	for (int i = ITEMS; --i > 0;) {
		unsigned largest = order->items[0];

		order->items[0] = order->items[i];
		order->items[i] = largest;
		sift_down(order->items, 0, i);
	}
	END;
}

KEPT static unsigned long apply_discount(unsigned long price, unsigned item)
{
	for (int step = 0; step < 60; step++)
		price = (price ^ item) * 0x9e3779b97f4a7c15ul + step;
	return price;
}

KEPT static void price_order(struct order *order)
{
	sort_items(order);
	for (int i = 0; i < ITEMS; i++)
		order->price = apply_discount(order->price, order->items[i]);
	END;
}

KEPT static void save_ledger(const struct order *order)
{
	if (pwrite(file, order, sizeof(*order), 0) != sizeof(*order) || fdatasync(file))
		perror("orders: cannot write the ledger");
	END;
}

KEPT static void book_order(const struct order *order)
{
	pthread_mutex_lock(&ledger);
	if (++booked % SAVED_TOGETHER == 0)
		save_ledger(order);
	pthread_mutex_unlock(&ledger);
	END;
}

/* Returns false if the shop has closed. */
KEPT static int wait_for_order(void)
{
	int has_order;

	pthread_mutex_lock(&door);
	while (!waiting && !is_closed)
		pthread_cond_wait(&has_come, &door);
	has_order = waiting > 0;
	waiting -= has_order;
	pthread_mutex_unlock(&door);
	return has_order;
}

KEPT static void *serve(void *unused)
{
	struct order *order = calloc(1, sizeof(*order));

	for (int number = 0; order && wait_for_order(); number++) {
		read_order(order, number);
		price_order(order);
		book_order(order);
	}
	free(order);
	return unused;
}

/* Lets an order come every two milliseconds. */
KEPT static void take_orders(int milliseconds)
{
	for (int i = 0; i < milliseconds / 2; i++) {
		struct timespec pause = { 0, 2000000 };

		nanosleep(&pause, 0);
		pthread_mutex_lock(&door);
		waiting++;
		pthread_cond_signal(&has_come);
		pthread_mutex_unlock(&door);
	}
	pthread_mutex_lock(&door);
	is_closed = 1;
	pthread_cond_broadcast(&has_come);
	pthread_mutex_unlock(&door);
}

int main(int argc, char **argv)
{
	pthread_t threads[2];

	if (argc != 3 || (file = open(argv[2], O_CREAT | O_WRONLY | O_TRUNC, 0600)) < 0) {
		fprintf(stderr, "usage: %s MILLISECONDS LEDGER\n", argv[0]);
		return 2;
	}
	for (int i = 0; i < 2; i++)
		if (pthread_create(&threads[i], 0, serve, 0))
			return 2;
	take_orders(atoi(argv[1]));
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], 0);
	printf("%d orders booked\n", booked);
	return 0;
}
