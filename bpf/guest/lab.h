/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The bytes of the files in /proc/tccc, by which user space and the laboratory inside the guest kernel talk.
 *
 * One write is one request: a struct of this file, then its arrays, little endian and without padding. A request is about
 * the network namespace of whoever writes. src/virtual_time has the same structs in Rust; a test compares them.
 */
#ifndef TCCC_LAB_H
#define TCCC_LAB_H

#ifdef __KERNEL__
#include <linux/types.h>
#else /* in tests */
#include <stdint.h>
typedef uint8_t u8;
typedef int32_t s32;
typedef uint32_t u32;
typedef uint64_t u64;
#endif

#define TCCC_DEVICE_NAME 16 /* with the final zero, as the kernel's IFNAMSIZ */

/* ---- /proc/tccc/links: link.c and src/virtual_time/link.rs ---- */

#define TCCC_LINK_REQUEST_MAX (32 << 20) /* bytes: most of it are positions of losses, or opportunities of a trace */

/* Random numbers of a direction: each kind of decision has a generator of its own. */
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

/* Pure acknowledgements that are held at the end and leave together. */
struct tccc_ack_hold {
	u64 time_ns; /* longest that one is held; 0: none is, and the others mean nothing */
	u64 pkts;    /* when so many have come, they leave */
	u64 share;   /* of those that are not held, what begins a batch */
	u64 newest;  /* 1: only the newest one of a flow leaves, with those that tell more than it does */
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
	u64 jitter_ns;	   /* uniform addition to the delay, up to this, without reordering */
	u64 held_back_ns;  /* how much longer packets take that others overtake */
	u64 held_back;	   /* share */
	u64 duplicate;	   /* share */
	u64 ack_loss;	   /* share, of pure acknowledgements */
	u64 host_delay_ns; /* uniform delay before the link, up to this, without reordering */
	struct tccc_limit queue;
	struct tccc_limit queue_low; /* for packets of low priority */
	struct tccc_limit mark;	     /* what waits in front of a packet that is marked */
	struct tccc_ack_hold ack_hold;
	struct tccc_generator generators[TCCC_STREAMS];
	u64 step_counts[TCCC_CHANGES];
	u64 loss_count;
	u64 position_count;
	u64 opportunity_count; /* 0: the rate holds; else milliseconds, ascending, the last one is the trace's length */
};

/* Read: for each direction, in the order of the requests, this and then the positions of lost packets. */
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
	u64 late_ns; /* largest delay of a packet behind its moment: 0 when the guest's clock keeps every moment */
	u64 first_lost_count;
};

/* ---- /proc/tccc/flows: traffic.c and src/virtual_time/flow.rs ---- */

#define TCCC_FLOWS_MAX 256
#define TCCC_FLOW_ALGORITHM 16 /* with the final zero, as the kernel's TCP_CA_NAME_MAX */

enum tccc_end {
	TCCC_END_RECEIVES = 1,
	TCCC_END_SENDS = 2,
};

enum tccc_sends {
	TCCC_SENDS_BULK = 1,
	TCCC_SENDS_TRANSFERS = 2, /* each over a connection of its own, from a port of its own */
	TCCC_SENDS_MESSAGES = 3,  /* over one connection */
	TCCC_SENDS_DATAGRAMS = 4,
};

/* One end of a flow. The receiving end of a flow is written before the sending end, and both say the same of the flow. */
struct tccc_flow_request {
	u64 start_ns;	 /* from the start of the run */
	u64 length_ns;	 /* of a bulk flow from its first data, of the others from their start */
	u64 from_start;	 /* 1: of a bulk flow from its start too */
	u64 interval_ns; /* from the start of one transfer, message or datagram to the start of the next */
	u64 bytes;	 /* payload of each transfer, message or datagram */
	u64 settle_ns;	 /* the path is empty of datagrams when none came for this long */
	u32 flow;	 /* its place among the flows, from 0 */
	u32 end;	 /* enum tccc_end */
	u32 sends;	 /* enum tccc_sends */
	u32 count;	 /* transfers or messages; 1 for others */
	u32 window_cap;	 /* packets; this and the next two: 0 leaves the kernel's value */
	u32 initial_ssthresh;
	u32 initial_cwnd;
	u32 netns; /* the events' number of the sender's network namespace */
	u8 from_address[4];
	u8 to_address[4];
	u32 from_port; /* of the first connection */
	u32 to_port;
	char algorithm[TCCC_FLOW_ALGORITHM];
};

