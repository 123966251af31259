// SPDX-License-Identifier: GPL-2.0-only
/*
 * DCTCP as BPF: reduce the window by the share of marked packets, and echo each mark exactly.
 *
 * Source
 *   S. Bensley, D. Thaler, P. Balasubramanian, L. Eggert, G. Judd, "Data Center TCP (DCTCP)", RFC 8257, 2017, doi
 *   10.17487/RFC8257; M. Alizadeh et al., "Data center TCP (DCTCP)", ACM SIGCOMM 2010, doi 10.1145/1851182.1851192;
 *   behaviour of net/ipv4/tcp_dctcp.c and tcp_dctcp.h of Linux 6.12.
 *
 * Idea
 *   A switch marks packets while its queue is longer than a threshold K. The receiver echoes every mark. The sender
 *   estimates the share of marked packets, and once per round trip gives back half of that share of its window. So
 *   the queue stays near K, and a link stays full. It is for networks under one administration (RFC 8257, 5). Beside
 *   flows that halve at a mark it takes far more than its share, and where nothing is marked it is Reno.
 *
 * Equations
 *   share marked   F = marked / delivered, of a round trip                    RFC 8257, 3.3, steps 3 to 5
 *   estimate       alpha = (1 - g) alpha + g F, g = 2^-dctcp_shift_g          RFC 8257, 3.3, step 6
 *   mark           ssthresh = max(cwnd (1 - alpha / 2), 2)                    RFC 8257, 3.3, step 9
 *   loss           ssthresh = max(cwnd / 2, 2)                                RFC 8257, 3.5
 *   growth         as Reno                                                    RFC 8257, 3.3
 *   echo           ECE on each ACK of marked packets; at a change an ACK at once, and before it the one that was
 *                  delayed, with the former echo                              RFC 8257, 3.2
 *
 * Units
 *   Windows and counts in packets; alpha and F in 1/1024.
 *
 * Life
 *   slow start -> avoidance -> (mark or loss) recovery -> avoidance; timeout -> loss -> slow start.
 *
 * Differs
 *   1. From the kernel's dctcp: without ECN the socket is handed to reno by setsockopt, and `ss` shows reno. The
 *      kernel's module changes its own table of callbacks, and `ss` shows dctcp-reno. If a BPF program chose the
 *      algorithm, such as a policy, this happens after the first round trip.
 *   2. From the kernel's dctcp: nothing overflows. The kernel's cut overflows at a window of 2^22 packets, and its F
 *      after millions of marks in a round trip, depending on g.
 *   3. From the kernel's dctcp: protective load balancing (net.ipv4.tcp_plb_enabled, off by default) does not see the
 *      marks, and `ss -i` shows no alpha. `tccc trace` does.
 *   4. From RFC 8257, as the kernel: counts packets instead of bytes, and those that SACK reports too. An alpha below
 *      16/1024, with the default g, falls to 0 at once. An undo restores the window before the latest cut. A loss in a
 *      round trip that has reduced the window for a mark halves what is left.
 *
 * Kernel
 *   TCP_CONG_NEEDS_ECN: both ends must use it, or the sender sees each mark for a whole round trip. With AccECN (7.0
 *   and newer, net.ipv4.tcp_ecn = 3) the handshake's counter carries the marks, whatever the receiver uses. The
 *   receiver's part uses the helper tcp_send_ack. The name is bpf_dctcp because the kernel's own algorithm is called
 *   dctcp.
 */
#include "tccc.bpf.h"
#include "phase.bpf.h"

TUNABLE(u32, dctcp_shift_g, 4, 0, 10, "power of 2", "g = 2^-4 is the weight of a round trip in alpha: RFC 8257, 4.2");
TUNABLE(u32, dctcp_alpha_on_init, 1024, 0, 1024, "1/1024", "alpha before the first mark, which halves the window then");

#define ALPHA_SHIFT 10
#define ALPHA_MAX (1u << ALPHA_SHIFT)

struct bpf_dctcp {
	u8 phase;
	u8 ce_state;	      /* the latest packet that arrived was marked */
	u32 prior_rcv_nxt;    /* what had arrived before it */
	u32 alpha;	      /* estimated share of marked packets, 1/1024 */
	u32 next_seq;	      /* the round trip ends when this is acknowledged */
	u32 old_delivered;    /* packets delivered when the round trip began */
	u32 old_delivered_ce; /* packets of these that were marked */
	u32 loss_cwnd;	      /* window before the latest cut, for an undo */
};
STATE_FITS(struct bpf_dctcp);

#define SOL_TCP 6
#define TCP_CONGESTION 13

/*
 * Hands a socket without ECN to reno. The kernel then sets ECT no longer, as nobody would answer to marks. It refuses that
 * in an init which another BPF program has caused, so a round trip later is the second attempt.
 * 4 unreached in bpf_setsockopt: other algorithms set a priority
 */
static void fall_back_without_ecn(struct sock *sk)
{
	char reno[] = "reno";

	if (!(tcp_sk(sk)->ecn_flags & (TCP_ECN_OK | TCP_ECN_ACCECN)))
		bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, reno, sizeof(reno));
}

static void begin_round(const struct tcp_sock *tp, struct bpf_dctcp *dctcp)
{
	dctcp->next_seq = tp->snd_nxt;
	dctcp->old_delivered = tp->delivered;
	dctcp->old_delivered_ce = tp->delivered_ce;
}

