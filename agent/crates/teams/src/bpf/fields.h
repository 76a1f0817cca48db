/* The XOR of fields as numbers, as by ESXi's IP hash, physical switches and the team driver. */

#pragma once

#include "config.h"
#include "headers.h"

/* A number of 128 bits, in words from the highest to the lowest. */
struct wide_number {
	__u32 words[4];
};

static __always_inline void xor_address(struct wide_number *number, const __u32 *address)
{
#pragma unroll
	for (int i = 0; i < 4; i++)
		number->words[i] ^= bpf_ntohl(address[i]);
}

static __always_inline void xor_mac(struct wide_number *number, const __u8 *mac)
{
	__u64 value = mac_number(mac);

	number->words[2] ^= value >> 32;
	number->words[3] ^= (__u32)value;
}

/* Reads both ports. The first fragment of a packet has them too, behind the fragment header of IPv6. */
static __always_inline int read_ports(struct __sk_buff *skb, const struct ip_header *ip, __be16 *ports)
{
	__u32 protocol = ip->protocol, offset = ip->next_offset;

	if (protocol == IPPROTO_FRAGMENT) {
		__u8 header[8];

		if (bpf_skb_load_bytes(skb, offset, header, sizeof(header)) || header[2] || header[3] & 0xf8)
			return -1;
		protocol = header[0];
		offset += sizeof(header);
	}
	if (ip->is_later_fragment || !has_ports(protocol))
		return -1;
	return bpf_skb_load_bytes(skb, offset, ports, 4);
}

/* XORs the chosen fields as numbers. A protocol without ports counts as port 0. */
static __always_inline struct wide_number xor_of_fields(struct __sk_buff *skb, const struct ethhdr *ethernet,
							int *lacks_fields)
{
	struct wide_number number = {};
	__be16 ethertype = ethernet->h_proto, ports[2] = {};
	__u32 offset = ETH_HLEN;
	struct ip_header ip;

	if (config.fields & SOURCE_MAC)
		xor_mac(&number, ethernet->h_source);
	if (config.fields & DESTINATION_MAC)
		xor_mac(&number, ethernet->h_dest);
	if (!(config.fields & ~(__u32)(SOURCE_MAC | DESTINATION_MAC)))
		return number;
	if (ethertype == bpf_htons(ETH_P_8021Q)) {
		bpf_skb_load_bytes(skb, offset + 2, &ethertype, sizeof(ethertype));
		offset += 4;
	}
	if (read_ip_header(skb, offset, ethertype, &ip)) {
		*lacks_fields = 1;
		return number;
	}
	if (config.fields & SOURCE_IP)
		xor_address(&number, ip.source);
	if (config.fields & DESTINATION_IP)
		xor_address(&number, ip.destination);
	if (config.fields & (SOURCE_PORT | DESTINATION_PORT)) {
		if (read_ports(skb, &ip, ports))
			return number;
		if (config.fields & SOURCE_PORT)
			number.words[3] ^= bpf_ntohs(ports[0]);
		if (config.fields & DESTINATION_PORT)
			number.words[3] ^= bpf_ntohs(ports[1]);
	}
	return number;
}

/* Returns the remainder of the number, or of a part of it, after division by the number of members. */
static __always_inline __u32 reduce(struct wide_number number)
{
	__u32 lowest = number.words[3], count = config.member_count;
	__u64 remainder = 0;

	switch (config.reduction) {
	case LAST_OCTET:
		return (lowest & 0xff) % count;
	case EIGHT_BUCKETS:
		return (lowest & 7) % count;
	case XOR_OF_OCTETS:
		lowest ^= number.words[0] ^ number.words[1] ^ number.words[2];
		lowest ^= lowest >> 16;
		return ((lowest ^ lowest >> 8) & 0xff) % count;
	default:
#pragma unroll
		for (int i = 0; i < 4; i++)
			remainder = (remainder << 32 | number.words[i]) % count;
		return remainder;
	}
}
