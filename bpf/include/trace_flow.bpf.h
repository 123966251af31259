/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The followed sockets. A socket that may pass the filter gets an entry in tccc_flows. The entry holds the filter's
 * decision and the values of the last events.
 */
#ifndef TCCC_TRACE_FLOW_BPF_H
#define TCCC_TRACE_FLOW_BPF_H

#include "trace_event.h"
#include "trace_maps.bpf.h"
#include "trace_socket.bpf.h"

/* 0 if no program has asked for the cookie yet. */
static __always_inline u64 cookie_of(const struct tcp_sock___trace *tp)
{
	return sk_of(tp)->__sk_common.skc_cookie.counter;
}

/* The filter decides once per socket. It decides again only after the filter or the socket's algorithm changed. */
static __always_inline bool flow_passes(struct flow *flow, const struct tcp_sock___trace *tp)
{
	const void *ops;
	u32 zero = 0;
	u32 *now;

	if (!filters)
		return true;
	ops = icsk_of(tp)->icsk_ca_ops;
	now = bpf_map_lookup_elem(&tccc_generation, &zero);
	if (!now)
		return true;
	if (flow->generation != *now || flow->ops != ops) {
		flow->generation = *now;
		flow->ops = ops;
		flow->passes = filter_passes(tp);
	}
	return flow->passes;
}

/* Grows with every packet that acknowledges data or carries data. */
static __always_inline u64 moved_of(const struct tcp_sock___trace *tp)
{
	return tp->bytes_acked + tp->bytes_received + tp->delivered;
}

/* The same sum, from the fields of an event. */
static __always_inline u64 moved_in(const struct tccc_event *event)
{
	return event->bytes_acked + event->bytes_received + event->delivered_pkts;
}

static __always_inline void count_dropped(u32 reason)
{
	u64 *count = bpf_map_lookup_elem(&tccc_dropped, &reason);

	if (count)
		__sync_fetch_and_add(count, 1);
}

/* The entry at this place, if it still belongs to the socket. */
static __always_inline struct flow *flow_at(const u32 *place, const struct sock *sk)
{
	u32 index = place ? *place - 1 : FLOWS_MAX;
	struct flow *flow = bpf_map_lookup_elem(&tccc_flows, &index);

	return flow && flow->sk == (u64)sk ? flow : 0;
}

/* Does nothing if the entry belongs to another socket by now. */
static __always_inline void free_place(struct flow *flow, u32 index, u64 sk)
{
	if (__sync_val_compare_and_swap(&flow->sk, sk, 0) == sk)
		bpf_map_push_elem(&tccc_free_flows, &index, 0);
}

/* Registers a socket. Null if there is no free entry. */
static __noinline struct flow *take_place(struct sock *sk, u32 *place)
{
	const struct tcp_sock___trace *tp = tcp_sock_of(sk);
	u32 before = *place, index;
	struct flow *flow;

	if (!tp)
		return 0;
	if (bpf_map_pop_elem(&tccc_free_flows, &index))
		index = flows_taken < FLOWS_MAX ? __sync_fetch_and_add(&flows_taken, 1) : FLOWS_MAX;
	flow = bpf_map_lookup_elem(&tccc_flows, &index);
	if (!flow)
		return 0;
	__builtin_memset(flow, 0, sizeof(*flow));
	flow->socket = bpf_get_socket_cookie(sk);
	flow->opening_pkts = OPENING_PKTS;
	flow->ca_state = ca_state_of(tp);
	flow->lost_pkts = tp->lost;
	flow->retrans_pkts = tp->total_retrans;
	flow->sampled_jiffies = bpf_jiffies64() - interval_jiffies;
	flow->moved = moved_of(tp);
	__sync_lock_test_and_set(&flow->sk, (u64)sk);
	if (__sync_val_compare_and_swap(place, before, index + 1) == before) {
		/* Must come last: from now on the timer visits the entry. */
		flow->is_chosen = true;
		return flow;
	}
	/* Another processor registered the socket at the same moment. */
	free_place(flow, index, (u64)sk);
	return flow_at(place, sk);
}

/* The socket's entry, made if it has none. Counts a dropped event if there is no room. */
static __always_inline struct flow *flow_of(const struct sock *sk)
{
	u32 *place = bpf_sk_storage_get(&tccc_places, (void *)sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	struct flow *flow = flow_at(place, sk);

	if (place && !flow)
		flow = take_place((struct sock *)sk, place);
	if (!flow)
		count_dropped(DROP_NO_PLACE);
	return flow;
}

/* The same, but only for a socket that may pass the filter, because the timer visits every entry. */
static __always_inline struct flow *asked_flow_of(const struct sock *sk, const struct tcp_sock___trace *tp)
{
	return ends_pass(tp) ? flow_of(sk) : 0;
}

#endif
