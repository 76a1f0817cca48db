/* A team of links. `choose_member` runs where frames leave the team's port, and sends each to the member that the policy
 * chooses. `receive` runs where frames arrive at a member, and hands them to the port.
 *
 * The formulas are those of the products, from their documentation and from Linux 6.1, drivers/net/bonding/bond_main.c and
 * net/core/flow_dissector.c. They share no code with the predictions of `vnetbench team predict`. */

#include <linux/pkt_cls.h>

#include "bonding.h"
#include "config.h"
#include "fields.h"
#include "headers.h"

#define MAX_TABLE_ENTRIES 16384

struct team_counters {
	__u64 frames[MAX_MEMBERS];
	__u64 received[MAX_MEMBERS];
	__u64 lacking_fields;
	__u64 rejected;
	__u64 turns;
	__u64 assigned;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct team_counters);
} counters SEC(".maps");

/* The member of each source MAC address or port of the switch, for policies with a table. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_TABLE_ENTRIES);
	__type(key, __u64);
	__type(value, __u32);
} table SEC(".maps");

/* The bytes of the frames that came from each port of the switch, for policies with a table of ports. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_TABLE_ENTRIES);
	__type(key, __u64);
	__type(value, __u64);
} port_bytes SEC(".maps");

/* Source MAC addresses of the frames that left by the team. A frame from such an address has come back. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_TABLE_ENTRIES);
	__type(key, __u64);
	__type(value, __u32);
} sent_macs SEC(".maps");

/* Returns the member that the table has for a key. A new key gets `initial`. */
static __always_inline __u32 table_member(__u64 key, __u32 initial)
{
	__u32 *known;

	bpf_map_update_elem(&table, &key, &initial, BPF_NOEXIST);
	known = bpf_map_lookup_elem(&table, &key);
	return known ? *known : initial;
}

static __always_inline void count_port_bytes(__u64 key, __u64 bytes)
{
	__u64 *known = bpf_map_lookup_elem(&port_bytes, &key);

	if (known)
		__sync_fetch_and_add(known, bytes);
	else
		bpf_map_update_elem(&port_bytes, &key, &bytes, BPF_NOEXIST);
}

static __always_inline __u32 member_of_port(struct __sk_buff *skb, struct team_counters *counts)
{
	__u64 key = skb->ingress_ifindex;
	__u32 *known = bpf_map_lookup_elem(&table, &key);

	count_port_bytes(key, skb->len);
	/* Ports take the members in turn, in the order of their first frames. */
	return known ? *known : table_member(key, __sync_fetch_and_add(&counts->assigned, 1) % config.member_count);
}

static __always_inline __u32 member_of_source_mac(const struct ethhdr *ethernet)
{
	return table_member(mac_number(ethernet->h_source), ethernet->h_source[5] % config.member_count);
}

static __always_inline __u32 choose(struct __sk_buff *skb, const struct ethhdr *ethernet,
				    struct team_counters *counts)
{
	__u32 member;
	int lacks_fields = 0;

	switch (config.policy) {
	case ACTIVE_MEMBER:
		return config.active;
	case TURNS:
		return __sync_fetch_and_add(&counts->turns, 1) % config.member_count;
	case TABLE_OF_PORTS:
		return member_of_port(skb, counts);
	case TABLE_OF_SOURCE_MACS:
		return member_of_source_mac(ethernet);
	case XOR_OF_FIELDS:
		member = reduce(xor_of_fields(skb, ethernet, &lacks_fields));
		break;
	default:
		member = bonding_hash(skb, ethernet, &lacks_fields) % config.member_count;
	}
	if (lacks_fields)
		__sync_fetch_and_add(&counts->lacking_fields, 1);
	return member;
}

static __always_inline int send_by(struct team_counters *counts, __u32 member)
{
	/* The compiler would drop the check below, but the verifier needs it. */
	barrier_var(member);
	if (member >= MAX_MEMBERS)
		return TC_ACT_SHOT;
	__sync_fetch_and_add(&counts->frames[member], 1);
	return bpf_redirect(config.members[member], 0);
}

static __always_inline int send_copies(struct __sk_buff *skb, struct team_counters *counts)
{
	for (__u32 i = 0; i < MAX_MEMBERS && i + 1 < config.member_count; i++) {
		__sync_fetch_and_add(&counts->frames[i], 1);
		bpf_clone_redirect(skb, config.members[i], 0);
	}
	return send_by(counts, config.member_count - 1);
}

/* Runs where frames leave the port. */
SEC("classifier")
int choose_member(struct __sk_buff *skb)
{
	struct team_counters *counts;
	struct ethhdr ethernet;
	__u32 zero = 0, one = 1;
	__u64 source;

	counts = bpf_map_lookup_elem(&counters, &zero);
	if (!counts || !config.member_count || bpf_skb_load_bytes(skb, 0, &ethernet, sizeof(ethernet)))
		return TC_ACT_SHOT;
	source = mac_number(ethernet.h_source);
	if (!bpf_map_lookup_elem(&sent_macs, &source))
		bpf_map_update_elem(&sent_macs, &source, &one, BPF_ANY);
	if (config.policy == COPIES)
		return send_copies(skb, counts);
	return send_by(counts, choose(skb, &ethernet, counts));
}

/* Returns whether the port takes a frame. A switch that does not bundle the links floods a frame to all of them: it sends
 * the team's own frames back, and copies of group frames on each link. */
static __always_inline int is_accepted(const struct ethhdr *ethernet, __u32 member)
{
	__u64 source = mac_number(ethernet->h_source);

	if (bpf_map_lookup_elem(&sent_macs, &source))
		return 0;
	if (config.policy == ACTIVE_MEMBER)
		return member == config.active;
	return config.is_bundled || !(ethernet->h_dest[0] & 1) || member == config.active;
}

/* Runs where frames arrive at a member. */
SEC("classifier")
int receive(struct __sk_buff *skb)
{
	struct team_counters *counts;
	struct ethhdr ethernet;
	__u32 zero = 0, member = MAX_MEMBERS;

	counts = bpf_map_lookup_elem(&counters, &zero);
	if (!counts || bpf_skb_load_bytes(skb, 0, &ethernet, sizeof(ethernet)))
		return TC_ACT_SHOT;
	for (__u32 i = 0; i < MAX_MEMBERS && i < config.member_count; i++)
		if (config.members[i] == skb->ifindex)
			member = i;
	barrier_var(member);
	if (member >= MAX_MEMBERS)
		return TC_ACT_SHOT;
	if (!is_accepted(&ethernet, member)) {
		__sync_fetch_and_add(&counts->rejected, 1);
		return TC_ACT_SHOT;
	}
	__sync_fetch_and_add(&counts->received[member], 1);
	return bpf_redirect(config.port, BPF_F_INGRESS);
}

char LICENSE[] SEC("license") = "Apache-2.0";
