// SPDX-License-Identifier: GPL-2.0-only
/*
 * Vegas as BPF: keep a few packets queued, estimated from the rise of the RTT, instead of filling the queue.
 *
 * Source
 *   L. Brakmo, L. Peterson, "TCP Vegas: end to end congestion avoidance on a global Internet", IEEE JSAC 13 (8),
 *   1995, doi 10.1109/49.464716: sections III.C and III.D; behaviour of net/ipv4/tcp_vegas.c of Linux 6.18;
 *   ns-2.35, tcp-vegas.cc.
 *
 * Idea
 *   An empty path has the lowest RTT. Any time beyond it is spent in queues, and its share of the RTT is the share
 *   of the window that is queued. Once per round trip the window moves by one packet, so that alpha to beta
 *   packets are queued. That is enough to use bandwidth that becomes free, and too few to lose any.
 *
 * Equations
 *   expected rate         cwnd / BaseRTT
 *   actual rate           cwnd / RTT, RTT the lowest of the round
 *   difference            Diff = (expected - actual) RTT = cwnd (RTT - BaseRTT) / BaseRTT     diff_over_rtt = 0
 *                         Diff = (expected - actual) BaseRTT = cwnd (RTT - BaseRTT) / RTT     diff_over_rtt = 1
 *   avoidance, each round Diff < alpha: cwnd += 1; Diff > beta: cwnd -= 1
 *   slow start            as Reno until Diff > gamma; then cwnd = min(cwnd, cwnd BaseRTT / RTT + 1)
 *   loss, timeout         ssthresh = max(cwnd / 2, 2)
 *
 * Units
 *   Windows and Diff in packets, rounded down (with diff_over_rtt = 1, Diff is rounded to the nearest); RTTs in
 *   us; shares in 1/1024.
 *
 * Life
 *   slow start -> (Diff > gamma) avoidance -> (loss) recovery -> avoidance; timeout -> loss -> slow start.
 *
 * Differs
 *   1. Diff is the kernel's, which is RTT / BaseRTT times the paper's. diff_over_rtt = 1 gives the paper's.
 *   2. From the kernel's vegas: the window grows only while it limits the sender. The kernel's window grows by a
 *      packet per round trip whenever little is queued. If the application has little to send, it grows without
 *      limit.
 *   3. From the kernel's vegas: Diff is computed in 64 bits. The kernel's product overflows at windows of some
 *      thousand packets and queues of a second. RTTs are not increased by one us.
 *   4. From the paper, as the kernel: slow start doubles in every round (slow_start_rounds). RTT is the lowest of
 *      the round instead of that of one distinguished packet. The kernel detects and repairs losses (SACK, RACK,
 *      PRR), and a loss halves the window. BaseRTT is measured again after a pause with nothing in flight. ssthresh
 *      is never below three quarters of cwnd.
 *   5. From the paper, as the kernel: a round with fewer than three RTT samples makes no Vegas step, and the
 *      window grows as Reno's. A round outside state Open makes none either.
 *   6. ns-2's agent is alpha=1 beta=3 gamma=1 diff_over_rtt=1 use_mean_rtt=1 slow_start_rounds=2 exit_cut=128
 *      keep=768. It keeps 3/4 only after a first fast retransmission, and 1/2 after a repeated one. It detects
 *      losses with fine timers of its own, halves again at a timeout inside recovery, and restarts from 2 packets
 *      there. Its rates are computed from the packets in flight and those sent in the round, not from cwnd. It
 *      does not count headers, so its packets are 2.6 % shorter on the wire than those of the agents beside it.
 *
 * Kernel
 *   Uses the kernel's own tcp_slow_start and tcp_cong_avoid_ai (5.13 and newer). The name is bpf_vegas because the
 *   kernel's own algorithm is called vegas.
 */
#include "tccc.bpf.h"
#include "delay.bpf.h"
#include "phase.bpf.h"

TUNABLE(u32, alpha, 2, 0, 65535, "packets",
	"queue below which cwnd grows: the kernel's and the paper's first value; ns-2: 1");
