/* Counts and drops the frames of a trial where they arrive. All other frames go on to the kernel's stack.
 *
 * The program runs on every CPU that receives. Each CPU has counters of its own, so nothing is locked; only the state that
 * detects reordering and duplicates is shared. The agent maps this memory and reads it without a system call. */

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "frame.h"
#include "arrivals.h"

/* Set before the program is loaded. */
const volatile __u32 secret = 0;
const volatile __u32 cpus = 1;
/* The role of each stream at this endpoint, by its id. */
const volatile __u16 stream_roles[MAX_STREAMS] = {};

/* One element for each stream and CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stream_counters);
} stream_counters SEC(".maps");

/* One element for each stream. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sequence_state);
} sequence_states SEC(".maps");

/* BITMAP_WORDS elements for each stream. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} bitmap_words SEC(".maps");

/* One element for each CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu_counters);
} cpu_counters SEC(".maps");

struct vlan_tag {
	__be16 tci;
	__be16 next_protocol;
};

/* Returns the frame's UDP header, or null. Sets the class that the frame has if it belongs to no stream. */
static __always_inline struct udphdr *parse_udp_header(void *data, void *end, __u32 *class)
{
	struct ethhdr *ethernet = data;

	*class = CLASS_UNKNOWN;
	if ((void *)(ethernet + 1) > end)
		return 0;

	void *next = ethernet + 1;
	__be16 protocol = ethernet->h_proto;

#pragma unroll
	for (int tags = 0; tags < MAX_VLAN_TAGS; tags++) {
		if (protocol != bpf_htons(ETH_P_8021Q) && protocol != bpf_htons(ETH_P_8021AD))
			break;

		struct vlan_tag *tag = next;

		if ((void *)(tag + 1) > end)
			return 0;
		protocol = tag->next_protocol;
		next = tag + 1;
	}

	if (protocol == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = next;

		*class = CLASS_IPV4;
		/* Generated frames have no IP options and are never fragments. */
		if ((void *)(ip + 1) > end || ip->ihl != 5 || ip->protocol != IPPROTO_UDP ||
		    ip->frag_off & bpf_htons(0x3fff))
			return 0;
		next = ip + 1;
	} else if (protocol == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = next;

		*class = CLASS_IPV6;
		if ((void *)(ip + 1) > end || ip->nexthdr != IPPROTO_UDP)
			return 0;
		next = ip + 1;
	} else {
		if (protocol == bpf_htons(ETH_P_ARP))
			*class = CLASS_ARP;
		return 0;
	}
	return next;
}

/* The one-way delay of a frame: the difference of the lowest 48 bits of the clock. It can be negative if the sender uses
 * another clock. */
static __always_inline __s64 transit_time(const void *header, __u64 now)
{
	const void *field = header + offsetof(struct datagram_header, sent);
	__u64 sent = (__u64)bpf_ntohl(*(__be32 *)field) << 16 | bpf_ntohs(*(__be16 *)(field + 4));

	return (__s64)((now - sent) << 16) >> 16;
}

enum arrival {
	ARRIVAL_NEW,
	ARRIVAL_DUPLICATE,
	ARRIVAL_BEFORE_WINDOW,
};

/* Marks a number as received in its bitmap word. The upper half of the word holds the epoch of the numbers in its lower half.
 * The first number of a later epoch, on any CPU, replaces the word, so nothing has to clear it. */
static __always_inline enum arrival mark_received(__u64 *word, __u64 number)
{
	__u64 epoch = number >> WINDOW_BITS;
	__u64 bit = 1ULL << (number % NUMBERS_PER_WORD);
	__u64 current = *(volatile __u64 *)word;

	/* A swap fails only if another CPU has just changed this word. */
	for (int tries = 0; tries < MAX_SWAP_TRIES; tries++) {
		__u64 updated = epoch << 32 | bit;

		if (current >> 32 > epoch)
			return ARRIVAL_BEFORE_WINDOW;
		if (current >> 32 == epoch) {
			if (current & bit)
				return ARRIVAL_DUPLICATE;
			updated = current | bit;
		}

		__u64 previous = __sync_val_compare_and_swap(word, current, updated);

		if (previous == current)
			return ARRIVAL_NEW;
		current = previous;
	}
	return ARRIVAL_BEFORE_WINDOW;
}

/* Whether a higher number has arrived earlier (RFC 4737, section 3.3). */
static __always_inline int is_out_of_order(struct sequence_state *state, __u64 number)
{
	__u64 next = *(volatile __u64 *)&state->next_number;

	for (int tries = 0; tries < MAX_SWAP_TRIES; tries++) {
		if (number < next)
			return 1;

		__u64 previous = __sync_val_compare_and_swap(&state->next_number, next, number + 1);

		if (previous == next)
			return 0;
		next = previous;
	}
	return 1;
}

