/* Counts the frames of a trial where they arrive, and takes them; all others go on to the kernel's stack.
 *
 * It runs on every CPU that receives. What it counts is that CPU's own, so that nothing is locked; only what tells order
 * and duplicates is common to all. The agent has the maps in its memory, and reads them without a call. */

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
/* What each stream is to this side, by its id. */
const volatile __u16 places[MAX_STREAMS] = {};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct account);
} accounts SEC(".maps"); /* each stream's on each CPU */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct order);
} orders SEC(".maps"); /* each stream's */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} words SEC(".maps"); /* each stream's words */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct receiver);
} receivers SEC(".maps"); /* each CPU's */

struct vlan_tag {
	__be16 tci;
	__be16 next;
};

/* The UDP header of a frame; where there is none, the kind of the frame. */
static __always_inline struct udphdr *udp_of(void *data, void *end, __u32 *kind)
{
	struct ethhdr *ethernet = data;

	*kind = KIND_OTHER;
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
		protocol = tag->next;
		next = tag + 1;
	}

	if (protocol == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = next;

		*kind = KIND_IPV4;
		/* Ours have no options, and nothing on their way may have cut them into fragments. */
		if ((void *)(ip + 1) > end || ip->ihl != 5 || ip->protocol != IPPROTO_UDP ||
		    ip->frag_off & bpf_htons(0x3fff))
			return 0;
		next = ip + 1;
	} else if (protocol == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = next;

		*kind = KIND_IPV6;
		if ((void *)(ip + 1) > end || ip->nexthdr != IPPROTO_UDP)
			return 0;
		next = ip + 1;
	} else {
		if (protocol == bpf_htons(ETH_P_ARP))
			*kind = KIND_ARP;
		return 0;
	}
	return next;
}

/* How long a frame was under way: the difference of the clock's lowest 48 bits, negative where the sender's is another. */
static __always_inline __s64 transit_of(const void *head, __u64 now)
{
	const void *at = head + offsetof(struct head, sent);
	__u64 sent = (__u64)bpf_ntohl(*(__be32 *)at) << 16 | bpf_ntohs(*(__be16 *)(at + 4));

	return (__s64)((now - sent) << 16) >> 16;
}

enum seen {
	SEEN_FIRST,
	SEEN_AGAIN,
	SEEN_BEFORE_WINDOW,
};

/* Notes in its word that a number has come. The word's upper half says which numbers its lower half is about, so the first
 * of later ones takes it over, on whichever CPU that is, and no one has to clear it. */
static __always_inline enum seen note_seen(__u64 *word, __u64 number)
{
	__u64 epoch = number >> WINDOW_BITS;
	__u64 bit = 1ULL << (number % NUMBERS_OF_WORD);
	__u64 found = *(volatile __u64 *)word;

	/* A try fails only where another CPU has just changed this word. */
	for (int tries = 0; tries < MAX_TRIES; tries++) {
		__u64 changed = epoch << 32 | bit;

		if (found >> 32 > epoch)
			return SEEN_BEFORE_WINDOW;
		if (found >> 32 == epoch) {
			if (found & bit)
				return SEEN_AGAIN;
			changed = found | bit;
		}

		__u64 before = __sync_val_compare_and_swap(word, found, changed);

		if (before == found)
			return SEEN_FIRST;
		found = before;
	}
	return SEEN_BEFORE_WINDOW;
}

/* Whether a higher number has come before (RFC 4737, section 3.3). */
static __always_inline int is_out_of_order(struct order *order, __u64 number)
{
	__u64 next = *(volatile __u64 *)&order->next;

	for (int tries = 0; tries < MAX_TRIES; tries++) {
		if (number < next)
			return 1;

		__u64 before = __sync_val_compare_and_swap(&order->next, next, number + 1);

		if (before == next)
			return 0;
		next = before;
	}
	return 1;
}