TUNABLE(u32, beta, 4, 0, 65535, "packets",
	"queue above which cwnd shrinks: the kernel's and the paper's first value; ns-2: 3");
TUNABLE(u32, gamma, 1, 0, 65535, "packets", "queue above which slow start ends: the kernel's, the paper's and ns-2's");
TUNABLE(u8, diff_over_rtt, 0, 0, 1, "on or off",
	"queue from its share of the RTT, as in the paper and ns-2; off: of BaseRTT, as the kernel");
TUNABLE(u8, use_mean_rtt, 0, 0, 1, "on or off",
	"RTT of a round is the mean of its samples, as in ns-2; off: the lowest, as the kernel");
TUNABLE(u32, slow_start_rounds, 1, 1, 16, "rounds",
	"slow start grows in one of this many rounds: the kernel's; paper and ns-2: 2");
TUNABLE(u32, exit_cut, 0, 0, 1023, "1/1024",
	"share of cwnd given up when slow start ends: 128 in ns-2; 0: the queued packets, as the kernel");
TUNABLE(u32, keep, 512, 1, 1023, "1/1024", "share of cwnd kept at a loss: the kernel's half; ns-2: 768 at a first one");

struct bpf_vegas {
	u8 phase;
	u8 is_sampling; /* this round is undisturbed: its RTTs count */
	u8 round;	/* of this slow start, wraps */
	u32 diff;	/* packets queued in the latest round that was measured */
	struct delay delay;
};
STATE_FITS(struct bpf_vegas);

static void forget_path(struct sock *sk)
{
	struct bpf_vegas *vegas = inet_csk_ca(sk);

	vegas->is_sampling = 1;
	vegas->round = 0;
	forget_delay(&vegas->delay, tcp_sk(sk));
}

/*
 * Diff = (expected - actual) RTT, or BaseRTT: section III.C. Packets; windows below 2^31, RTTs of 1 us and more.
 * With diff_over_rtt it is rounded to the nearest, as in ns-2. Else it is rounded down, as in the kernel. Saturates.
 */
static u32 diff_of(u32 cwnd, u32 base_rtt_us, u32 rtt_us)
{
	u64 product;

	if (rtt_us <= base_rtt_us)
		return 0;
	product = (u64)cwnd * (rtt_us - base_rtt_us);
	if (diff_over_rtt)
		return saturated((product + rtt_us / 2) / rtt_us);
	return saturated(product / max(base_rtt_us, 1u));
}

/* floor(cwnd BaseRTT / RTT) + 1, the window that the actual rate needs on an empty path; or cwnd less exit_cut. */
static u32 exit_window(u32 cwnd, u32 base_rtt_us, u32 rtt_us)
{
	if (exit_cut)
		return cwnd - share_of(cwnd, exit_cut);
	if (rtt_us <= base_rtt_us)
		return cwnd;
	return min(cwnd, (u32)((u64)cwnd * base_rtt_us / rtt_us) + 1);
}

static bool is_growing_round(const struct bpf_vegas *vegas)
{
	return vegas->round % max(slow_start_rounds, 1u) == 0;
}

/* Section III.D: leave slow start before it loses packets. */
static void end_of_slow_start_round(struct tcp_sock *tp, struct bpf_vegas *vegas, u32 acked, u32 rtt_us)
{
	vegas->round++;
	if (!is_growing_round(vegas))
		return;
	if (vegas->diff > gamma) {
		set_cwnd(tp, exit_window(tp->snd_cwnd, vegas->delay.base_rtt_us, rtt_us));
		tp->snd_ssthresh = ssthresh_of(min(tp->snd_ssthresh, tp->snd_cwnd));
	} else if (is_cwnd_limited(tp)) {
		tcp_slow_start(tp, acked);
	}
}

/* Section III.C: moves the window by one packet towards a queue of alpha to beta packets. */
static void end_of_avoidance_round(struct tcp_sock *tp, const struct bpf_vegas *vegas)
{
	if (vegas->diff > beta) {
		set_cwnd(tp, tp->snd_cwnd - 1);
		tp->snd_ssthresh = ssthresh_of(min(tp->snd_ssthresh, tp->snd_cwnd));
	} else if (vegas->diff < alpha && is_cwnd_limited(tp)) {
		set_cwnd(tp, tp->snd_cwnd + 1);
	}
}

