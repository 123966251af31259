/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What tahoe and faststart share: recoveries after which the window continues where slow start would be, instead of
 * at the threshold to which the kernel moves it.
 *
 * The kernel moves the window of a recovery towards snd_ssthresh (PRR, RFC 6937) and sets it to snd_ssthresh at the
 * end. So snd_ssthresh holds the wanted window during the recovery, and the real threshold is kept here until it
 * ends.
 */
#ifndef TCCC_REPAIR_BPF_H
#define TCCC_REPAIR_BPF_H

#include "tccc.bpf.h"

/* The kernel accepts no smaller threshold. */
#define LEAST_SSTHRESH 2u

struct repair {
	u8 is_restarting; /* the recovery ends with the window below */
	u32 window;	  /* packets */
	u32 ssthresh;	  /* threshold after the recovery, packets */
	u32 repaired_seq; /* end of what was acknowledged at the latest ACK that repaired something */
	u32 end_seq;	  /* of the recovery: the end of what was sent before the loss was found */
};

/* Call in init. */
static __always_inline void forget_repair(const struct tcp_sock *tp, struct repair *repair)
{
	repair->is_restarting = 0;
	repair->window = 1;
	repair->ssthresh = LEAST_SSTHRESH;
	repair->repaired_seq = tp->snd_una;
	repair->end_seq = tp->snd_una;
}

/* Call in ssthresh and return its result: half of the window. */
static __always_inline u32 begin_repair(const struct tcp_sock *tp, struct repair *repair)
{
	forget_repair(tp, repair);
	repair->ssthresh = reno_ssthresh(tp);
	repair->end_seq = tp->snd_nxt;
	return repair->ssthresh;
}

/*
 * Whether this is a partial ACK (RFC 6582): it repairs something in a recovery and does not end it. The ACK that
 * ends it reaches cong_avoid. Call once in pkts_acked.
 */
static __always_inline bool is_partial_ack(const struct sock *sk, struct repair *repair)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	const bool is_repairing = after(tp->snd_una, repair->repaired_seq) && before(tp->snd_una, repair->end_seq);

	if (ca_state_of(sk) != TCP_CA_Recovery || !is_repairing)
		return false;
	repair->repaired_seq = tp->snd_una;
	return true;
}

/* Makes the recovery end with this window. */
static __always_inline void set_repair_window(struct tcp_sock *tp, struct repair *repair, u32 window)
{
	repair->is_restarting = 1;
	repair->window = max(window, 1u);
	tp->snd_ssthresh = ssthresh_of(window);
}

/* Call at CA_EVENT_COMPLETE_CWR. */
static __always_inline void end_repair(struct tcp_sock *tp, struct repair *repair)
{
	if (!repair->is_restarting)
		return;
	repair->is_restarting = 0;
	tp->snd_cwnd = min(repair->window, tp->snd_cwnd_clamp);
	tp->snd_ssthresh = repair->ssthresh;
}

/*
 * Call in set_state(TCP_CA_Loss): a timeout inside the recovery, after which the kernel sets the window. Call also in
 * release, because the next algorithm would begin with the window of the repair as its threshold.
 */
static __always_inline void break_repair_off(struct tcp_sock *tp, struct repair *repair)
{
	if (repair->is_restarting)
		tp->snd_ssthresh = repair->ssthresh;
	repair->is_restarting = 0;
}

#endif
