// SPDX-License-Identifier: GPL-2.0-only
/*
 * FAST TCP: once a round trip go half the way to the window that keeps a set number of packets in the queue.
 *
 * Source
 *   C. Jin, D. Wei, S. Low, "FAST TCP: motivation, architecture, algorithms, performance", IEEE INFOCOM 2004, doi
 *   10.1109/INFCOM.2004.1354670; D. Wei, C. Jin, S. Low, S. Hegde, under the same title, IEEE/ACM Transactions on
 *   Networking 14 (6), 2006, doi 10.1109/TNET.2006.886335: section III.B, equation (4). The equations are as others
 *   cite them: the text of the papers was not at hand.
 *
 * Idea
 *   Vegas's aim without Vegas's step of one packet: far from the aim the steps are large, near it they vanish. A flow
 *   alone keeps alpha packets queued and loses none; flows that share a queue keep alpha each.
 *
 * Equations
 *   average     avgRTT = (1 - eta) avgRTT + eta RTT, eta = min(3 / w, 1 / 4)
 *   each round  w = min(2 w, (1 - gamma) w + gamma (baseRTT / avgRTT w + alpha))
 *   slow start  w += acked, until w (1 - baseRTT / RTT) >= alpha, RTT the lowest of a round
 *   loss        ssthresh = max(w / 2, 2)
 *   It follows that w stands still where w (1 - baseRTT / avgRTT), the packets queued, is alpha: at the
 *   bandwidth-delay product plus alpha. With less buffer than alpha for each flow FAST is driven by losses, as Reno is.
 *
 * Units
 *   Windows and alpha in packets, gamma in 1/1024, RTTs in us, the average in 2^-16 us.
 *
 * Life
 *   slow start -> avoidance -> (loss) recovery -> avoidance; timeout -> loss -> slow start.
 *
 * Differs
 *   1. The equation is applied every round trip; the prototype's was applied every other one and spread over the next.
 *   2. The end of slow start is ours: the paper names none. It comes when the first packets of a round met the queue, so
 *      at up to three times the path; the equation takes the rest back. eta is computed once a round.
 *   3. alpha is fixed; prototypes chose it by the throughput reached. The paper's experiments at 800 Mbit/s have 200.
 *   4. No pacing of the larger steps (a scenario may set fq), losses are found and repaired by the kernel.
 *   5. baseRTT is for the life of the connection: a route that becomes longer is taken for a queue.
 *   6. The window grows only while it limits the sender. ECN is treated as a loss.
 *   7. What a loss or a timeout does to the average is ours: RTTs do not count, and the equation rests, from a reduction
 *      on until a packet sent after its end is acknowledged. Each packet that an outage held back reports the outage, and
 *      would shrink a window that was just restored although no queue stands.
 *
 * Kernel
 *   Uses the kernel's own tcp_slow_start (5.13 and newer). Exact on every supported kernel.
 *
 * Patents
 *   Reported to be covered by patents of the California Institute of Technology, licensed to FastSoft, later Akamai;
 *   numbers and status were not verified. For research; never a default.
 */
#include "tccc.bpf.h"
#include "fast.bpf.h"

TUNABLE(u32, alpha, 20, 1, 65535, "packets",
	"packets in the queue: a choice for buffers of some tens; the paper's 200 want a buffer of more");

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
