/* Layout of the sink's maps. arrivals.rs has the same layout. */
#ifndef ARRIVALS_H
#define ARRIVALS_H

#include <linux/types.h>

/* Stream ids are below this limit. As in filter.rs. */
#define MAX_STREAMS 1024
#define MAX_VLAN_TAGS 2
#define ETH_FCS_LEN 4

/* Role of a stream at this endpoint, as in filter.rs. The role of a sink is its index plus FIRST_SINK_ROLE. */
#define NO_STREAM 0
#define OWN_SOURCE_ROLE 1
#define FIRST_SINK_ROLE 2

/* The sink detects duplicates among the last 2^WINDOW_BITS numbers. */
#define WINDOW_BITS 20
#define NUMBERS_PER_WORD 32
#define BITMAP_WORDS ((1 << WINDOW_BITS) / NUMBERS_PER_WORD)
/* Leaves 32 bits of a number for the epoch in the upper half of its bitmap word. */
#define NUMBER_BITS (WINDOW_BITS + 32)
/* A compare-and-swap fails only when another CPU succeeds, so this limit is not reached in practice. */
#define MAX_SWAP_TRIES 64

/* Maximum age of a frame that is attributed to another trial. */
#define MAX_OTHER_TRIAL_AGE_NS 10000000000LL

/* Classes of foreign frames. As `ForeignFrameClass` in frame_class.rs. */
enum frame_class {
	CLASS_OWN_RETURNED,
	CLASS_OTHER_TRIAL,
	CLASS_ARP,
	CLASS_IPV4,
	CLASS_IPV6,
	CLASS_UNKNOWN,
	CLASS_COUNT,
};

/* Bytes kept of an example frame: enough to name the protocol and the sender. */
#define EXAMPLE_BYTES 64

/* Counters of one stream on one CPU. */
struct stream_counters {
	/* Distinct frames: duplicates are not included. */
	__u64 frames;
	/* Bytes of these frames, with FCS. */
	__u64 bytes;
	__u64 duplicates;
	__u64 out_of_order;
	/* Frames so late that the bitmap cannot show whether they are duplicates; counted in `frames`. */
	__u64 before_window;
	/* Frames whose transit time is negative or too long: the sender uses another clock. */
	__u64 impossible_transits;
	__s64 last_transit;
	/* In sixteenths of a nanosecond. */
	__s64 jitter;
};

/* Sequence state of one stream, shared by all CPUs. */
struct sequence_state {
	/* The highest number received, plus one; 0 before the first frame. */
	__u64 next_number;
	/* Padding: every frame changes `next_number`, so streams must not share a cache line. */
	__u64 unused[15];
};

/* Counters of one CPU. */
struct cpu_counters {
	__u64 foreign[CLASS_COUNT];
	/* The first bytes of the first frame of each class. */
	__u8 examples[CLASS_COUNT][EXAMPLE_BYTES];
	/* One bit for each power of two that has a nonzero bucket. */
	__u64 nonempty_octaves;
	__u64 delay_buckets[HISTOGRAM_BUCKETS];
};

#endif
