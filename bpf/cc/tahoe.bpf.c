// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tahoe: slow start, congestion avoidance and fast retransmit, and after every loss slow start again from one packet.
 *
 * Source
 *   V. Jacobson, "Congestion avoidance and control", ACM SIGCOMM CCR 18 (4), 1988, doi 10.1145/52325.52356, with the
 *   fast retransmit of 4.3BSD-Tahoe; K. Fall, S. Floyd, "Simulation-based comparisons of Tahoe, Reno, and SACK TCP",
 *   ACM SIGCOMM CCR 26 (3), 1996, doi 10.1145/235160.235162: section 2.
 *
 * Idea
 *   A loss says that the path was full. Empty it, and find the half of the window that was surely too large anew by slow
 *   start: no guess is needed of what is still on its way. The price is a nearly idle path for some round trips at every
 *   loss, also where the loss is a bit error.
 *
 * Equations
 *   slow start     cwnd += acked
 *   avoidance      cwnd += acked / cwnd
 *   loss, timeout  ssthresh = max(cwnd / 2, 2), cwnd = 1
 *   It follows that log2(cwnd / 2) round trips after a loss avoidance begins.
 *
 * Units
 *   Windows in packets, halves rounded down.
 *
 * Life
 *   slow start -> avoidance -> (loss) recovery -> slow start; timeout -> loss -> slow start.
 *
 * Differs
 *   1. The kernel finds and repairs losses (SACK, RACK): only what is missing is sent again, where Tahoe goes back to the
 *      first loss and sends everything after it again.
 *   2. While the kernel repairs, its reduction (PRR, RFC 6937) leads the window, to no less than 2 packets: Tahoe's window
 *      of one is in force from the end of the recovery on. It grows by a packet for every ACK in between that repairs
 *      something, as slow start does.
 *   3. A timeout inside a recovery leaves the threshold at half of the window that the recovery met; 4.3BSD halves what
 *      is then left of it, mostly to 2.
 *   4. ECN, which is younger, is treated as a loss. A reduction that proves spurious is undone, which Tahoe cannot.
 *   5. Growth counts acknowledged packets, not ACKs, and only while the window limits the sender.
 *   6. ns-2's Fast Start agent (TCP/FS) is this on a transfer that is never idle: it derives from the Tahoe agent.
 *
 * Kernel
 *   Uses the kernel's own tcp_slow_start and tcp_cong_avoid_ai (5.13 and newer). Exact on every supported kernel.
 */
#include "tccc.bpf.h"
#include "phase.bpf.h"
#include "repair.bpf.h"

struct tahoe {
	u8 phase;
	struct repair repair; /* its window is Tahoe's during a recovery */
};
STATE_FITS(struct tahoe);

CC_OP(void, tahoe_init, struct sock *sk)
{
	struct tahoe *tahoe = inet_csk_ca(sk);

	forget_repair(tcp_sk(sk), &tahoe->repair);
	update_phase(sk);
}

/* cwnd += 1 for every ACK that repairs something, up to the threshold. */
CC_OP(void, tahoe_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct tahoe *tahoe = inet_csk_ca(sk);
	struct repair *repair = &tahoe->repair;

	if (repair->is_restarting && is_partial_ack(sk, repair))
		set_repair_window(tcp_sk(sk), repair, min(repair->window + 1, repair->ssthresh));
}

CC_OP(void, tahoe_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	update_phase(sk);
	reno_cong_avoid(tcp_sk(sk), acked);
}

CC_OP(u32, tahoe_ssthresh, struct sock *sk)
{
	struct tahoe *tahoe = inet_csk_ca(sk);
	const u32 ssthresh = begin_repair(tcp_sk(sk), &tahoe->repair);

	tahoe->repair.is_restarting = 1;
	return ssthresh;
}

/* LOSS: a timeout, after which the kernel itself begins with one packet. COMPLETE_CWR: a recovery is over. */
CC_OP(void, tahoe_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct tahoe *tahoe = inet_csk_ca(sk);

	if (event == CA_EVENT_COMPLETE_CWR)
		end_repair(tcp_sk(sk), &tahoe->repair);
	else if (event == CA_EVENT_LOSS)
		tahoe->repair.is_restarting = 0;
}

CC_OP(void, tahoe_set_state, struct sock *sk, u8 new_state)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct tahoe *tahoe = inet_csk_ca(sk);
	struct repair *repair = &tahoe->repair;

	update_reduction_phase(sk, new_state);
	if (new_state == TCP_CA_Loss)
		break_repair_off(tp, repair);
	else if (new_state > TCP_CA_Disorder && repair->is_restarting)
		set_repair_window(tp, repair, repair->window);
}

CC_OP(u32, tahoe_undo_cwnd, struct sock *sk)
{
	struct tahoe *tahoe = inet_csk_ca(sk);

	tahoe->repair.is_restarting = 0;
	return reno_undo_cwnd(tcp_sk(sk));
}

ALGORITHM(tahoe, "Tahoe: after every loss slow start again, from one packet to half the window", "Jacobson 1988") = {
	.init = (void *)tahoe_init,
	.pkts_acked = (void *)tahoe_pkts_acked,
	.cong_avoid = (void *)tahoe_cong_avoid,
	.ssthresh = (void *)tahoe_ssthresh,
	.cwnd_event = (void *)tahoe_cwnd_event,
	.set_state = (void *)tahoe_set_state,
	.undo_cwnd = (void *)tahoe_undo_cwnd,
	.name = "tahoe",
};
