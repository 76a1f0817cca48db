/* Limits the pacing rate of each TCP connection of a control group, as a bandwidth manager of containers does. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define SOL_SOCKET 1
#define SO_MAX_PACING_RATE 47

const volatile unsigned int bytes_per_s = 0;

SEC("sockops")
int limit_pacing(struct bpf_sock_ops *operation)
{
	unsigned int rate = bytes_per_s;

	if (operation->op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB ||
	    operation->op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		bpf_setsockopt(operation, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof(rate));
	return 1;
}

char _license[] SEC("license") = "Apache-2.0";
