/* The transmit hash policies of Linux bonding. Each function names its counterpart in the kernel. */

#pragma once

#include "config.h"
#include "headers.h"

#define MAX_HEADERS 8

/* bond_eth_hash() */
static __always_inline __u32 bonding_ethernet_hash(const struct ethhdr *ethernet)
{
	return ethernet->h_dest[5] ^ ethernet->h_source[5] ^ bpf_ntohs(ethernet->h_proto);
}

/* bond_vlan_srcmac_hash(): the VLAN tag, and both halves of the source MAC address. */
static __always_inline __u32 bonding_vlan_hash(struct __sk_buff *skb, const struct ethhdr *ethernet)
{
	__u64 mac = mac_number(ethernet->h_source);
	__u32 tag = skb->vlan_present ? skb->vlan_tci : 0;

	return tag ^ (__u32)(mac >> 24) ^ (__u32)(mac & 0xffffff);
}

/* skb_flow_get_ports() and proto_ports_offset(): the ports, or the SPI of ESP and AH, as one word. */
static __always_inline __u32 bonding_ports(struct __sk_buff *skb, const struct ip_header *ip)
{
	__u32 offset = ip->next_offset, word = 0;

	if (ip->is_fragment)
		return 0;
	if (ip->protocol == IPPROTO_AH)
		offset += 4;
	else if (ip->protocol != IPPROTO_ESP && !has_ports(ip->protocol))
		return 0;
	if (bpf_skb_load_bytes(skb, offset, &word, sizeof(word)))
		return 0;
	return word;
}

static __always_inline int is_icmp(const struct ip_header *ip)
{
	return !ip->is_fragment && (ip->protocol == IPPROTO_ICMP || ip->protocol == IPPROTO_ICMPV6);
}

/* struct flow_dissector_key_icmp */
struct icmp_word {
	__u8 type;
	__u8 code;
	__u16 id;
};

/* skb_flow_get_icmp_tci(): type, code and ID as one word, or 0 for a message without an ID. */
static __always_inline __u32 bonding_icmp_word(struct __sk_buff *skb, const struct ip_header *ip)
{
	struct icmp_word word;
	__u8 message[8];
	__u32 number;
	int has_id;

	if (bpf_skb_load_bytes(skb, ip->next_offset, message, sizeof(message)))
		return 0;
	if (ip->protocol == IPPROTO_ICMP)
		has_id = message[0] == 0 || message[0] == 8 || message[0] == 13 || message[0] == 14;
	else
		has_id = message[0] == 128 || message[0] == 129;
	if (!has_id)
		return 0;
	word.type = message[0];
	word.code = message[1];
	word.id = message[4] << 8 | message[5];
	if (!word.id)
		word.id = 1;
	__builtin_memcpy(&number, &word, sizeof(number));
	return number;
}

/* icmp_is_err() and icmpv6_is_err() */
static __always_inline int is_icmp_error(struct __sk_buff *skb, const struct ip_header *ip)
{
	__u8 type = 0;

	if (!is_icmp(ip) || bpf_skb_load_bytes(skb, ip->next_offset, &type, sizeof(type)))
		return 0;
	if (ip->protocol == IPPROTO_ICMPV6)
		return type >= 1 && type <= 4;
	return type == 3 || type == 4 || type == 5 || type == 11 || type == 12;
}

/* bond_ip_hash() of Linux 6.1 */
static __always_inline __u32 bonding_ip_hash(__u32 hash, const struct ip_header *ip, int drops_lowest_bit)
{
#pragma unroll
	for (int i = 0; i < 4; i++)
		hash ^= ip->source[i] ^ ip->destination[i];
	hash ^= hash >> 16;
	hash ^= hash >> 8;
	return drops_lowest_bit ? hash >> 1 : hash;
}

