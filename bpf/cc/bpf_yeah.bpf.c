// SPDX-License-Identifier: GPL-2.0-only
/*
 * YeAH as BPF: grow as Scalable TCP while the queue is short, else as Reno, and drain the queue before a loss.
 *
 * Source
 *   A. Baiocchi, A. P. Castellani, F. Vacirca, "YeAH-TCP: yet another highspeed TCP", PFLDnet 2007, doi: none
 *   found: section 2; behaviour of net/ipv4/tcp_yeah.c of Linux 6.18.
 *
 * Idea
 *   A large empty path needs fast growth, and a queue shows that the path is full. YeAH then gives the queued
 *   packets back once, before a loss costs more, and competes as Reno does. Where other flows fill the queue again
 *   and again, giving packets back would only help them. So the window never goes below an estimate of the window
 *   that a Reno flow would have.
 *
 * Equations
 *   queue          Q = (RTT - RTTbase) cwnd / RTT, RTT the lowest of the round            section 2.1
 *   fast mode      Q <= Qmax and RTT - RTTbase <= RTTbase / phi:  cwnd += acked / min(cwnd, scalable)
 *   slow mode      else:                                          cwnd += acked / cwnd
 *   decongestion   Q > Qmax and cwnd > Wreno, each round: cwnd = max(cwnd - min(Q / drain, cwnd / 2^epsilon), Wreno)
 *   Wreno          cwnd / 2 at the first slow round, + 1 at each later one, halved at a loss; 2 after zeta fast rounds
 *   loss           cut = min(max(Q, cwnd / 2^delta), cwnd / 2), fewer than rho slow rounds in a row: no competition
 *                  cut = cwnd / 2                               else
 *                  ssthresh = max(cwnd - cut, 2)
 *
 * Units
 *   Windows, queues and cuts in packets, rounded down; RTTs in us.
 *
 * Life
 *   slow start -> fast <-> slow -> (loss) recovery -> fast or slow as before; timeout -> loss -> slow start.
 *
 * Differs
 *   1. From the kernel's yeah: RTTs are not increased by one us, and the socket's window clamp is not lowered. The
 *      kernel's module does both. There is no other difference.
 *   2. From the paper, as the kernel: the fast mode adds a packet for every 100 acknowledged, whatever the window
 *      was at the last loss (Scalable's rule). A round with fewer than three RTT samples decides
 *      nothing. Neither does an application-limited round.
 *   3. From the paper, as the kernel: RTTbase is measured again after a pause with nothing in flight. A timeout
 *      cuts ssthresh like any other loss.
 *
 * Kernel
 *   Uses the kernel's own tcp_slow_start and tcp_cong_avoid_ai (5.13 and newer). The name is bpf_yeah because the
 *   kernel's own algorithm is called yeah.
 */
#include "tccc.bpf.h"
#include "delay.bpf.h"

#define WRENO_LEAST 2u

TUNABLE(u32, queue_max, 80, 1, 65535, "packets",
	"Qmax, queue above which the window is decongested: the paper's and the kernel's");
TUNABLE_WAS(u32, phi, delay_divisor);
TUNABLE(u32, delay_divisor, 8, 1, 1024, "divisor",
	"phi; RTTbase / phi is the queueing delay above which the mode is slow: the paper's");
TUNABLE(u32, drain, 1, 1, 1024, "divisor", "gamma: a decongestion gives back 1 / drain of the queue: the paper's");
TUNABLE_WAS(u32, epsilon, drain_shift);
TUNABLE(u32, drain_shift, 1, 0, 31, "power of 2",
	"epsilon: no more than cwnd / 2^epsilon is given back at once: the kernel's");
TUNABLE_WAS(u32, delta, cut_shift);
TUNABLE(u32, cut_shift, 3, 1, 31, "power of 2",
	"delta: no less than cwnd / 2^delta is cut at a loss: the paper's eighth");
TUNABLE_WAS(u32, rho, competing_rounds);
TUNABLE(u32, competing_rounds, 16, 1, 65535, "rounds",
	"rho: this many slow rounds in a row mean competition, so a loss halves the window: the kernel's");
TUNABLE_WAS(u32, zeta, alone_rounds);
TUNABLE(u32, alone_rounds, 50, 1, 65535, "rounds", "zeta: fast rounds after which Wreno is forgotten: the kernel's");
TUNABLE(u32, scalable, 100, 1, 65535, "packets", "fast mode: packets acknowledged per packet of growth: Scalable's");

PHASES(PHASE_SLOW_START, PHASE_FAST, PHASE_SLOW, PHASE_RECOVERY, PHASE_LOSS);

#include "reduction.bpf.h"

struct bpf_yeah {
	u8 phase;
	u32 queue;	 /* Q of the latest round that was measured */
	u32 w_reno;	 /* estimated window of a competing Reno flow */
	u32 slow_rounds; /* slow rounds in a row, saturates */
	u32 fast_rounds; /* fast rounds since the latest loss, or since w_reno was forgotten */
	struct delay delay;
};
STATE_FITS(struct bpf_yeah);

static void update_phase(struct sock *sk)
{
	struct bpf_yeah *yeah = inet_csk_ca(sk);

	if (in_slow_start(tcp_sk(sk)))
		yeah->phase = PHASE_SLOW_START;
	else
		yeah->phase = yeah->slow_rounds ? PHASE_SLOW : PHASE_FAST;
}

