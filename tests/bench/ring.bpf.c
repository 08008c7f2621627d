/* What a record of the ring costs the CPU that sends it: programs that the kernel runs again and again (cpus.py). */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

/* Enough for all runs: nobody takes the records. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 << 20);
} ring SEC(".maps");

SEC("tc") int put(void *ctx)
{
	void *record = bpf_ringbuf_reserve(&ring, 192, 0);

	if (!record)
		return 1;
	bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("tc") int nothing(void *ctx)
{
	return 0;
}

char _license[] SEC("license") = "GPL";
