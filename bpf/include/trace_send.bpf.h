/* SPDX-License-Identifier: GPL-2.0-only */
/* The tracer's events: when a sample or a loss is due, what an event holds, and how it gets into the ring. */
#ifndef TCCC_TRACE_SEND_BPF_H
#define TCCC_TRACE_SEND_BPF_H

#include "trace_flow.bpf.h"

/* enum tcp_chrono */
#define CHRONO_BUSY 1
#define CHRONO_RWND 2
#define CHRONO_SNDBUF 3

static __always_inline void fill_addresses(struct tccc_event *event, const struct tcp_sock___trace *tp)
{
	const struct sock_common___trace *common = &sk_of(tp)->__sk_common;
	u32 *local = (u32 *)event->local_addr;
	u32 *remote = (u32 *)event->remote_addr;
	bool is_v4 = common->skc_family == AF_INET;

	event->family = common->skc_family;
	event->local_port = bpf_ntohs(tp->inet_conn.icsk_inet.inet_sport);
	event->remote_port = bpf_ntohs(common->skc_dport);
	for (int i = 0; i < 4; i++) {
		local[i] = is_v4 ? 0 : common->skc_v6_rcv_saddr.in6_u.u6_addr32[i];
		remote[i] = is_v4 ? 0 : common->skc_v6_daddr.in6_u.u6_addr32[i];
	}
	if (is_v4) {
		local[0] = common->skc_rcv_saddr;
		remote[0] = common->skc_daddr;
	}
}

static __always_inline void fill_counts(struct tccc_event *event, const struct tcp_sock___trace *tp)
{
	event->bytes_acked = tp->bytes_acked;
	event->bytes_received = tp->bytes_received;
	event->delivered_pkts = tp->delivered;
	event->delivered_ce_pkts = tp->delivered_ce;
	event->lost_pkts = tp->lost;
	event->retrans_pkts = tp->total_retrans;
	/* A socket that closes drops its packets, and keeps the numbers of those that were lost. */
	event->inflight_pkts =
		tp->packets_out ? tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out : 0;
}

static __always_inline void fill_window(struct tccc_event *event, const struct tcp_sock___trace *tp)
{
	event->pacing_rate = sk_of(tp)->sk_pacing_rate;
	event->cwnd_pkts = tp->snd_cwnd;
	event->ssthresh_pkts = tp->snd_ssthresh;
	event->srtt_us = tp->srtt_us >> 3;
	event->min_rtt_us = tp->rtt_min.s[0].v;
	event->rtt_us = tp->rack.rtt_us;
	event->rto_us = (u64)icsk_of(tp)->icsk_rto * jiffy_ns / 1000;
	event->mss_bytes = tp->mss_cache;
	event->ca_state = ca_state_of(tp);
	event->prior_ca_state = event->ca_state;
	event->app_limited = tp->app_limited != 0;
	bpf_probe_read_kernel(event->private_state, TCCC_PRIVATE_BYTES, icsk_of(tp)->icsk_ca_priv);
}

/* Fills an event with the socket's present values. The socket must already have its cookie. */
static __always_inline void fill(struct tccc_event *event, const struct tcp_sock___trace *tp, u8 kind)
{
	event->time_ns = bpf_ktime_get_ns();
	event->socket = cookie_of(tp);
	event->cgroup = BPF_CORE_READ(sk_of(tp), sk_cgrp_data.cgroup, kn, id);
	event->netns = netns_of(sk_of(tp));
	event->uid = sk_of(tp)->sk_uid.val;
	event->kind = kind;
	event->tcp_state = sk_of(tp)->__sk_common.skc_state;
	__builtin_memset(event->pad, 0, sizeof(event->pad));
	fill_addresses(event, tp);
	fill_counts(event, tp);
	fill_window(event, tp);
	read_algorithm(event->algorithm, tp);
}

/* Reserves and fills an event in the ring. If the ring is full, counts a dropped event and returns null. */
static __always_inline struct tccc_event *reserve(const struct tcp_sock___trace *tp, u8 kind)
{
	struct tccc_event *event = bpf_ringbuf_reserve(&tccc_events, sizeof(*event), 0);

	if (event)
		fill(event, tp, kind);
	else
		count_dropped(DROP_RING_FULL);
	return event;
}

