// SPDX-License-Identifier: GPL-2.0-only
/*
 * TCP-FIT: behave as N Reno connections in one, with N computed from the queue that the window causes.
 *
 * Source
 *   J. Wang, J. Wen, J. Zhang, Y. Han, "TCP-FIT: an improved TCP congestion control algorithm and its performance",
 *   IEEE INFOCOM 2011, doi 10.1109/INFCOM.2011.5935128; US patents 8,547,839 and 9,385,960, claims.
 *
 * Idea
 *   Parallel connections fill a path that one Reno connection cannot fill, and lose less of their total at a loss.
 *   The number of connections that does not push others aside is the number that keeps the queue short. So N goes
 *   up while the queue is short, and down while it is long.
 *
 * Equations
 *   growth          cwnd += N acked / cwnd
 *   loss            cwnd -= 2 / (3 N + 1) cwnd; with N = 1 a half, as Reno
 *   queue           Q = (avgRTT - baseRTT) cwnd / avgRTT
 *   each period     N = max(1, N + 1 - N (avgRTT - baseRTT) / (a avgRTT))      update_rule = 0, the later formula
 *                   N + 1 if Q < a cwnd / N, N - 1 if Q > a cwnd / N, N >= 1   update_rule = 1, the claims' steps
 *   period          the longer of one RTT and 500 ms; avgRTT is the mean of its samples
 *   base            every refresh_periods: N = 1 for a period, then baseRTT = 7/8 baseRTT + 1/8 its lowest RTT
 *   a is the tunable queue_share. N therefore stays constant where N (avgRTT - baseRTT) / avgRTT = a. Each of the N
 *   connections then keeps a share a of its window in the queue.
 *
 * Units
 *   Windows in packets, N and a in 1/1024, RTTs and the period in us, kept windows rounded down.
 *
 * Life
 *   slow start -> avoidance -> (loss) recovery -> avoidance; timeout -> loss -> slow start.
 *
 * Differs
 *   1. Neither the paper nor the claims give a value for a. 1/8 is that of the ns-3 port.
 *   2. Neither says when the base RTT is measured again. It never is, unless refresh_periods is set. The m
 *      samples of that measurement are those of one period.
 *   3. N is fractional in the later formula and whole in the other. Both stop at 4096.
 *   4. N does not change in a period without samples, or if the period ends application-limited. Slow start
 *      and the effect of a timeout on the window are Reno's. Losses and timeouts do not change N.
 *   5. Growth counts acknowledged packets, not ACKs, and only while the window limits the sender. ECN is treated
 *      as a loss.
 *
 * Kernel
 *   Uses the kernel's own tcp_slow_start (5.13 and newer). Works the same on every supported kernel.
 *
 * Patents
 *   US 8,547,839 and 9,385,960, granted (and 9,838,318 for a variant with Hybla). For research; never a default.
 */
#include "tccc.bpf.h"
#include "delay.bpf.h"
#include "phase.bpf.h"

/* N in 1/1024: 22 bits, so that N times an RTT times 1024 fits 64 bits. */
#define N_MOST (4096u * SHARE_UNIT)
#define PERIOD_US 500000u
#define RULE_STEPS 1
/* The share of a fresh base RTT in the one kept: 1/8. */
#define REFRESH_SHIFT 3

TUNABLE_WAS(u32, a, queue_share);
TUNABLE(u32, queue_share, 128, 1, 1023, "1/1024",
	"a, share of each connection's window that may be queued: 1/8, as the ns-3 port");
TUNABLE(u8, update_rule, 0, 0, 1, "rule",
	"how N follows the queue: 0 the later formula, 1 whole steps, as in the claims");
TUNABLE(u32, refresh_periods, 0, 0, 65535, "periods",
	"periods after which the base RTT is measured again; 0: never, because no source says when");

struct tcpfit {
	u8 phase;
	u8 is_refreshing;    /* in this period N = 1 and the base RTT is measured again */
	u16 periods;	     /* since the latest refresh */
	u32 n;		     /* N, 1/1024 */
	u64 period_start_us; /* when this period began */
	u64 credit;	     /* growth below one packet, in 1/1024 packets acknowledged */
	struct delay delay;  /* of this period */
};
STATE_FITS(struct tcpfit);

/* cwnd - 2 / (3 N + 1) cwnd = cwnd (3 N - 1) / (3 N + 1). Range: N 1 and more. Error: below one packet, the floor. */
static u32 window_kept(u32 cwnd, u32 n)
{
	const u32 threefold = 3 * max(n, SHARE_UNIT);

	return (u32)((u64)cwnd * (threefold - SHARE_UNIT) / (threefold + SHARE_UNIT));
}

