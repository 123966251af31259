/* SPDX-License-Identifier: GPL-2.0-only */
/* The context of a sock_ops program and the numbers of its events: user-space interface, linux/bpf.h. */
#ifndef TCCC_SOCK_OPS_BPF_H
#define TCCC_SOCK_OPS_BPF_H

#include "kernel.bpf.h"

enum {
	BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB = 4,
	BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB = 5,
	BPF_SOCK_OPS_NEEDS_ECN = 6,	    /* whether the connection is to ask for ECN; args[0] is the answer */
	BPF_SOCK_OPS_PARSE_HDR_OPT_CB = 13, /* a packet with options unknown to the kernel */
	BPF_SOCK_OPS_HDR_OPT_LEN_CB = 14,   /* how many bytes of options a packet will have */
	BPF_SOCK_OPS_WRITE_HDR_OPT_CB = 15, /* write them */
};

/* Which of the latter three a socket wants. */
enum { BPF_SOCK_OPS_PARSE_UNKNOWN_HDR_OPT_CB_FLAG = 32, BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG = 64 };

/* args[0] of the second: there is no packet yet, the question is how much room data will have. */
enum { BPF_WRITE_HDR_TCP_CURRENT_MSS = 1 };

struct bpf_sock;

struct bpf_sock_ops {
	__u32 op;
	__u32 args[4];
	__u32 family;
	__u32 remote_ip4;
	__u32 local_ip4;
	__u32 remote_ip6[4];
	__u32 local_ip6[4];
	__u32 remote_port;
	__u32 local_port; /* host byte order */
	__u32 is_fullsock;
	__u32 snd_cwnd;
	__u32 srtt_us;
	__u32 bpf_sock_ops_cb_flags;
	__u32 state;
	__u32 rtt_min;
	__u32 snd_ssthresh;
	__u32 rcv_nxt;
	__u32 snd_nxt;
	__u32 snd_una;
	__u32 mss_cache;
	__u32 ecn_flags;
	__u32 rate_delivered;
	__u32 rate_interval_us;
	__u32 packets_out;
	__u32 retrans_out;
	__u32 total_retrans;
	__u32 segs_in;
	__u32 data_segs_in;
	__u32 segs_out;
	__u32 data_segs_out;
	__u32 lost_out;
	__u32 sacked_out;
	__u32 sk_txhash;
	__u64 bytes_received;
	__u64 bytes_acked;
	struct bpf_sock *sk;
	void *skb_data; /* the TCP header, except before it is written */
	void *skb_data_end;
	__u32 skb_len; /* header and data; before the header is written the data alone */
	__u32 skb_tcp_flags;
};

#endif
