/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The request that configures one direction of a link, its counters, and the samples of its queue.
 *
 * A request is struct tccc_link_request, then its arrays, little endian and without padding. The emulator and the guest
 * kernel of virtual time read the same bytes. src/lab/path/request.rs writes them, with types made from these structs.
 */
#ifndef TCCC_REQUEST_H
#define TCCC_REQUEST_H

#ifdef __KERNEL__
#include <linux/types.h>
#else /* in user space */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
typedef uint8_t u8;
typedef int32_t s32;
typedef uint32_t u32;
typedef uint64_t u64;
#endif

#define TCCC_DEVICE_NAME 16 /* including the final zero, as the kernel's IFNAMSIZ */

/* The random numbers of a direction. Each kind of decision has its own generator. */
enum tccc_stream {
	TCCC_STREAM_LOSS,
	TCCC_STREAM_STATE, /* changes between the two states of a loss model */
	TCCC_STREAM_JITTER,
	TCCC_STREAM_REORDER,
	TCCC_STREAM_DUPLICATE,
	TCCC_STREAM_ACK_LOSS,
	TCCC_STREAM_HOLD, /* which packets begin a batch */
	TCCC_STREAM_HOST, /* delay inside the sending host */
	TCCC_STREAMS,
};

enum tccc_loss_kind {
	TCCC_LOSS_INDEPENDENT = 1,
	TCCC_LOSS_STATES = 2,
	TCCC_LOSS_POSITIONS = 3,
};

/* TCCC_LIMIT_NONE: no packet is marked, or packets of low priority have no limit of their own. */
enum tccc_limit_unit {
	TCCC_LIMIT_NONE = 0,
	TCCC_LIMIT_PKTS = 1,
	TCCC_LIMIT_BYTES = 2,
};

/* Values that change over time. Each has its own list of steps. */
enum tccc_change {
	TCCC_CHANGE_RATE,   /* bits per second */
	TCCC_CHANGE_DELAY,  /* nanoseconds */
	TCCC_CHANGE_UP,	    /* 0 or 1 */
	TCCC_CHANGE_LOSS,   /* index of a loss model */
	TCCC_CHANGE_JITTER, /* twice the longest in nanoseconds, or twice the share of a Wi-Fi and 1 more; jitter.h */
	TCCC_CHANGE_QUEUE,  /* what it holds: twice `most` of struct tccc_limit, and 1 more if that is in bytes */
	TCCC_CHANGE_DISCIPLINE, /* class of the guest's qdisc whose queue discipline takes over */
	TCCC_CHANGES,
};

/* A PCG64 generator (XSL-RR 128/64). */
struct tccc_generator {
	u64 state_low;
	u64 state_high;
	u64 increment_low;
	u64 increment_high;
};

/* How much a queue holds. */
struct tccc_limit {
	u64 unit; /* enum tccc_limit_unit */
	u64 most;
};

/* Packets that are held at the end of the link and leave together, as a batch. */
struct tccc_hold {
	u64 time_ns; /* longest time that one is held; 0: none is held, and the other fields are ignored */
	u64 pkts;    /* the batch leaves when this many have come */
	u64 share;   /* share of packets that begin a batch, if none is held */
	u64 every;   /* 1: all packets; 0: pure acknowledgements alone */
	u64 newest;  /* 1: drops held ones that a newer one of the same flow makes redundant */
};

/* A value that applies from a time on, counted from the start of the run. */
struct tccc_step {
	u64 at_ns;
	u64 value;
};

/* Which packets are lost. A share is a probability times 2^53. */
struct tccc_loss {
	u64 kind;	    /* enum tccc_loss_kind */
	u64 good_loss;	    /* share; independent losses use only this one */
	u64 bad_loss;	    /* share */
	u64 to_bad;	    /* share: from the good state to the bad one */
	u64 to_good;	    /* share */
	u64 first_position; /* index of this model's first position */
	u64 positions;	    /* number of positions */
};

/*
 * One direction of a link, for the packets that leave through a device. These arrays follow it: TCCC_CHANGES lists of
 * struct tccc_step, of step_counts[] entries; loss_count struct tccc_loss, the first of which applies at the start;
 * position_count u64; opportunity_count u32.
 */
struct tccc_link_request {
	char device[TCCC_DEVICE_NAME]; /* of the guest; the emulator ignores it */
	u64 rate_bps;		       /* 0: serialisation takes no time */
	u64 delay_ns;
	u64 jitter;	      /* random addition to the delay, without reordering; as in TCCC_CHANGE_JITTER */
	u64 held_back_ns;     /* additional delay of packets that others may overtake */
	u64 held_back;	      /* share */
	u64 duplicate;	      /* share */
	u64 ack_loss;	      /* share, of pure acknowledgements */
	u64 host_delay_ns;    /* largest random delay before the link, uniform, without reordering */
	u64 service_cleared;  /* bits of the IP header's second byte that become 0 when a packet enters */
	u64 ect_replaced;     /* a codepoint in that byte, ECT(0) or ECT(1), that becomes the other one; 0: none */
	u64 policer_bps;      /* packets above this rate are dropped before the queue; 0: none */
	u64 policer_burst_ns; /* what passes at once, as time at this rate */
	u64 sample_ns;	      /* between samples of the queue; 0: none */
	struct tccc_limit queue;
	struct tccc_limit queue_low; /* for packets of low priority */
	struct tccc_limit mark;	     /* a packet that finds at least this much in the queue is marked */
	struct tccc_hold hold;
	struct tccc_generator generators[TCCC_STREAMS];
	u64 step_counts[TCCC_CHANGES];
	u64 loss_count;
	u64 position_count;
	u64 opportunity_count; /* 0: rate_bps applies; else ascending milliseconds */
	u64 round_ms;	       /* length of the trace of opportunities, which then repeats */
};

/* Counts of one direction. Who carries the packets counts those that were sent, were late or failed. */
struct tccc_link_counters {
	u64 received_pkts;
	u64 sent_pkts;
	u64 sent_bytes; /* whole IP packets */
	u64 lost_pkts;
	u64 loss_runs;
	u64 down_pkts;
	u64 policed_pkts;
	u64 overflow_pkts;
	u64 marked_pkts;
	u64 duplicated_pkts;
	u64 acks_lost_pkts;
	u64 acks_held_pkts;
	u64 held_pkts; /* in batches of all packets */
	u64 acks_thinned_pkts;
	u64 reordered_pkts;
	u64 failed_pkts;
	u64 max_queue_pkts;
	u64 late_ns; /* largest lateness of a packet; 0 if the guest's clock hits every due time */
	u64 first_lost_count;
};

/* The buckets of struct times in times.h: none, then 32 for each power of two from 2^10 to 2^40 ns. */
enum tccc_times_layout {
	TCCC_TIMES_LEAST_BITS = 10,
	TCCC_TIMES_STEP_BITS = 5,
	TCCC_TIMES_BUCKETS = 993,
};

/* The queue of one direction at one moment. */
struct tccc_queue_sample {
	u64 at_ns; /* CLOCK_MONOTONIC */
	u64 queue_pkts;
	u64 wait_ns;	   /* of a packet that would arrive now, until its first bit is sent */
	u64 overflow_pkts; /* so far */
	u64 marked_pkts;   /* so far */
};

#endif
