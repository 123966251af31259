/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The CUBIC core that bpf_cubic and the cct family share: RFC 9438 as the kernel's tcp_cubic computes it, HyStart,
 * and the three switches of Ahmad's thesis (with_ss, with_lo, with_erfc). This file has the callbacks and what they
 * decide at a loss, a timeout, idle time and an undo.
 *
 * An algorithm's file defines its defaults as CUBIC_* before it includes this file. Its ALGORITHM line follows, with
 * CUBIC_CALLBACKS. The headers of bpf_cubic.bpf.c and cct*.bpf.c explain the rest, differences included.
 */
#ifndef TCCC_CUBIC_BPF_H
#define TCCC_CUBIC_BPF_H

#include "cubic_curve.bpf.h"
#include "cubic_slow_start.bpf.h"
#include "cubic_growth.bpf.h"

/* RTT samples count again after this time of an epoch. During and just after a recovery they do not show the path. */
#define RTT_SETTLE_US 1000000u

static void update_phase(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct cubic *cubic = inet_csk_ca(sk);

	if (in_slow_start(tp))
		cubic->phase = PHASE_SLOW_START;
	else if (tcp_friendliness && cubic->w_reno >= tp->snd_cwnd)
		cubic->phase = PHASE_RENO_FRIENDLY;
	else
		cubic->phase = tp->snd_cwnd < cubic->w_max ? PHASE_CONCAVE : PHASE_CONVEX;
}

/* Clears what a timeout makes invalid: as the kernel, and all estimates of CCT-SS except the lowest RTT. */
static void forget_path(struct sock *sk, struct cubic *cubic)
{
	cubic->exit_found = 0;
	cubic->cnt = cubic->w_max = cubic->origin = cubic->k = 0;
	cubic->epoch_us = 0;
	cubic->last_cwnd = cubic->update_us = cubic->ack_cnt = cubic->w_reno = 0;
	if (!with_ss)
		cubic->min_rtt_us = 0;
	cubic->b_round = cubic->b_hat = cubic->s_hat = cubic->l = cubic->u = 0;
	begin_round(sk, cubic);
}

/* After idle time the curve continues where it stopped, and the next ACKs do not continue the last train. */
static void resume_after_idle(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct cubic *cubic = inet_csk_ca(sk);
	const u64 now_us = tp->tcp_mstamp, last_sent_us = tp->first_tx_mstamp;

	if (cubic->epoch_us && now_us > last_sent_us)
		cubic->epoch_us = min(cubic->epoch_us + (now_us - last_sent_us), now_us);
	if (with_ss)
		begin_round(sk, cubic);
}

/*
 * Slow start between CCT-SS's limits. It ends at L and never goes above U. Returns the acknowledged packets that
 * remain for congestion avoidance.
 */
static u32 slow_start_to_limits(struct tcp_sock *tp, const struct cubic *cubic, u32 acked)
{
	const u32 upper = cubic->u, lower = cubic->l;

	if (!upper || tp->snd_cwnd < hystart_low_window)
		return tcp_slow_start(tp, acked);
	if (tp->snd_cwnd >= lower) {
		set_slow_start_exit(tp);
		return acked;
	}
	acked = tcp_slow_start(tp, acked);
	if (tp->snd_cwnd > upper)
		tp->snd_cwnd = upper;
	return acked;
}

/*
 * With CCT-SS a loss in slow start cuts by beta_ss, to U at most. With HyStart as well, a loss below L is an
 * ordinary one. The path overflowed before the limits were reached, or there are none (L is 0), and beta_ss would
 * keep too much.
 */
static u32 slow_start_reduced_window(const struct cubic *cubic, u32 cwnd)
{
	const u32 kept = lower_limit(cwnd), upper = cubic->u;

	if (hystart && (!upper || cwnd < cubic->l))
		return kept_window(cwnd, kept_share());
	return ssthresh_of(upper && upper < kept ? upper : kept);
}

/* Wmax = cwnd (1 + beta) / 2 when the loss came below the last Wmax: RFC 9438, 4.7. */
static u32 next_w_max(u32 w_max, u32 cwnd)
{
	if (fast_convergence && cwnd < w_max)
		return converged_maximum(cwnd, kept_share());
	return cwnd;
}

