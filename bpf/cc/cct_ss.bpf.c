// SPDX-License-Identifier: GPL-2.0-only
/*
 * CCT-SS (reconstruction): CUBIC that leaves slow start between two limits made from estimates of bandwidth and buffer.
 *
 * Source
 *   U. Ahmad, "Improved transmission control protocol congestion control technique for high bandwidth long distance
 *   networks", PhD thesis, UTM, 2017, doi: none found: algorithm 1 and figures 4.2 to 4.17 by their titles; list
 *   of symbols; abstract. We do not have the text of chapters 2 to 6. The equations and constants here are this project's
 *   reconstruction, not the author's.
 *
 * Idea
 *   Slow start that ends by a loss has overshot by up to a whole window. The packets a path holds are its bandwidth
 *   times its RTT, and its buffer: the upper limit. Leaving slow start somewhat below it, at the raised lower limit,
 *   loses nothing and gives up little.
 *
 * Equations
 *   bandwidth    B-hat = packets acknowledged / time, over a train of ACKs; highest of two rounds     [reconstruction]
 *   buffer       S-hat = max of B-hat (lowest RTT of the round - D), D the lowest RTT                 [reconstruction]
 *   upper limit  U = B-hat D + S-hat                                                                  [reconstruction]
 *   lower limit  L = (1 - beta_ss) U                                                                  [reconstruction]
 *   slow start   cwnd += acked while cwnd < L, never past U; ssthresh = cwnd once cwnd >= L
 *   without them ssthresh = cwnd when HyStart's delay detector finds a queue, whatever the limits are
 *   loss in it   ssthresh = max(min((1 - beta_ss) cwnd, U), 2) at L or above, else max(beta cwnd, 2)
 *   the rest     CUBIC with beta = 0.8, the thesis' cut of 20 %: see bpf_cubic
 *
 * Units
 *   As bpf_cubic; bandwidths in 1/256 packets/s.
 *
 * Life
 *   slow start -> (L reached, or loss) concave -> convex -> (loss) recovery -> concave; timeout -> loss -> slow start.
 *
 * Differs
 *   1. beta_ss, the length of a train and both limits are reconstructions: the thesis chose a beta-hat from plots that
 *      are lost.
 *   2. "Increases the lower boundary limit" is read as an exit driven by the estimate inside [L, U]: a higher floor
 *      alone would only delay the exit and lose more.
 *   3. B-hat is the spacing of this flow's own ACKs: an upper bound of what is free for it when others send, its own
 *      pacing rate at most when it paces, and too much when ACKs come in bursts.
 *   4. "Minimum one delay" is a one-way delay; D is the lowest RTT, since a sender cannot measure one way.
 *   5. The limits can be missing: without a train of ACKs there are none. Two packets of 1500 bytes that one ACK covers
 *      take longer than hystart_ack_delta_us below 12 Mbit/s. They can be too large: a burst of ACKs looks like a fast path.
 *      Slow start then overflows the buffer. So HyStart's delay detector also ends slow start, and a loss below L cuts
 *      by 1 - beta. hystart = 0 is the reconstruction alone, which the scenarios of the thesis run. Packets lost in the
 *      first 10 s, in virtual time: at 5 Mbit/s, 80 ms and a buffer of 66 packets 230 with hystart = 0, 9 with
 *      hystart = 1, 9 with bpf_cubic and the same beta.
 *   6. S-hat is not taken from the first samples of a round, which are few; an unobserved round keeps the older B-hat.
 *   7. A cwnd above U when the first estimate comes leaves slow start as it is; only a loss brings it under U.
 *   8. The thesis ascribes HyStart to the technique it improves. Its train detector is replaced by the limits; its delay
 *      detector is combined with them (see 5).
 *   9. A timeout cuts as CUBIC and clears every estimate but the lowest RTT; an undo brings L and U back.
 *   10. All differences of bpf_cubic.
 *
 * Kernel
 *   As bpf_cubic.
 */
#include "tccc.bpf.h"
#define CUBIC_BETA 819
#define CUBIC_WITH_SS 1
#include "cubic.bpf.h"

ALGORITHM(cct_ss, "CCT-SS: CUBIC with limits for the end of slow start (reconstruction)",
	  "Ahmad 2017, thesis, chapters 3 and 4") = {
	CUBIC_CALLBACKS,
	.name = "cct_ss",
};
