/* Reads MAC addresses and IP headers of a frame. */

#pragma once

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* An IP header. Words are in network byte order; an IPv4 address is the last word, and the others are 0. */
struct ip_header {
	__u32 source[4];
	__u32 destination[4];
	__u32 protocol;
	__u32 next_offset;
	__u32 is_fragment;
	__u32 is_later_fragment;
};

static __always_inline __u64 mac_number(const __u8 *mac)
{
	__u64 number = 0;

#pragma unroll
	for (int i = 0; i < ETH_ALEN; i++)
		number = number << 8 | mac[i];
	return number;
}

/* Reads the IPv4 or IPv6 header at an offset. Returns 0, or -1 if there is none. */
static __always_inline int read_ip_header(struct __sk_buff *skb, __u32 offset, __be16 ethertype, struct ip_header *ip)
{
	__builtin_memset(ip, 0, sizeof(*ip));
	if (ethertype == bpf_htons(ETH_P_IP)) {
		struct iphdr header;

		if (bpf_skb_load_bytes(skb, offset, &header, sizeof(header)) || header.ihl < 5)
			return -1;
		ip->source[3] = header.saddr;
		ip->destination[3] = header.daddr;
		ip->protocol = header.protocol;
		ip->next_offset = offset + 4 * header.ihl;
		ip->is_fragment = !!(header.frag_off & bpf_htons(0x3fff));
		ip->is_later_fragment = !!(header.frag_off & bpf_htons(0x1fff));
		return 0;
	}
	if (ethertype == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr header;

		if (bpf_skb_load_bytes(skb, offset, &header, sizeof(header)))
			return -1;
		__builtin_memcpy(ip->source, &header.saddr, sizeof(ip->source));
		__builtin_memcpy(ip->destination, &header.daddr, sizeof(ip->destination));
		ip->protocol = header.nexthdr;
		ip->next_offset = offset + sizeof(header);
		return 0;
	}
	return -1;
}

static __always_inline int has_ports(__u32 protocol)
{
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == IPPROTO_SCTP ||
	       protocol == IPPROTO_DCCP || protocol == IPPROTO_UDPLITE;
}
