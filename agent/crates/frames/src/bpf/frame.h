/* Definitions shared by the generator and the sink: the header in a frame's UDP payload, and the histogram of durations. */
#ifndef FRAME_H
#define FRAME_H

#include <linux/types.h>

/* Header in front of the UDP payload, big endian, as in streams/src/datagram_header.rs. */
struct datagram_header {
	/* The stream's key: its id XOR the secret of the trial. */
	__be32 key;
	/* The frame's number, from 0. */
	__be32 number[2];
	/* The lowest 48 bits of CLOCK_MONOTONIC, in nanoseconds. */
	__u8 sent[6];
} __attribute__((packed));

/* Dynamic UDP ports (RFC 6335). Flows vary the source port first. As in template.rs. */
#define FIRST_PORT 49152
#define PORT_COUNT 16384

/* From this number on, frames are probes that teach the device where the port is. Sinks do not count them. */
#define FIRST_PROBE_NUMBER (~0ULL - 1)

/* The histogram of system/src/histogram.rs: 128 buckets for each power of two. The last bucket has 2^36 ns and more. */
#define HISTOGRAM_BITS 7
#define HISTOGRAM_MAX_BITS 36
#define HISTOGRAM_BUCKETS ((HISTOGRAM_MAX_BITS - HISTOGRAM_BITS + 1) << HISTOGRAM_BITS)

/* The position of the highest set bit. */
static __always_inline __u32 floor_log2(__u64 value)
{
	__u32 log = 0;

	/* Bisection: the BPF instruction set cannot count leading zeros. */
#pragma unroll
	for (__u32 step = 32; step; step >>= 1)
		if (value >> step) {
			value >>= step;
			log += step;
		}
	return log;
}

static __always_inline __u32 histogram_bucket(__u64 nanos)
{
	__u32 shift;

	if (nanos >> HISTOGRAM_MAX_BITS)
		return HISTOGRAM_BUCKETS - 1;
	if (nanos < (1 << HISTOGRAM_BITS))
		return nanos;
	shift = floor_log2(nanos) - HISTOGRAM_BITS;
	return (shift << HISTOGRAM_BITS) + (nanos >> shift);
}

#endif
