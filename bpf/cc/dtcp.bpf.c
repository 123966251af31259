// SPDX-License-Identifier: GPL-2.0-only
/*
 * Discrete TCP: halve the window after a loss in slow start, but keep three quarters after a loss in linear growth.
 *
 * Source
 *   B. Gambhava, C. Bhensdadia, "Discrete TCP: differentiating slow start and congestion avoidance", International
 *   Journal of Intelligent Engineering and Systems 11 (5), 2018, doi 10.22266/ijies2018.1031.19: the pseudocode of
 *   figure 1 and the states of figure 2. Not DCTCP.
 *
 * Idea
 *   In slow start the last doubling caused the loss, so half of the window was right. In congestion avoidance the
 *   last round added a single packet, which cannot justify halving. The loss may also be a bit error of a wireless
 *   link.
 *
 * Equations
 *   slow start            cwnd += acked
 *   congestion avoidance  cwnd += acked / cwnd
 *   loss in slow start    ssthresh = max(cwnd / 2, 2)        keep_slow_start = 512/1024
 *   loss in avoidance     ssthresh = max(3 cwnd / 4, 2)      keep_avoidance = 768/1024
 *   timeout               ssthresh = max(cwnd / 2, 2), cwnd restarts from 1
 *
 * Units
 *   Windows in packets; shares in 1/1024 of the window, rounded down.
 *
 * Life
 *   slow start -> avoidance -> (loss) recovery -> avoidance; timeout -> loss -> slow start.
 *
 * Differs
 *   1. The text says "reduce by 3/4". The pseudocode and the published numbers keep 3/4, and so does this file.
 *   2. The phase is the one in which the loss is detected. cwnd = ssthresh counts as avoidance (the pseudocode's
 *      else).
 *   3. The paper does not mention ECN. A mark is treated as a loss in the same phase.
 *   4. Growth counts acknowledged packets, not ACKs, so delayed ACKs do not slow it. The window grows only while
 *      it limits the sender.
 *   5. The kernel spreads a reduction over the recovery (PRR, RFC 6937). ns-2 cuts at once.
 *   6. A timeout inside recovery halves the window that was in use when the last ACK before it arrived. The kernel
 *      overwrites the window before it calls set_state, and calls nothing after it adjusts the window to an ACK.
 *      Further timeouts of the same loss do not change ssthresh.
 *   7. A reduction that proves spurious is undone, which ns-2 cannot do. The counters still include it.
 *   8. The published row was not measured with the published algorithm: the code of the simulation keeps 3/4 after
 *      every loss. This file is the algorithm as written. keep_slow_start = 768 is close to the algorithm as
 *      measured.
 *
 * Kernel
 *   Uses the kernel's own tcp_slow_start and tcp_cong_avoid_ai (5.13 and newer). Works the same on every supported
 *   kernel.
 */
#include "tccc.bpf.h"
#include "phase.bpf.h"

/* The ranges exclude 1024/1024, because keeping the whole window would be no reduction. */

/* Share of the window kept after a loss in slow start: the last round doubled it. Figure 1. */
TUNABLE(u32, keep_slow_start, 512, 1, 1023, "1/1024",
	"share of cwnd kept after a loss in slow start: undoes the last doubling");

/* Share of the window kept after a loss in congestion avoidance: the last round added one packet only. Figure 1. */
TUNABLE(u32, keep_avoidance, 768, 1, 1023, "1/1024",
	"share of cwnd kept after a loss in congestion avoidance: the last round added one packet");

/* Share of the window kept as threshold after a timeout: unchanged SACK TCP. */
TUNABLE(u32, keep_timeout, 512, 1, 1023, "1/1024", "share of cwnd kept as ssthresh after a timeout: as SACK TCP does");

struct dtcp {
	u8 phase;
	u8 was_slow_start; /* the phase at the latest reduction */
	struct timeout timeout;
	u32 losses_ss; /* reductions in slow start */
	u32 losses_ca; /* reductions in congestion avoidance */
	u32 rtos;      /* timeouts that reduced the threshold */
};
STATE_FITS(struct dtcp);

/* A timeout keeps the same share of the window in every phase. */
static void set_timeout_ssthresh(struct sock *sk, u32 cwnd)
{
	struct dtcp *dtcp = inet_csk_ca(sk);

	tcp_sk(sk)->snd_ssthresh = kept_window(cwnd, keep_timeout);
	dtcp->rtos++;
}

CC_OP(void, dtcp_init, struct sock *sk)
{
	struct dtcp *dtcp = inet_csk_ca(sk);

	dtcp->was_slow_start = 0;
	forget_timeout(tcp_sk(sk), &dtcp->timeout);
	dtcp->losses_ss = 0;
	dtcp->losses_ca = 0;
	dtcp->rtos = 0;
	update_phase(sk);
}

CC_OP(void, dtcp_in_ack_event, struct sock *sk, u32 flags)
{
	struct dtcp *dtcp = inet_csk_ca(sk);

	note_window(tcp_sk(sk), &dtcp->timeout);
}

CC_OP(void, dtcp_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	update_phase(sk);
	reno_cong_avoid(tcp_sk(sk), acked);
}

CC_OP(u32, dtcp_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dtcp *dtcp = inet_csk_ca(sk);

	note_window(tp, &dtcp->timeout);
	dtcp->was_slow_start = in_slow_start(tp);
	if (dtcp->was_slow_start) {
		dtcp->losses_ss++;
		return kept_window(tp->snd_cwnd, keep_slow_start);
	}
	dtcp->losses_ca++;
	return kept_window(tp->snd_cwnd, keep_avoidance);
}

/*
 * The kernel calls dtcp_ssthresh just before CA_EVENT_LOSS, which first shows that the loss is a timeout. Decide
 * again.
 */
CC_OP(void, dtcp_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct dtcp *dtcp = inet_csk_ca(sk);

	if (event != CA_EVENT_LOSS)
		return;
	if (dtcp->was_slow_start)
		dtcp->losses_ss--;
	else
		dtcp->losses_ca--;
	set_timeout_ssthresh(sk, window_at_timeout(tcp_sk(sk), &dtcp->timeout));
}

/* Inside a reduction the kernel does not call ssthresh at a timeout, so dtcp makes the cut here. */
CC_OP(void, dtcp_set_state, struct sock *sk, u8 new_state)
{
	struct dtcp *dtcp = inet_csk_ca(sk);
	u32 cwnd;

	update_reduction_phase(sk, new_state);
	if (new_state != TCP_CA_Loss)
		return;
	cwnd = window_at_late_timeout(sk, &dtcp->timeout);
	if (cwnd)
		set_timeout_ssthresh(sk, cwnd);
}

CC_OP(u32, dtcp_undo_cwnd, struct sock *sk)
{
	return reno_undo_cwnd(tcp_sk(sk));
}

ALGORITHM(dtcp, "Discrete TCP: halve after slow start, keep three quarters in linear growth",
	  "Gambhava & Bhensdadia 2018, figure 1") = {
	.init = (void *)dtcp_init,
	.in_ack_event = (void *)dtcp_in_ack_event,
	.cong_avoid = (void *)dtcp_cong_avoid,
	.ssthresh = (void *)dtcp_ssthresh,
	.cwnd_event = (void *)dtcp_cwnd_event,
	.set_state = (void *)dtcp_set_state,
	.undo_cwnd = (void *)dtcp_undo_cwnd,
	.name = "dtcp",
};
