/* Makes one stream's frames: run by BPF_PROG_TEST_RUN with live frames, once for each page that may become one. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "frame.h"

/* In 32-bit words; what traffic/template.rs makes: Ethernet, two tags, IPv6, UDP and the head are 88 bytes. */
#define MOST_WORDS 22
#define HEAD_WORDS 5
#define MOST_SIZES 64

/* Constants, set before the program is loaded: the verifier drops the branches that they rule out. */

/* All of a frame up to the end of its head, of the first of the sizes. */
const volatile __u32 words[MOST_WORDS];
const volatile __u32 head_word = 10;

/* The port, as the only element. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} port SEC(".maps");

/* As in generate.rs. */
struct progress {
	__u64 made;
	__u64 sent;
	__u64 refused;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct progress);
} progress SEC(".maps");

SEC("xdp")
int generate(struct xdp_md *ctx)
{
	(void)ctx;
	return bpf_redirect_map(&port, 0, 0);
}

char LICENSE[] SEC("license") = "Apache-2.0";
