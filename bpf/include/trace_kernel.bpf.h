/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel types and fields that the tracer reads, one line per field. CO-RE relocates them. The suffix ___trace
 * makes a type a flavour: the loader ignores the suffix when it looks for the kernel's type. So these types do not
 * clash with those of kernel.bpf.h, which are for algorithms.
 */
#ifndef TCCC_TRACE_KERNEL_BPF_H
#define TCCC_TRACE_KERNEL_BPF_H

#include "kernel.bpf.h"

/* Map types and flags, with their numbers in the kernel's interface. kernel.bpf.h has those that algorithms use. */
#define MAP_HASH 1
#define MAP_ARRAY 2
#define MAP_PROGRAMS 3
#define MAP_PERCPU_ARRAY 6
#define MAP_LPM_TRIE 11
#define MAP_STACK 23
#define MAP_SOCKET_STORAGE 24
#define MAP_STRUCT_OPS 26
#define MAP_RING 27
#define MAP_ANY 0
#define MAP_ONLY_NEW 1 /* BPF_NOEXIST */
#define RING_NO_WAKEUP 1
#define RING_FORCE_WAKEUP 2
#define RING_UNREAD_BYTES 0

#define AF_INET 2
#define AF_INET6 10

/* TCP states, include/net/tcp_states.h. */
#define STATE_ESTABLISHED 1
#define STATE_SYN_SENT 2
#define STATE_SYN_RECV 3
#define STATE_CLOSE 7
#define STATE_LISTEN 10
#define STATE_NEW_SYN_RECV 12

struct ns_common___trace {
	unsigned int inum;
} KERNEL_TYPE;

struct net___trace {
	struct ns_common___trace ns;
} KERNEL_TYPE;

typedef struct {
	struct net___trace *net;
} KERNEL_TYPE possible_net_t___trace;

struct kernfs_node___trace {
	u64 id;
} KERNEL_TYPE;

struct cgroup___trace;

struct cgroup_subsys_state___trace {
	struct cgroup___trace *cgroup;
	struct cgroup_subsys_state___trace *parent;
} KERNEL_TYPE;

struct cgroup___trace {
	struct cgroup_subsys_state___trace self;
	struct kernfs_node___trace *kn;
} KERNEL_TYPE;

struct sock_cgroup_data___trace {
	struct cgroup___trace *cgroup;
} KERNEL_TYPE;

struct in6_addr___trace {
	union {
		u32 u6_addr32[4];
	} in6_u;
} KERNEL_TYPE;

typedef struct {
	s64 counter;
} KERNEL_TYPE atomic64_t___trace;

struct sock_common___trace {
	u32 skc_daddr;
	u32 skc_rcv_saddr;
	u16 skc_dport;
	u16 skc_family;
	volatile unsigned char skc_state;
	possible_net_t___trace skc_net;
	atomic64_t___trace skc_cookie; /* 0 if no program has asked for it yet */
	struct in6_addr___trace skc_v6_daddr;
	struct in6_addr___trace skc_v6_rcv_saddr;
} KERNEL_TYPE;

typedef struct {
	u32 val;
} KERNEL_TYPE kuid_t___trace;

struct sock___trace {
	struct sock_common___trace __sk_common;
	unsigned long sk_pacing_rate; /* bytes per second, ~0 is unlimited */
	kuid_t___trace sk_uid;
	struct sock_cgroup_data___trace sk_cgrp_data;
} KERNEL_TYPE;

struct inet_sock___trace {
	struct sock___trace sk;
	u16 inet_sport; /* stays after the socket unbinds at close, unlike skc_num */
} KERNEL_TYPE;

struct tcp_congestion_ops___trace {
	char name[TCP_CA_NAME_MAX];
} KERNEL_TYPE;

struct inet_connection_sock___trace {
	struct inet_sock___trace icsk_inet;
	u32 icsk_rto; /* jiffies */
	struct tcp_congestion_ops___trace *icsk_ca_ops;
	u8 icsk_ca_state : 5;
	u64 icsk_ca_priv[CA_PRIVATE_BYTES / sizeof(u64)];
} KERNEL_TYPE;

struct minmax_sample___trace {
	u32 v;
} KERNEL_TYPE;

struct minmax___trace {
	struct minmax_sample___trace s[3];
} KERNEL_TYPE;

struct tcp_rack___trace {
	u32 rtt_us; /* RTT of the latest delivered packet */
} KERNEL_TYPE;

struct tcp_sock___trace {
	struct inet_connection_sock___trace inet_conn;
	u32 mss_cache;
	u32 snd_cwnd;
	u32 snd_ssthresh;
	u32 lost_out;
	u32 sacked_out;
	u32 retrans_out;
	u32 packets_out;
	u32 lost;	   /* cumulative */
	u32 total_retrans; /* cumulative */
	u32 delivered;	   /* cumulative */
	u32 delivered_ce;  /* cumulative */
	u32 data_segs_out; /* cumulative, including retransmissions */
	u32 app_limited;   /* 0: not limited */
	u32 srtt_us;	   /* times 8 */
	u64 bytes_received;
	u64 bytes_acked;
	struct minmax___trace rtt_min;
	struct tcp_rack___trace rack;
	u32 chrono_start;   /* jiffies */
	u32 chrono_stat[3]; /* jiffies: busy, limited by the receiver's window, limited by the send buffer */
	u8 chrono_type : 2; /* the kind that lasts now, plus one; 0: none */
} KERNEL_TYPE;

extern void *bpf_rdonly_cast(const void *object, u32 type) __ksym __weak;

struct seq_file;

struct bpf_iter_meta___trace {
	struct seq_file *seq;
} KERNEL_TYPE;

struct bpf_iter__tcp___trace {
	struct bpf_iter_meta___trace *meta;
	struct sock_common *sk_common;
} KERNEL_TYPE;

struct task_struct;
struct file;

struct bpf_iter__task_file___trace {
	struct bpf_iter_meta___trace *meta;
	struct task_struct *task;
	u32 fd;
	struct file *file;
} KERNEL_TYPE;

struct socket___trace {
	struct sock *sk;
} KERNEL_TYPE;

/* Opaque: the kernel checks only its name and size. */
struct bpf_timer {
	u64 opaque[2];
};

#endif
