/* What the agent sets of a team. */

#pragma once

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

/* The numbers of policies, fields and reductions are those of src/policy.rs. */
#define MAX_MEMBERS 16

enum policy {
	ACTIVE_MEMBER,
	TURNS,
	COPIES,
	BONDING_LAYER2,
	BONDING_LAYER23,
	BONDING_LAYER34,
	BONDING_ENCAP23,
	BONDING_ENCAP34,
	BONDING_VLAN_SOURCE_MAC,
	XOR_OF_FIELDS,
	TABLE_OF_PORTS,
	TABLE_OF_SOURCE_MACS,
};

enum field {
	SOURCE_MAC = 1,
	DESTINATION_MAC = 2,
	SOURCE_IP = 4,
	DESTINATION_IP = 8,
	SOURCE_PORT = 16,
	DESTINATION_PORT = 32,
};

enum reduction {
	WHOLE_NUMBER,
	LAST_OCTET,
	EIGHT_BUCKETS,
	XOR_OF_OCTETS,
};

struct team_config {
	__u32 port;
	__u32 member_count;
	__u32 members[MAX_MEMBERS];
	__u32 policy;
	__u32 fields;
	__u32 reduction;
	/* The member that carries everything (ACTIVE_MEMBER), or that receives group frames if the far end does not bundle. */
	__u32 active;
	__u32 is_bundled;
};

/* Set before the program is loaded. */
const volatile struct team_config config = {};
