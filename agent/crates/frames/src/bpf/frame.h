/* What the programs of generator and sink share: what stands at the head of a frame's UDP payload, and how durations are
 * counted by size. */
#ifndef FRAME_H
#define FRAME_H

#include <linux/types.h>

/* Big endian, as in streams/src/datagram_header.rs: the stream's key, the frame's number from 0, and the lowest 48 bits of
 * CLOCK_MONOTONIC in nanoseconds. */
struct head {
	__be32 key;
	__be32 number[2];
	__u8 sent[6];
} __attribute__((packed));

/* Ports that are nobody's (RFC 6335): flows count through the source's first. As in template.rs. */
#define FIRST_PORT 49152
#define PORTS 16384

/* Numbers from this one on are of frames that only make the port known to the device. */
#define FIRST_LEARNING (~0ULL - 1)

/* The histogram of system/src/histogram.rs: each power of two in 128 buckets; 2^36 ns and more in the last one. */
#define HISTOGRAM_BITS 7
#define HISTOGRAM_MOST_BITS 36
#define HISTOGRAM_BUCKETS ((HISTOGRAM_MOST_BITS - HISTOGRAM_BITS + 1) << HISTOGRAM_BITS)

static __always_inline __u32 log2_of(__u64 value)
{
	__u32 log = 0;

	/* By halves: the instruction set has none that counts zeroes. */
#pragma unroll
	for (__u32 step = 32; step; step >>= 1)
		if (value >> step) {
			value >>= step;
			log += step;
		}
	return log;
}

static __always_inline __u32 bucket_of(__u64 nanos)
{
	__u32 shift;

	if (nanos >> HISTOGRAM_MOST_BITS)
		return HISTOGRAM_BUCKETS - 1;
	if (nanos < (1 << HISTOGRAM_BITS))
		return nanos;
	shift = log2_of(nanos) - HISTOGRAM_BITS;
	return (shift << HISTOGRAM_BITS) + (nanos >> shift);
}

#endif
