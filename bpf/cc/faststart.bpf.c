// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fast Start: after a pause, continue with the window from before it, in packets that routers drop first.
 *
 * Source
 *   V. Padmanabhan, R. Katz, "TCP Fast Start: a technique for speeding up web transfers", IEEE GLOBECOM 1998, doi:
 *   none found; the agent that its author gave to ns-2.35 (tcp-fs.cc), with the NewReno flavour.
 *
 * Idea
 *   A connection of a web server sends, waits for the reader, and sends again. Slow start probes the path again
 *   each time, although the window from before the pause is usually still right. If it is wrong, other flows must
 *   not suffer. So the packets sent early are marked as low priority and paced over a round trip. At the first
 *   sign of loss Fast Start ends.
 *
 * Equations
 *   pause         nothing in flight and nothing received for longer than the RTO = srtt + rttvar
 *   safe window   W = cwnd / 2 if the pause began in slow start, else cwnd - 1; ssthresh and RTTs are kept
 *   marked        first transmissions of the packets 2 to W after the pause
 *   pacing        rate = W / srtt, until the first ACK
 *   end           when W packets have arrived
 *   given up      at a timeout: cwnd = initial_window, ssthresh kept
 *                 at a partial ACK of a recovery: cwnd = initial_window, ssthresh = W / 2
 *   otherwise     as Reno
 *
 * Units
 *   Windows in packets, rounded down; times in us; rates in bytes per second.
 *
 * Life
 *   slow start -> avoidance -> (pause) fast start -> as before it; (loss) recovery -> avoidance; timeout -> loss ->
 *   slow start.
 *
 * Differs
 *   1. The agent waits for a reset timer, which may be finer than the RTO, and does not back the RTO off. Here the
 *      timer is the kernel's own retransmission timeout, which backs off.
 *   2. The agent goes back to the packet after the last ACK and retransmits everything. The kernel retransmits
 *      what is missing.
 *   3. W is never less than the window that the kernel's slow start after a pause allows: initial_window, or the
 *      smaller window before the pause.
 *   4. If the packet before the marked ones has not arrived, a timeout is an ordinary one, as in the agent.
 *   5. A packet that the kernel makes of several segments (TSO) is marked as a whole by its first segment. A tail
 *      loss probe that retransmits keeps the mark of the packet sent before it. The kernel does not pace the first
 *      ten packets of a connection, so these are not marked.
 *   6. The agent's own fine RTT never changes after its first sample (1/8 is an integer division there). The
 *      kernel's does.
 *   7. On a transfer that is never idle, ns-2's TCP/FS behaves as Tahoe and this file as Reno. Use tahoe for the
 *      published FTP numbers.
 *   8. ECN is treated as a loss. A reduction that proves spurious is undone.
 *
 * Kernel
 *   Writes sk_pacing_status and sk_pacing_rate (6.0 and newer). No qdisc is needed. The mark is the DSCP CS1
 *   (RFC 3662), set by setsockopt(IP_TOS, IPV6_TCLASS) before the transmission. The application's own mark is
 *   restored after it, unless the application set another one meanwhile. SO_PRIORITY, which the kernel derives from
 *   IP_TOS, stays as the application chose it. Where the kernel shrinks the window after a pause (tcp_slow_start_after_idle), its event
 *   provides the window from before. IPv6 sockets that carry IPv4 are not marked. A socket that changes its algorithm
 *   during a fast start keeps the mark, because release may not call setsockopt.
 */
#include "tccc.bpf.h"
#include "pacing.bpf.h"
#include "repair.bpf.h"

/* Least number of packets sent at once: the kernel's default. */
#define BURST 2
/* DSCP 8, class selector 1: lower effort. */
#define LOW_PRIORITY 0x20
#define AF_INET6 10
#define SOL_SOCKET 1
#define SO_PRIORITY 12
#define SOL_IP 0
#define IP_TOS 1
#define SOL_IPV6 41
#define IPV6_TCLASS 67
#define ECN_BITS 3

TUNABLE(u32, initial_window, 10, 1, 10, "packets",
	"window after a fast start is given up: the kernel's after a pause; ns-2: 1 or 2");
TUNABLE(u8, mark, 1, 0, 1, "on or off",
	"mark packets as low priority, as in the paper; off shows the effect of the mark");

PHASES(PHASE_SLOW_START, PHASE_AVOIDANCE, PHASE_FAST_START, PHASE_RECOVERY, PHASE_LOSS);
#include "reduction.bpf.h"

