// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reno: add one packet per round trip and halve the window at a loss; the template for every other algorithm.
 *
 * Source
 *   M. Allman, V. Paxson, E. Blanton, "TCP congestion control", RFC 5681, 2009, doi 10.17487/RFC5681: sections 3.1
 *   and 3.2; behaviour of net/ipv4/tcp_cong.c of Linux 6.18.
 *
 * Idea
 *   Double the window every round trip until a loss or the threshold shows the limit of the path. Then probe by
 *   one packet per round trip, and give back half at every loss.
 *
 * Equations
 *   slow start            cwnd += acked                    RFC 5681, eq. (2)
 *   congestion avoidance  cwnd += acked / cwnd             RFC 5681, eq. (3)
 *   loss                  ssthresh = max(cwnd / 2, 2)      RFC 5681, eq. (4), with cwnd for the flight size
 *
 * Units
 *   Windows in packets.
 *
 * Life
 *   slow start -> avoidance -> (loss) recovery -> avoidance; timeout -> loss -> slow start.
 *
 * Differs
 *   1. From the kernel's reno: nothing.
 *   2. From RFC 5681, as the kernel: the window is halved instead of the flight size.
 *
 * Kernel
 *   Uses the kernel's own tcp_slow_start and tcp_cong_avoid_ai (5.13 and newer). The name is bpf_reno because the
 *   kernel's own algorithm is called reno.
 */
#include "tccc.bpf.h"
#include "phase.bpf.h"

struct bpf_reno {
	u8 phase;
};
STATE_FITS(struct bpf_reno);

CC_OP(void, bpf_reno_init, struct sock *sk)
{
	update_phase(sk);
}

CC_OP(void, bpf_reno_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	update_phase(sk);
	reno_cong_avoid(tcp_sk(sk), acked);
}

CC_OP(u32, bpf_reno_ssthresh, struct sock *sk)
{
	return reno_ssthresh(tcp_sk(sk));
}

CC_OP(void, bpf_reno_set_state, struct sock *sk, u8 new_state)
{
	update_reduction_phase(sk, new_state);
}

CC_OP(u32, bpf_reno_undo_cwnd, struct sock *sk)
{
	return reno_undo_cwnd(tcp_sk(sk));
}

ALGORITHM(bpf_reno, "Reno as BPF: one packet per round trip, half at a loss", "RFC 5681") = {
	.init = (void *)bpf_reno_init,
	.cong_avoid = (void *)bpf_reno_cong_avoid,
	.ssthresh = (void *)bpf_reno_ssthresh,
	.set_state = (void *)bpf_reno_set_state,
	.undo_cwnd = (void *)bpf_reno_undo_cwnd,
	.name = "bpf_reno",
};