CC_OP(void, bpf_dctcp_init, struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bpf_dctcp *dctcp = inet_csk_ca(sk);

	dctcp->ce_state = 0;
	dctcp->prior_rcv_nxt = tp->rcv_nxt;
	dctcp->alpha = dctcp_alpha_on_init;
	dctcp->loss_cwnd = 0;
	begin_round(tp, dctcp);
	update_phase(sk);
	fall_back_without_ecn(sk);
}

/* The sender. */

/* alpha = (1 - g) alpha + g F. What g would round to nothing is taken whole, so that alpha reaches 0. */
static u32 next_alpha(u32 alpha, u32 marked, u32 delivered)
{
	const u32 decay = alpha >> dctcp_shift_g;
	const u32 share = (u32)min(((u64)marked << (ALPHA_SHIFT - dctcp_shift_g)) / max(delivered, 1u), (u64)ALPHA_MAX);

	alpha -= decay ? decay : alpha;
	return min(alpha + share, ALPHA_MAX);
}

CC_OP(void, bpf_dctcp_in_ack_event, struct sock *sk, u32 flags)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bpf_dctcp *dctcp = inet_csk_ca(sk);

	if (before(tp->snd_una, dctcp->next_seq))
		return;
	dctcp->alpha = next_alpha(dctcp->alpha, tp->delivered_ce - dctcp->old_delivered_ce,
				  tp->delivered - dctcp->old_delivered);
	begin_round(tp, dctcp);
	fall_back_without_ecn(sk);
}

CC_OP(void, bpf_dctcp_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	update_phase(sk);
	reno_cong_avoid(tcp_sk(sk), acked);
}

/* ssthresh = max(cwnd (1 - alpha / 2), 2). The kernel asks at most once per round trip. */
CC_OP(u32, bpf_dctcp_ssthresh, struct sock *sk)
{
	const u32 cwnd = tcp_sk(sk)->snd_cwnd;
	struct bpf_dctcp *dctcp = inet_csk_ca(sk);

	dctcp->loss_cwnd = cwnd;
	return ssthresh_of(cwnd - (u32)(((u64)cwnd * min(dctcp->alpha, ALPHA_MAX)) >> (ALPHA_SHIFT + 1)));
}

/* ssthresh = max(cwnd / 2, 2), in the place of the threshold of a mark, for which the kernel has just asked. */
static void react_to_loss(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bpf_dctcp *dctcp = inet_csk_ca(sk);

	dctcp->loss_cwnd = tp->snd_cwnd;
	tp->snd_ssthresh = reno_ssthresh(tp);
}

/* A timeout is CA_EVENT_LOSS. */
CC_OP(void, bpf_dctcp_set_state, struct sock *sk, u8 new_state)
{
	if (new_state == TCP_CA_Recovery && ca_state_of(sk) != TCP_CA_Recovery)
		react_to_loss(sk);
	update_reduction_phase(sk, new_state);
}

CC_OP(u32, bpf_dctcp_undo_cwnd, struct sock *sk)
{
	const struct bpf_dctcp *dctcp = inet_csk_ca(sk);
	const u32 cwnd = tcp_sk(sk)->snd_cwnd;

	return max(cwnd, dctcp->loss_cwnd);
}

/* The receiver. */

/* Whether the next ACKs carry ECE. */
static void set_echo(struct tcp_sock *tp, bool is_ce)
{
	if (is_ce)
		tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
	else
		tp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
}

/* A packet arrived. At a change of CE, what came before it is acknowledged first, with the former echo. */
static void note_arrival(struct sock *sk, bool is_ce)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	struct bpf_dctcp *dctcp = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (is_ce != dctcp->ce_state) {
		if (icsk->icsk_ack.pending & ICSK_ACK_TIMER) {
			set_echo(tp, dctcp->ce_state);
			bpf_tcp_send_ack(tp, dctcp->prior_rcv_nxt);
		}
		icsk->icsk_ack.pending |= ICSK_ACK_NOW;
	}
	dctcp->prior_rcv_nxt = tp->rcv_nxt;
	dctcp->ce_state = is_ce;
	set_echo(tp, is_ce);
}

CC_OP(void, bpf_dctcp_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_ECN_IS_CE || event == CA_EVENT_ECN_NO_CE)
		note_arrival(sk, event == CA_EVENT_ECN_IS_CE);
	else if (event == CA_EVENT_LOSS)
		react_to_loss(sk);
}

ALGORITHM(bpf_dctcp, "DCTCP as BPF: the window falls by the share of marked packets",
	  "RFC 8257; Alizadeh et al. 2010") = {
	.init = (void *)bpf_dctcp_init,
	.in_ack_event = (void *)bpf_dctcp_in_ack_event,
	.cong_avoid = (void *)bpf_dctcp_cong_avoid,
	.ssthresh = (void *)bpf_dctcp_ssthresh,
	.set_state = (void *)bpf_dctcp_set_state,
	.undo_cwnd = (void *)bpf_dctcp_undo_cwnd,
	.cwnd_event = (void *)bpf_dctcp_cwnd_event,
	.flags = TCP_CONG_NEEDS_ECN,
	.name = "bpf_dctcp",
};
