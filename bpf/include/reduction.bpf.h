/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How algorithms follow the kernel's congestion state: the phase while the window is reduced, and the cut at a
 * timeout, also at a timeout inside a reduction.
 *
 * A file with phases of its own includes this after PHASES, which must name PHASE_RECOVERY and PHASE_LOSS.
 */
#ifndef TCCC_REDUCTION_BPF_H
#define TCCC_REDUCTION_BPF_H

#include "tccc.bpf.h"

/* Sets the phase of a reduction. Call in set_state. Open and Disorder leave the phase to the next ACK. */
static __always_inline void update_reduction_phase(struct sock *sk, u8 new_state)
{
	u8 *phase = inet_csk_ca(sk);

	if (new_state == TCP_CA_Recovery || new_state == TCP_CA_CWR)
		*phase = PHASE_RECOVERY;
	else if (new_state == TCP_CA_Loss)
		*phase = PHASE_LOSS;
}

/*
 * For an algorithm whose cut at a timeout differs from its other cuts. The kernel calls ssthresh for both, and
 * reports a timeout only afterwards (CA_EVENT_LOSS). Inside a reduction it does not call ssthresh again. So
 * set_state must make the cut, and the kernel has already overwritten the window by then.
 */
struct timeout {
	u8 is_cut;     /* this timeout has made its cut */
	u32 last_cwnd; /* window when the latest ACK arrived, or at the latest loss */
};

/* Call in init. */
static __always_inline void forget_timeout(const struct tcp_sock *tp, struct timeout *timeout)
{
	timeout->is_cut = 0;
	timeout->last_cwnd = tp->snd_cwnd;
}

/* Call in in_ack_event and ssthresh, the last callbacks that see the window before a timeout. */
static __always_inline void note_window(const struct tcp_sock *tp, struct timeout *timeout)
{
	timeout->last_cwnd = tp->snd_cwnd;
}

/* Call at CA_EVENT_LOSS. Returns the window that the timeout cuts, packets. */
static __always_inline u32 window_at_timeout(const struct tcp_sock *tp, struct timeout *timeout)
{
	timeout->is_cut = 1;
	return tp->snd_cwnd;
}

/*
 * Whether a timeout fired inside a reduction. Call in set_state(TCP_CA_Loss). The kernel calls it before it changes
 * icsk_ca_state, so the state read here is the one in which the timeout fired. Two things lead to Loss. A timeout
 * has just set cwnd to the packets in flight plus one. A reduced MTU of the path leaves the window unchanged.
 */
static __always_inline bool timed_out_in_reduction(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	const u8 prior_state = ca_state_of(sk);
	const bool is_reducing = prior_state == TCP_CA_Recovery || prior_state == TCP_CA_CWR;

	return is_reducing && tp->snd_cwnd == tcp_packets_in_flight(tp) + 1;
}

/*
 * Call in set_state(TCP_CA_Loss). Returns the window that a timeout inside a reduction cuts, packets; 0 if nothing
 * is left to cut.
 */
static __always_inline u32 window_at_late_timeout(const struct sock *sk, struct timeout *timeout)
{
	const bool is_due = !timeout->is_cut && timed_out_in_reduction(sk);

	timeout->is_cut = 0;
	return is_due ? timeout->last_cwnd : 0;
}

#endif
