/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The event struct: the protocol between tcp_trace.bpf.c and user space.
 * src/shared/event.rs decodes it, with a type made from this file. Raise TCCC_EVENT_VERSION with every change.
 */
#ifndef TCCC_TRACE_EVENT_H
#define TCCC_TRACE_EVENT_H

#define TCCC_ALGORITHM_NAME 16
#define TCCC_PRIVATE_BYTES 104
#define TCCC_NO_SSTHRESH 0x7fffffff /* the kernel's TCP_INFINITE_SSTHRESH */

enum tccc_event_layout {
	TCCC_EVENT_VERSION = 1,
};

enum tccc_event_kind {
	TCCC_EVENT_OPEN = 1,	 /* connection established */
	TCCC_EVENT_SAMPLE = 2,	 /* at most one per socket and sampling interval */
	TCCC_EVENT_STATE = 3,	 /* ca_state changed; prior_ca_state holds the one before */
	TCCC_EVENT_LOSS = 4,	 /* lost or retransmitted grew since the last LOSS; at most ten per interval */
	TCCC_EVENT_CLOSE = 5,	 /* connection reached CLOSE; carries the final counts */
	TCCC_EVENT_SNAPSHOT = 6, /* from the socket iterator */
};

struct tccc_event {
	__u64 time_ns;	      /* CLOCK_MONOTONIC */
	__u64 socket;	      /* socket cookie; 0 where none was assigned */
	__u64 cgroup;	      /* cgroup v2 id */
	__u64 pacing_rate;    /* bytes per second, ~0 is unlimited */
	__u64 bytes_acked;    /* cumulative */
	__u64 bytes_received; /* cumulative */
	__u32 netns;	      /* inode of the network namespace */
	__u32 cwnd_pkts;
	__u32 ssthresh_pkts; /* TCCC_NO_SSTHRESH: none yet */
	__u32 srtt_us;	     /* 0: no sample yet */
	__u32 min_rtt_us;    /* ~0: no sample yet */
	__u32 rtt_us;	     /* latest sample, 0: none */
	__u32 rto_us;
	__u32 inflight_pkts;
	__u32 delivered_pkts;	 /* cumulative */
	__u32 delivered_ce_pkts; /* cumulative */
	__u32 lost_pkts;	 /* cumulative */
	__u32 retrans_pkts;	 /* cumulative */
	__u32 mss_bytes;
	__u32 uid;
	__u16 family;	   /* AF_INET or AF_INET6 */
	__u16 local_port;  /* host byte order */
	__u16 remote_port; /* host byte order */
	__u8 kind;	   /* enum tccc_event_kind */
	__u8 ca_state;	   /* Open 0, Disorder 1, CWR 2, Recovery 3, Loss 4 */
	__u8 prior_ca_state;
	__u8 tcp_state; /* TCP_ESTABLISHED 1 ... */
	__u8 app_limited;
	__u8 pad[5];
	__u8 local_addr[16]; /* IPv4 in the first four bytes */
	__u8 remote_addr[16];
	char algorithm[TCCC_ALGORITHM_NAME];
	__u8 private_state[TCCC_PRIVATE_BYTES]; /* icsk_ca_priv, named through the algorithm's BTF */
};

/*
 * What limited a socket over its life, as in the kernel's tcp_info. It is sent before CLOSE to readers that ask for it.
 * It is no event, and the reader recognises it by its size.
 */
struct tccc_limited {
	__u64 socket;
	__u64 busy_ns;	 /* data to send or in flight */
	__u64 rwnd_ns;	 /* part of it in which the receive window was full */
	__u64 sndbuf_ns; /* part of it in which the send buffer was full */
};

#endif
