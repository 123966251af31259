// SPDX-License-Identifier: GPL-2.0-only
/*
 * Illinois as BPF: losses decide when to cut; the queueing delay decides how fast to grow and how much to cut.
 *
 * Source
 *   S. Liu, T. Basar, R. Srikant, "TCP-Illinois: a loss- and delay-based congestion control algorithm for high-
 *   speed networks", Performance Evaluation 65 (6-7), 2008, doi 10.1016/j.peva.2007.12.007: section 3; behaviour
 *   of net/ipv4/tcp_illinois.c of Linux 6.18.
 *
 * Idea
 *   Far from congestion the window grows ten times as fast as Reno's, and near congestion three times slower, so
 *   it stays longer where the queue is almost full. A loss while the queue is empty cuts only an eighth, because
 *   nothing overflowed. Losses remain the first signal and delay is the second, so the flow does not starve beside
 *   Reno.
 *
 * Equations
 *   da = mean RTT of the round - base RTT, dm = largest RTT - base RTT
 *   d1 = dm / 100, d2 = dm / 10, d3 = 8 dm / 10
 *   growth     cwnd += alpha acked / cwnd
 *   alpha      alpha_max                        da <= d1                  eq. (1), section 3.2
 *              kappa1 / (kappa2 + da)           else; alpha_max at d1, alpha_min at dm
 *   loss       ssthresh = max((1 - beta) cwnd, 2)
 *   beta       beta_min                         da <= d2                  eq. (2)
 *              kappa3 + kappa4 da               d2 < da < d3; linear, beta_max at d3
 *              beta_max                         da >= d3
 *   as Reno    alpha = 1, beta = 1/2            cwnd < win_thresh; after a timeout
 *
 * Units
 *   Windows in packets, delays in us, alpha and beta in 1/1024.
 *
 * Life
 *   slow start -> avoidance -> (loss) recovery -> avoidance; timeout -> loss -> slow start.
 *
 * Differs
 *   1. From the kernel's illinois: growth loses no fraction. The kernel drops the remainder of the division
 *      whenever it adds a packet, up to a quarter of the growth at 15 packets and alpha = 10. Packets of an ACK
 *      that remain after slow start count.
 *   2. From the kernel's illinois: alpha and beta have ten fractional bits instead of seven and six, and RTTs are
 *      not limited to 3.3 s.
 *   3. From the paper, as the kernel: once the delay was above d1, alpha_max returns only after theta rounds below
 *      d1. win_thresh is 15 (paper: 10) and is compared with the window at the end of a round.
 *   4. From the paper, as the kernel: the base RTT and the largest RTT hold for the life of the connection.
 *
 * Kernel
 *   Uses the kernel's own tcp_slow_start (5.13 and newer). The name is bpf_illinois because the kernel's own
 *   algorithm is called illinois.
 */
#include "tccc.bpf.h"
#include "delay.bpf.h"
#include "phase.bpf.h"

#define ALPHA_RENO SHARE_UNIT
#define BETA_RENO (SHARE_UNIT / 2)
/* d1, d2 and d3 as shares of dm: section 3.2. */
#define D1_OF_DM 100u
#define TENTHS 10u
#define D2_TENTHS 1u
#define D3_TENTHS 8u

TUNABLE(u32, alpha_max, 10240, 1024, 102400, "1/1024 packets",
	"growth per round trip without a queue: 10, section 3.2");
TUNABLE(u32, alpha_min, 307, 1, 1024, "1/1024 packets", "growth per round trip with the longest queue: 0.3");
TUNABLE(u32, beta_min, 128, 1, 512, "1/1024", "cut at a loss without a queue: 1/8");
TUNABLE(u32, beta_max, 512, 512, 1023, "1/1024", "cut at a loss with a long queue: 1/2, as Reno");
TUNABLE(u32, win_thresh, 15, 0, 65535, "packets", "below this window as Reno: the kernel's; the paper has 10");
TUNABLE(u32, theta, 5, 1, 255, "rounds", "rounds of short delay in a row before alpha_max returns: the kernel's");

struct bpf_illinois {
	u8 phase;
	u8 was_delayed;	 /* the delay was above d1 */
	u8 short_rounds; /* rounds below d1 since, theta at most */
	u32 max_rtt_us;	 /* largest RTT, 0: no sample yet */
	u32 alpha;	 /* growth per window acknowledged, 1/1024 packets */
	u32 beta;	 /* cut at a loss, 1/1024 */
	u64 credit;	 /* growth below one packet, in 1/1024 packets acknowledged */
	struct delay delay;
};
STATE_FITS(struct bpf_illinois);

static u32 low_delay(u32 dm_us)
{
	return dm_us / D1_OF_DM;
}

/*
 * alpha = kappa1 / (kappa2 + da) between (d1, alpha_max) and (dm, alpha_min), which is
 * (dm - d1) amax amin / ((dm - d1) amin + (da - d1) (amax - amin)).
 * Range: d1 < da, delays below 2^32. Error: below 1/1024, it is the floor.
 */
