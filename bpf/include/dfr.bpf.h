/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The core that dfr and msack share: a recovery that keeps its window at first, and the cut at a later loss, a mark
 * or a timeout.
 *
 * An algorithm's file defines PHASES before it includes this file, and a state that begins as struct dfr_state. It
 * defines judge(), is_forgiven() and note_verdict(). Its pkts_acked calls update_window first. The headers of
 * dfr.bpf.c and msack.bpf.c explain the rest, differences included.
 */
#ifndef TCCC_DFR_BPF_H
#define TCCC_DFR_BPF_H

#include "reduction.bpf.h"

/* How the latest loss was judged. */
enum verdict {
	VERDICT_NONE = 0,      /* no loss yet */
	VERDICT_RANDOM = 1,    /* a bit error: retransmit */
	VERDICT_POSTPONED = 2, /* perhaps congestion: retransmit, cut only at another loss */
	VERDICT_CUT = 3,       /* congestion */
	VERDICT_MARK = 4,      /* an explicit congestion mark */
	VERDICT_TIMEOUT = 5,
	VERDICT_GUARD = 6, /* looks like a bit error, but the guard cuts */
};

struct dfr {
	u8 first_loss; /* the next loss is the first of its window: the paper's S_M_LOSS */
	u8 is_asked;   /* the kernel called ssthresh; the state that it enters is not known yet */
	u8 is_uncut;   /* this recovery has kept its window so far */
	u8 is_marked;  /* the latest ACK echoes a congestion mark */
	struct timeout timeout;
	enum verdict verdict; /* on the latest loss */
	u32 postponed;	      /* verdicts that postponed the cut */
	u32 cut;	      /* cuts, except those by timeouts */
	u32 rtos;	      /* timeouts that reduced the threshold */
	u32 cwnd0;	      /* window at the last call of ssthresh, which is at the beginning of a recovery */
	u32 win_end;	      /* end of the window of a postponed cut; a loss beyond it is a first one again */
	u32 lost_mark;	      /* value of tp->lost up to which losses have been judged */
	u32 slow_start_end;   /* threshold before a recovery that began in slow start, otherwise 0 */
};

/* The state of every algorithm of this core begins like this. */
struct dfr_state {
	u8 phase;
	struct dfr dfr;
};

static __always_inline struct dfr *dfr_of(const struct sock *sk)
{
	struct dfr_state *state = inet_csk_ca(sk);

	return &state->dfr;
}

static __always_inline void set_phase(const struct sock *sk, u8 phase)
{
	struct dfr_state *state = inet_csk_ca(sk);

	state->phase = phase;
}

/* Judges this many losses that one ACK reported. Changes neither the window nor what follows. */
static enum verdict judge(struct sock *sk, u32 losses);
/* Called with every verdict that counts, when the kernel's state shows why it called ssthresh. */
static void note_verdict(struct sock *sk, enum verdict verdict);

/* Whether the loss costs no window now. */
static bool is_forgiven(enum verdict verdict);

/* dfr's test for a random error: this is the only loss of its window. */
static bool is_single_loss(const struct dfr *dfr, u32 losses)
{
	return dfr->first_loss && losses < 2;
}

static void update_phase(struct sock *sk)
{
	set_phase(sk, in_slow_start(tcp_sk(sk)) ? PHASE_SLOW_START : PHASE_AVOIDANCE);
}

/* Applies a verdict to the losses that follow. */
static void update_course(struct sock *sk, enum verdict verdict)
{
	struct dfr *dfr = dfr_of(sk);

	dfr->verdict = verdict;
	dfr->is_uncut = is_forgiven(verdict);
	if (verdict == VERDICT_POSTPONED) {
		set_phase(sk, PHASE_POSTPONED);
		dfr->first_loss = 0;
		dfr->win_end = tcp_sk(sk)->snd_nxt;
		dfr->postponed++;
	} else if (!dfr->is_uncut) {
		set_phase(sk, PHASE_RECOVERY);
		dfr->first_loss = 1;
		dfr->cut++;
	}
	note_verdict(sk, verdict);
}

/* PRR reads the threshold at every ACK, and recovery ends at it. Writing it now is the postponed cut. */
static void set_later_verdict(struct sock *sk, enum verdict verdict)
{
	struct dfr *dfr = dfr_of(sk);

	update_course(sk, verdict);
	if (!dfr->is_uncut)
		tcp_sk(sk)->snd_ssthresh = half_window(dfr->cwnd0);
}

static bool in_uncut_recovery(const struct sock *sk)
{
	const struct dfr *dfr = dfr_of(sk);

	return dfr->is_uncut && ca_state_of(sk) == TCP_CA_Recovery;
}

/*
 * Judges the losses that the previous ACK reported, because the kernel marks losses after its callbacks. Then checks
 * for the end of the window for which a cut was postponed.
 */
static void update_window(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct dfr *dfr = dfr_of(sk);

	if (in_uncut_recovery(sk) && after(tp->lost, dfr->lost_mark)) {
		const u32 losses = tp->lost - dfr->lost_mark;

		dfr->lost_mark = tp->lost;
		set_later_verdict(sk, judge(sk, losses));
	}
	if (!dfr->first_loss && !before(tp->snd_una, dfr->win_end))
		dfr->first_loss = 1;
}

