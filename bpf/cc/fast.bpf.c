// SPDX-License-Identifier: GPL-2.0-only
/*
 * FAST TCP: once a round trip, go half the way to the window that keeps a fixed number of packets in the queue.
 *
 * Source
 *   C. Jin, D. Wei, S. Low, "FAST TCP: motivation, architecture, algorithms, performance", IEEE INFOCOM 2004, doi
 *   10.1109/INFCOM.2004.1354670; D. Wei, C. Jin, S. Low, S. Hegde, under the same title, IEEE/ACM Transactions on
 *   Networking 14 (6), 2006, doi 10.1109/TNET.2006.886335: section III.B, equation (4). We did not have the text
 *   of the papers. The equations are as others cite them.
 *
 * Idea
 *   FAST has the same target as Vegas, but not Vegas's step of one packet: steps are large far from the target and
 *   small near it. A single flow keeps alpha packets queued and loses none. Flows that share a queue keep alpha
 *   packets each.
 *
 * Equations
 *   average     avgRTT = (1 - eta) avgRTT + eta RTT, eta = min(3 / w, 1 / 4)
 *   each round  w = min(2 w, (1 - gamma) w + gamma (baseRTT / avgRTT w + alpha))
 *   slow start  w += acked, until w (1 - baseRTT / RTT) >= alpha, RTT the lowest of a round
 *   loss        ssthresh = max(w / 2, 2)
 *   w therefore stays constant where the number of queued packets, w (1 - baseRTT / avgRTT), is alpha. That is the
 *   bandwidth-delay product plus alpha. If the buffer holds less than alpha for each flow, losses limit FAST as they
 *   limit Reno.
 *
 * Units
 *   Windows and alpha in packets, gamma in 1/1024, RTTs in us, the average in 2^-16 us.
 *
 * Life
 *   slow start -> avoidance -> (loss) recovery -> avoidance; timeout -> loss -> slow start.
 *
 * Differs
 *   1. The equation is applied every round trip. The prototype applied it every other round trip and spread the
 *      change over the next one.
 *   2. The rule for the end of slow start is ours, because the paper gives none. Slow start ends when the first
 *      packets of a round have met the queue, at up to three times the window of the path. The equation then takes
 *      the excess back. eta is computed once a round.
 *   3. alpha is fixed. Prototypes chose it by the throughput they reached. The paper's experiments at 800 Mbit/s
 *      use 200.
 *   4. The larger steps are not paced (a scenario may set fq). The kernel detects and repairs losses.
 *   5. baseRTT holds for the life of the connection, so FAST mistakes a longer route for a queue.
 *   6. The window grows only while it limits the sender. ECN is treated as a loss.
 *   7. What a loss or a timeout does to the average is ours. From a reduction until a packet sent after its end is
 *      acknowledged, RTTs do not count and the equation is not applied. After an outage, the RTT of each packet
 *      that was held back contains the outage, and would shrink a window that was just restored although no queue
 *      exists.
 *
 * Kernel
 *   Uses the kernel's own tcp_slow_start (5.13 and newer). Works the same on every supported kernel.
 *
 * Patents
 *   Reported to be covered by patents of the California Institute of Technology, licensed to FastSoft, later
 *   Akamai. Numbers and status were not verified. For research; never a default.
 */
#include "tccc.bpf.h"
#include "fast.bpf.h"

TUNABLE(u32, alpha, 20, 1, 65535, "packets",
	"packets kept in the queue: for buffers of some tens of packets; the paper's 200 need a larger buffer");

struct fast {
	u8 phase;
	struct fast_path path;
};
STATE_FITS(struct fast);

CC_OP(void, fast_init, struct sock *sk)
{
	struct fast *fast = inet_csk_ca(sk);

	begin_fast(tcp_sk(sk), &fast->path, alpha);
	update_phase(sk);
}

CC_OP(void, fast_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct fast *fast = inet_csk_ca(sk);

	update_average(&fast->path, sample);
}

CC_OP(void, fast_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct fast *fast = inet_csk_ca(sk);

	update_phase(sk);
	if (is_equation_due(tp, &fast->path, acked))
		set_equation_window(tp, &fast->path);
}

CC_OP(u32, fast_ssthresh, struct sock *sk)
{
	return reno_ssthresh(tcp_sk(sk));
}

CC_OP(void, fast_set_state, struct sock *sk, u8 new_state)
{
	struct fast *fast = inet_csk_ca(sk);

	update_reduction_phase(sk, new_state);
	update_disturbance(tcp_sk(sk), &fast->path, new_state);
}

CC_OP(u32, fast_undo_cwnd, struct sock *sk)
{
	return reno_undo_cwnd(tcp_sk(sk));
}

ALGORITHM(fast, "FAST: half the way, each round, to alpha packets in the queue",
	  "Jin, Wei & Low 2004; Wei et al. 2006") = {
	.init = (void *)fast_init,
	.pkts_acked = (void *)fast_pkts_acked,
	.cong_avoid = (void *)fast_cong_avoid,
	.ssthresh = (void *)fast_ssthresh,
	.set_state = (void *)fast_set_state,
	.undo_cwnd = (void *)fast_undo_cwnd,
	.name = "fast",
};
