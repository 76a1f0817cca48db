#include <linux/bpf.h>
#define SEC(n) __attribute__((section(n), used))
static unsigned (*rnd)(void) = (void *)7;
SEC("xdp") int pass(struct xdp_md *c) { return XDP_PASS; }
SEC("xdp/slow") int slow(struct xdp_md *c) { unsigned x = 0; for (int i = 0; i < 40; i++) x |= rnd(); return x == 1 ? XDP_DROP : XDP_PASS; }
char l[] SEC("license") = "GPL";
