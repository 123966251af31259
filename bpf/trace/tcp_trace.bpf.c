// SPDX-License-Identifier: GPL-2.0-only
/*
 * The only tracer. It has three parts, and each can be loaded without the others:
 *   - events of every TCP socket that passes the filter (open, sample, state change, loss, close), through one ring
 *     buffer;
 *   - one row per socket for the iterator;
 *   - sums by algorithm and cgroup (trace_totals.bpf.h).
 * It works for every algorithm, including the kernel's own.
 *
 * There are two ways to sample, in trace_clock.bpf.h and trace_packet.bpf.h. The reader loads the programs of one:
 *   by clock   A kernel timer, started by tccc_begin, visits every known socket once per interval. No program runs per
 *              packet and no thread wakes up, so the cost depends on the number of sockets, not on the packet rate.
 *              tccc_meet and tccc_meet_file each run once. They register the sockets that are already open: those of
 *              the namespaces that can be entered, and those of every process.
 *   by packet  tccc_packet runs for every packet that arrives. It serves samples at every packet, and kernels that
 *              cannot sample by clock.
 *
 * Events of a socket
 *   OPEN    The connection reached ESTABLISHED.
 *   SAMPLE  The sampling interval has passed, and packets have arrived since the last sample. With very many sockets
 *           one round takes longer than the interval, and samples come later. By packet, each of the first packets after
 *           OPEN also gives a sample, which shows when the data began.
 *   STATE   ca_state changed. No change is left out. The other fields have their values from just before the change.
 *   LOSS    Losses or retransmissions grew since the last LOSS; at most one event per loss_gap_ns. Counts are
 *           cumulative, so the next LOSS, SAMPLE or CLOSE includes what a gap left out.
 *   CLOSE   The connection ended; final counts.
 * Events that do not fit into the ring are counted as dropped. When sampling by packet, the kernel's tracepoint runs
 * before the packet is processed, so the next event shows its effect. After the local end closed its side (FIN_WAIT and
 * later), the kernel has no tracepoint per packet: STATE, LOSS and CLOSE continue, SAMPLE stops.
 */
#include "trace_totals.bpf.h"
#include "trace_packet.bpf.h"
#include "trace_clock.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* Runs before the change. Some kernels lack this tracepoint; there tccc_packet sees the change at the next packet. */
SEC("tp_btf/tcp_cong_state_set")
int BPF_PROG(tccc_ca_state, struct sock *sk, u8 state)
{
	const struct tcp_sock___trace *tp = tcp_sock_of(sk);
	struct flow *flow;
	u8 prior;

	if (!tp || !was_connected(sk_of(tp)->__sk_common.skc_state))
		return 0;
	prior = ca_state_of(tp);
	if (prior == state)
		return 0;
	flow = asked_flow_of(sk, tp);
	if (flow && flow_passes(flow, tp))
		send_state(flow, tp, prior, state);
	return 0;
}

/* Reports retransmissions by a timer while no packet arrives. */
SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(tccc_retransmit, const struct sock *sk)
{
	const struct tcp_sock___trace *tp = tcp_sock_of(sk);
	struct flow *flow;

	if (!tp || !was_connected(sk_of(tp)->__sk_common.skc_state))
		return 0;
	flow = asked_flow_of(sk, tp);
	if (flow && flow_passes(flow, tp) && is_loss_due(flow, tp))
		send_loss(flow, tp);
	return 0;
}

static __always_inline void send_end(struct flow *flow, const struct tcp_sock___trace *tp, u8 kind, u8 tcp_state)
{
	struct tccc_event *event;

	if (!flow_passes(flow, tp))
		return;
	flow->ca_state = ca_state_of(tp);
	if (kind == TCCC_EVENT_CLOSE)
		send_limited(tp);
	event = reserve(tp, kind);
	if (!event)
		return;
	event->tcp_state = tcp_state;
	submit(event);
}

/* Frees the socket's entry, even if the socket no longer passes the filter. */
static __always_inline void forget(const struct sock *sk)
{
	u32 *place = bpf_sk_storage_get(&tccc_places, (void *)sk, 0, 0);
	struct flow *flow = flow_at(place, sk);

	if (!place || !flow)
		return;
	free_place(flow, *place - 1, (u64)sk);
	*place = 0;
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(tccc_tcp_state, const struct sock *sk, int old_state, int new_state)
{
	bool opens = new_state == STATE_ESTABLISHED;
	bool closes = new_state == STATE_CLOSE && was_connected(old_state);
	const struct tcp_sock___trace *tp;
	struct flow *flow;

	if (!opens && !closes)
		return 0;
	tp = tcp_sock_of(sk);
	flow = tp ? asked_flow_of(sk, tp) : 0;
	if (flow && opens)
		flow->opening_pkts = 0;
	if (flow)
		send_end(flow, tp, opens ? TCCC_EVENT_OPEN : TCCC_EVENT_CLOSE, new_state);
	if (closes)
		forget(sk);
	return 0;
}

/* Shows the sockets that have or had a connection. Others have no window yet. */
SEC("iter/tcp")
int tccc_sweep(struct bpf_iter__tcp___trace *ctx)
{
	struct sock_common *common = ctx->sk_common;
	const struct tcp_sock___trace *tp = common ? tcp_sock_of(common) : 0;
	struct tccc_event event;

	if (!tp || !was_connected(sk_of(tp)->__sk_common.skc_state) || !filter_passes(tp))
		return 0;
	bpf_get_socket_cookie(common);
	fill(&event, tp, TCCC_EVENT_SNAPSHOT);
	bpf_seq_write(ctx->meta->seq, &event, sizeof(event));
	return 0;
}
