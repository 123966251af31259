/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Samples by packet: looks at a socket for every packet that arrives, and sends at most one event. tcp_trace.bpf.c
 * lists the events.
 */
#ifndef TCCC_TRACE_PACKET_BPF_H
#define TCCC_TRACE_PACKET_BPF_H

#include "trace_send.bpf.h"

/* A cheap check that nearly every packet fails. True if an event may be due. */
static __always_inline bool is_worth_a_look(const struct flow *flow, const struct tcp_sock___trace *tp)
{
	return !tp || ca_state_of(tp) != flow->ca_state || tp->lost != flow->lost_pkts ||
	       tp->total_retrans != flow->retrans_pkts || flow->opening_pkts < OPENING_PKTS ||
	       bpf_jiffies64() - flow->sampled_jiffies >= interval_jiffies;
}

static __noinline int look(struct sock *sk)
{
	const struct tcp_sock___trace *tp = tcp_sock_of(sk);
	struct flow *flow = tp ? flow_of(sk) : 0;
	bool opens;
	u8 state;

	if (!flow || !flow_passes(flow, tp))
		return 0;
	opens = flow->opening_pkts < OPENING_PKTS;
	flow->opening_pkts += opens;
	state = ca_state_of(tp);
	if (state != flow->ca_state)
		send_state(flow, tp, flow->ca_state, state);
	else if (is_loss_due(flow, tp))
		send_loss(flow, tp);
	else if (opens || is_sample_due(flow))
		send_sample(flow, tp);
	return 0;
}

/* Runs for every packet of an established connection, before the packet is processed. */
SEC("tp_btf/tcp_probe")
int BPF_PROG(tccc_packet, struct sock *sk)
{
	const struct flow *flow = flow_at(bpf_sk_storage_get(&tccc_places, sk, 0, 0), sk);

	if (flow && !is_worth_a_look(flow, established_tcp_sock(sk)))
		return 0;
	return look(sk);
}

#endif