/* Gives the queued packets back, but never goes below the window of a Reno flow. */
static void set_decongested_window(struct tcp_sock *tp, const struct bpf_yeah *yeah)
{
	const u32 queue_share = yeah->queue / max(drain, 1u);
	const u32 most = tp->snd_cwnd >> (drain_shift & 31);
	const u32 drained = tp->snd_cwnd - min(queue_share, most);

	set_cwnd(tp, max(drained, yeah->w_reno));
	tp->snd_ssthresh = ssthresh_of(tp->snd_cwnd);
}

static void update_slow_mode(struct tcp_sock *tp, struct bpf_yeah *yeah)
{
	if (yeah->queue > queue_max && tp->snd_cwnd > yeah->w_reno)
		set_decongested_window(tp, yeah);
	if (yeah->w_reno <= WRENO_LEAST)
		yeah->w_reno = half_window(tp->snd_cwnd);
	else
		yeah->w_reno++;
	if (yeah->slow_rounds < U32_LARGEST)
		yeah->slow_rounds++;
}

static void update_fast_mode(struct bpf_yeah *yeah)
{
	yeah->slow_rounds = 0;
	yeah->fast_rounds++;
	if (yeah->fast_rounds > alone_rounds) {
		yeah->w_reno = WRENO_LEAST;
		yeah->fast_rounds = 0;
	}
}

static void end_of_round(struct tcp_sock *tp, struct bpf_yeah *yeah)
{
	const u32 base_us = yeah->delay.base_rtt_us, rtt_us = yeah->delay.round_rtt_us;

	if (yeah->delay.samples >= ENOUGH_SAMPLES) {
		yeah->queue = queued_packets(tp->snd_cwnd, base_us, rtt_us);
		if (yeah->queue > queue_max || rtt_us - base_us > base_us / max(delay_divisor, 1u))
			update_slow_mode(tp, yeah);
		else
			update_fast_mode(yeah);
	}
	begin_delay_round(&yeah->delay, tp);
}

static void set_grown_window(struct tcp_sock *tp, const struct bpf_yeah *yeah, u32 acked)
{
	const u32 most = yeah->slow_rounds ? U32_LARGEST : max(scalable, 1u);

	if (is_past_slow_start(tp, &acked))
		tcp_cong_avoid_ai(tp, min(tp->snd_cwnd, most), acked);
}

CC_OP(void, bpf_yeah_init, struct sock *sk)
{
	struct bpf_yeah *yeah = inet_csk_ca(sk);

	yeah->queue = 0;
	yeah->w_reno = WRENO_LEAST;
	yeah->slow_rounds = 0;
	yeah->fast_rounds = 0;
	forget_delay(&yeah->delay, tcp_sk(sk));
	update_phase(sk);
}

CC_OP(void, bpf_yeah_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct bpf_yeah *yeah = inet_csk_ca(sk);

	update_delay(&yeah->delay, sample);
}

CC_OP(void, bpf_yeah_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bpf_yeah *yeah = inet_csk_ca(sk);

	update_phase(sk);
	if (!is_cwnd_limited(tp))
		return;
	set_grown_window(tp, yeah, acked);
	if (is_delay_round_over(&yeah->delay, tp))
		end_of_round(tp, yeah);
}

CC_OP(u32, bpf_yeah_ssthresh, struct sock *sk)
{
	struct bpf_yeah *yeah = inet_csk_ca(sk);
	const u32 cwnd = tcp_sk(sk)->snd_cwnd;
	const u32 half = half_window(cwnd);
	u32 cut = half;

	if (yeah->slow_rounds < competing_rounds)
		cut = max(min(yeah->queue, half), cwnd >> (cut_shift & 31));
	yeah->fast_rounds = 0;
	yeah->w_reno = half_window(yeah->w_reno);
	return ssthresh_of(cwnd > cut ? cwnd - cut : 0);
}

/* The path may have changed during a pause. */
CC_OP(void, bpf_yeah_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct bpf_yeah *yeah = inet_csk_ca(sk);

	if (event == CA_EVENT_CWND_RESTART || event == CA_EVENT_TX_START)
		forget_delay(&yeah->delay, tcp_sk(sk));
}

CC_OP(void, bpf_yeah_cwnd_event_tx_start, struct sock *sk)
{
	struct bpf_yeah *yeah = inet_csk_ca(sk);

	forget_delay(&yeah->delay, tcp_sk(sk));
}

/* RTTs count again from the first undisturbed round. */
CC_OP(void, bpf_yeah_set_state, struct sock *sk, u8 new_state)
{
	struct bpf_yeah *yeah = inet_csk_ca(sk);

	update_reduction_phase(sk, new_state);
	if (new_state == TCP_CA_Open)
		begin_delay_round(&yeah->delay, tcp_sk(sk));
}

CC_OP(u32, bpf_yeah_undo_cwnd, struct sock *sk)
{
	return reno_undo_cwnd(tcp_sk(sk));
}

ALGORITHM(bpf_yeah, "YeAH as BPF: Scalable on an empty path, Reno on a full one, with the queue drained",
	  "Baiocchi, Castellani & Vacirca 2007") = {
	.init = (void *)bpf_yeah_init,
	.pkts_acked = (void *)bpf_yeah_pkts_acked,
	.cong_avoid = (void *)bpf_yeah_cong_avoid,
	.ssthresh = (void *)bpf_yeah_ssthresh,
	.cwnd_event = (void *)bpf_yeah_cwnd_event,
	.cwnd_event_tx_start = (void *)bpf_yeah_cwnd_event_tx_start,
	.set_state = (void *)bpf_yeah_set_state,
	.undo_cwnd = (void *)bpf_yeah_undo_cwnd,
	.name = "bpf_yeah",
};