static __always_inline void note_transit(struct account *account, struct receiver *receiver, __s64 transit)
{
	if (transit < 0 || transit >> HISTOGRAM_MOST_BITS) {
		account->impossible_transits++;
		return;
	}

	__u32 bucket = bucket_of(transit);

	/* The compiler knows that it is; the verifier has to be shown. */
	barrier_var(bucket);
	if (bucket < HISTOGRAM_BUCKETS) {
		receiver->touched |= 1ULL << (bucket >> HISTOGRAM_BITS);
		receiver->delay[bucket]++;
	}
}

/* RFC 3550, section 6.4.1, in the whole numbers of its appendix A.8: sixteenths of a nanosecond. */
static __always_inline void note_jitter(struct account *account, __s64 transit)
{
	__s64 deviation = transit - account->last_transit;

	if (account->frames || account->duplicates) {
		if (deviation < 0)
			deviation = -deviation;
		account->jitter += deviation - ((account->jitter + 8) >> 4);
	}
	account->last_transit = transit;
}

static __always_inline int note_foreign(struct xdp_md *context, struct receiver *receiver, __u32 kind)
{
	__u64 bytes = bpf_xdp_get_buff_len(context);

	if (kind >= KINDS)
		return XDP_PASS;
	if (!receiver->foreign[kind]) {
		if (bytes > EXAMPLE_BYTES)
			bytes = EXAMPLE_BYTES;
		if (bytes)
			bpf_xdp_load_bytes(context, 0, receiver->examples[kind], bytes);
	}
	receiver->foreign[kind]++;
	return kind == KIND_OWN ? XDP_DROP : XDP_PASS;
}

SEC("xdp.frags")
int sink(struct xdp_md *context)
{
	void *data = (void *)(long)context->data;
	void *end = (void *)(long)context->data_end;
	__u32 cpu = bpf_get_smp_processor_id();
	struct receiver *receiver = bpf_map_lookup_elem(&receivers, &cpu);
	__u32 kind;

	if (!receiver)
		return XDP_PASS;

	struct udphdr *udp = udp_of(data, end, &kind);
	void *head = udp + 1;

	if (!udp || head + sizeof(struct head) > end)
		return note_foreign(context, receiver, kind);

	__u64 now = bpf_ktime_get_ns();
	/* As a whole: what is packed is else loaded byte by byte. */
	__u64 number = bpf_be64_to_cpu(*(__be64 *)(head + offsetof(struct head, number)));
	__u32 id = bpf_ntohl(*(__be32 *)head) ^ secret;
	__s64 transit = transit_of(head, now);
	__u32 place = id < MAX_STREAMS ? places[id] : NO_STREAM;

	/* The far side's, named as a stream of this one, may have waited long in a slow device: it is no loop. */
	if (place != NO_STREAM && number >= FIRST_LEARNING)
		return XDP_DROP;
	if (place == OWN_SOURCE)
		return note_foreign(context, receiver, KIND_OWN);
	if (place == NO_STREAM || number >> NUMBER_BITS) {
		/* Chance makes a number so low and a time so near of one UDP datagram in some 10^8. */
		if (!(number >> NUMBER_BITS) && transit >= 0 && transit < RECENT_NS)
			kind = KIND_OTHER_TRIAL;
		return note_foreign(context, receiver, kind);
	}

	place -= FIRST_SINK;

	__u32 own = place * cpus + cpu;
	__u32 slot = place * WORDS + (number / NUMBERS_OF_WORD) % WORDS;
	struct account *account = bpf_map_lookup_elem(&accounts, &own);
	struct order *order = bpf_map_lookup_elem(&orders, &place);
	__u64 *word = bpf_map_lookup_elem(&words, &slot);

	if (!account || !order || !word)
		return XDP_DROP;

	note_jitter(account, transit);
	note_transit(account, receiver, transit);

	enum seen seen = note_seen(word, number);

	if (seen == SEEN_AGAIN) {
		account->duplicates++;
		return XDP_DROP;
	}
	if (seen == SEEN_BEFORE_WINDOW)
		account->before_window++;
	if (is_out_of_order(order, number))
		account->out_of_order++;
	account->frames++;
	account->bytes += bpf_xdp_get_buff_len(context) + ETH_FCS_LEN;
	return XDP_DROP;
}

char LICENSE[] SEC("license") = "Apache-2.0";
