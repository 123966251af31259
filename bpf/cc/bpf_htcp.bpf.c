// SPDX-License-Identifier: GPL-2.0-only
/*
 * H-TCP as BPF: growth speeds up with the time since the last loss, and the cut depends on the queueing delay.
 *
 * Source
 *   D. Leith, R. Shorten, "H-TCP: TCP for high-speed and long-distance networks", PFLDnet 2004, doi: none found;
 *   draft-leith-tcp-htcp-06, 2008; behaviour of net/ipv4/tcp_htcp.c of Linux 6.18.
 *
 * Idea
 *   On a slow path losses come every second or so, and Reno's growth suits it. Where no loss has come for longer,
 *   the path is large, and growth can speed up with the time since the last loss. Flows that start
 *   together stay alike. A loss needs to empty the queue and no more: the lowest RTT over the highest is the share
 *   of the window that the path itself holds.
 *
 * Equations
 *   slow start            cwnd += acked
 *   avoidance             cwnd += alpha acked / cwnd
 *   growth                f(D) = 1                                          D <= 1 s
 *                         f(D) = 1 + 10 (D - 1) + ((D - 1) / 2)^2           D > 1 s, D the seconds since the last loss
 *   RTT scaling           f <- max(f RTTmin / 100 ms, 1), RTTmin / 100 ms within 0.1 to 2
 *   fair to Reno          alpha = 2 (1 - beta) f
 *   loss                  ssthresh = max(beta cwnd, 2)
 *   cut                   beta = RTTmin / RTTmax within 0.5 to 0.8; 0.5 where RTTmin is below 10 ms, and
 *   bandwidth switch      beta = 0.5 if the highest bandwidth since the last loss is not within 20 % of the one before
 *
 * Units
 *   Windows in packets; alpha and f in 1/1024 packets per window, beta in 1/1024; times in us, D in 1/1024 s, RTTs
 *   in us; bandwidths in 1/256 packets/s.
 *
 * Life
 *   slow start -> avoidance -> (loss) recovery -> avoidance; timeout -> loss -> slow start.
 *
 * Differs
 *   1. From the kernel's htcp: f keeps its fraction. The kernel rounds it down to whole packets before and after RTT
 *      scaling: 2 instead of 2.9 at worst. RTTs and times are in us instead of jiffies, beta is in 1/1024 instead
 *      of 1/128, and bandwidths are in 1/256 instead of whole packets/s.
 *   2. From the kernel's htcp: growth counts every acknowledged packet, keeps fractions of a packet, and may be
 *      more than one packet per ACK. The kernel grows one ACK late, and loses the packets of an ACK that remain at
 *      the end of slow start.
 *   3. From the kernel's htcp: alpha is computed again when the recovery ends. In the kernel the first packet of
 *      growth after it still uses the alpha from before the loss. An undo goes back to the state before the first
 *      of several reductions in a row.
 *   4. As the kernel: D runs from the end of a recovery. RTTmax grows by at most 20 ms a sample, and only in
 *      undisturbed rounds (state Open). At each loss it falls by 5 % of its distance to RTTmin. Bandwidth is
 *      filtered by 3/4. If the bandwidth switch forbids an adaptive cut, the next cut is by half, too.
 *   5. From the draft, as the kernel: growth does not become Reno's while the bandwidth changes.
 *   6. As the kernel: a timeout uses the adaptive cut like any other loss.
 *
 * Kernel
 *   Uses the kernel's own tcp_slow_start (5.13 and newer). The name is bpf_htcp because the kernel's own algorithm
 *   is called htcp.
 */
#include "tccc.bpf.h"
#include "phase.bpf.h"

/* D is in 1/1024 s; above 1024 s it stays there: f is 271000 packets then, and its square still fits 64 bits. */
#define D_SHIFT 10
#define D_ONE (1u << D_SHIFT)
#define D_LARGEST_US (1024 * US_PER_SEC)
#define BETA_LEAST 512u /* 0.5 */
#define BETA_MOST 819u	/* 0.8 */
/* RTT at which scaling changes nothing, and its limits: 0.1 and 2 times that. */
#define RTT_REFERENCE_US 100000u
#define RTT_SCALE_LEAST_US 10000u
#define RTT_SCALE_MOST_US 200000u
#define RTT_ADAPTIVE_US 10000u /* at or below this, RTTmin / RTTmax does not show a queue */
#define RTT_RISE_US 20000u     /* a sample further above RTTmax is an outlier */
#define RTT_MAX_KEPT 95u       /* of a hundred, of the distance to RTTmin */
/* For this many whole lowest RTTs after a loss, the bandwidth still reflects the reduction. */
#define SETTLE_RTTS 3u

TUNABLE(u8, use_rtt_scaling, 1, 0, 1, "on or off",
	"scale growth with the lowest RTT, to be fair between flows of different RTTs: as the kernel");
TUNABLE(u8, use_bandwidth_switch, 1, 0, 1, "on or off",
	"halve if the bandwidth changed by more than a fifth since the last loss: as the kernel");