/* Read: for each flow, in their order, this and then its struct tccc_transfer_report. */
struct tccc_flow_report {
	u64 received_bytes; /* payload that arrived while it counted: within the length of a bulk flow or of datagrams */
	u64 counted_ns;	    /* how long the receiver of a bulk flow counted; 0: it got no cookie */
	u64 sent_pkts;	    /* this and the fields up to latest_ns: datagrams */
	u64 arrived_pkts;   /* once each, late ones too */
	u64 received_pkts;  /* once each, within the length from the first */
	u64 first_ns;	    /* when the first arrived; when the receiver of a bulk flow began to count */
	u64 last_ns;	    /* when the last of received_pkts arrived */
	u64 latest_ns;	    /* the largest delay of a datagram behind its moment at the sender */
	u32 flow;
	u32 is_done; /* 0: it was given up at the end of the run */
	s32 error;   /* why a bulk flow or datagrams failed: a negative errno, or 0 */
	u32 retrans_pkts;
	u32 mss_bytes;
	u32 transfers;
	char algorithm[TCCC_FLOW_ALGORITHM];
};

/* A transfer or message that was begun. It is done when all of its bytes arrived. */
struct tccc_transfer_report {
	u64 begun_ns; /* CLOCK_MONOTONIC */
	u64 last_ns;  /* arrival of the last byte; 0: nothing arrived */
	u64 received_bytes;
	u32 port;  /* the sender's */
	s32 error; /* why its connection failed: a negative errno, or 0 */
};

/* ---- /proc/tccc/events: watch.c and src/virtual_time/flow.rs ---- */

/* Written before the run; without it nothing is traced. */
struct tccc_watch_request {
	u64 interval_ns; /* between samples of one socket */
	u64 loss_gap_ns; /* between its LOSS events */
	u64 bytes_max;	 /* memory for events; further events are dropped */
};

/* Read: this and then struct tccc_event of trace_event.h, in order of time. */
struct tccc_watch_report {
	u64 dropped;
	u32 version; /* TCCC_EVENT_VERSION */
	u32 event_bytes;
};

/* ---- /proc/tccc/run: lab.c and src/virtual_time/flow.rs ---- */

/* Written: starts links and flows, and returns when all flows are over, or after both times together. */
struct tccc_run_request {
	u64 length_ns;
	u64 grace_ns;
};

/* Read. */
struct tccc_run_report {
	u64 begin_ns; /* CLOCK_MONOTONIC: moment 0 of links and flows */
	u64 end_ns;
	u64 unfinished; /* flows that were given up */
};

#ifdef __KERNEL__

/* ---- Between the files of the module ---- */

struct file;
struct inode;
struct proc_dir_entry;

int link_init(struct proc_dir_entry *folder);
void link_start(u64 begin_ns);
void link_exit(void);

int traffic_init(struct proc_dir_entry *folder);
bool traffic_is_complete(void); /* every flow has both ends */
u32 traffic_run(u64 begin_ns, u64 end_ns);
void traffic_exit(void);

int watch_init(struct proc_dir_entry *folder);

/* What a file in /proc/tccc answers: made when it is opened, in file->private_data. */
struct answer {
	size_t length;
	u8 bytes[];
};

struct answer *answer_new(size_t length);
ssize_t answer_read(struct file *file, char __user *to, size_t length, loff_t *place);
int answer_release(struct inode *inode, struct file *file);

#endif

#endif
