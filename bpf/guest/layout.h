/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The contents of the files in /proc/tccc, through which user space talks to the laboratory inside the guest kernel.
 *
 * One write is one request: a struct of this file, then its arrays, little endian and without padding. A request
 * applies to the writer's network namespace. src/virtual_time has the same structs in Rust, and a test compares them.
 */
#ifndef TCCC_LAYOUT_H
#define TCCC_LAYOUT_H

#ifdef __KERNEL__
#include <linux/types.h>
#else /* in tests */
#include <stdint.h>
typedef uint8_t u8;
typedef int32_t s32;
typedef uint32_t u32;
typedef uint64_t u64;
#endif

#define TCCC_DEVICE_NAME 16 /* including the final zero, as the kernel's IFNAMSIZ */

/* ---- /proc/tccc/links: link.c and src/lab/virtual_time/link.rs ---- */

#define TCCC_LINK_REQUEST_MAX (32 << 20) /* bytes, mostly positions of losses or opportunities of a trace */

/* The random numbers of a direction. Each kind of decision has its own generator. */
enum tccc_stream {
	TCCC_STREAM_LOSS,
	TCCC_STREAM_STATE, /* changes between the two states of a loss model */
	TCCC_STREAM_JITTER,
	TCCC_STREAM_REORDER,
	TCCC_STREAM_DUPLICATE,
	TCCC_STREAM_ACK_LOSS,
	TCCC_STREAM_ACK_HOLD, /* which acknowledgements begin a batch */
	TCCC_STREAM_HOST,     /* delay inside the sending host */
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

/* Pure acknowledgements that are held at the end of the link and leave together, as a batch. */
struct tccc_ack_hold {
	u64 time_ns; /* longest time that one is held; 0: none is held, and the other fields are ignored */
	u64 pkts;    /* the batch leaves when this many have come */
	u64 share;   /* share of acknowledgements that begin a batch, if none is held */
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
	char device[TCCC_DEVICE_NAME];
	u64 rate_bps; /* 0: serialisation takes no time */
	u64 delay_ns;
	u64 jitter_ns;	   /* largest random addition to the delay, uniform, without reordering */
	u64 held_back_ns;  /* additional delay of packets that others may overtake */
	u64 held_back;	   /* share */
	u64 duplicate;	   /* share */
	u64 ack_loss;	   /* share, of pure acknowledgements */
	u64 host_delay_ns; /* largest random delay before the link, uniform, without reordering */
	u64 sample_ns;	   /* between samples of the queue; 0: none */
	struct tccc_limit queue;
	struct tccc_limit queue_low; /* for packets of low priority */
	struct tccc_limit mark;	     /* a packet that finds at least this much in the queue is marked */
	struct tccc_ack_hold ack_hold;
	struct tccc_generator generators[TCCC_STREAMS];
	u64 step_counts[TCCC_CHANGES];
	u64 loss_count;
	u64 position_count;
	u64 opportunity_count; /* 0: rate_bps applies; else ascending milliseconds, the last is the trace's length */
};

/* Read: for each direction, in the order of the requests, this and then the positions of the first lost packets. */
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
	u64 acks_lost_pkts;
	u64 acks_held_pkts;
	u64 acks_thinned_pkts;
	u64 reordered_pkts;
	u64 failed_pkts;
	u64 max_queue_pkts;
	u64 late_ns; /* largest lateness of a packet; 0 if the guest's clock hits every due time */
	u64 first_lost_count;
};

/* ---- /proc/tccc/queues: link.c and src/lab/virtual_time/link.rs ---- */

/* Read: for each direction, in the order of the requests, the number of its samples (u64) and then the samples. */
struct tccc_queue_sample {
	u64 at_ns; /* CLOCK_MONOTONIC */
	u64 queue_pkts;
	u64 wait_ns;	   /* of a packet that would arrive now, until its first bit is sent */
	u64 overflow_pkts; /* so far */
	u64 marked_pkts;   /* so far */
};

/* ---- /proc/tccc/flows: traffic.c and src/lab/virtual_time/flow.rs ---- */

#define TCCC_FLOWS_MAX 256
#define TCCC_FLOW_ALGORITHM 16 /* including the final zero, as the kernel's TCP_CA_NAME_MAX */

enum tccc_end {
	TCCC_END_RECEIVES = 1,
	TCCC_END_SENDS = 2,
};