struct bpf_htcp {
	u8 phase;
	u8 is_adaptive;	   /* the next cut may be shallower than half */
	u8 has_backup;	   /* the three prior values below are from before a reduction */
	u32 alpha;	   /* growth, 1/1024 packets per window */
	u32 beta;	   /* share kept at the latest loss, 1/1024 */
	u32 min_rtt_us;	   /* 0: no sample yet */
	u32 max_rtt_us;	   /* 0: no sample yet */
	u32 pkts;	   /* acknowledged in this bandwidth interval */
	u32 bw;		   /* filtered, 1/256 packets/s */
	u32 bw_max;	   /* highest since the latest loss */
	u32 bw_max_before; /* highest between the two previous losses */
	u32 prior_max_rtt_us;
	u32 prior_bw_max_before;
	u64 loss_us; /* end of the latest reduction, or the start */
	u64 prior_loss_us;
	u64 interval_start_us; /* of this bandwidth interval */
	u64 credit;	       /* growth below one packet */
};
STATE_FITS(struct bpf_htcp);

/* D, 1/1024 s, floor; saturates. */
static u32 elapsed_since_loss(const struct bpf_htcp *htcp, u64 now_us)
{
	const u64 elapsed_us = now_us - htcp->loss_us;

	return (u32)((min(elapsed_us, D_LARGEST_US) << D_SHIFT) / US_PER_SEC);
}

/*
 * f(D) = 1 + 10 (D - 1) + ((D - 1) / 2)^2 in 1/1024 packets: draft, section 2. Range: D up to 2^20, f below 2^29.
 * Error: below 1/1024 packet, it is the floor.
 */
static u32 growth_after(u32 d)
{
	const u64 t = d > D_ONE ? d - D_ONE : 0;

	return (u32)(SHARE_UNIT + 10 * t + ((t * t) >> (D_SHIFT + 2)));
}

/* f <- max(f RTTmin / 100 ms, 1): draft, section 2. Range: f below 2^29; the result is below 2^30. */
static u32 scaled_growth(u32 growth, u32 min_rtt_us)
{
	const u64 rtt_us = min(max(min_rtt_us, RTT_SCALE_LEAST_US), RTT_SCALE_MOST_US);

	if (!use_rtt_scaling || !min_rtt_us)
		return growth;
	return (u32)max(growth * rtt_us / RTT_REFERENCE_US, (u64)SHARE_UNIT);
}

/* alpha = 2 (1 - beta) f: draft, section 2. Range: f below 2^30, beta from 1/2 to 4/5, so below f. */
static void update_alpha(struct bpf_htcp *htcp, u64 now_us)
{
	const u64 growth = scaled_growth(growth_after(elapsed_since_loss(htcp, now_us)), htcp->min_rtt_us);

	htcp->alpha = (u32)((2 * growth * (SHARE_UNIT - min(htcp->beta, BETA_MOST))) >> SHARE_SHIFT);
}

/* Whether the highest bandwidth is within a fifth of the previous one. */
static bool is_bandwidth_steady(const struct bpf_htcp *htcp)
{
	const u64 now = 5ull * htcp->bw_max, before = htcp->bw_max_before;

	return now >= 4 * before && now <= 6 * before;
}

/* beta = RTTmin / RTTmax within its limits: draft, section 3. */
static void update_beta(struct bpf_htcp *htcp)
{
	const bool is_steady = !use_bandwidth_switch || is_bandwidth_steady(htcp);
	const u32 min_rtt_us = htcp->min_rtt_us;
	u32 share;

	htcp->bw_max_before = htcp->bw_max;
	htcp->beta = BETA_LEAST;
	if (!is_steady) {
		htcp->is_adaptive = 0;
	} else if (htcp->is_adaptive && min_rtt_us > RTT_ADAPTIVE_US) {
		share = (u32)min(((u64)min_rtt_us << SHARE_SHIFT) / max(htcp->max_rtt_us, min_rtt_us), (u64)BETA_MOST);
		htcp->beta = max(share, BETA_LEAST);
	} else {
		htcp->is_adaptive = 1;
	}
}

/* RTTmax fades, in case the route has changed. */
static void update_max_rtt_at_loss(struct bpf_htcp *htcp)
{
	const u32 min_rtt_us = htcp->min_rtt_us;

	if (htcp->max_rtt_us > min_rtt_us)
		htcp->max_rtt_us = min_rtt_us + (u32)((u64)(htcp->max_rtt_us - min_rtt_us) * RTT_MAX_KEPT / 100);
}

static void update_rtt(struct bpf_htcp *htcp, u32 rtt_us, bool is_undisturbed)
{
	if (!htcp->min_rtt_us || rtt_us < htcp->min_rtt_us)
		htcp->min_rtt_us = rtt_us;
	if (!is_undisturbed)
		return;
	htcp->max_rtt_us = max(htcp->max_rtt_us, htcp->min_rtt_us);
	if (rtt_us > htcp->max_rtt_us && rtt_us - htcp->max_rtt_us <= RTT_RISE_US)
		htcp->max_rtt_us = rtt_us;
}