static void end_of_round(struct sock *sk, u32 acked)
{
	struct bpf_vegas *vegas = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	const u32 rtt_us = use_mean_rtt ? mean_rtt_us(&vegas->delay) : vegas->delay.round_rtt_us;

	vegas->diff = diff_of(tp->snd_cwnd, vegas->delay.base_rtt_us, rtt_us);
	if (in_slow_start(tp))
		end_of_slow_start_round(tp, vegas, acked, rtt_us);
	else
		end_of_avoidance_round(tp, vegas);
	/* The threshold follows the window, so slow start regains the window after idle time, as in the kernel. */
	tp->snd_ssthresh = ssthresh_of(max(tp->snd_ssthresh, (tp->snd_cwnd >> 1) + (tp->snd_cwnd >> 2)));
}

CC_OP(void, bpf_vegas_init, struct sock *sk)
{
	struct bpf_vegas *vegas = inet_csk_ca(sk);

	vegas->diff = 0;
	forget_path(sk);
	update_phase(sk);
}

CC_OP(void, bpf_vegas_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct bpf_vegas *vegas = inet_csk_ca(sk);

	update_delay(&vegas->delay, sample);
}

CC_OP(void, bpf_vegas_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct bpf_vegas *vegas = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	update_phase(sk);
	if (!vegas->is_sampling) {
		reno_cong_avoid(tp, acked);
		return;
	}
	if (!is_delay_round_over(&vegas->delay, tp)) {
		if (in_slow_start(tp) && is_growing_round(vegas) && is_cwnd_limited(tp))
			tcp_slow_start(tp, acked);
		return;
	}
	if (vegas->delay.samples >= ENOUGH_SAMPLES)
		end_of_round(sk, acked);
	else
		reno_cong_avoid(tp, acked);
	begin_delay_round(&vegas->delay, tp);
}

CC_OP(u32, bpf_vegas_ssthresh, struct sock *sk)
{
	return kept_window(tcp_sk(sk)->snd_cwnd, keep);
}

/*
 * LOSS: the kernel has just called bpf_vegas_ssthresh, which cannot distinguish a timeout from other losses. A
 * timeout halves the window.
 */
CC_OP(void, bpf_vegas_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (event == CA_EVENT_LOSS)
		tp->snd_ssthresh = reno_ssthresh(tp);
	else if (event == CA_EVENT_CWND_RESTART || event == CA_EVENT_TX_START)
		forget_path(sk);
}

CC_OP(void, bpf_vegas_cwnd_event_tx_start, struct sock *sk)
{
	forget_path(sk);
}

/* RTTs count again from the first undisturbed round. */
CC_OP(void, bpf_vegas_set_state, struct sock *sk, u8 new_state)
{
	struct bpf_vegas *vegas = inet_csk_ca(sk);

	update_reduction_phase(sk, new_state);
	vegas->is_sampling = new_state == TCP_CA_Open;
	vegas->round = 0;
	if (vegas->is_sampling)
		begin_delay_round(&vegas->delay, tcp_sk(sk));
}

CC_OP(u32, bpf_vegas_undo_cwnd, struct sock *sk)
{
	return reno_undo_cwnd(tcp_sk(sk));
}

ALGORITHM(bpf_vegas, "Vegas as BPF: hold a few packets in the queue, by the rise of the RTT",
	  "Brakmo & Peterson 1995; ns-2.35") = {
	.init = (void *)bpf_vegas_init,
	.pkts_acked = (void *)bpf_vegas_pkts_acked,
	.cong_avoid = (void *)bpf_vegas_cong_avoid,
	.ssthresh = (void *)bpf_vegas_ssthresh,
	.cwnd_event = (void *)bpf_vegas_cwnd_event,
	.cwnd_event_tx_start = (void *)bpf_vegas_cwnd_event_tx_start,
	.set_state = (void *)bpf_vegas_set_state,
	.undo_cwnd = (void *)bpf_vegas_undo_cwnd,
	.name = "bpf_vegas",
};