/* The reader polls by itself. Waking it costs more than an event, so only a ring that fills up wakes it. */
static __always_inline void submit(struct tccc_event *event)
{
	bool is_filling = bpf_ringbuf_query(&tccc_events, RING_UNREAD_BYTES) >= wake_bytes;

	bpf_ringbuf_submit(event, is_filling ? RING_FORCE_WAKEUP : RING_NO_WAKEUP);
}

/* Also updates the flow's state. */
static __always_inline void send_state(struct flow *flow, const struct tcp_sock___trace *tp, u8 prior, u8 state)
{
	struct tccc_event *event;

	flow->ca_state = state;
	event = reserve(tp, TCCC_EVENT_STATE);
	if (!event)
		return;
	event->prior_ca_state = prior;
	event->ca_state = state;
	submit(event);
}

static __always_inline void send_sample(struct flow *flow, const struct tcp_sock___trace *tp)
{
	struct tccc_event *event = reserve(tp, TCCC_EVENT_SAMPLE);

	/* Uses the event's own time. With an earlier time, the next sample would come too early on a slow machine. */
	flow->sampled_ns = event ? event->time_ns : bpf_ktime_get_ns();
	flow->sampled_jiffies = bpf_jiffies64();
	if (event)
		submit(event);
}

/* Reading jiffies costs a load, reading the clock tens of nanoseconds. Most packets fail the first check. */
static __always_inline bool is_sample_due(const struct flow *flow)
{
	if (bpf_jiffies64() - flow->sampled_jiffies < interval_jiffies)
		return false;
	return bpf_ktime_get_ns() - flow->sampled_ns >= interval_ns;
}

static __always_inline bool is_loss_due(const struct flow *flow, const struct tcp_sock___trace *tp)
{
	if (tp->lost == flow->lost_pkts && tp->total_retrans == flow->retrans_pkts)
		return false;
	return bpf_ktime_get_ns() - flow->lost_ns >= loss_gap_ns;
}

/* Copies the counts from the event, because another processor may change the socket's counts meanwhile. */
static __always_inline struct tccc_event *reserve_loss(struct flow *flow, const struct tcp_sock___trace *tp)
{
	struct tccc_event *event = reserve(tp, TCCC_EVENT_LOSS);

	flow->lost_ns = event ? event->time_ns : bpf_ktime_get_ns();
	flow->lost_pkts = event ? event->lost_pkts : tp->lost;
	flow->retrans_pkts = event ? event->retrans_pkts : tp->total_retrans;
	return event;
}

static __always_inline void send_loss(struct flow *flow, const struct tcp_sock___trace *tp)
{
	struct tccc_event *event = reserve_loss(flow, tp);

	if (event)
		submit(event);
}

/* How long a socket was in a state of enum tcp_chrono, nanoseconds. */
static __always_inline u64 chrono_ns(const struct tcp_sock___trace *tp, u32 kind)
{
	u32 ticks = tp->chrono_stat[kind - 1];

	if (BPF_CORE_READ_BITFIELD(tp, chrono_type) == kind)
		ticks += (u32)bpf_jiffies64() - tp->chrono_start;
	return (u64)ticks * jiffy_ns;
}

/* If the ring is full, the CLOSE after it is counted as dropped. */
static __always_inline void send_limited(const struct tcp_sock___trace *tp)
{
	struct tccc_limited *limited;

	if (!sends_limited)
		return;
	limited = bpf_ringbuf_reserve(&tccc_events, sizeof(*limited), 0);
	if (!limited)
		return;
	limited->socket = cookie_of(tp);
	limited->rwnd_ns = chrono_ns(tp, CHRONO_RWND);
	limited->sndbuf_ns = chrono_ns(tp, CHRONO_SNDBUF);
	limited->busy_ns = chrono_ns(tp, CHRONO_BUSY) + limited->rwnd_ns + limited->sndbuf_ns;
	bpf_ringbuf_submit(limited, RING_NO_WAKEUP);
}

#endif
