// SPDX-License-Identifier: GPL-2.0-only
/* The conditions of a connection: largest window, initial window and initial slow-start threshold. */
#include <net/tcp.h>

#include "conditions.h"

/*
 * Imposes the scenario's conditions when the kernel calls the algorithm's init. The connection is then established, and
 * the kernel has chosen its initial window. The order is that of bpf/path/conditions.bpf.c: with initial_ssthresh, init
 * sees a window of that many packets, and the initial window is set after init.
 */
static void impose_conditions(struct sock *sk)
{
	const struct sender *sender = sk->sk_user_data;
	const struct tccc_flow_request *asked = &sender->flow->asked;
	const struct tcp_congestion_ops *ops = sender->flow->own_ops;
	struct tcp_sock *tp = tcp_sk(sk);
	const u32 cwnd = asked->initial_cwnd ?: tcp_snd_cwnd(tp);

	inet_csk(sk)->icsk_ca_ops = ops;
	if (asked->window_cap) {
		tp->snd_cwnd_clamp = asked->window_cap;
		tp->snd_ssthresh = asked->window_cap;
	}
	if (asked->initial_ssthresh) {
		tp->snd_ssthresh = asked->initial_ssthresh;
		tcp_snd_cwnd_set(tp, asked->initial_ssthresh);
	} else {
		tcp_snd_cwnd_set(tp, cwnd);
	}
	if (ops->init)
		ops->init(sk);
	if (asked->initial_ssthresh)
		tcp_snd_cwnd_set(tp, cwnd);
}

/* Gives the socket a copy of its algorithm with another init, until the connection is established. */
void conditions_prepare(struct sender *sender)
{
	const struct tccc_flow_request *asked = &sender->flow->asked;
	struct inet_connection_sock *icsk = inet_csk(sender->sock->sk);
	struct flow *flow = sender->flow;

	if (!asked->window_cap && !asked->initial_ssthresh && !asked->initial_cwnd)
		return;
	if (!flow->own_ops) {
		flow->own_ops = icsk->icsk_ca_ops;
		flow->ops = *icsk->icsk_ca_ops;
		flow->ops.init = impose_conditions;
	}
	icsk->icsk_ca_ops = &flow->ops;
}
