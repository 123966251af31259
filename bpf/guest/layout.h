/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The contents of the files in /proc/tccc, through which user space talks to the laboratory inside the guest kernel.
 *
 * One write is one request: a struct of this file, then its arrays, little endian and without padding. A request
 * applies to the writer's network namespace. The build script of src/lab makes types of Rust from these structs.
 */
#ifndef TCCC_LAYOUT_H
#define TCCC_LAYOUT_H

#include "../link/request.h"

/* ---- /proc/tccc/links: link.c and src/lab/virtual_time/link.rs ---- */

enum tccc_link_limit {
	TCCC_LINK_REQUEST_MAX = 32 << 20, /* bytes, mostly positions of losses or opportunities of a trace */
	TCCC_LINK_DISCIPLINES_MAX = 16,	  /* of a direction, one after the other; the classes of its qdisc, from 1 */
};

/*
 * Written: struct tccc_link_request and its arrays. Read: for each direction, in the order of the requests, struct
 * tccc_link_counters, the positions of the first lost packets, and the waits in the queue (u64[TCCC_TIMES_BUCKETS]). Then
 * the number of flows whose packets came (u64), and for each its number (u64) and their waits (u32[TCCC_TIMES_BUCKETS]).
 */

/* ---- /proc/tccc/queues: link.c and src/lab/virtual_time/link.rs ---- */

/* Read: for each direction, in the order of the requests, the number of its samples (u64) and then the samples. */

/* ---- /proc/tccc/flows: traffic.c and src/lab/virtual_time/flow.rs ---- */

#define TCCC_FLOWS_MAX 256
#define TCCC_FLOW_ALGORITHM 16 /* including the final zero, as the kernel's TCP_CA_NAME_MAX */

/*
 * Connections are numbered over all flows. The first TCCC_SENDER_PORTS use the ports from TCCC_FIRST_SENDER_PORT on.
 * Those after them, the next lap, use the same ports again, to servers whose ports are TCCC_FLOWS_MAX higher. So no two
 * connections of a run have the same pair of ports, and none has to wait for the end of another.
 */
enum tccc_connections {
	TCCC_FIRST_SENDER_PORT = 20001,
	TCCC_FIRST_SERVER_PORT = 5201, /* of flow 0 in the first lap; that of flow n is n higher */
	TCCC_SENDER_PORTS = 45000,
	TCCC_LAP_SERVERS = TCCC_FLOWS_MAX,
	TCCC_LAPS_MAX = 8,
	/* The tracer records the first connections of a flow. Of later ones it records only the end. */
	TCCC_TRACED_CONNECTIONS = 1000,
};

enum tccc_end {
	TCCC_END_RECEIVES = 1,
	TCCC_END_SENDS = 2,
};

enum tccc_sends {
	TCCC_SENDS_BULK = 1,
	TCCC_SENDS_TRANSFERS = 2, /* each over its own connection */
	TCCC_SENDS_MESSAGES = 3,  /* all over one connection */
	TCCC_SENDS_DATAGRAMS = 4,
};

enum tccc_ecn {
	TCCC_ECN_NONE = 0,
	TCCC_ECN_CLASSIC = 1,  /* RFC 3168 */
	TCCC_ECN_ACCURATE = 2, /* RFC 9768 */
};

/* What a receiver does wrong. One without SACK is a setting of its namespace. */
enum tccc_receiver {
	TCCC_RECEIVER_HONEST = 0,
	TCCC_RECEIVER_HIDES_MARKS = 1,
	TCCC_RECEIVER_DIVIDES_ACKS = 2,
	TCCC_RECEIVER_ACKS_EARLY = 3,
};

/* Datagrams that leave at once. */
struct tccc_frame {
	u64 pkts;
	u64 bytes;	/* payload of each datagram but the last */
	u64 last_bytes; /* payload of the last */
};

/*
 * One end of a flow. The receiving end is written first. Both ends describe the flow with the same values. If the flow
 * sends transfers, `count` struct tccc_transfer_request follow the receiving end's. `bursts` struct tccc_burst follow them.
 */
