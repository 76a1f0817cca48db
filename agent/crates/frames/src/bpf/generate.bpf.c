/* Makes one stream's frames: run by BPF_PROG_TEST_RUN with live frames, once for each page that may become one.
 *
 * What is redirected waits in the kernel's queue of 16 until that is full or the batch of runs ends; the port is then handed
 * all of it. Until then nothing else can use this CPU's queue: softirqs are off for the length of a batch. */
#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "frame.h"

#define NANOS_BITS 32
/* DEV_MAP_BULK_SIZE of the kernel. */
#define MOST_WAITING 16
#define MOST_SIZES 64
#define MOST_START 10
#define BURST_CLASSES 24

/* What of a frame depends on its size: `Shape` of template.rs. */
struct shape {
	__u16 bytes;
	__be16 ip_length;
	__be16 udp_length;
	__u16 unused;
	__u32 ip_sum;
	__u32 udp_sum;
};

/* `Plan` of plan.rs. It is constant before the program is loaded, so the verifier drops the branches that it rules
 * out. */
struct plan {
	/* The first frame of the first size up to the head's number, in words of 8 bytes. */
	__u64 start[MOST_START];
	__u64 most;
	/* From one frame to the next, in ns and 2^-32 of one; 0: as fast as it goes. */
	__u64 gap;
	__u64 gap_fraction;
	/* What is late is made up for with this gap, after so long without any. */
	__u64 short_gap;
	__u64 slack;
	__u32 start_words;
	__u32 ip_at;
	__u32 udp_at;
	__u32 is_ipv6;
	__u32 varies_addresses;
	__u32 flows;
	__u32 sizes;
	__u32 largest;
	struct shape shapes[MOST_SIZES];
};

const volatile struct plan plan = {};

/* `Progress` of plan.rs. The first line is written by the agent, the rest by the programs while frames are made. */
struct progress {
	__u64 stop;
	__u64 first_number;
	__u64 unused[6];
	__u64 made;
	/* Kept only where there are several sizes. */
	__u64 made_bytes;
	__u64 sent;
	/* The time that frames are stamped with. */
	__u64 now;
	/* CLOCK_MONOTONIC, when the next frame is due; its fraction in 2^-32 ns. */
	__u64 due;
	__u64 due_fraction;
	/* The next frame leaves no sooner. */
	__u64 gate;
	__u32 flow;
	__u32 size;
	/* In the kernel's queue of this CPU. */
	__u32 waiting;
	__u32 cpu;
	__u64 first_due;
	__u64 late_sum;
	__u64 late_max;
	/* When frames were last handed over, and how many have followed each other without a gap. */
	__u64 left_at;
	__u64 burst;
	__u64 burst_max;
	/* How many bursts were of 2^n frames or more, and of less than 2^(n + 1). */
	__u64 bursts[BURST_CLASSES];
};

struct late {
	__u64 buckets[HISTOGRAM_BUCKETS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct progress);
} progress SEC(".maps");

/* How much later than due frames were handed to the port. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct late);
} late SEC(".maps");

/* The port, as the only element. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} port SEC(".maps");

static __always_inline __u32 sum_of_long(__u64 value)
{
	return (value & 0xffff) + (value >> 16 & 0xffff) + (value >> 32 & 0xffff) + (value >> 48);
}

static __always_inline __u16 folded(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

/* Whether a frame may leave at that time. */
static __always_inline int is_due(struct progress *p, __u64 now)
{
	return now >= p->due && now >= p->gate;
}

static __always_inline void note_due(struct progress *p, __u64 now)
{
	__u64 fraction = p->due_fraction + plan.gap_fraction;
	__u64 gate = p->gate;

	if (!p->waiting)
		p->first_due = p->due;
	p->due += plan.gap + (fraction >> NANOS_BITS);
	p->due_fraction = fraction & ((1ULL << NANOS_BITS) - 1);
	if (gate + plan.slack < now)
		gate = now - plan.slack;
	p->gate = gate + plan.short_gap;
}

