/* What the sink keeps in its maps; arrivals.rs has the same layout. */
#ifndef ARRIVALS_H
#define ARRIVALS_H

#include <linux/types.h>

/* A stream's id is below this. */
#define MAX_STREAMS 1024
#define MAX_VLAN_TAGS 2
#define ETH_FCS_LEN 4

/* What a stream is to a side: none of its streams, one that it sends, or the first, second … that it counts. */
#define NO_STREAM 0
#define OWN_SOURCE 1
#define FIRST_SINK 2

/* So many numbers back it is known which have come. */
#define WINDOW_BITS 20
#define NUMBERS_OF_WORD 32
#define WORDS ((1 << WINDOW_BITS) / NUMBERS_OF_WORD)
/* A number must leave 32 bits for the epoch of its word. */
#define NUMBER_BITS (WINDOW_BITS + 32)
/* Each failed try is another CPU's success. */
#define MAX_TRIES 64

/* A frame of another trial was sent no longer ago. */
#define RECENT_NS 10000000000LL

enum kind {
	KIND_OWN,
	KIND_OTHER_TRIAL,
	KIND_ARP,
	KIND_IPV4,
	KIND_IPV6,
	KIND_OTHER,
	KINDS,
};

/* What a person needs to know of a frame stands in so many bytes. */
#define EXAMPLE_BYTES 64

struct account {
	/* For the first time. */
	__u64 frames;
	/* Of these, with FCS. */
	__u64 bytes;
	__u64 duplicates;
	__u64 out_of_order;
	/* Of these, those too late to tell whether they are duplicates. */
	__u64 before_window;
	/* Those that cannot have been under way as long as their time says. */
	__u64 impossible_transits;
	__s64 last_transit;
	/* In sixteenths of a nanosecond. */
	__s64 jitter;
};

struct order {
	/* One more than the highest number yet; 0: none has come. */
	__u64 next;
	/* It changes with every frame: no other stream's may be near it. */
	__u64 unused[15];
};

struct receiver {
	__u64 foreign[KINDS];
	/* Of the first of each kind. */
	__u8 examples[KINDS][EXAMPLE_BYTES];
	/* A bit for each power of two that has a count. */
	__u64 touched;
	__u64 delay[HISTOGRAM_BUCKETS];
};

#endif
