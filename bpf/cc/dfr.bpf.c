// SPDX-License-Identifier: GPL-2.0-only
/*
 * Delayed Fast Recovery: forgive the first loss of a window, halve only when a second one follows in it.
 *
 * Source
 *   N. J. Kothari, K. S. Dasgupta, "Performance enhancement of SACK TCP protocol for a wireless network by delaying
 *   fast recovery", IFIP WOCN 2006, doi 10.1109/WOCN.2006.1666618: known to us by its title and by what R. D. Mehta et
 *   al. 2024 (see msack) say of it. Its text could not be found: this is a reconstruction.
 *
 * Idea
 *   Bit errors of a wireless link hit single packets, congestion drops several of one window. So a first loss is only
 *   retransmitted, and the fast recovery it would have begun is postponed until another loss shows congestion.
 *
 * Equations
 *   slow start            cwnd += acked
 *   congestion avoidance  cwnd += acked / cwnd
 *   first loss            ssthresh = cwnd: retransmit, cut postponed; its window ends at snd_nxt
 *   second loss in it     ssthresh = max(cwnd0 / 2, 2), cwnd0 the window when recovery began
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
 *   1. "The same window" is everything sent before the first loss was noticed (snd_nxt then). During the recovery the
 *      kernel's count of losses does not say which packet was lost: one sent since counts as well.
 *   2. Losses that one ACK tells of together are several: two at once cut at once. A retransmission lost again counts as
 *      a loss.
 *   3. Later losses are known at the next ACK: the kernel marks them after its callbacks for an ACK.
 *   4. The kernel leaves slow start with every recovery; a sender that kept its window goes back into it, as a sender
 *      that only retransmits would. Otherwise a recovery costs growth: there is none while it lasts, and what was
 *      acknowledged towards the next packet is forgotten.
 *   5. The kernel spreads a cut over what is left of the recovery (PRR, RFC 6937) and sends one packet for one that
 *      arrives while the window is kept; a simulator cuts at once and keeps the window as a number.
 *   6. A congestion mark always cuts, also in a recovery that has kept its window: it is no bit error.
 *   7. The kernel enters the same state, CWR, by a mark, by a packet that the own host dropped and by a loss that a tail
 *      loss probe repaired, and does not say which: all three cut.
 *   8. A timeout inside recovery halves the window in force when the last ACK before it arrived, whether the recovery
 *      had cut or not; further timeouts of the same loss leave ssthresh alone (as dtcp).
 *   9. A reduction that proves spurious is undone; the next loss is a first one again. The counters keep it.
 *   10. Growth counts acknowledged packets, not ACKs; and only while the window limits the sender.
 *
 * Kernel
 *   ssthresh is called before the state is known: the verdict is given there and counted in set_state, where CWR is cut.
 *   Recovery reads ssthresh at every ACK and ends with cwnd = ssthresh, so writing it in pkts_acked is the postponed cut.
 *   Uses the kernel's own tcp_slow_start and tcp_cong_avoid_ai (5.13 and newer).
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