SEC("xdp")
int generate(struct xdp_md *ctx)
{
	const volatile struct shape *shape = plan.shapes;
	__u32 zero = 0, flow = 0, size, varying = 0;
	__be16 from_port, to_port;
	struct progress *p;
	__be64 number, sent;
	void *data, *end;
	__u64 now;
	/* Read once: each reading of a volatile is an instruction that stays. */
	const __u32 start_words = plan.start_words, udp_at = plan.udp_at, sizes = plan.sizes, flows = plan.flows;
	const __u64 gap = plan.gap;

	p = bpf_map_lookup_elem(&progress, &zero);
	if (!p || p->stop || p->made >= plan.most)
		return XDP_DROP;
	/* To ask for the time costs as much as all else here; of frames that leave together one stands for the others. */
	if (gap || !p->waiting || p->made % MOST_WAITING == 0)
		p->now = bpf_ktime_get_ns();
	now = p->now;
	if (gap) {
		if (!is_due(p, now))
			return XDP_DROP;
		note_due(p, now);
	}

	if (sizes > 1) {
		size = p->size;
		if (size >= MOST_SIZES)
			return XDP_DROP;
		p->size = size + 1 < sizes ? size + 1 : 0;
		shape += size;
		if (shape->bytes < plan.largest && bpf_xdp_adjust_tail(ctx, shape->bytes - (int)plan.largest))
			return XDP_DROP;
	}
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	if (data + udp_at + 8 + sizeof(struct head) > end)
		return XDP_DROP;

	/* All of it: a page that comes again is as the device left it. */
#pragma unroll
	for (__u32 i = 0; i < MOST_START; i++)
		if (i < start_words)
			*(__u64 *)(data + 8 * i) = plan.start[i];

	if (flows > 1) {
		flow = p->flow;
		p->flow = flow + 1 < flows ? flow + 1 : 0;
	}
	from_port = bpf_htons(FIRST_PORT + flow % PORTS);
	to_port = bpf_htons(FIRST_PORT + flow / PORTS);
	if (flows > 1) {
		*(__be16 *)(data + udp_at) = from_port;
		*(__be16 *)(data + udp_at + 2) = to_port;
	}

	if (plan.varies_addresses) {
		__be16 *from = data + (plan.is_ipv6 ? plan.ip_at + 22 : plan.ip_at + 14);
		__be16 *to = data + udp_at - 2;

		/* Their last bytes are zero up to now. */
		*from |= bpf_htons(flow & 0xff);
		*to |= bpf_htons(flow >> 8 & 0xff);
		varying = bpf_htons(flow & 0xff) + bpf_htons(flow >> 8 & 0xff);
	}

	number = bpf_cpu_to_be64(p->first_number + p->made);
	*(__be64 *)(data + udp_at + 12) = number;
	sent = bpf_cpu_to_be64(now << 16);
	*(__be32 *)(data + udp_at + 20) = (__be32)sent;
	*(__be16 *)(data + udp_at + 24) = (__be16)(sent >> 32);

	if (plan.is_ipv6) {
		__u16 sum = folded(shape->udp_sum + varying + from_port + to_port + sum_of_long(number) +
				   sum_of_long(sent & 0xffffffffffffULL));

		/* Zero would say that there is none (RFC 8200, section 8.1). */
		*(__u16 *)(data + udp_at + 6) = sum ? sum : 0xffff;
	} else if (sizes > 1 || plan.varies_addresses) {
		*(__u16 *)(data + plan.ip_at + 10) = folded(shape->ip_sum + varying);
	}
	if (sizes > 1) {
		*(__be16 *)(data + plan.ip_at + (plan.is_ipv6 ? 4 : 2)) = shape->ip_length;
		*(__be16 *)(data + udp_at + 4) = shape->udp_length;
		p->made_bytes += shape->bytes;
	}

	p->made++;
	if (!p->waiting++)
		p->cpu = bpf_get_smp_processor_id();
	return bpf_redirect_map(&port, 0, 0);
}

static __always_inline void note_burst(struct progress *p)
{
	__u32 class = log2_of(p->burst);

	if (class >= BURST_CLASSES)
		class = BURST_CLASSES - 1;
	p->bursts[class]++;
}

static __always_inline void note_left(struct progress *p, __u32 frames, __u64 now)
{
	struct late *counted;
	__u32 zero = 0;

	if (p->left_at && now - p->left_at >= plan.gap / 2) {
		note_burst(p);
		p->burst = 0;
	}
	p->left_at = now;
	p->burst += frames;
	if (p->burst > p->burst_max)
		p->burst_max = p->burst;

	counted = bpf_map_lookup_elem(&late, &zero);
	for (__u32 i = 0; counted && i < MOST_WAITING && i < frames; i++) {
		__u64 nanos = now - p->first_due - i * plan.gap;
		__u32 bucket = bucket_of(nanos);

		if (bucket < HISTOGRAM_BUCKETS)
			counted->buckets[bucket]++;
		p->late_sum += nanos;
		if (nanos > p->late_max)
			p->late_max = nanos;
	}
	p->first_due += frames * plan.gap;
}

/* Tells what the port took of the frames in the queue: (from, to, sent, dropped, error) of one call of the driver. Nothing
 * else on this CPU hands over frames while some of this program's wait. */
SEC("raw_tp/xdp_devmap_xmit")
int handed_over(struct bpf_raw_tracepoint_args *ctx)
{
	int sent = (int)ctx->args[2], dropped = (int)ctx->args[3];
	__u32 zero = 0, frames = sent + dropped;
	struct progress *p;

	p = bpf_map_lookup_elem(&progress, &zero);
	if (!p || !p->waiting || p->cpu != bpf_get_smp_processor_id())
		return 0;
	/* Where the queue was full, the frame that was just made is none of them. */
	if (frames > p->waiting)
		return 0;
	p->sent += sent;
	if (plan.gap)
		note_left(p, frames, bpf_ktime_get_ns());
	p->waiting -= frames;
	return 0;
}

char LICENSE[] SEC("license") = "Apache-2.0";