static void begin_interval(struct bpf_htcp *htcp, u64 now_us)
{
	htcp->pkts = 0;
	htcp->interval_start_us = now_us;
}

/* Takes one sample per window: its packets over its time. */
static void update_bandwidth(struct bpf_htcp *htcp, u32 cwnd, u64 now_us)
{
	const u64 lasted_us = now_us - htcp->interval_start_us;
	const u32 growth = max(htcp->alpha >> SHARE_SHIFT, 1u);
	u32 sample;

	if (!htcp->min_rtt_us || lasted_us < htcp->min_rtt_us || (u64)htcp->pkts + growth < cwnd)
		return;
	sample = bandwidth_of(htcp->pkts, lasted_us);
	if (now_us - htcp->loss_us < (u64)(SETTLE_RTTS + 1) * htcp->min_rtt_us) {
		htcp->bw = htcp->bw_max = sample;
	} else {
		htcp->bw = (u32)((3ull * htcp->bw + sample) / 4);
		htcp->bw_max = max(htcp->bw_max, htcp->bw);
	}
	begin_interval(htcp, now_us);
}

CC_OP(void, bpf_htcp_init, struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bpf_htcp *htcp = inet_csk_ca(sk);

	__builtin_memset(htcp, 0, sizeof(*htcp));
	htcp->beta = BETA_LEAST;
	htcp->loss_us = tp->tcp_mstamp;
	update_alpha(htcp, tp->tcp_mstamp);
	begin_interval(htcp, tp->tcp_mstamp);
	update_phase(sk);
}

CC_OP(void, bpf_htcp_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bpf_htcp *htcp = inet_csk_ca(sk);
	const u8 state = ca_state_of(sk);

	if (sample->rtt_us > 0)
		update_rtt(htcp, sample->rtt_us, state == TCP_CA_Open);
	if (!use_bandwidth_switch)
		return;
	if (state > TCP_CA_Disorder) {
		begin_interval(htcp, tp->tcp_mstamp);
		return;
	}
	htcp->pkts += sample->pkts_acked;
	update_bandwidth(htcp, tp->snd_cwnd, tp->tcp_mstamp);
}

CC_OP(void, bpf_htcp_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct bpf_htcp *htcp = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	u32 cwnd;

	update_phase(sk);
	if (!is_past_slow_start(tp, &acked))
		return;
	cwnd = tp->snd_cwnd;
	grow_per_window(tp, &htcp->credit, acked, htcp->alpha);
	if (tp->snd_cwnd != cwnd)
		update_alpha(htcp, tp->tcp_mstamp);
}

CC_OP(u32, bpf_htcp_ssthresh, struct sock *sk)
{
	struct bpf_htcp *htcp = inet_csk_ca(sk);

	if (!htcp->has_backup) {
		htcp->prior_max_rtt_us = htcp->max_rtt_us;
		htcp->prior_bw_max_before = htcp->bw_max_before;
	}
	htcp->credit = 0; /* as snd_cwnd_cnt, which the kernel clears at a reduction */
	update_beta(htcp);
	update_max_rtt_at_loss(htcp);
	return ssthresh_of(share_of(tcp_sk(sk)->snd_cwnd, htcp->beta));
}

/* D restarts when a reduction begins, and when it ends unless it was undone. */
CC_OP(void, bpf_htcp_set_state, struct sock *sk, u8 new_state)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bpf_htcp *htcp = inet_csk_ca(sk);
	const bool is_end = new_state == TCP_CA_Open && htcp->has_backup;

	update_reduction_phase(sk, new_state);
	if (new_state > TCP_CA_Disorder && !htcp->has_backup) {
		htcp->has_backup = 1;
		htcp->prior_loss_us = htcp->loss_us;
	}
	if (new_state <= TCP_CA_Disorder && !is_end)
		return;
	htcp->loss_us = tp->tcp_mstamp;
	update_alpha(htcp, tp->tcp_mstamp);
	if (is_end)
		htcp->has_backup = 0;
}

CC_OP(u32, bpf_htcp_undo_cwnd, struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bpf_htcp *htcp = inet_csk_ca(sk);

	if (htcp->has_backup) {
		htcp->loss_us = htcp->prior_loss_us;
		htcp->max_rtt_us = htcp->prior_max_rtt_us;
		htcp->bw_max_before = htcp->prior_bw_max_before;
		htcp->has_backup = 0;
		update_alpha(htcp, tp->tcp_mstamp);
	}
	return reno_undo_cwnd(tp);
}

ALGORITHM(bpf_htcp, "H-TCP as BPF: growth by the time since the last loss, cut by the length of the queue",
	  "Leith & Shorten 2004; draft-leith-tcp-htcp-06") = {
	.init = (void *)bpf_htcp_init,
	.pkts_acked = (void *)bpf_htcp_pkts_acked,
	.cong_avoid = (void *)bpf_htcp_cong_avoid,
	.ssthresh = (void *)bpf_htcp_ssthresh,
	.set_state = (void *)bpf_htcp_set_state,
	.undo_cwnd = (void *)bpf_htcp_undo_cwnd,
	.name = "bpf_htcp",
};
