// SPDX-License-Identifier: GPL-2.0-only
/*
 * Delayed Fast Recovery: forgive the first loss of a window, and halve only at a second loss in the same window.
 *
 * Source
 *   N. J. Kothari, K. S. Dasgupta, "Performance enhancement of SACK TCP protocol for a wireless network by
 *   delaying fast recovery", IFIP WOCN 2006, doi 10.1109/WOCN.2006.1666618. Its text could not be found. This is a
 *   reconstruction from its title and from what R. D. Mehta et al. 2024 (see msack) write about it.
 *
 * Idea
 *   Bit errors on a wireless link hit single packets. Congestion drops several packets of one window. So the first
 *   loss is only retransmitted. The fast recovery that would have begun is postponed until another loss shows
 *   congestion.
 *
 * Equations
 *   slow start            cwnd += acked
 *   congestion avoidance  cwnd += acked / cwnd
 *   first loss            ssthresh = cwnd: retransmit, postpone the cut; its window ends at snd_nxt
 *   second loss in it     ssthresh = max(cwnd0 / 2, 2), cwnd0 is the window when recovery began
 *   timeout, mark         ssthresh = max(cwnd / 2, 2); after a timeout cwnd restarts from 1
 *
 * Units
 *   Windows and losses in packets.
 *
 * Life
 *   slow start -> avoidance -> (first loss) postponed -> slow start or avoidance as before;
 *   postponed -> (second loss) recovery -> avoidance; timeout -> loss -> slow start.
 *
 * Differs
 *   1. "The same window" is everything sent before the first loss was detected (up to snd_nxt at that time).
 *      During the recovery the kernel's count of losses does not identify the lost packet, so a packet sent later
 *      counts as well.
 *   2. Losses that one ACK reports together count as several: two at once cut at once. A lost retransmission
 *      counts as a loss.
 *   3. Later losses are known at the next ACK, because the kernel marks them after its callbacks for an ACK.
 *   4. The kernel leaves slow start with every recovery. A sender that kept its window returns to slow start, as a
 *      sender that only retransmits would. Otherwise a recovery costs growth: the window does not grow while it
 *      lasts, and packets acknowledged towards the next increase are forgotten.
 *   5. The kernel spreads a cut over the rest of the recovery (PRR, RFC 6937). While the window is kept, it sends
 *      one packet for each one that arrives. A simulator cuts at once, and keeps the window as a number.
 *   6. A congestion mark always cuts, also in a recovery that has kept its window, because a mark is not a bit
 *      error.
 *   7. The kernel enters the same state, CWR, for a mark, for a packet dropped by the sending host, and for a loss
 *      repaired by a tail loss probe. It does not say which, so all three cut.
 *   8. A timeout inside recovery halves the window that was in use when the last ACK before it arrived, whether
 *      the recovery had cut or not. Further timeouts of the same loss do not change ssthresh (as dtcp).
 *   9. A reduction that proves spurious is undone, and the next loss is a first one again. The counters still
 *      include it.
 *   10. Growth counts acknowledged packets, not ACKs, and only while the window limits the sender.
 *
 * Kernel
 *   The kernel calls ssthresh before the state is known. The decision is made there and counted in set_state, which
 *   cuts for CWR. Recovery reads ssthresh at every ACK and ends with cwnd = ssthresh. So writing ssthresh in
 *   pkts_acked is the postponed cut. Uses the kernel's own tcp_slow_start and tcp_cong_avoid_ai (5.13 and newer).
 */
#include "tccc.bpf.h"

PHASES(PHASE_SLOW_START, PHASE_AVOIDANCE, PHASE_POSTPONED, PHASE_RECOVERY, PHASE_LOSS);

#include "dfr.bpf.h"

STATE_FITS(struct dfr_state);

static enum verdict judge(struct sock *sk, u32 losses)
{
	return is_single_loss(dfr_of(sk), losses) ? VERDICT_POSTPONED : VERDICT_CUT;
}

static bool is_forgiven(enum verdict verdict)
{
	return verdict == VERDICT_POSTPONED;
}

/* Nothing more depends on a verdict. */
static void note_verdict(struct sock *sk, enum verdict verdict)
{
}

CC_OP(void, dfr_init, struct sock *sk)
{
	forget_losses(sk);
}

CC_OP(void, dfr_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	update_window(sk);
}

ALGORITHM(dfr, "Delayed Fast Recovery: halve at the second loss of a window (reconstruction)",
	  "Kothari & Dasgupta 2006; Mehta et al. 2024, section 3") = {
	.init = (void *)dfr_init,
	DFR_CALLBACKS,
	.pkts_acked = (void *)dfr_pkts_acked,
	.name = "dfr",
};
