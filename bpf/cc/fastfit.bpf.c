// SPDX-License-Identifier: GPL-2.0-only
/*
 * FAST-FIT, a reconstruction: FAST with a target that follows the window Reno would have, so that losses set its share.
 *
 * Source
 *   J. Wang, J. Wen, Y. Han, J. Zhang, C. Li, Z. Xiong, "Achieving high throughput and TCP Reno fairness in
 *   delay-based TCP over large networks", Frontiers of Computer Science 8 (3), 2014, doi
 *   10.1007/s11704-014-3443-9: the abstract. The design below is ours.
 *
 * Idea
 *   FAST with a fixed alpha starves beside Reno flows that fill the queue. Here the queueing delay moves the
 *   window, as in FAST, and losses move alpha. A virtual Reno window, which every loss halves, determines how many
 *   queued packets are a fair share.
 *
 * Equations
 *   virtual Reno  wr += 1 a round, wr = wr / 2 at a loss                                     ours
 *   each round    alpha = max(alpha_min, wr (avgRTT - baseRTT) / avgRTT)                     ours
 *                 w = min(2 w, (1 - gamma) w + gamma (baseRTT / avgRTT w + alpha))           FAST, equation (4)
 *   loss          ssthresh = max(w / 2, 2)                                                   as FAST
 *   w therefore stays constant where w (avgRTT - baseRTT) / avgRTT = alpha, which is at w = wr. This is fair to Reno
 *   wherever a queue exists. Without a queue, alpha_min lets the window grow by gamma alpha_min a round: 2 packets.
 *
 * Units
 *   Windows and alpha in packets, gamma in 1/1024, RTTs in us, the average in 2^-16 us.
 *
 * Life
 *   slow start -> avoidance -> (loss) recovery -> avoidance; timeout -> loss -> slow start.
 *
 * Differs
 *   1. We had only the abstract. It names delay as the primary input, losses that adapt the parameters of the
 *      primary loop, and fairness to Reno as the goal. wr and the rule for alpha are ours.
 *   2. wr begins at the window with which slow start ends, minus the queued packets. It does not grow above the
 *      clamp.
 *   3. As fast: the equation is applied every round trip, eta is computed once a round, slow start ends when
 *      alpha_min packets are queued, baseRTT holds for the life of the connection, there is no pacing, and RTTs of
 *      packets in flight during a reduction do not count.
 *   4. The window and wr grow only while the window limits the sender. ECN is treated as a loss. A reduction that
 *      proves spurious restores both windows.
 *
 * Kernel
 *   Uses the kernel's own tcp_slow_start (5.13 and newer). Works the same on every supported kernel.
 *
 * Patents
 *   Its parts are reported to be patented: FAST by the California Institute of Technology, TCP-FIT by Tsinghua
 *   University (US 8,547,839 and 9,385,960). For research; never a default.
 */
#include "tccc.bpf.h"
#include "fast.bpf.h"

TUNABLE(u32, alpha_min, 4, 1, 65535, "packets",
	"least packets kept in the queue, and the exact number until slow start ends: enough to find free "
	"bandwidth; ours");

struct fastfit {
	u8 phase;
	u32 w_reno;	  /* wr, the window that Reno would have; 0: slow start has not ended yet */
	u32 prior_w_reno; /* before the latest reduction, for an undo */
	struct fast_path path;
};
STATE_FITS(struct fastfit);

/* wr += 1 a round, alpha = max(alpha_min, wr (avgRTT - baseRTT) / avgRTT) */
static void update_alpha(const struct tcp_sock *tp, struct fastfit *fastfit)
{
	u32 share;

	if (!fastfit->w_reno)
		fastfit->w_reno = max(tp->snd_cwnd - averaged_queue(tp->snd_cwnd, &fastfit->path), 1u);
	else if (is_cwnd_limited(tp) && fastfit->w_reno < tp->snd_cwnd_clamp)
		fastfit->w_reno++;
	share = averaged_queue(fastfit->w_reno, &fastfit->path);
	fastfit->path.alpha = max(share, alpha_min);
}

CC_OP(void, fastfit_init, struct sock *sk)
{
	struct fastfit *fastfit = inet_csk_ca(sk);

	fastfit->w_reno = 0;
	fastfit->prior_w_reno = 0;
	begin_fast(tcp_sk(sk), &fastfit->path, alpha_min);
	update_phase(sk);
}

CC_OP(void, fastfit_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct fastfit *fastfit = inet_csk_ca(sk);

	update_average(&fastfit->path, sample);
}

CC_OP(void, fastfit_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct fastfit *fastfit = inet_csk_ca(sk);

	update_phase(sk);
	if (!is_equation_due(tp, &fastfit->path, acked))
		return;
	update_alpha(tp, fastfit);
	set_equation_window(tp, &fastfit->path);
}

/* wr = wr / 2, w = w / 2. Before slow start has ended there is no wr; update_alpha sets it from the kept window. */
CC_OP(u32, fastfit_ssthresh, struct sock *sk)
{
	struct fastfit *fastfit = inet_csk_ca(sk);

	fastfit->prior_w_reno = fastfit->w_reno;
	if (fastfit->w_reno)
		fastfit->w_reno = half_window(fastfit->w_reno);
	return reno_ssthresh(tcp_sk(sk));
}

CC_OP(void, fastfit_set_state, struct sock *sk, u8 new_state)
{
	struct fastfit *fastfit = inet_csk_ca(sk);

	update_reduction_phase(sk, new_state);
	update_disturbance(tcp_sk(sk), &fastfit->path, new_state);
}

CC_OP(u32, fastfit_undo_cwnd, struct sock *sk)
{
	struct fastfit *fastfit = inet_csk_ca(sk);

	fastfit->w_reno = fastfit->prior_w_reno;
	return reno_undo_cwnd(tcp_sk(sk));
}

ALGORITHM(fastfit, "FAST-FIT: FAST whose target follows a virtual Reno window (reconstruction)",
	  "Wang et al. 2014, abstract; design ours") = {
	.init = (void *)fastfit_init,
	.pkts_acked = (void *)fastfit_pkts_acked,
	.cong_avoid = (void *)fastfit_cong_avoid,
	.ssthresh = (void *)fastfit_ssthresh,
	.set_state = (void *)fastfit_set_state,
	.undo_cwnd = (void *)fastfit_undo_cwnd,
	.name = "fastfit",
};
