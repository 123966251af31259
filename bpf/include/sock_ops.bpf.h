/* SPDX-License-Identifier: GPL-2.0-only */
/* Context and events of a sock_ops program, from the user-space interface linux/bpf.h. */
#ifndef TCCC_SOCK_OPS_BPF_H
#define TCCC_SOCK_OPS_BPF_H

#include "kernel.bpf.h"

enum {
	BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB = 4,
	BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB = 5,
	BPF_SOCK_OPS_NEEDS_ECN = 6,	    /* asks whether the connection requests ECN; args[0] is the answer */
	BPF_SOCK_OPS_PARSE_HDR_OPT_CB = 13, /* a packet with unknown options arrived */
	BPF_SOCK_OPS_HDR_OPT_LEN_CB = 14,   /* asks for the size of a packet's own options, bytes */
	BPF_SOCK_OPS_WRITE_HDR_OPT_CB = 15, /* lets the program write these options */
};

/* Flags of a socket for PARSE_HDR_OPT, and for HDR_OPT_LEN with WRITE_HDR_OPT. */
enum { BPF_SOCK_OPS_PARSE_UNKNOWN_HDR_OPT_CB_FLAG = 32, BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG = 64 };

/* args[0] of HDR_OPT_LEN when there is no packet yet and TCP asks how much data a segment may carry. */
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
	void *skb_data; /* the TCP header, once it is written */
	void *skb_data_end;
	__u32 skb_len; /* header and data; only data before the header is written */
	__u32 skb_tcp_flags;
};

#endif