/* max(1, N + 1 - N (RTT - base) / (a RTT)). Range: N up to 4096, RTTs below 2^31 us. Error: below 1/1024. */
static u32 n_by_formula(u32 n, u32 queueing_us, u32 rtt_us)
{
	const u64 connections = min(n, N_MOST);
	const u64 divisor = (u64)queue_share * rtt_us;
	const u64 less = ((connections * queueing_us) << SHARE_SHIFT) / max(divisor, 1ull);
	const u64 more = connections + SHARE_UNIT;

	return more > less ? (u32)(more - less) : 0;
}

/* Compares Q with a cwnd / N, both multiplied by N RTT / cwnd. */
static u32 n_by_steps(u32 n, u32 queueing_us, u32 rtt_us)
{
	const u64 queued = (u64)queueing_us * n, allowed = (u64)queue_share * rtt_us;

	if (queued < allowed)
		return n + SHARE_UNIT;
	return queued > allowed ? n - SHARE_UNIT : n;
}

static void update_n(struct tcpfit *fit)
{
	const u32 rtt_us = max(mean_rtt_us(&fit->delay), 1u);
	const u32 queueing_us = rtt_us > fit->delay.base_rtt_us ? rtt_us - fit->delay.base_rtt_us : 0;
	const u32 n = update_rule == RULE_STEPS ? n_by_steps(fit->n, queueing_us, rtt_us)
						: n_by_formula(fit->n, queueing_us, rtt_us);

	fit->n = min(max(n, SHARE_UNIT), N_MOST);
}

/* baseRTT = 7/8 baseRTT + 1/8 the lowest RTT of a period with N = 1. */
static void update_base(struct delay *delay)
{
	const u64 kept = ((u64)delay->base_rtt_us << REFRESH_SHIFT) - delay->base_rtt_us;

	delay->base_rtt_us = (u32)((kept + delay->round_rtt_us) >> REFRESH_SHIFT);
}

static void begin_period(const struct tcp_sock *tp, struct tcpfit *fit)
{
	fit->period_start_us = tp->tcp_mstamp;
	begin_delay_round(&fit->delay, tp);
}

static void end_of_period(struct tcpfit *fit)
{
	if (fit->is_refreshing) {
		update_base(&fit->delay);
		fit->is_refreshing = 0;
		fit->periods = 0;
		return;
	}
	update_n(fit);
	fit->periods++;
	if (refresh_periods && fit->periods >= refresh_periods) {
		fit->is_refreshing = 1;
		fit->n = SHARE_UNIT;
	}
}

/* The longer of one RTT and 500 ms has passed. */
static bool is_period_over(const struct tcp_sock *tp, const struct tcpfit *fit)
{
	const u32 rtt_us = tp->srtt_us >> SRTT_SHIFT;

	return tp->tcp_mstamp - fit->period_start_us >= max(rtt_us, PERIOD_US);
}

CC_OP(void, tcpfit_init, struct sock *sk)
{
	struct tcpfit *fit = inet_csk_ca(sk);

	fit->is_refreshing = 0;
	fit->periods = 0;
	fit->n = SHARE_UNIT;
	fit->credit = 0;
	forget_delay(&fit->delay, tcp_sk(sk));
	begin_period(tcp_sk(sk), fit);
	update_phase(sk);
}

CC_OP(void, tcpfit_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct tcpfit *fit = inet_csk_ca(sk);

	update_delay(&fit->delay, sample);
}

CC_OP(void, tcpfit_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct tcpfit *fit = inet_csk_ca(sk);

	update_phase(sk);
	if (is_period_over(tp, fit)) {
		if (fit->delay.samples && is_cwnd_limited(tp))
			end_of_period(fit);
		begin_period(tp, fit);
	}
	if (is_past_slow_start(tp, &acked))
		grow_per_window(tp, &fit->credit, acked, fit->n);
}

CC_OP(u32, tcpfit_ssthresh, struct sock *sk)
{
	struct tcpfit *fit = inet_csk_ca(sk);

	fit->credit = 0; /* as snd_cwnd_cnt, which the kernel clears at a reduction */
	return ssthresh_of(window_kept(tcp_sk(sk)->snd_cwnd, fit->n));
}

CC_OP(void, tcpfit_set_state, struct sock *sk, u8 new_state)
{
	update_reduction_phase(sk, new_state);
}

CC_OP(u32, tcpfit_undo_cwnd, struct sock *sk)
{
	return reno_undo_cwnd(tcp_sk(sk));
}

ALGORITHM(tcpfit, "TCP-FIT: N Reno connections in one, N following from the queue",
	  "Wang, Wen, Zhang & Han 2011; US 8,547,839") = {
	.init = (void *)tcpfit_init,
	.pkts_acked = (void *)tcpfit_pkts_acked,
	.cong_avoid = (void *)tcpfit_cong_avoid,
	.ssthresh = (void *)tcpfit_ssthresh,
	.set_state = (void *)tcpfit_set_state,
	.undo_cwnd = (void *)tcpfit_undo_cwnd,
	.name = "tcpfit",
};
