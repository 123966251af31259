/* SPDX-License-Identifier: GPL-2.0-only */
/* Kernel types and fields that policies read in addition to the tracer's. CO-RE relocates them. */
#ifndef TCCC_POLICY_KERNEL_BPF_H
#define TCCC_POLICY_KERNEL_BPF_H

#include "trace_kernel.bpf.h"

struct net___policy {
	u64 net_cookie;
} KERNEL_TYPE;

typedef struct {
	struct net___policy *net;
} KERNEL_TYPE possible_net_t___policy;

struct sock_common___policy {
	possible_net_t___policy skc_net;
	u16 skc_num; /* local port, host byte order */
} KERNEL_TYPE;

struct dst_entry___policy {
	unsigned long _metrics; /* pointer to an array; its two lowest bits are flags */
} KERNEL_TYPE;

struct sock___policy {
	struct sock_common___policy __sk_common;
	struct dst_entry___policy *sk_dst_cache;
	u32 sk_pacing_status;
	int sk_err;			  /* why the connection ended */
	unsigned long sk_max_pacing_rate; /* bytes per second, ~0: the application set none */
} KERNEL_TYPE;

struct inet_connection_sock___policy {
	u8 icsk_ca_setsockopt : 1;
} KERNEL_TYPE;

struct tcp_sock___policy {
	u32 chrono_start;   /* jiffies */
	u32 chrono_stat[3]; /* jiffies: busy, limited by the receiver's window, limited by the send buffer */
	u8 chrono_type : 2; /* the kind that lasts now, plus one; 0: none */
	u16 total_rto;	    /* timeouts, cumulative; since Linux 6.7 */
} KERNEL_TYPE;

struct cgroup_root___policy {
	int hierarchy_id; /* 0: cgroup v2 */
} KERNEL_TYPE;

struct kernfs_node___policy {
	const char *name;
	u64 id;
} KERNEL_TYPE;

struct cgroup___policy;

struct cgroup_subsys_state___policy {
	struct cgroup___policy *cgroup;
	struct cgroup_subsys_state___policy *parent;
} KERNEL_TYPE;

struct cgroup___policy {
	struct cgroup_subsys_state___policy self;
	struct kernfs_node___policy *kn;
	struct cgroup_root___policy *root;
} KERNEL_TYPE;

#endif
