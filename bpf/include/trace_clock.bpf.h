/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Samples by clock: the timer that visits every followed socket once per interval, and the iterators that register
 * the sockets that are already open.
 */
#ifndef TCCC_TRACE_CLOCK_BPF_H
#define TCCC_TRACE_CLOCK_BPF_H

#include "trace_send.bpf.h"

#define STRAYS_MAX 2	   /* a single one may be a socket that is being registered right now */
#define LOOKS_PER_TICK 256 /* keeps the softirq short; the next tick visits the other sockets */
#define FLOWS_PER_TICK 4096
#define REST 10 /* pause after a tick, in multiples of its run time: uses at most a tenth of a processor */
#define CLOCK_MONOTONIC 1

/* The socket at an address that the verifier cannot check. On kernels before 6.2 it is a copy. */
static __always_inline const struct tcp_sock___trace *tcp_sock_at(u64 sk)
{
	u32 zero = 0;
	void *copy;

	if (bpf_ksym_exists(bpf_rdonly_cast))
		return bpf_rdonly_cast((const void *)sk, bpf_core_type_id_kernel(struct tcp_sock___trace));
	copy = bpf_map_lookup_elem(&tccc_sock_copy, &zero);
	if (!copy || bpf_probe_read_kernel(copy, bpf_core_type_size(struct tcp_sock___trace), (const void *)sk))
		return 0;
	return copy;
}

/* Sends an event if the socket made progress since a tick last sent one. */
static __always_inline void look_by_clock(struct flow *flow, u32 index, u64 sk)
{
	const struct tcp_sock___trace *tp = tcp_sock_at(sk);
	struct tccc_event *event;
	u64 moved;

	/* The socket ended unseen, or another socket uses its memory by now. */
	if (!tp || cookie_of(tp) != flow->socket || sk_of(tp)->__sk_common.skc_state == STATE_CLOSE) {
		if (++flow->strays >= STRAYS_MAX)
			free_place(flow, index, sk);
		return;
	}
	flow->strays = 0;
	moved = moved_of(tp);
	if (moved == flow->moved || !was_connected(sk_of(tp)->__sk_common.skc_state) || !flow_passes(flow, tp))
		return;
	/* The sample waits for the next tick. The rest of the ring is reserved for other events. */
	if (bpf_ringbuf_query(&tccc_events, RING_UNREAD_BYTES) >= yield_bytes)
		return;
	event = is_loss_due(flow, tp) ? reserve_loss(flow, tp) : reserve(tp, TCCC_EVENT_SAMPLE);
	flow->moved = event ? moved_in(event) : moved;
	if (event)
		submit(event);
}

struct round {
	u32 next;
	u32 looks;
};

static long visit(u64 count, struct round *round)
{
	u32 index = round->next;
	struct flow *flow = index < flows_taken ? bpf_map_lookup_elem(&tccc_flows, &index) : 0;
	u64 sk;

	round->next++;
	if (!flow)
		return 1;
	sk = flow->sk;
	if (!sk || !flow->is_chosen)
		return 0;
	look_by_clock(flow, index, sk);
	return ++round->looks >= LOOKS_PER_TICK;
}

/* A round visits every known socket once, in as many ticks as it needs. */
static int on_tick(void *map, u32 *key, struct ticking *ticking)
{
	u64 begin_ns = bpf_ktime_get_ns(), now_ns, due_ns;
	struct round round = {.next = ticking->next};

	bpf_loop(FLOWS_PER_TICK, visit, &round, 0);
	now_ns = bpf_ktime_get_ns();
	due_ns = now_ns + (now_ns - begin_ns) * REST;
	if (round.next >= flows_taken || round.next >= FLOWS_MAX) {
		round.next = 0;
		ticking->due_ns += interval_ns;
		if (ticking->due_ns < due_ns)
			ticking->due_ns = due_ns;
		due_ns = ticking->due_ns;
	}
	ticking->next = round.next;
	ticking->ticks++;
	ticking->looks += round.looks;
	ticking->spent_ns += now_ns - begin_ns;
	bpf_timer_start(&ticking->timer, due_ns - now_ns, 0);
	return 0;
}

/* Starts the timer. Runs as an iterator over tccc_ticking. The timer stops when nobody holds that map any more. */
SEC("iter/bpf_map_elem")
int tccc_begin(void *ctx)
{
	struct ticking *begun;
	u32 zero = 0;

	begun = bpf_map_lookup_elem(&tccc_ticking, &zero);
	if (!begun || bpf_timer_init(&begun->timer, &tccc_ticking, CLOCK_MONOTONIC))
		return 0;
	begun->due_ns = bpf_ktime_get_ns() + interval_ns;
	if (!bpf_timer_set_callback(&begun->timer, on_tick) && !bpf_timer_start(&begun->timer, interval_ns, 0))
		begun->is_begun = 1;
	return 0;
}

static __always_inline void meet(const struct tcp_sock___trace *tp)
{
	if (tp && was_connected(sk_of(tp)->__sk_common.skc_state))
		asked_flow_of((const struct sock *)tp, tp);
}

/* Runs once per network namespace, for the sockets that are already open. */
SEC("iter/tcp")
int tccc_meet(struct bpf_iter__tcp___trace *ctx)
{
	struct sock_common *common = ctx->sk_common;

	meet(common ? tcp_sock_of(common) : 0);
	return 0;
}

/* Runs once, for the sockets of every process. It finds sockets of namespaces that cannot be entered. */
SEC("iter/task_file")
int tccc_meet_file(struct bpf_iter__task_file___trace *ctx)
{
	struct file *file = ctx->file; /* read once, because the verifier trusts only this value */
	const struct socket___trace *socket = file ? (const struct socket___trace *)bpf_sock_from_file(file) : 0;
	const struct sock *sk = socket ? socket->sk : 0;

	meet(sk ? tcp_sock_of(sk) : 0);
	return 0;
}

#endif