enum tccc_sends {
	TCCC_SENDS_BULK = 1,
	TCCC_SENDS_TRANSFERS = 2, /* each over its own connection, from its own port */
	TCCC_SENDS_MESSAGES = 3,  /* all over one connection */
	TCCC_SENDS_DATAGRAMS = 4,
};

/* One end of a flow. The receiving end is written first. Both ends describe the flow with the same values. */
struct tccc_flow_request {
	u64 start_ns;	 /* from the start of the run */
	u64 length_ns;	 /* counted from the first data of a bulk flow, and from the start of other flows */
	u64 from_start;	 /* 1: a bulk flow too counts from its start */
	u64 interval_ns; /* from the start of one transfer, message or datagram to the start of the next */
	u64 bytes;	 /* payload of each transfer, message or datagram */
	u64 settle_ns;	 /* no datagram is left on the path if none arrived for this long */
	u32 flow;	 /* index among the flows, from 0 */
	u32 end;	 /* enum tccc_end */
	u32 sends;	 /* enum tccc_sends */
	u32 count;	 /* transfers or messages; 1 for others */
	u32 window_cap;	 /* packets; this and the next two: 0 leaves the kernel's value */
	u32 initial_ssthresh;
	u32 initial_cwnd;
	u32 netns; /* number of the sender's network namespace in events */
	u8 from_address[4];
	u8 to_address[4];
	u32 from_port; /* of the first connection */
	u32 to_port;
	char algorithm[TCCC_FLOW_ALGORITHM];
};

/* Read: for each flow, in order, this and then `transfers` struct tccc_transfer_report. */
struct tccc_flow_report {
	u64 received_bytes;    /* payload of a bulk flow or of datagrams that arrived while the receiver counted */
	u64 counted_ns;	       /* how long the receiver of a bulk flow counted; 0: it received no cookie */
	u64 sent_pkts;	       /* this and the fields up to latest_ns: datagrams */
	u64 arrived_pkts;      /* without copies, including late ones */
	u64 received_pkts;     /* without copies, within the length, counted from the first arrival */
	u64 first_ns;	       /* first arrival; of a bulk flow: when the receiver began to count */
	u64 last_ns;	       /* arrival of the last of received_pkts */
	u64 latest_ns;	       /* largest lateness of a datagram at the sender */
	u64 busy_us;	       /* as in the kernel's tcp_info, over all connections: the sender had data */
	u64 rwnd_limited_us;   /* and the receive window was the limit */
	u64 sndbuf_limited_us; /* and its own buffer was the limit */
	u32 flow;
	u32 is_done; /* 0: the flow was given up at the end of the run */
	s32 error;   /* why a bulk flow or datagrams failed: a negative errno, or 0 */
	u32 retrans_pkts;
	u32 mss_bytes;
	u32 transfers;
	char algorithm[TCCC_FLOW_ALGORITHM];
};

/* A transfer or message that has begun. It is complete when all of its bytes have arrived. */
struct tccc_transfer_report {
	u64 begun_ns; /* CLOCK_MONOTONIC */
	u64 last_ns;  /* arrival of the last byte; 0: nothing arrived */
	u64 received_bytes;
	u32 port;  /* of the sender */
	s32 error; /* why its connection failed: a negative errno, or 0 */
};

/* ---- /proc/tccc/events: watch.c and src/lab/virtual_time/flow.rs ---- */

/* Written before the run. Without this request nothing is traced. */
struct tccc_watch_request {
	u64 interval_ns; /* between samples of one socket */
	u64 loss_gap_ns; /* shortest time between LOSS events of one socket */
	u64 bytes_max;	 /* memory for events; further events are dropped */
};

/* Read: this and then the events, struct tccc_event of trace_event.h, in order of time. */
struct tccc_watch_report {
	u64 dropped;
	u32 version; /* TCCC_EVENT_VERSION */
	u32 event_bytes;
};

/* ---- /proc/tccc/run: lab.c and src/lab/virtual_time/flow.rs ---- */

/* Written: starts links and flows. Returns when all flows are over, at the latest after length_ns + grace_ns. */
struct tccc_run_request {
	u64 length_ns;
	u64 grace_ns;
};

/* Read. */
struct tccc_run_report {
	u64 begin_ns; /* CLOCK_MONOTONIC: start of the run, from which links and flows count */
	u64 end_ns;
	u64 unfinished; /* flows that were given up */
};

#endif