static void set_timeout_ssthresh(struct sock *sk, u32 cwnd)
{
	struct dfr *dfr = dfr_of(sk);

	tcp_sk(sk)->snd_ssthresh = half_window(cwnd);
	dfr->verdict = VERDICT_TIMEOUT;
	dfr->rtos++;
	note_verdict(sk, VERDICT_TIMEOUT);
}

/* Call in init. */
static void forget_losses(struct sock *sk)
{
	struct dfr *dfr = dfr_of(sk);

	__builtin_memset(dfr, 0, sizeof(*dfr));
	dfr->first_loss = 1;
	forget_timeout(tcp_sk(sk), &dfr->timeout);
	update_phase(sk);
}

/* A mark is not a bit error: it cuts a recovery that has kept its window. */
CC_OP(void, dfr_in_ack_event, struct sock *sk, u32 flags)
{
	struct dfr *dfr = dfr_of(sk);

	note_window(tcp_sk(sk), &dfr->timeout);
	dfr->is_marked = (flags & CA_ACK_ECE) != 0;
	if (dfr->is_marked && in_uncut_recovery(sk))
		set_later_verdict(sk, VERDICT_MARK);
}

CC_OP(void, dfr_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	update_phase(sk);
	reno_cong_avoid(tcp_sk(sk), acked);
}

/*
 * The kernel does not say whether it enters a recovery, a reduction by marks or a loss by timeout. This is the
 * answer for a recovery. Nothing is counted before the state is known. Returning the window means no cut.
 */
CC_OP(u32, dfr_ssthresh, struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct dfr *dfr = dfr_of(sk);
	const u32 losses = max(tp->lost_out, 1u);

	dfr->is_asked = 1;
	dfr->cwnd0 = tp->snd_cwnd;
	note_window(tp, &dfr->timeout);
	dfr->slow_start_end = in_slow_start(tp) ? tp->snd_ssthresh : 0;
	/* Without RACK the kernel marks the first lost packet only after this call. */
	dfr->lost_mark = tp->lost_out ? tp->lost : tp->lost + 1;
	dfr->verdict = dfr->is_marked ? VERDICT_MARK : judge(sk, losses);
	return is_forgiven(dfr->verdict) ? ssthresh_of(tp->snd_cwnd) : reno_ssthresh(tp);
}

/*
 * LOSS: the kernel has just called dfr_ssthresh. This event first shows that the loss is a timeout.
 * COMPLETE_CWR: cwnd is the threshold now. A sender that was in slow start and kept its window continues in slow
 * start.
 */
CC_OP(void, dfr_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dfr *dfr = dfr_of(sk);

	if (event == CA_EVENT_LOSS) {
		set_timeout_ssthresh(sk, window_at_timeout(tp, &dfr->timeout));
	} else if (event == CA_EVENT_COMPLETE_CWR) {
		if (dfr->is_uncut)
			tp->snd_ssthresh = max(tp->snd_ssthresh, dfr->slow_start_end);
		dfr->is_uncut = 0;
	} else if (event == CA_EVENT_CWND_RESTART) {
		dfr->first_loss = 1;
	}
}

/* Loss: inside a reduction the kernel does not call ssthresh at a timeout, so the cut is made here. */
static void enter_loss(struct sock *sk)
{
	struct dfr *dfr = dfr_of(sk);
	const u32 cwnd = window_at_late_timeout(sk, &dfr->timeout);

	dfr->is_uncut = 0;
	dfr->first_loss = 1;
	if (cwnd)
		set_timeout_ssthresh(sk, cwnd);
}

/* The state shows why the kernel called ssthresh. The kernel also enters Recovery from CWR, without a call. */
CC_OP(void, dfr_set_state, struct sock *sk, u8 new_state)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dfr *dfr = dfr_of(sk);
	const bool is_asked = dfr->is_asked;

	dfr->is_asked = 0;
	update_reduction_phase(sk, new_state);
	if (new_state == TCP_CA_Loss)
		enter_loss(sk);
	if (!is_asked)
		return;
	if (new_state == TCP_CA_Recovery) {
		update_course(sk, dfr->verdict);
	} else if (new_state == TCP_CA_CWR) {
		update_course(sk, dfr->is_marked ? VERDICT_MARK : VERDICT_CUT);
		tp->snd_ssthresh = half_window(dfr->cwnd0);
	}
}

CC_OP(u32, dfr_undo_cwnd, struct sock *sk)
{
	struct dfr *dfr = dfr_of(sk);

	dfr->first_loss = 1;
	dfr->is_uncut = 0;
	return reno_undo_cwnd(tcp_sk(sk));
}

#define DFR_CALLBACKS                                                                                                  \
	.in_ack_event = (void *)dfr_in_ack_event, .cong_avoid = (void *)dfr_cong_avoid,                                \
	.ssthresh = (void *)dfr_ssthresh, .cwnd_event = (void *)dfr_cwnd_event, .set_state = (void *)dfr_set_state,    \
	.undo_cwnd = (void *)dfr_undo_cwnd

#endif
