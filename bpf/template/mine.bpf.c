// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reno that keeps a share of its window at a loss: replace this sentence by what your algorithm does.
 *
 * Source
 *   The paper or standard: authors, title, journal, year, DOI. Here: RFC 5681, 2009, doi 10.17487/RFC5681.
 *
 * Idea
 *   Double the window every round trip until a loss or the threshold shows the path's limit. Then add one packet per
 *   round trip, and keep a share of the window at every loss.
 *
 * Equations
 *   slow start            cwnd += acked                    RFC 5681, eq. (2)
 *   congestion avoidance  cwnd += acked / cwnd             RFC 5681, eq. (3)
 *   loss                  ssthresh = max(keep * cwnd, 2)   RFC 5681, eq. (4), with keep = 1/2
 *
 * Units
 *   Windows in packets, shares in 1/1024.
 *
 * Life
 *   slow start -> avoidance -> (loss) recovery -> avoidance; timeout -> loss -> slow start.
 *
 * Differs
 *   1. From RFC 5681: the share of the window that a loss keeps is a tunable.
 *
 * Kernel
 *   Uses the kernel's own tcp_slow_start and tcp_cong_avoid_ai (5.13 and newer).
 */
#include "tccc.bpf.h"  /* the kernel's types, CC_OP, TUNABLE, PHASES, STATE_FITS, ALGORITHM */
#include "phase.bpf.h" /* Reno's four phases; write PHASES(PHASE_A, PHASE_B); instead for your own */

/* A parameter for `tccc load --set mine_keep=700`: type, name, default, lowest, highest, unit, why this default. */
TUNABLE(u32, mine_keep, 512, 1, 1023, "1/1024", "RFC 5681 halves the window");

/* The algorithm's state in each socket, 104 bytes at most. The first field is the phase. `tccc sockets` shows all. */
struct mine {
	u8 phase;
	u32 reductions; /* reductions of the window, by losses and marks */
};
STATE_FITS(struct mine);

/* A socket begins to use the algorithm. The memory may hold anything: set every field. */
CC_OP(void, mine_init, struct sock *sk)
{
	struct mine *state = inet_csk_ca(sk);

	state->reductions = 0;
	update_phase(sk);
}

/* An ACK of new data outside of reductions. Numbers may be as large as their types allow; see math.bpf.h. */
CC_OP(void, mine_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	update_phase(sk);
	reno_cong_avoid(tcp_sk(sk), acked);
}

/* A loss or a mark: returns the threshold that the window falls to, 2 packets or more. */
CC_OP(u32, mine_ssthresh, struct sock *sk)
{
	struct mine *state = inet_csk_ca(sk);

	state->reductions++;
	return kept_window(tcp_sk(sk)->snd_cwnd, mine_keep);
}

/* The kernel enters another state, such as TCP_CA_Recovery. */
CC_OP(void, mine_set_state, struct sock *sk, u8 new_state)
{
	update_reduction_phase(sk, new_state);
}

/* A reduction proved unnecessary: returns the window to go back to. */
CC_OP(u32, mine_undo_cwnd, struct sock *sk)
{
	return reno_undo_cwnd(tcp_sk(sk));
}

/* The ops table. Other callbacks that it may have are in kernel.bpf.h. */
ALGORITHM(mine, "Reno that keeps a share of its window at a loss", "RFC 5681") = {
	.init = (void *)mine_init,
	.cong_avoid = (void *)mine_cong_avoid,
	.ssthresh = (void *)mine_ssthresh,
	.set_state = (void *)mine_set_state,
	.undo_cwnd = (void *)mine_undo_cwnd,
	.name = "mine",
};
