/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The bytes of the files in /proc/tccc, by which user space and the laboratory inside the guest kernel talk.
 *
 * One write is one request: a struct of this file, then its arrays, little endian and without padding. A request is about
 * the network namespace of whoever writes. src/experiment/virtual_time has the same structs in Rust; a test compares them.
 */
#ifndef TCCC_LAB_H
#define TCCC_LAB_H

/* A test compiles this file outside the kernel and brings the integer types along. */
#ifdef __KERNEL__
#include <linux/types.h>
#endif

#define TCCC_DEVICE_NAME 16 /* with the final zero, as the kernel's IFNAMSIZ */

/* ---- /proc/tccc/links: link.c and src/experiment/virtual_time/link.rs ---- */

#define TCCC_LINK_REQUEST_MAX (32 << 20) /* bytes: most of it are positions of losses, or opportunities of a trace */

/* Random numbers of a direction: each kind of decision has a generator of its own. */
enum tccc_stream {
	TCCC_STREAM_LOSS,
	TCCC_STREAM_STATE, /* changes between the two states of a loss model */
	TCCC_STREAM_JITTER,
	TCCC_STREAM_REORDER,
	TCCC_STREAM_DUPLICATE,
	TCCC_STREAM_HOST, /* delay inside the sending host */
	TCCC_STREAMS,
};

enum tccc_loss_kind {
	TCCC_LOSS_INDEPENDENT = 1,
	TCCC_LOSS_STATES = 2,
	TCCC_LOSS_POSITIONS = 3,
};

/* TCCC_LIMIT_NONE: nothing marks, or packets of low priority find the same queue as others. */
enum tccc_limit_unit {
	TCCC_LIMIT_NONE = 0,
	TCCC_LIMIT_PKTS = 1,
	TCCC_LIMIT_BYTES = 2,
};

/* What changes by time; each kind has its own list of steps. */
enum tccc_change {
	TCCC_CHANGE_RATE,  /* bits per second */
	TCCC_CHANGE_DELAY, /* nanoseconds */
	TCCC_CHANGE_UP,	   /* 0 or 1 */
	TCCC_CHANGE_LOSS,  /* index of a loss model */
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

/* A value from a moment on, counted from the start of the run. */
struct tccc_step {
	u64 at_ns;
	u64 value;
};

/* Which packets are lost. A share is a threshold of 2^53: a number below it is drawn with that probability. */
struct tccc_loss {
	u64 kind;	    /* enum tccc_loss_kind */
	u64 good_loss;	    /* share; of independent losses the only one */
	u64 bad_loss;	    /* share */
	u64 to_bad;	    /* share: from the good state to the bad one */
	u64 to_good;	    /* share */
	u64 first_position; /* index of the first one of this model */
	u64 positions;	    /* how many */
};

/*
 * One direction of a link: what the packets meet that leave by a device. In this order behind it:
 * step_counts[] lists of struct tccc_step, loss_count struct tccc_loss (the first holds at the start),
 * position_count u64, opportunity_count u32.
 */
struct tccc_link_request {
	char device[TCCC_DEVICE_NAME];
	u64 rate_bps; /* 0: sending takes no time */
	u64 delay_ns;
	u64 jitter_ns;	    /* uniform addition to the delay, up to this, without reordering */
	u64 held_back_ns;   /* how much longer packets take that others overtake */
	u64 held_back;	    /* share */
	u64 duplicate;	    /* share */
	u64 host_delay_ns;  /* uniform delay before the link, up to this, without reordering */
	u64 splits_packets; /* 1: packets of several segments are segmented; 0: the device never gets any */
	struct tccc_limit queue;
	struct tccc_limit queue_low; /* for packets of low priority */
	struct tccc_limit mark;	     /* what waits in front of a packet that is marked */
	struct tccc_generator generators[TCCC_STREAMS];
	u64 step_counts[TCCC_CHANGES];
	u64 loss_count;
	u64 position_count;
	u64 opportunity_count; /* 0: the rate holds; else milliseconds, ascending, the last one is the trace's length */
};

/* Read: for each direction, in the order of the first requests about it, this and then the positions of lost packets. */
struct tccc_link_counters {
	u64 received_pkts;
	u64 sent_pkts;
	u64 sent_bytes; /* whole IP packets */
	u64 lost_pkts;
	u64 loss_runs;
	u64 down_pkts;
	u64 overflow_pkts;
	u64 marked_pkts;
	u64 duplicated_pkts;
	u64 reordered_pkts;
	u64 failed_pkts;
	u64 max_queue_pkts;
	u64 late_ns; /* largest delay of a packet behind its moment: 0 when the guest's clock keeps every moment */
	u64 first_lost_count;
};

#endif
