// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tahoe: slow start, congestion avoidance and fast retransmit; after every loss slow start again from one packet.
 *
 * Source
 *   V. Jacobson, "Congestion avoidance and control", ACM SIGCOMM CCR 18 (4), 1988, doi 10.1145/52325.52356, with
 *   the fast retransmit of 4.3BSD-Tahoe; K. Fall, S. Floyd, "Simulation-based comparisons of Tahoe, Reno, and SACK
 *   TCP", ACM SIGCOMM CCR 26 (3), 1996, doi 10.1145/235160.235162: section 2.
 *
 * Idea
 *   A loss shows that the path was full. Tahoe empties the path and returns by slow start to half of the window
 *   that was surely too large. It needs no estimate of the packets still in flight. The price is a nearly idle
 *   path for some round trips at every loss, even if the loss is a bit error.
 *
 * Equations
 *   slow start     cwnd += acked
 *   avoidance      cwnd += acked / cwnd
 *   loss, timeout  ssthresh = max(cwnd / 2, 2), cwnd = 1
 *   Avoidance therefore begins log2(cwnd / 2) round trips after a loss.
 *
 * Units
 *   Windows in packets, halves rounded down.
 *
 * Life
 *   slow start -> avoidance -> (loss) recovery -> slow start; timeout -> loss -> slow start.
 *
 * Differs
 *   1. The kernel detects and repairs losses (SACK, RACK). It retransmits only what is missing. Tahoe goes back to
 *      the first loss and retransmits everything after it.
 *   2. During the repair the kernel's reduction (PRR, RFC 6937) controls the window, which is at least 2 packets.
 *      Tahoe's window of one applies from the end of the recovery. Until then it grows by one packet for every ACK
 *      that repairs something, as in slow start.
 *   3. A timeout inside a recovery keeps the threshold at half of the window from the beginning of the recovery.
 *      4.3BSD then halves what is left of the window, mostly to 2.
 *   4. ECN is newer than Tahoe and is treated as a loss. A reduction that proves spurious is undone, which Tahoe
 *      cannot do.
 *   5. Growth counts acknowledged packets, not ACKs, and only while the window limits the sender.
 *   6. On a transfer that is never idle, ns-2's Fast Start agent (TCP/FS) is this algorithm, because it derives
 *      from the Tahoe agent.
 *
 * Kernel
 *   Uses the kernel's own tcp_slow_start and tcp_cong_avoid_ai (5.13 and newer). Works the same on every supported
 *   kernel.
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

CC_OP(void, tahoe_release, struct sock *sk)
{
	struct tahoe *tahoe = inet_csk_ca(sk);

	break_repair_off(tcp_sk(sk), &tahoe->repair);
}

ALGORITHM(tahoe, "Tahoe: after every loss slow start again, from one packet to half the window", "Jacobson 1988") = {
	.init = (void *)tahoe_init,
	.release = (void *)tahoe_release,
	.pkts_acked = (void *)tahoe_pkts_acked,
	.cong_avoid = (void *)tahoe_cong_avoid,
	.ssthresh = (void *)tahoe_ssthresh,
	.cwnd_event = (void *)tahoe_cwnd_event,
	.set_state = (void *)tahoe_set_state,
	.undo_cwnd = (void *)tahoe_undo_cwnd,
	.name = "tahoe",
};
