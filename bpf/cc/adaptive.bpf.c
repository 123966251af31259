// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reno that stops growing when the RTT comes near the largest RTT it has seen: Verma's adaptive congestion control.
 *
 * Source
 *   L. P. Verma, I. Verma, M. Kumar, "An Adaptive Congestion Control Algorithm", Modelling, Measurement and
 *   Control A 92 (1), 2019, doi 10.18280/mmc_a.920105: equations 3 to 6 and algorithm 1.
 *
 * Idea
 *   The largest RTT is that of a full queue, and the lowest is that of an empty one. Growth while the queue is
 *   nearly full only brings the next loss. So the window does not grow then. Otherwise it grows as Reno's
 *   does, and a little faster while it is small. A flow that holds its window while its neighbours halve theirs
 *   takes bandwidth from them: see Risk.
 *
 * Equations
 *   slow start            cwnd += acked                                        New Reno
 *   threshold             RTTthresh = (RTTmax + RTTmin + RTT) / tau            eq. (4), tau = 2500/1000
 *   RTT above it          cwnd stays                                           algorithm 1, line 14
 *   RTT below it          delta = ssthresh / (1 + e^cwnd)                      eq. (5)
 *                         cwnd += acked (delta + 1 / cwnd)                     eq. (6)
 *   loss, timeout         ssthresh = max(cwnd / 2, 2)                          New Reno
 *   Growth therefore stops at RTT = (RTTmax + RTTmin) / (tau - 1), which is two thirds of the sum. This is below
 *   RTTmax only where RTTmax > RTTmin / (tau - 2), twice RTTmin. On other paths the algorithm is Reno with delta.
 *   delta is largest at cwnd = ssthresh: 0.24 at 2 packets, 0.03 at 5 and 0.0005 at 10. On the whole way up from a
 *   threshold it adds 1.0 packet from 2, and 0.3 from 5.
 *
 * Units
 *   Windows in packets, RTTs in us, tau in 1/1000, delta in 2^-32 packets.
 *
 * Life
 *   slow start -> avoidance <-> stopped -> (loss) recovery -> avoidance; timeout -> loss -> slow start.
 *
 * Differs
 *   1. cwnd = ssthresh counts as congestion avoidance. The slow start of the paper's listing would never end,
 *      because the kernel's stops at ssthresh. Packets of an ACK that remain after slow start grow the window as
 *      in Reno.
 *   2. An RTT equal to RTTthresh, which the listing leaves out, stops growth.
 *   3. RTTmax is the largest sample, as in the listing. In the text it is measured when a packet is dropped. With
 *      rttmax_mode = 1, each detected loss takes the current RTT as RTTmax if it is larger, and nothing stops
 *      growth before the first loss. A congestion mark does not count as a drop. A reduced MTU does.
 *   4. The paper announces a "small change in fast recovery" and never describes it, so there is none. Recovery is
 *      the kernel's (SACK, RACK, PRR), not New Reno's.
 *   5. Growth counts acknowledged packets, not ACKs, so delayed ACKs do not slow it. All packets of one ACK use
 *      the delta of the window before that ACK. The window grows only while it limits the sender.
 *   6. 1/cwnd is exact: it is the kernel's count. delta comes from a table up to 20 packets, with an error of at
 *      most 2.4e-9 packets. Above 20 packets it is 0 instead of less than 1.7e-8. Fractions of delta are kept
 *      until they make a packet.
 *   7. Each ACK gives one sample, of the packet sent last. It includes the delay of delayed ACKs, and is never of
 *      a retransmitted packet. An ACK without a sample uses the sample before it. The threshold is rounded up to a
 *      whole us, which gives the same decisions as the exact value.
 *   8. In the listing RTTmax and RTTmin hold for the life of the connection. The paper calls delay without
 *      congestion rare. A route that more than doubles the RTT would then stop growth for good while every loss
 *      halves the window, down to 2 packets. So growth stops for at most longest_stop_s. After that time the path
 *      has shown no lower RTT, and the lowest RTT since growth stopped becomes RTTmin. If the flow's own queue
 *      raised the RTT, growth ends in a loss, and the empty queue after the loss corrects RTTmin. 0 is the paper's
 *      rule. A spike in RTTmax only disables the stop, which leaves Reno. So RTTmax stays as in the listing;
 *      rttmax_win_s can make it expire.
 *   9. The paper does not mention ECN. A mark is treated as a loss. It does not mention idle time either: the
 *      kernel shrinks the window, both extremes are kept, and the RTT before the pause stops nothing.
 *   10. A reduction that proves spurious is undone, which ns-2 cannot do. With rttmax_mode = 1 the RTTmax of that
 *      reduction is kept.
 *
 * Kernel
 *   Uses the kernel's own tcp_slow_start and tcp_cong_avoid_ai (5.13 and newer). Works the same on every supported
 *   kernel.
 */
#include "tccc.bpf.h"

#define TAU_UNIT 1000u
#define RTTMAX_ON_LOSS 1
#define HALF_SEC_US (US_PER_SEC / 2)
/* delta is in 2^-32 packets: the smallest entry of its table still has three bits. */
#define DELTA_SHIFT 32
#define DELTA_CWND_MAX 20