struct faststart {
	u8 phase;
	u8 is_marking;	   /* what the socket sends is marked */
	u8 is_pacing;	   /* pacing was switched on here */
	u8 is_given_up;	   /* this timeout ends a fast start */
	u8 own_mark;	   /* the application's */
	u32 kept_cwnd;	   /* before the pause, 0: the kernel has not shrunk the window */
	u32 kept_ssthresh; /* before the pause, then before the reduction */
	u32 window;	   /* W, packets to be delivered in a fast start; 0: none in progress */
	u32 start_seq;	   /* first byte after the pause */
	u32 delivered;	   /* packets before the pause, cumulative */
	u64 heard_us;	   /* when the latest ACK arrived */
	struct repair repair;
};
STATE_FITS(struct faststart);

static void update_phase(struct sock *sk)
{
	struct faststart *fast = inet_csk_ca(sk);

	if (fast->window)
		fast->phase = PHASE_FAST_START;
	else
		fast->phase = in_slow_start(tcp_sk(sk)) ? PHASE_SLOW_START : PHASE_AVOIDANCE;
}

/* cwnd / 2 in slow start, else cwnd - 1: tcp-fs.cc; no less than the kernel allows. */
static u32 safe_window(u32 cwnd, u32 ssthresh)
{
	const u32 safe = cwnd < ssthresh ? cwnd / 2 : cwnd - 1;

	return max(safe, min(cwnd, initial_window));
}

static bool is_pause_over(const struct tcp_sock *tp, const struct faststart *fast)
{
	const u64 rto_us = (u64)(tp->srtt_us >> SRTT_SHIFT) + tp->rttvar_us;

	return fast->kept_cwnd || tp->tcp_mstamp - fast->heard_us > rto_us;
}

static void set_pace(struct sock *sk)
{
	const struct faststart *fast = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	if (fast->is_pacing)
		set_pacing_rate(sk, paced_rate(fast->window, tp->mss_cache, tp->srtt_us));
}

static void end_pacing(struct sock *sk)
{
	struct faststart *fast = inet_csk_ca(sk);

	set_pacing_off(sk, fast->is_pacing);
	fast->is_pacing = 0;
}

static void end_fast_start(struct sock *sk)
{
	struct faststart *fast = inet_csk_ca(sk);

	fast->window = 0;
	end_pacing(sk);
}

/* Called when a packet is sent and nothing is in flight. */
static void resume(struct sock *sk)
{
	struct faststart *fast = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	const u32 cwnd = fast->kept_cwnd ? fast->kept_cwnd : tp->snd_cwnd;
	const bool is_pause = is_pause_over(tp, fast) && !is_unused(tp) && !tp->packets_out;
	u32 window;

	if (fast->kept_cwnd && is_pause)
		tp->snd_ssthresh = ssthresh_of(fast->kept_ssthresh);
	fast->kept_cwnd = 0;
	if (!is_pause || cwnd < 2)
		return;
	window = safe_window(cwnd, tp->snd_ssthresh);
	tp->snd_cwnd = min(window, tp->snd_cwnd_clamp);
	fast->window = window;
	fast->start_seq = tp->snd_una;
	fast->delivered = tp->delivered;
	fast->is_pacing = fast->is_pacing || set_pacing_on(sk);
	fast->phase = PHASE_FAST_START;
	set_pace(sk);
}

/* Whether the next packet is the first transmission of one of the packets 2 to W after the pause. */
static bool is_next_low(const struct sock *sk)
{
	const struct faststart *fast = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);
	const u32 before_it = tp->delivered - fast->delivered + tp->packets_out - tp->sacked_out;

	return mark && ca_state_of(sk) <= TCP_CA_Disorder && before_it >= 1 && before_it < fast->window;
}

/* Sets IP_TOS or IPV6_TCLASS, and keeps SO_PRIORITY, which selects the application's traffic class. */
static void set_mark(struct sock *sk, int level, int option, int mark_to_set)
{
	int priority = 0;
	const bool is_known = !bpf_getsockopt(sk, SOL_SOCKET, SO_PRIORITY, &priority, sizeof(priority));

	bpf_setsockopt(sk, level, option, &mark_to_set, sizeof(mark_to_set));
	if (is_known)
		bpf_setsockopt(sk, SOL_SOCKET, SO_PRIORITY, &priority, sizeof(priority));
}

static void set_priority(struct sock *sk, bool is_low)
{
	struct faststart *fast = inet_csk_ca(sk);
	const bool is_v6 = sk->__sk_common.skc_family == AF_INET6;
	const int level = is_v6 ? SOL_IPV6 : SOL_IP, option = is_v6 ? IPV6_TCLASS : IP_TOS;
	int now = 0;

	if (is_low == fast->is_marking)
		return;
	fast->is_marking = is_low;
	bpf_getsockopt(sk, level, option, &now, sizeof(now));
	if (is_low) {
		fast->own_mark = (u8)now;
		set_mark(sk, level, option, LOW_PRIORITY);
	} else if ((now & ~ECN_BITS) == LOW_PRIORITY) {
		set_mark(sk, level, option, fast->own_mark);
	}
}

