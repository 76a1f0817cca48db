/* Generates the frames of one stream.
 *
 * BPF_PROG_TEST_RUN with live frames runs `generate` once for each page that may become a frame. A redirected frame waits in
 * the kernel's queue of 16 until the queue is full or the batch of runs ends; then the port gets the whole queue. Softirqs
 * are off during a batch, so no other sender uses this CPU's queue meanwhile. */
#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "frame.h"

#define FRACTION_BITS 32
/* DEV_MAP_BULK_SIZE of the kernel. */
#define BULK_QUEUE_FRAMES 16
#define MAX_MIX_SEQUENCE_FRAMES 64
#define MAX_HEADER_WORDS 10
#define BURST_CLASSES 24

/* Header fields that depend on the frame's size: `SizeFields` of template.rs. */
struct size_fields {
	__u16 frame_bytes;
	__be16 ip_length;
	__be16 udp_length;
	__u16 unused;
	__u32 ip_sum;
	__u32 udp_sum;
};

/* `GeneratorConfig` of generator_state.rs. It is constant before the program is loaded, so the verifier drops the branches
 * that the configuration rules out. */
struct generator_config {
	/* The first frame up to the stream's key, in words of 8 bytes. */
	__u64 header_words[MAX_HEADER_WORDS];
	__u64 max_frames;
	/* Time between frames; 0 for an unpaced stream. The fraction is in 2^-32 ns. */
	__u64 gap_nanos;
	__u64 gap_nanos_fraction_32_bits;
	/* The shorter gap of late frames that catch up, and how far they may catch up without any gap. */
	__u64 catch_up_gap_nanos;
	__u64 catch_up_without_gap_nanos;
	__u32 header_word_count;
	__u32 ip_offset;
	__u32 udp_offset;
	__u32 is_ipv6;
	__u32 varies_addresses;
	__u32 flow_count;
	__u32 size_count;
	__u32 largest_bytes;
	struct size_fields size_fields[MAX_MIX_SEQUENCE_FRAMES];
};

const volatile struct generator_config config = {};

/* `GeneratorState` of generator_state.rs. The agent writes the first cache line; the programs write the rest while they
 * generate frames. */
struct generator_state {
	__u64 stop;
	__u64 first_number;
	__u64 unused[6];
	__u64 generated;
	/* Counted only when there are several sizes. */
	__u64 generated_bytes;
	__u64 sent;
	/* The time that frames are stamped with. */
	__u64 now_nanos;
	/* CLOCK_MONOTONIC when the next frame is due; the fraction is in 2^-32 ns. */
	__u64 due_nanos;
	__u64 due_nanos_fraction_32_bits;
	/* The earliest time of the next frame while late frames catch up. */
	__u64 earliest_nanos;
	__u32 flow;
	__u32 size;
	/* Frames in the kernel's queue of this CPU. */
	__u32 queued;
	__u32 cpu;
	__u64 first_due_nanos;
	__u64 lateness_sum_nanos;
	__u64 lateness_max_nanos;
	/* When the port last got frames, and the length of the current burst. */
	__u64 last_transmit_nanos;
	__u64 burst;
	__u64 burst_max;
	/* Element n counts the bursts of 2^n to 2^(n + 1) - 1 frames. */
	__u64 bursts[BURST_CLASSES];
};

struct lateness_histogram {
	__u64 buckets[HISTOGRAM_BUCKETS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct generator_state);
} generator_state SEC(".maps");

/* How much later than due the port got each frame. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lateness_histogram);
} lateness SEC(".maps");

/* The port, as the only element. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} port SEC(".maps");

static __always_inline __u32 sum_words(__u64 value)
{
	return (value & 0xffff) + (value >> 16 & 0xffff) + (value >> 32 & 0xffff) + (value >> 48);
}

static __always_inline __u16 fold_checksum(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

/* Whether the next frame may leave now. */
static __always_inline int is_due(struct generator_state *state, __u64 now)
{
	return now >= state->due_nanos && now >= state->earliest_nanos;
}

static __always_inline void advance_schedule(struct generator_state *state, __u64 now)
{
	__u64 fraction = state->due_nanos_fraction_32_bits + config.gap_nanos_fraction_32_bits;
	__u64 earliest = state->earliest_nanos;

	if (!state->queued)
		state->first_due_nanos = state->due_nanos;
	state->due_nanos += config.gap_nanos + (fraction >> FRACTION_BITS);
	state->due_nanos_fraction_32_bits = fraction & ((1ULL << FRACTION_BITS) - 1);
	if (earliest + config.catch_up_without_gap_nanos < now)
		earliest = now - config.catch_up_without_gap_nanos;
	state->earliest_nanos = earliest + config.catch_up_gap_nanos;
}