struct tccc_flow_request {
	u64 start_ns;		     /* from the start of the run */
	u64 length_ns;		     /* counted from the first data of a bulk flow, and from the start of other flows */
	u64 from_start;		     /* 1: a bulk flow too counts from its start */
	u64 interval_ns;	     /* from the start of one message or frame to the start of the next */
	u64 bytes;		     /* payload of each message */
	u64 settle_ns;		     /* no datagram is left on the path if none arrived for this long */
	u64 deadline_ns;	     /* a frame that has not arrived whole this long after it was sent is late */
	struct tccc_frame frames[2]; /* of datagrams: the first of every `every` frames, and the others */
	u64 every;
	u64 receiver;	   /* enum tccc_receiver */
	u64 bursts;	   /* number of them; 0: the flow never pauses */
	u64 request_bytes; /* payload of the receiver's request before each transfer or message; 0: it sends none */
	u32 flow;	   /* index among the flows, from 0 */
	u32 end;	   /* enum tccc_end */
	u32 sends;	   /* enum tccc_sends */
	u32 count;	   /* transfers or messages; 1 for others */
	u32 window_cap;	   /* packets; this and the next two: 0 leaves the kernel's value */
	u32 initial_ssthresh;
	u32 initial_cwnd;
	u32 netns; /* number of the sender's network namespace in events */
	u8 from_address[4];
	u8 to_address[4];
	u32 first;   /* number of the first connection */
	u32 to_port; /* of the server in the first lap */
	char algorithm[TCCC_FLOW_ALGORITHM];
};

/* A burst, in their order. The first starts with the flow, the last not before its end. */
struct tccc_burst {
	u64 start_ns;  /* from the start of the flow */
	u64 before_ns; /* how long the bursts before it last together */
};

/* A transfer, in the order of the starts. */
struct tccc_transfer_request {
	u64 start_ns; /* from the start of the flow */
	u64 bytes;    /* payload */
};

/*
 * Read: for each flow, in order, this and then `transfers` struct tccc_transfer_report. Of datagrams: this and then their
 * delays (u64[TCCC_TIMES_BUCKETS]).
 */
struct tccc_flow_report {
	u64 received_bytes;    /* payload of a bulk flow or of datagrams that arrived while the receiver counted */
	u64 counted_ns;	       /* how long the receiver of a bulk flow counted; 0: it received no cookie */
	u64 sent_pkts;	       /* this and the fields up to latest_ns: datagrams */
	u64 arrived_pkts;      /* without copies, including late ones */
	u64 received_pkts;     /* without copies, within the length, counted from the first arrival */
	u64 first_ns;	       /* first arrival; of a bulk flow: when the receiver began to count */
	u64 last_ns;	       /* arrival of the last of received_pkts */
	u64 latest_ns;	       /* largest lateness of a datagram at the sender */
	u64 frames;	       /* of which at least one datagram was sent */
	u64 frames_in_time;    /* all of whose datagrams arrived within the deadline */
	u64 busy_us;	       /* as in the kernel's tcp_info, over all connections: the sender had data */
	u64 rwnd_limited_us;   /* and the receive window was the limit */
	u64 sndbuf_limited_us; /* and its own buffer was the limit */
	u32 flow;
	u32 is_done; /* 0: the flow was given up at the end of the run */
	s32 error;   /* why a bulk flow or datagrams failed: a negative errno, or 0 */
	u32 retrans_pkts;
	u32 delivered_ce_pkts; /* as the receiver reports them */
	u32 ecn;	       /* enum tccc_ecn: what was negotiated */
	u32 mss_bytes;
	u32 transfers;
	char algorithm[TCCC_FLOW_ALGORITHM];
};

/* A transfer or message that has begun. It is complete when all of its bytes have arrived. */
struct tccc_transfer_report {
	u64 begun_ns;	  /* CLOCK_MONOTONIC */
	u64 requested_ns; /* when the receiver sent its request; 0: it sent none */
	u64 last_ns;	  /* arrival of the last byte; 0: nothing arrived */
	u64 received_bytes;
	u32 connection; /* its number */
	s32 error;	/* why the connection failed: a negative errno, or 0 */
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
