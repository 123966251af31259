/* SPDX-License-Identifier: GPL-2.0-only */
/* The counts of a connection under a policy, now and at its previous count. */
#ifndef TCCC_POLICY_COUNT_BPF_H
#define TCCC_POLICY_COUNT_BPF_H

#include "policy_kernel.bpf.h"
#include "policy_label.h"
#include "trace_socket.bpf.h"

#define CHRONO_BUSY 1

static __always_inline const struct tcp_sock___policy *policy_tp(const struct tcp_sock___trace *tp)
{
	return (const struct tcp_sock___policy *)tp;
}

/* Jiffies in which the connection had data to send and only the network limited it. */
static __always_inline u64 busy_ticks_of(const struct tcp_sock___trace *tp)
{
	const struct tcp_sock___policy *policy = policy_tp(tp);
	u32 ticks = policy->chrono_stat[CHRONO_BUSY - 1];

	if (BPF_CORE_READ_BITFIELD(policy, chrono_type) == CHRONO_BUSY)
		ticks += (u32)bpf_jiffies64() - policy->chrono_start;
	return ticks;
}

static __always_inline u32 timeouts_of(const struct tcp_sock___trace *tp)
{
	return bpf_core_field_exists(policy_tp(tp)->total_rto) ? policy_tp(tp)->total_rto : 0;
}

/* Reads the connection's counts, each of them once. */
static __always_inline void note_counts(struct policy_counted *counted, const struct tcp_sock___trace *tp)
{
	counted->bytes_acked = tp->bytes_acked;
	counted->busy_ticks = busy_ticks_of(tp);
	counted->sent_pkts = tp->data_segs_out;
	counted->retrans_pkts = tp->total_retrans;
	counted->timeouts = timeouts_of(tp);
}

/* Stores the counts, so that the next count adds only what is new. */
static __always_inline void keep_counts(struct policy_counted *counted, const struct policy_counted *now)
{
	counted->bytes_acked = now->bytes_acked;
	counted->busy_ticks = now->busy_ticks;
	counted->sent_pkts = now->sent_pkts;
	counted->retrans_pkts = now->retrans_pkts;
	counted->timeouts = now->timeouts;
}

#endif
