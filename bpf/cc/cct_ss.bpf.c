// SPDX-License-Identifier: GPL-2.0-only
/*
 * CCT-SS (reconstruction): CUBIC that leaves slow start between two limits made from estimates of bandwidth and buffer.
 *
 * Source
 *   U. Ahmad, "Improved transmission control protocol congestion control technique for high bandwidth long distance
 *   networks", PhD thesis, UTM, 2017: algorithm 1 and figures 4.2 to 4.17 by their titles; list of symbols;
 *   abstract. The text of chapters 2 to 6 is lost to us: equations and constants here are this project's
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
 *   loss in it   ssthresh = max(min((1 - beta_ss) cwnd, U), 2)
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
 *   5. Without a train of ACKs (slow paths: gaps above hystart_ack_delta_us) there are no limits and slow start is the
 *      ordinary one; the cut in it is still beta_ss.
 *   6. S-hat is not taken from the first samples of a round, which are few; an unobserved round keeps the older B-hat.
 *   7. A cwnd above U when the first estimate comes leaves slow start as it is; only a loss brings it under U.
 *   8. HyStart, which the thesis ascribes to the technique it improves, is replaced, not combined.
 *   9. A timeout cuts as CUBIC and clears every estimate but the lowest RTT; an undo brings L and U back.
 *   10. All differences of bpf_cubic.
 *
 * Kernel
 *   As bpf_cubic.
 */
#include "tccc.bpf.h"
#define CUBIC_BETA 819
#define CUBIC_HYSTART 0
#define CUBIC_WITH_SS 1
#include "cubic.bpf.h"

ALGORITHM(cct_ss, "CCT-SS: CUBIC with limits for the end of slow start (reconstruction)",
	  "Ahmad 2017, thesis, chapters 3 and 4") = {
	CUBIC_CALLBACKS,
	.name = "cct_ss",
};
