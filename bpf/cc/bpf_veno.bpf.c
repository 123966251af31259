// SPDX-License-Identifier: GPL-2.0-only
/*
 * Veno as BPF: Reno that estimates the queue at each loss, and cuts by only a fifth when the queue is short.
 *
 * Source
 *   C. P. Fu, S. C. Liew, "TCP Veno: TCP enhancement for transmission over wireless access networks", IEEE JSAC 21
 *   (2), 2003, doi 10.1109/JSAC.2002.807336: section III; behaviour of net/ipv4/tcp_veno.c of Linux 6.18.
 *
 * Idea
 *   A packet that is lost while the queue is short was lost on the radio link, not in a full queue, so the window
 *   was not the cause. Vegas's estimate of the queue distinguishes the two cases. While a queue exists, the window
 *   grows at half the pace, so it stays longer near the size that fills the path.
 *
 * Equations
 *   backlog               N = (cwnd / BaseRTT - cwnd / RTT) BaseRTT = cwnd (RTT - BaseRTT) / RTT    eq. (1) to (3)
 *   slow start            as Reno
 *   avoidance, N < beta   cwnd += acked / cwnd                      section III.B
 *   avoidance, N >= beta  cwnd += acked / (2 cwnd)
 *   loss, N < beta        ssthresh = max(4 cwnd / 5, 2)             section III.C, a random loss
 *   loss, N >= beta       ssthresh = max(cwnd / 2, 2)               a congestive loss
 *
 * Units
 *   Windows and N in packets, beta in half packets, RTTs in us, the share kept in 1/1000 of the window, rounded
 *   down.
 *
 * Life
 *   slow start -> available <-> congested -> (loss) recovery -> available; timeout -> loss -> slow start.
 *
 * Differs
 *   1. From the kernel's veno: N is compared exactly, without a division. The kernel rounds it up to half packets,
 *      so its beta of 3 acts as 2.5. beta = 5 does the same here.
 *   2. From the kernel's veno: the kernel decides nothing before the third RTT sample of a connection. Here the
 *      first sample makes N = 0, which gives the same growth.
 *   3. From the kernel's veno: nothing overflows, and RTTs are not increased by one us.
 *   4. From the paper, as the kernel: RTT is the lowest sample since the previous ACK, not the smoothed RTT.
 *      BaseRTT is measured again after a pause with nothing in flight, and not after every loss. A timeout cuts
 *      ssthresh like any other loss.
 *   5. From the paper, as the kernel: N is updated only in state Open. While ACKs arrive out of order, the window
 *      grows as Reno's, and a loss is judged by the previous N.
 *   6. From the kernel's veno: an ACK without an RTT sample leaves N as it was. The kernel then takes an infinite RTT,
 *      so N is the window, or 0 if no RTT is known since the latest pause.
 *
 * Kernel
 *   Uses the kernel's own tcp_slow_start and tcp_cong_avoid_ai (5.13 and newer). The name is bpf_veno because the
 *   kernel's own algorithm is called veno.
 */
#include "tccc.bpf.h"
#include "delay.bpf.h"

#define PERMILLE 1000u

TUNABLE(u32, beta, 6, 1, 131072, "1/2 packets",
	"backlog from which a loss counts as congestion: 3 packets, section III.C");
TUNABLE(u32, keep_random, 800, 500, 1000, "1/1000", "share of cwnd kept at a random loss: 4/5, section III.C");

PHASES(PHASE_SLOW_START, PHASE_AVAILABLE, PHASE_CONGESTED, PHASE_RECOVERY, PHASE_LOSS);

#include "reduction.bpf.h"

struct bpf_veno {
	u8 phase;
	u8 is_sampling;	      /* the connection is undisturbed: its RTTs count */
	u8 is_congested;      /* N >= beta at the latest ACK that counted */
	u8 is_paying;	      /* the next window acknowledged with a queue adds a packet */
	u32 random_losses;    /* reductions with N < beta */
	u32 congested_losses; /* reductions with N >= beta */
	struct delay delay;   /* of one ACK each */
};
STATE_FITS(struct bpf_veno);

/* N >= beta, multiplied by 2 RTT. Range: windows and RTTs below 2^31, so that the product fits 64 bits. */
static bool is_backlog_reached(u32 cwnd, const struct delay *delay)
{
	const u64 queueing_us = delay->round_rtt_us - delay->base_rtt_us;

	return 2 * cwnd * queueing_us >= (u64)beta * delay->round_rtt_us;
}