SEC("xdp")
int generate(struct xdp_md *ctx)
{
	const volatile struct size_fields *fields = config.size_fields;
	__u32 zero = 0, flow = 0, size, address_sum = 0;
	__be16 source_port, destination_port;
	struct generator_state *state;
	__be64 number, sent;
	void *data, *end;
	__u64 now;
	/* Read once: the compiler keeps every read of a volatile. */
	const __u32 header_word_count = config.header_word_count, udp_offset = config.udp_offset;
	const __u32 size_count = config.size_count, flow_count = config.flow_count;
	const __u64 gap = config.gap_nanos;

	state = bpf_map_lookup_elem(&generator_state, &zero);
	if (!state || state->stop || state->generated >= config.max_frames)
		return XDP_DROP;
	/* Reading the clock costs as much as all else here. Unpaced frames that leave together share one time stamp. */
	if (gap || !state->queued || state->generated % BULK_QUEUE_FRAMES == 0)
		state->now_nanos = bpf_ktime_get_ns();
	now = state->now_nanos;
	if (gap) {
		if (!is_due(state, now))
			return XDP_DROP;
		advance_schedule(state, now);
	}

	if (size_count > 1) {
		size = state->size;
		if (size >= MAX_MIX_SEQUENCE_FRAMES)
			return XDP_DROP;
		state->size = size + 1 < size_count ? size + 1 : 0;
		fields += size;
		if (fields->frame_bytes < config.largest_bytes &&
		    bpf_xdp_adjust_tail(ctx, fields->frame_bytes - (int)config.largest_bytes))
			return XDP_DROP;
	}
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	if (data + udp_offset + 8 + sizeof(struct datagram_header) > end)
		return XDP_DROP;

	/* Write the whole header: the kernel reuses pages as the device left them. */
#pragma unroll
	for (__u32 i = 0; i < MAX_HEADER_WORDS; i++)
		if (i < header_word_count)
			*(__u64 *)(data + 8 * i) = config.header_words[i];

	if (flow_count > 1) {
		flow = state->flow;
		state->flow = flow + 1 < flow_count ? flow + 1 : 0;
	}
	source_port = bpf_htons(FIRST_PORT + flow % PORT_COUNT);
	destination_port = bpf_htons(FIRST_PORT + flow / PORT_COUNT);
	if (flow_count > 1) {
		*(__be16 *)(data + udp_offset) = source_port;
		*(__be16 *)(data + udp_offset + 2) = destination_port;
	}

	if (config.varies_addresses) {
		__be16 *source = data + (config.is_ipv6 ? config.ip_offset + 22 : config.ip_offset + 14);
		__be16 *destination = data + udp_offset - 2;

		/* The last byte of both addresses is still zero. */
		*source |= bpf_htons(flow & 0xff);
		*destination |= bpf_htons(flow >> 8 & 0xff);
		address_sum = bpf_htons(flow & 0xff) + bpf_htons(flow >> 8 & 0xff);
	}

	number = bpf_cpu_to_be64(state->first_number + state->generated);
	*(__be64 *)(data + udp_offset + 12) = number;
	sent = bpf_cpu_to_be64(now << 16);
	*(__be32 *)(data + udp_offset + 20) = (__be32)sent;
	*(__be16 *)(data + udp_offset + 24) = (__be16)(sent >> 32);

	if (config.is_ipv6) {
		__u16 checksum = fold_checksum(fields->udp_sum + address_sum + source_port + destination_port +
					       sum_words(number) + sum_words(sent & 0xffffffffffffULL));

		/* Zero means "no checksum" (RFC 8200, section 8.1). */
		*(__u16 *)(data + udp_offset + 6) = checksum ? checksum : 0xffff;
	} else if (size_count > 1 || config.varies_addresses) {
		*(__u16 *)(data + config.ip_offset + 10) = fold_checksum(fields->ip_sum + address_sum);
	}
	if (size_count > 1) {
		*(__be16 *)(data + config.ip_offset + (config.is_ipv6 ? 4 : 2)) = fields->ip_length;
		*(__be16 *)(data + udp_offset + 4) = fields->udp_length;
		state->generated_bytes += fields->frame_bytes;
	}

	state->generated++;
	if (!state->queued++)
		state->cpu = bpf_get_smp_processor_id();
	return bpf_redirect_map(&port, 0, 0);
}

static __always_inline void count_burst(struct generator_state *state)
{
	__u32 class = floor_log2(state->burst);

	if (class >= BURST_CLASSES)
		class = BURST_CLASSES - 1;
	state->bursts[class]++;
}

static __always_inline void record_transmit(struct generator_state *state, __u32 frames, __u64 now)
{
	struct lateness_histogram *histogram;
	__u32 zero = 0;

	if (state->last_transmit_nanos && now - state->last_transmit_nanos >= config.gap_nanos / 2) {
		count_burst(state);
		state->burst = 0;
	}
	state->last_transmit_nanos = now;
	state->burst += frames;
	if (state->burst > state->burst_max)
		state->burst_max = state->burst;

	histogram = bpf_map_lookup_elem(&lateness, &zero);
	for (__u32 i = 0; histogram && i < BULK_QUEUE_FRAMES && i < frames; i++) {
		__u64 nanos = now - state->first_due_nanos - i * config.gap_nanos;
		__u32 bucket = histogram_bucket(nanos);

		if (bucket < HISTOGRAM_BUCKETS)
			histogram->buckets[bucket]++;
		state->lateness_sum_nanos += nanos;
		if (nanos > state->lateness_max_nanos)
			state->lateness_max_nanos = nanos;
	}
	state->first_due_nanos += frames * config.gap_nanos;
}

/* Counts the queued frames that the port accepted. The tracepoint's arguments are (from, to, sent, dropped, error) of one call
 * of the driver. While frames of this program are queued, no other sender on this CPU transmits. */
SEC("raw_tp/xdp_devmap_xmit")
int count_transmit(struct bpf_raw_tracepoint_args *ctx)
{
	int sent = (int)ctx->args[2], dropped = (int)ctx->args[3];
	__u32 zero = 0, frames = sent + dropped;
	struct generator_state *state;

	state = bpf_map_lookup_elem(&generator_state, &zero);
	if (!state || !state->queued || state->cpu != bpf_get_smp_processor_id())
		return 0;
	/* After a full queue `queued` includes the frame just generated. A call for more frames is another program's. */
	if (frames > state->queued)
		return 0;
	state->sent += sent;
	if (config.gap_nanos)
		record_transmit(state, frames, bpf_ktime_get_ns());
	state->queued -= frames;
	return 0;
}

char LICENSE[] SEC("license") = "Apache-2.0";