static u32 alpha_between(u32 da_us, u32 dm_us)
{
	const u64 span = dm_us - low_delay(dm_us), above = da_us - low_delay(dm_us);
	const u64 product = (u64)alpha_max * alpha_min;
	const u64 divisor = span * alpha_min + above * (alpha_max - alpha_min);

	return (u32)(span * product / max(divisor, 1ull));
}

/* Equation (1). One short round among long ones does not restore fast growth. */
static u32 alpha_of(struct bpf_illinois *illinois, u32 da_us, u32 dm_us)
{
	if (da_us > low_delay(dm_us)) {
		illinois->was_delayed = 1;
		return alpha_between(da_us, dm_us);
	}
	if (illinois->was_delayed) {
		illinois->short_rounds++;
		if (illinois->short_rounds < theta)
			return illinois->alpha;
		illinois->short_rounds = 0;
		illinois->was_delayed = 0;
	}
	return alpha_max;
}

/* Equation (2). Range: any delays. Error: below 1/1024, it is the floor. */
static u32 beta_of(u32 da_us, u32 dm_us)
{
	const u64 da = (u64)da_us * TENTHS, d2 = (u64)dm_us * D2_TENTHS, d3 = (u64)dm_us * D3_TENTHS;

	if (da <= d2)
		return beta_min;
	if (da >= d3)
		return beta_max;
	return (u32)(beta_min + (da - d2) * (beta_max - beta_min) / max(d3 - d2, 1ull));
}

/* Once a round. */
static void update_parameters(struct tcp_sock *tp, struct bpf_illinois *illinois)
{
	u32 da_us, dm_us;

	if (tp->snd_cwnd < win_thresh) {
		illinois->alpha = ALPHA_RENO;
		illinois->beta = BETA_RENO;
	} else if (illinois->delay.samples) {
		dm_us = illinois->max_rtt_us - illinois->delay.base_rtt_us;
		da_us = mean_rtt_us(&illinois->delay) - illinois->delay.base_rtt_us;
		illinois->alpha = alpha_of(illinois, da_us, dm_us);
		illinois->beta = beta_of(da_us, dm_us);
	}
	begin_delay_round(&illinois->delay, tp);
}

CC_OP(void, bpf_illinois_init, struct sock *sk)
{
	struct bpf_illinois *illinois = inet_csk_ca(sk);

	illinois->was_delayed = 0;
	illinois->short_rounds = 0;
	illinois->max_rtt_us = 0;
	illinois->alpha = alpha_max;
	illinois->beta = BETA_RENO;
	illinois->credit = 0;
	forget_delay(&illinois->delay, tcp_sk(sk));
	update_phase(sk);
}

CC_OP(void, bpf_illinois_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct bpf_illinois *illinois = inet_csk_ca(sk);

	update_delay(&illinois->delay, sample);
	if (sample->rtt_us >= 0)
		illinois->max_rtt_us = max(illinois->max_rtt_us, max((u32)sample->rtt_us, 1u));
}

CC_OP(void, bpf_illinois_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bpf_illinois *illinois = inet_csk_ca(sk);

	update_phase(sk);
	if (is_delay_round_over(&illinois->delay, tp))
		update_parameters(tp, illinois);
	if (is_past_slow_start(tp, &acked))
		grow_per_window(tp, &illinois->credit, acked, illinois->alpha);
}

CC_OP(u32, bpf_illinois_ssthresh, struct sock *sk)
{
	struct bpf_illinois *illinois = inet_csk_ca(sk);
	const u32 cwnd = tcp_sk(sk)->snd_cwnd;
	const u32 kept = cwnd - share_of(cwnd, illinois->beta);

	illinois->credit = 0; /* as snd_cwnd_cnt, which the kernel clears at a reduction */
	return ssthresh_of(kept);
}

CC_OP(void, bpf_illinois_set_state, struct sock *sk, u8 new_state)
{
	struct bpf_illinois *illinois = inet_csk_ca(sk);

	update_reduction_phase(sk, new_state);
	if (new_state != TCP_CA_Loss)
		return;
	illinois->alpha = ALPHA_RENO;
	illinois->beta = BETA_RENO;
	illinois->was_delayed = 0;
	illinois->short_rounds = 0;
	begin_delay_round(&illinois->delay, tcp_sk(sk));
}

CC_OP(u32, bpf_illinois_undo_cwnd, struct sock *sk)
{
	return reno_undo_cwnd(tcp_sk(sk));
}

ALGORITHM(bpf_illinois, "Illinois as BPF: the queueing delay sets growth and cut, losses when to cut",
	  "Liu, Basar & Srikant 2008") = {
	.init = (void *)bpf_illinois_init,
	.pkts_acked = (void *)bpf_illinois_pkts_acked,
	.cong_avoid = (void *)bpf_illinois_cong_avoid,
	.ssthresh = (void *)bpf_illinois_ssthresh,
	.set_state = (void *)bpf_illinois_set_state,
	.undo_cwnd = (void *)bpf_illinois_undo_cwnd,
	.name = "bpf_illinois",
};