static void update_phase(struct sock *sk)
{
	struct bpf_veno *veno = inet_csk_ca(sk);

	if (in_slow_start(tcp_sk(sk)))
		veno->phase = PHASE_SLOW_START;
	else
		veno->phase = veno->is_congested ? PHASE_CONGESTED : PHASE_AVAILABLE;
}

static void forget_path(struct sock *sk)
{
	struct bpf_veno *veno = inet_csk_ca(sk);

	veno->is_sampling = 1;
	veno->is_paying = 1;
	forget_delay(&veno->delay, tcp_sk(sk));
}

/* Judges the backlog at this ACK. An ACK without an RTT sample changes nothing. */
static void update_backlog(struct tcp_sock *tp, struct bpf_veno *veno)
{
	if (veno->delay.samples)
		veno->is_congested = is_backlog_reached(tp->snd_cwnd, &veno->delay);
	begin_delay_round(&veno->delay, tp);
}

/* Adds a packet for every other window acknowledged. As in the kernel, the ACK after a full window is not counted. */
static void grow_every_other_window(struct tcp_sock *tp, struct bpf_veno *veno, u32 acked)
{
	if (tp->snd_cwnd_cnt < tp->snd_cwnd) {
		tp->snd_cwnd_cnt += acked;
		return;
	}
	tp->snd_cwnd_cnt = 0;
	if (veno->is_paying && tp->snd_cwnd < tp->snd_cwnd_clamp) {
		tp->snd_cwnd++;
		veno->is_paying = 0;
	} else {
		veno->is_paying = 1;
	}
}

/* cwnd += 1 / cwnd for every ACK, or half of that with a queue. */
static void set_grown_window(struct tcp_sock *tp, struct bpf_veno *veno, u32 acked)
{
	if (!is_past_slow_start(tp, &acked))
		return;
	if (veno->is_sampling && veno->is_congested)
		grow_every_other_window(tp, veno, acked);
	else
		tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked);
}

CC_OP(void, bpf_veno_init, struct sock *sk)
{
	struct bpf_veno *veno = inet_csk_ca(sk);

	veno->is_congested = 0;
	veno->random_losses = 0;
	veno->congested_losses = 0;
	forget_path(sk);
	update_phase(sk);
}

CC_OP(void, bpf_veno_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct bpf_veno *veno = inet_csk_ca(sk);

	update_delay(&veno->delay, sample);
}

CC_OP(void, bpf_veno_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bpf_veno *veno = inet_csk_ca(sk);

	if (veno->is_sampling && is_cwnd_limited(tp))
		update_backlog(tp, veno);
	update_phase(sk);
	set_grown_window(tp, veno, acked);
}

CC_OP(u32, bpf_veno_ssthresh, struct sock *sk)
{
	struct bpf_veno *veno = inet_csk_ca(sk);
	const u32 cwnd = tcp_sk(sk)->snd_cwnd;
	u32 kept;

	if (veno->is_congested) {
		veno->congested_losses++;
		return half_window(cwnd);
	}
	veno->random_losses++;
	kept = (u32)((u64)cwnd * keep_random / PERMILLE);
	return max(kept, 2u);
}

/* The path may have changed during a pause. */
CC_OP(void, bpf_veno_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_CWND_RESTART || event == CA_EVENT_TX_START)
		forget_path(sk);
}

CC_OP(void, bpf_veno_cwnd_event_tx_start, struct sock *sk)
{
	forget_path(sk);
}

CC_OP(void, bpf_veno_set_state, struct sock *sk, u8 new_state)
{
	struct bpf_veno *veno = inet_csk_ca(sk);

	update_reduction_phase(sk, new_state);
	veno->is_sampling = new_state == TCP_CA_Open;
	if (veno->is_sampling)
		begin_delay_round(&veno->delay, tcp_sk(sk));
}

CC_OP(u32, bpf_veno_undo_cwnd, struct sock *sk)
{
	return reno_undo_cwnd(tcp_sk(sk));
}

ALGORITHM(bpf_veno, "Veno as BPF: Reno that cuts by a fifth only when no queue stood at the loss", "Fu & Liew 2003") = {
	.init = (void *)bpf_veno_init,
	.pkts_acked = (void *)bpf_veno_pkts_acked,
	.cong_avoid = (void *)bpf_veno_cong_avoid,
	.ssthresh = (void *)bpf_veno_ssthresh,
	.cwnd_event = (void *)bpf_veno_cwnd_event,
	.cwnd_event_tx_start = (void *)bpf_veno_cwnd_event_tx_start,
	.set_state = (void *)bpf_veno_set_state,
	.undo_cwnd = (void *)bpf_veno_undo_cwnd,
	.name = "bpf_veno",
};