/* bond_flow_dissect() without tunnels: the IP header, or the one that an ICMP error quotes. */
static __always_inline int bonding_flow(struct __sk_buff *skb, __be16 ethertype, struct ip_header *ip, __u32 *word)
{
	__u32 quoted_offset;

	if (read_ip_header(skb, ETH_HLEN, ethertype, ip))
		return -1;
	*word = is_icmp(ip) ? bonding_icmp_word(skb, ip) : bonding_ports(skb, ip);
	if (!is_icmp_error(skb, ip))
		return 0;
	quoted_offset = ip->next_offset + 8;
	if (read_ip_header(skb, quoted_offset, ethertype, ip))
		return -1;
	*word = bonding_ports(skb, ip);
	return 0;
}

/* Returns the length of a GRE header of version 0 and sets the type of its payload. Returns 0 for other headers. */
static __always_inline __u32 read_gre_header(struct __sk_buff *skb, __u32 offset, __be16 *ethertype)
{
	__be16 header[2];

	if (bpf_skb_load_bytes(skb, offset, header, sizeof(header)) || header[0] & bpf_htons(0x4007))
		return 0;
	*ethertype = header[1];
	/* The checksum, the key and the sequence number are optional (RFC 2890). */
	return 4 + 4 * (!!(header[0] & bpf_htons(0x8000)) + !!(header[0] & bpf_htons(0x2000)) +
			!!(header[0] & bpf_htons(0x1000)));
}

/* __skb_flow_dissect(): the innermost IP header of IP-in-IP and GRE tunnels, behind IPv6 extension headers. */
static __always_inline int innermost_flow(struct __sk_buff *skb, __be16 ethertype, struct ip_header *ip)
{
	__u32 offset = ETH_HLEN;

	if (read_ip_header(skb, offset, ethertype, ip))
		return -1;
	for (int i = 0; i < MAX_HEADERS && !ip->is_fragment; i++) {
		__u8 extension[2];
		__u32 length;

		switch (ip->protocol) {
		case IPPROTO_IPIP:
			ethertype = bpf_htons(ETH_P_IP);
			offset = ip->next_offset;
			break;
		case IPPROTO_IPV6:
			ethertype = bpf_htons(ETH_P_IPV6);
			offset = ip->next_offset;
			break;
		case IPPROTO_GRE:
			length = read_gre_header(skb, ip->next_offset, &ethertype);
			if (!length)
				return 0;
			offset = ip->next_offset + length;
			break;
		case IPPROTO_FRAGMENT:
			ip->is_fragment = 1;
			return 0;
		case IPPROTO_HOPOPTS:
		case IPPROTO_ROUTING:
		case IPPROTO_DSTOPTS:
			if (bpf_skb_load_bytes(skb, ip->next_offset, extension, sizeof(extension)))
				return 0;
			ip->protocol = extension[0];
			ip->next_offset += 8 * (extension[1] + 1);
			continue;
		default:
			return 0;
		}

		struct ip_header inner;

		if (read_ip_header(skb, offset, ethertype, &inner))
			return 0;
		*ip = inner;
	}
	return 0;
}

/* bond_xmit_hash(). A frame without an IP header is hashed by its MAC addresses, as by the kernel. */
static __always_inline __u32 bonding_hash(struct __sk_buff *skb, const struct ethhdr *ethernet, int *lacks_fields)
{
	__u32 policy = config.policy, word = 0;
	int is_encapsulated = policy == BONDING_ENCAP23 || policy == BONDING_ENCAP34;
	int has_layer4 = policy == BONDING_LAYER34 || policy == BONDING_ENCAP34;
	struct ip_header ip;
	int status;

	if (policy == BONDING_VLAN_SOURCE_MAC)
		return bonding_vlan_hash(skb, ethernet);
	if (policy == BONDING_LAYER2)
		return bonding_ethernet_hash(ethernet);
	if (is_encapsulated) {
		status = innermost_flow(skb, ethernet->h_proto, &ip);
		if (!status)
			word = is_icmp(&ip) ? bonding_icmp_word(skb, &ip) : bonding_ports(skb, &ip);
	} else {
		status = bonding_flow(skb, ethernet->h_proto, &ip, &word);
	}
	if (status) {
		*lacks_fields = 1;
		return bonding_ethernet_hash(ethernet);
	}
	return bonding_ip_hash(has_layer4 ? word : bonding_ethernet_hash(ethernet), &ip, has_layer4);
}