static __always_inline void record_transit(struct stream_counters *stream, struct cpu_counters *counters,
					   __s64 transit)
{
	if (transit < 0 || transit >> HISTOGRAM_MAX_BITS) {
		stream->impossible_transits++;
		return;
	}

	__u32 bucket = histogram_bucket(transit);

	/* The compiler would drop the check below, but the verifier needs it. */
	barrier_var(bucket);
	if (bucket < HISTOGRAM_BUCKETS) {
		counters->nonempty_octaves |= 1ULL << (bucket >> HISTOGRAM_BITS);
		counters->delay_buckets[bucket]++;
	}
}

/* Interarrival jitter (RFC 3550, section 6.4.1) in the integer arithmetic of its appendix A.8: sixteenths of a nanosecond. */
static __always_inline void record_jitter(struct stream_counters *stream, __s64 transit)
{
	__s64 deviation = transit - stream->last_transit;

	if (stream->frames || stream->duplicates) {
		if (deviation < 0)
			deviation = -deviation;
		stream->jitter += deviation - ((stream->jitter + 8) >> 4);
	}
	stream->last_transit = transit;
}

static __always_inline int count_foreign(struct xdp_md *context, struct cpu_counters *counters, __u32 class)
{
	__u64 bytes = bpf_xdp_get_buff_len(context);

	if (class >= CLASS_COUNT)
		return XDP_PASS;
	if (!counters->foreign[class]) {
		if (bytes > EXAMPLE_BYTES)
			bytes = EXAMPLE_BYTES;
		if (bytes)
			bpf_xdp_load_bytes(context, 0, counters->examples[class], bytes);
	}
	counters->foreign[class]++;
	return class == CLASS_OWN_RETURNED ? XDP_DROP : XDP_PASS;
}

SEC("xdp.frags")
int sink(struct xdp_md *context)
{
	void *data = (void *)(long)context->data;
	void *end = (void *)(long)context->data_end;
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu_counters *counters = bpf_map_lookup_elem(&cpu_counters, &cpu);
	__u32 class;

	if (!counters)
		return XDP_PASS;

	struct udphdr *udp = parse_udp_header(data, end, &class);
	void *header = udp + 1;

	if (!udp || header + sizeof(struct datagram_header) > end)
		return count_foreign(context, counters, class);

	__u64 now = bpf_ktime_get_ns();
	/* One load of eight bytes: the compiler would load a packed field byte by byte. */
	__u64 number = bpf_be64_to_cpu(*(__be64 *)(header + offsetof(struct datagram_header, number)));
	__u32 id = bpf_ntohl(*(__be32 *)header) ^ secret;
	__s64 transit = transit_time(header, now);
	__u32 role = id < MAX_STREAMS ? stream_roles[id] : NO_STREAM;

	/* A probe of the other endpoint carries a stream id of this one. A slow device may deliver it late; it is no loop. */
	if (role != NO_STREAM && number >= FIRST_PROBE_NUMBER)
		return XDP_DROP;
	if (role == OWN_SOURCE_ROLE)
		return count_foreign(context, counters, CLASS_OWN_RETURNED);
	if (role == NO_STREAM || number >> NUMBER_BITS) {
		/* About one of 10^8 random UDP datagrams has so low a number and so recent a time. */
		if (!(number >> NUMBER_BITS) && transit >= 0 && transit < MAX_OTHER_TRIAL_AGE_NS)
			class = CLASS_OTHER_TRIAL;
		return count_foreign(context, counters, class);
	}

	__u32 sink_index = role - FIRST_SINK_ROLE;
	__u32 stream_index = sink_index * cpus + cpu;
	__u32 word_index = sink_index * BITMAP_WORDS + (number / NUMBERS_PER_WORD) % BITMAP_WORDS;
	struct stream_counters *stream = bpf_map_lookup_elem(&stream_counters, &stream_index);
	struct sequence_state *sequence = bpf_map_lookup_elem(&sequence_states, &sink_index);
	__u64 *word = bpf_map_lookup_elem(&bitmap_words, &word_index);

	if (!stream || !sequence || !word)
		return XDP_DROP;

	record_jitter(stream, transit);
	record_transit(stream, counters, transit);

	enum arrival arrival = mark_received(word, number);

	if (arrival == ARRIVAL_DUPLICATE) {
		stream->duplicates++;
		return XDP_DROP;
	}
	if (arrival == ARRIVAL_BEFORE_WINDOW)
		stream->before_window++;
	if (is_out_of_order(sequence, number))
		stream->out_of_order++;
	stream->frames++;
	stream->bytes += bpf_xdp_get_buff_len(context) + ETH_FCS_LEN;
	return XDP_DROP;
}

char LICENSE[] SEC("license") = "Apache-2.0";