CC_OP(void, cubic_init, struct sock *sk)
{
	struct cubic *cubic = inet_csk_ca(sk);

	__builtin_memset(cubic, 0, sizeof(*cubic));
	cubic->scale = (u16)curve_scale();
	cubic->friendly_scale = (u16)friendly_scale_of(kept_share());
	begin_round(sk, cubic);
	update_phase(sk);
}

CC_OP(void, cubic_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct cubic *cubic = inet_csk_ca(sk);
	const u64 now_us = tp->tcp_mstamp;
	bool is_first_ack;
	u32 rtt_us;

	if (sample->rtt_us < 0)
		return;
	if (cubic->epoch_us && now_us < cubic->epoch_us + RTT_SETTLE_US)
		return;
	rtt_us = max((u32)sample->rtt_us, 1u);
	if (!cubic->min_rtt_us || rtt_us < cubic->min_rtt_us)
		cubic->min_rtt_us = rtt_us;
	if (!in_slow_start(tp) || cubic->exit_found || !(with_ss || hystart))
		return;
	is_first_ack = after(tp->snd_una, cubic->round_end_seq);
	if (is_first_ack)
		begin_round(sk, cubic);
	if (!with_ss) {
		detect_exit(sk, cubic, rtt_us);
		return;
	}
	if (!is_first_ack) /* a train's first ACK shows when it begins, not how fast it is */
		update_bandwidth(cubic, (u32)now_us, sample->pkts_acked);
	observe_path(sk, cubic, rtt_us);
}

CC_OP(void, cubic_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct cubic *cubic = inet_csk_ca(sk);

	update_phase(sk);
	if (!is_cwnd_limited(tp))
		return;
	if (in_slow_start(tp)) {
		acked = with_ss ? slow_start_to_limits(tp, cubic, acked) : tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	update_growth(cubic, tp->snd_cwnd, acked, tp->tcp_mstamp);
	tcp_cong_avoid_ai(tp, max(cubic->cnt, COUNT_LEAST), acked);
}

CC_OP(u32, cubic_ssthresh, struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct cubic *cubic = inet_csk_ca(sk);
	const u32 cwnd = tp->snd_cwnd;

	cubic->epoch_us = 0;
	cubic->w_reno = 0;
	cubic->prior_u = cubic->u;
	cubic->prior_w_max = cubic->w_max;
	cubic->w_max = next_w_max(cubic->w_max, cwnd);
	if (with_ss && in_slow_start(tp))
		return slow_start_reduced_window(cubic, cwnd);
	return kept_window(cwnd, kept_share());
}

/* The kernel calls cubic_ssthresh just before CA_EVENT_LOSS, which first shows that the loss is a timeout. */
CC_OP(void, cubic_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (event == CA_EVENT_TX_START)
		resume_after_idle(sk);
	if (event == CA_EVENT_LOSS && with_ss)
		tp->snd_ssthresh = kept_window(tp->snd_cwnd, kept_share());
}

CC_OP(void, cubic_cwnd_event_tx_start, struct sock *sk)
{
	resume_after_idle(sk);
}

CC_OP(void, cubic_set_state, struct sock *sk, u8 new_state)
{
	struct cubic *cubic = inet_csk_ca(sk);

	update_reduction_phase(sk, new_state);
	if (new_state == TCP_CA_Loss)
		forget_path(sk, cubic);
}

CC_OP(u32, cubic_undo_cwnd, struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct cubic *cubic = inet_csk_ca(sk);

	if (with_lo)
		cubic->w_max = cubic->prior_w_max;
	if (with_ss) {
		cubic->u = cubic->prior_u;
		cubic->l = lower_limit(cubic->u);
	}
	return reno_undo_cwnd(tp);
}

#define CUBIC_CALLBACKS                                                                                                \
	.init = (void *)cubic_init, .pkts_acked = (void *)cubic_pkts_acked, .cong_avoid = (void *)cubic_cong_avoid,    \
	.ssthresh = (void *)cubic_ssthresh, .cwnd_event = (void *)cubic_cwnd_event,                                    \
	.cwnd_event_tx_start = (void *)cubic_cwnd_event_tx_start, .set_state = (void *)cubic_set_state,                \
	.undo_cwnd = (void *)cubic_undo_cwnd

#endif
