// SPDX-License-Identifier: GPL-2.0-only
/*
 * CCT-SS (reconstruction): CUBIC that leaves slow start between two limits, estimated from bandwidth and buffer.
 *
 * Source
 *   U. Ahmad, "Improved transmission control protocol congestion control technique for high bandwidth long
 *   distance networks", PhD thesis, UTM, 2017, doi: none found: algorithm 1 and figures 4.2 to 4.17 by their
 *   titles; list of symbols; abstract. We do not have the text of chapters 2 to 6. The equations and constants
 *   here are this project's reconstruction. They are not the author's.
 *
 * Idea
 *   Slow start that ends with a loss has overshot by up to a whole window. The upper limit is what the path holds:
 *   its bandwidth times its RTT, plus its buffer. Leaving slow start a little below it, at the lower limit, loses
 *   no packets and gives up little.
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
 *   1. beta_ss, the length of a train and both limits are reconstructions. The thesis chose a beta-hat from plots
 *      that we do not have.
 *   2. We take "increases the lower boundary limit" to be an exit inside [L, U] that depends on the estimate. A
 *      higher floor alone would only delay the exit and lose more packets.
 *   3. B-hat is the spacing of this flow's own ACKs. While others send, it is an upper bound of the bandwidth that
 *      is free for this flow. While the flow paces, it is at most the pacing rate. It is too large when ACKs
 *      arrive in bursts.
 *   4. "Minimum one delay" is a one-way delay. D is the lowest RTT, because a sender cannot measure one way.
 *   5. The limits can be missing: without a train of ACKs there are none. Below 12 Mbit/s, two packets of 1500
 *      bytes that one ACK acknowledges take longer than hystart_ack_delta_us. The limits can also be too large,
 *      because a burst of ACKs looks like a fast path. Slow start then overflows the buffer. So HyStart's delay
 *      detector also ends slow start, and a loss below L cuts by 1 - beta. hystart = 0 is the reconstruction
 *      alone, which the scenarios of the thesis use. At 5 Mbit/s, 80 ms and a buffer of 66 packets (virtual time)
 *      the first 10 s lose 230 packets with hystart = 0, 9 with hystart = 1, and 9 with bpf_cubic and the same
 *      beta.
 *   6. The first samples of a round are too few to update S-hat. A round without samples keeps the previous B-hat.
 *   7. If cwnd is already above U when the first estimate arrives, slow start ends and the window stays. Only a
 *      loss brings it below U.
 *   8. The thesis says that the technique it improves has HyStart. Here the limits replace HyStart's train
 *      detector, and its delay detector works beside them (see 5). With hystart = 2 HyStart++ works beside them.
 *   9. A timeout cuts as in CUBIC and clears every estimate except the lowest RTT. An undo restores L and U.
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