/* Found by experiment in the paper: equation 4. Samples below 2^31 us keep the threshold in 32 bits from 2000 on. */
TUNABLE(u32, tau, 2500, 2000, 3000, "1/1000",
	"scale of the threshold: 2000 never stops growth, 3000 stops it on a path without any queue");

/* The text and the listing differ: see the header. */
TUNABLE(u8, rttmax_mode, 0, 0, 1, "mode",
	"when RTTmax is measured: 0 at every sample, as the listing; 1 at losses only, as the text");

/* The paper gives no number. 10 forgets a spike soon and still spans several fillings of the queue. */
TUNABLE(u32, rttmax_win_s, 0, 0, 3600, "s",
	"how long a sample stays RTTmax: half of this to all of it; 0: forever, as the paper");

/* The time over which BBR looks for its lowest RTT; it spans several losses of a flow that the path limits. */
TUNABLE(u32, longest_stop_s, 10, 0, 3600, "s",
	"longest time without growth before RTTmin is measured again; 0: forever, as the paper");

PHASES(PHASE_SLOW_START, PHASE_AVOIDANCE, PHASE_STOPPED, PHASE_RECOVERY, PHASE_LOSS);

#include "reduction.bpf.h"

struct adaptive {
	u8 phase;
	u32 rtt_min_us;	   /* RTTmin, 0: no sample yet */
	u32 rtt_max_us;	   /* RTTmax, 0: none known */
	u32 rtt_cur_us;	   /* RTT_i, 0: none since the start or the latest pause */
	u32 rtt_thresh_us; /* RTTthresh at the latest ACK that could grow the window, 0: none known */
	u32 half_max_us;   /* with rttmax_win_s: largest RTT of the present half of the window */
	u64 half_start_us; /* likewise: when that half began */
	u64 stop_start_us; /* when growth stopped, 0: it has not stopped */
	u32 stop_min_us;   /* lowest RTT since then */
	u32 delta_frac;	   /* growth by delta below one packet, 2^-32 packets */
	u32 acks_frozen;   /* ACKs in congestion avoidance that the threshold kept from growing the window */
	u32 acks_grown;	   /* ACKs in congestion avoidance that grew it */
};
STATE_FITS(struct adaptive);

/* 2^32 / (1 + e^cwnd) for cwnd = 0 and up, rounded. */
static const u32 growth_share[DELTA_CWND_MAX + 1] = {
	2147483648, 1155094609, 511972652, 203692574, 77250184, 28745576, 10619836, 3912935, 1440318, 529976, 194982,
	71732,	    26389,	9708,	   3571,      1314,	483,	  178,	    65,	     24,      9,
};

/*
 * delta = ssthresh / (1 + e^cwnd)  eq. (5), in 2^-32 packets. In congestion avoidance ssthresh <= cwnd.
 * Range: any; result below 0.28 packets. Error: half of 2^-32 ssthresh.
 */
static u32 delta_of(u32 ssthresh, u32 cwnd)
{
	if (cwnd > DELTA_CWND_MAX)
		return 0;
	return min(ssthresh, cwnd) * growth_share[cwnd];
}

/* RTTthresh = (RTTmax + RTTmin + RTT) / tau  eq. (4), rounded up. Range: RTTs below 2^31 us. */
static u32 threshold_us(const struct adaptive *adaptive)
{
	const u64 sum_us = (u64)adaptive->rtt_max_us + adaptive->rtt_min_us + adaptive->rtt_cur_us;

	return (u32)((sum_us * TAU_UNIT + tau - 1) / tau);
}

/* The largest sample of the half that ended becomes the largest of the window. */
static void forget_old_rtt_max(struct adaptive *adaptive, u64 now_us)
{
	const u64 half_us = rttmax_win_s * HALF_SEC_US, elapsed_us = now_us - adaptive->half_start_us;

	if (!half_us || elapsed_us < half_us)
		return;
	adaptive->rtt_max_us = elapsed_us < 2 * half_us ? adaptive->half_max_us : 0;
	adaptive->half_max_us = 0;
	adaptive->half_start_us = now_us;
}

static void update_rtt_max(struct adaptive *adaptive)
{
	adaptive->rtt_max_us = max(adaptive->rtt_max_us, adaptive->rtt_cur_us);
	if (rttmax_win_s)
		adaptive->half_max_us = max(adaptive->half_max_us, adaptive->rtt_cur_us);
}

/*
 * A path that shows no lower RTT for this long is a longer path. Only growth ends the wait, not a loss or a timeout.
 */
static void update_stop(struct adaptive *adaptive, u64 now_us)
{
	if (!adaptive->stop_start_us) {
		adaptive->stop_start_us = now_us;
		adaptive->stop_min_us = adaptive->rtt_cur_us;
	} else if (longest_stop_s && now_us - adaptive->stop_start_us >= longest_stop_s * US_PER_SEC) {
		adaptive->rtt_min_us = adaptive->stop_min_us;
		adaptive->stop_start_us = 0;
	}
}