CC_OP(void, faststart_init, struct sock *sk)
{
	struct faststart *fast = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	__builtin_memset(fast, 0, sizeof(*fast));
	fast->heard_us = tp->tcp_mstamp;
	fast->start_seq = tp->snd_una;
	forget_repair(tp, &fast->repair);
	update_phase(sk);
}

/* Called for every ACK of new data. It ends pacing, and may end the fast start or give it up. */
CC_OP(void, faststart_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct faststart *fast = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	struct repair *repair = &fast->repair;

	fast->heard_us = tp->tcp_mstamp;
	end_pacing(sk);
	if (!fast->window)
		return;
	if (is_partial_ack(sk, repair)) {
		set_repair_window(tp, repair, min(initial_window, fast->window));
		end_fast_start(sk);
	} else if (tp->delivered - fast->delivered >= fast->window) {
		end_fast_start(sk);
	}
}

CC_OP(void, faststart_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	update_phase(sk);
	reno_cong_avoid(tcp_sk(sk), acked);
}

CC_OP(u32, faststart_min_tso_segs, struct sock *sk)
{
	set_priority(sk, is_next_low(sk));
	set_pace(sk);
	return BURST;
}

CC_OP(u32, faststart_ssthresh, struct sock *sk)
{
	struct faststart *fast = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	fast->kept_ssthresh = tp->snd_ssthresh;
	return begin_repair(tp, &fast->repair);
}

/* LOSS: the kernel called faststart_ssthresh just before. CWND_RESTART: the kernel shrinks the window next. */
static void handle_event(struct sock *sk, enum tcp_ca_event event)
{
	struct faststart *fast = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (event == CA_EVENT_TX_START) {
		resume(sk);
	} else if (event == CA_EVENT_CWND_RESTART && !fast->kept_cwnd) {
		fast->kept_cwnd = tp->snd_cwnd;
		fast->kept_ssthresh = tp->snd_ssthresh;
	} else if (event == CA_EVENT_COMPLETE_CWR) {
		end_repair(tp, &fast->repair);
	} else if (event == CA_EVENT_LOSS) {
		fast->is_given_up = fast->window && after(tp->snd_una, fast->start_seq);
		if (fast->is_given_up)
			tp->snd_ssthresh = ssthresh_of(fast->kept_ssthresh);
	}
}

CC_OP(void, faststart_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	handle_event(sk, event);
}

CC_OP(void, faststart_cwnd_event_tx_start, struct sock *sk)
{
	resume(sk);
}

CC_OP(void, faststart_set_state, struct sock *sk, u8 new_state)
{
	struct faststart *fast = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	update_reduction_phase(sk, new_state);
	if (new_state != TCP_CA_Loss)
		return;
	break_repair_off(tp, &fast->repair);
	if (fast->is_given_up)
		tp->snd_cwnd = min(max(tp->snd_cwnd, min(initial_window, fast->window)), tp->snd_cwnd_clamp);
	fast->is_given_up = 0;
	end_fast_start(sk);
}

CC_OP(u32, faststart_undo_cwnd, struct sock *sk)
{
	struct faststart *fast = inet_csk_ca(sk);

	fast->repair.is_restarting = 0;
	return reno_undo_cwnd(tcp_sk(sk));
}

CC_OP(void, faststart_release, struct sock *sk)
{
	struct faststart *fast = inet_csk_ca(sk);

	end_pacing(sk);
	break_repair_off(tcp_sk(sk), &fast->repair);
}

ALGORITHM(faststart, "Fast Start: after a pause the old window again, in packets that routers drop first",
	  "Padmanabhan & Katz 1998; ns-2.35") = {
	.init = (void *)faststart_init,
	.release = (void *)faststart_release,
	.pkts_acked = (void *)faststart_pkts_acked,
	.cong_avoid = (void *)faststart_cong_avoid,
	.min_tso_segs = (void *)faststart_min_tso_segs,
	.ssthresh = (void *)faststart_ssthresh,
	.cwnd_event = (void *)faststart_cwnd_event,
	.cwnd_event_tx_start = (void *)faststart_cwnd_event_tx_start,
	.set_state = (void *)faststart_set_state,
	.undo_cwnd = (void *)faststart_undo_cwnd,
	.name = "faststart",
};