/* Returns whether growth stops. Without an RTT or RTTmax there is no threshold. */
static bool update_threshold(struct adaptive *adaptive)
{
	const bool is_known = adaptive->rtt_cur_us && adaptive->rtt_max_us;

	adaptive->rtt_thresh_us = is_known ? threshold_us(adaptive) : 0;
	return is_known && adaptive->rtt_cur_us >= adaptive->rtt_thresh_us;
}

static void update_phase(struct sock *sk)
{
	struct adaptive *adaptive = inet_csk_ca(sk);
	const bool is_stopped = update_threshold(adaptive);

	if (in_slow_start(tcp_sk(sk)))
		adaptive->phase = PHASE_SLOW_START;
	else
		adaptive->phase = is_stopped ? PHASE_STOPPED : PHASE_AVOIDANCE;
}

/* Whole packets of acked * delta; the rest is kept. */
static u32 update_delta_frac(struct adaptive *adaptive, u32 delta, u32 acked)
{
	const u64 growth = (u64)delta * acked + adaptive->delta_frac;

	adaptive->delta_frac = (u32)growth;
	return (u32)(growth >> DELTA_SHIFT);
}

/* cwnd += acked (delta + 1 / cwnd)  eq. (6) */
static void set_grown_window(struct tcp_sock *tp, struct adaptive *adaptive, u32 acked)
{
	const u32 packets = update_delta_frac(adaptive, delta_of(tp->snd_ssthresh, tp->snd_cwnd), acked);

	adaptive->acks_grown++;
	adaptive->stop_start_us = 0;
	reno_cong_avoid(tp, acked);
	if (packets)
		tp->snd_cwnd = min(tp->snd_cwnd + packets, tp->snd_cwnd_clamp);
}

/* cwnd stays: algorithm 1, line 14. */
static void set_kept_window(const struct tcp_sock *tp, struct adaptive *adaptive)
{
	adaptive->acks_frozen++;
	update_stop(adaptive, tp->tcp_mstamp);
}

CC_OP(void, adaptive_init, struct sock *sk)
{
	struct adaptive *adaptive = inet_csk_ca(sk);

	__builtin_memset(adaptive, 0, sizeof(*adaptive));
	adaptive->half_start_us = tcp_sk(sk)->tcp_mstamp;
	update_phase(sk);
}

CC_OP(void, adaptive_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct adaptive *adaptive = inet_csk_ca(sk);

	forget_old_rtt_max(adaptive, tcp_sk(sk)->tcp_mstamp);
	if (sample->rtt_us < 0)
		return;
	adaptive->rtt_cur_us = max((u32)sample->rtt_us, 1u);
	if (!adaptive->rtt_min_us || adaptive->rtt_cur_us < adaptive->rtt_min_us)
		adaptive->rtt_min_us = adaptive->rtt_cur_us;
	adaptive->stop_min_us = min(adaptive->stop_min_us, adaptive->rtt_cur_us);
	if (rttmax_mode != RTTMAX_ON_LOSS)
		update_rtt_max(adaptive);
}

CC_OP(void, adaptive_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct adaptive *adaptive = inet_csk_ca(sk);

	update_phase(sk);
	if (!is_cwnd_limited(tp))
		return;
	if (adaptive->phase == PHASE_SLOW_START)
		reno_cong_avoid(tp, acked);
	else if (adaptive->phase == PHASE_AVOIDANCE)
		set_grown_window(tp, adaptive, acked);
	else
		set_kept_window(tp, adaptive);
}

CC_OP(u32, adaptive_ssthresh, struct sock *sk)
{
	return reno_ssthresh(tcp_sk(sk));
}

/* The RTT before a pause does not show the queue after it. */
CC_OP(void, adaptive_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct adaptive *adaptive = inet_csk_ca(sk);

	if (event == CA_EVENT_CWND_RESTART)
		adaptive->rtt_cur_us = 0;
}

/* A drop leads to Recovery or Loss. It shows the full queue of equation 3. */
CC_OP(void, adaptive_set_state, struct sock *sk, u8 new_state)
{
	struct adaptive *adaptive = inet_csk_ca(sk);

	update_reduction_phase(sk, new_state);
	if (rttmax_mode == RTTMAX_ON_LOSS && (new_state == TCP_CA_Recovery || new_state == TCP_CA_Loss))
		update_rtt_max(adaptive);
}

CC_OP(u32, adaptive_undo_cwnd, struct sock *sk)
{
	return reno_undo_cwnd(tcp_sk(sk));
}

ALGORITHM(adaptive, "Adaptive: Reno that stops growing when the RTT nears the largest one seen",
	  "Verma, Verma & Kumar 2019, equations 3 to 6, algorithm 1") = {
	.init = (void *)adaptive_init,
	.pkts_acked = (void *)adaptive_pkts_acked,
	.cong_avoid = (void *)adaptive_cong_avoid,
	.ssthresh = (void *)adaptive_ssthresh,
	.cwnd_event = (void *)adaptive_cwnd_event,
	.set_state = (void *)adaptive_set_state,
	.undo_cwnd = (void *)adaptive_undo_cwnd,
	.name = "adaptive",
};
