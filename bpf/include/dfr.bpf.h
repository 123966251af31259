/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The core that dfr and msack share: a recovery that keeps its window at first, and the cut that a later loss, a mark or
 * a timeout brings.
 *
 * An algorithm's file gives judge(), the verdict on losses, and pkts_acked, which calls update_window first; msack also
 * gives more phases, verdicts and state by the macros below. Everything else, differences included, is said in the
 * headers of dfr.bpf.c and msack.bpf.c.
 */
#ifndef TCCC_DFR_BPF_H
#define TCCC_DFR_BPF_H

#include "tccc.bpf.h"

#ifndef DFR_MORE_PHASES
#define DFR_MORE_PHASES
#endif
#ifndef DFR_MORE_VERDICTS
#define DFR_MORE_VERDICTS
#endif
#ifndef DFR_MORE_STATE
#define DFR_MORE_STATE
#endif

PHASES(PHASE_SLOW_START, PHASE_AVOIDANCE, PHASE_POSTPONED, PHASE_RECOVERY, PHASE_LOSS DFR_MORE_PHASES);

#include "reduction.bpf.h"

/* What the latest loss was taken for. From VERDICT_CUT on the window is cut. */
enum verdict {
	VERDICT_NONE = 0,      /* no loss yet */
	VERDICT_POSTPONED = 2, /* perhaps congestion: retransmit, cut only if another follows */
	VERDICT_CUT = 3,       /* congestion */
	VERDICT_MARK = 4,      /* an explicit congestion mark */
	VERDICT_TIMEOUT = 5 DFR_MORE_VERDICTS,
};

struct dfr {
	u8 phase;
	u8 first_loss;	      /* the next loss is the first of its window: the paper's S_M_LOSS */
	u8 is_asked;	      /* the kernel asked for a threshold; which state it enters is not known yet */
	u8 is_uncut;	      /* this recovery has kept its window so far */
	u8 is_marked;	      /* the latest ACK echoes a congestion mark */
	enum verdict verdict; /* on the latest loss */
	u32 postponed;	      /* verdicts that postponed the cut */
	u32 cut;	      /* cuts, those by timeouts apart */
	u32 rtos;	      /* timeouts that reduced the threshold */
	u32 cwnd0;     /* window when the kernel last asked for a threshold, that is at the beginning of a recovery */
	u32 win_end;   /* end of the window of a postponed cut: the next loss is a first one beyond it */
	u32 lost_mark; /* tp->lost up to which losses have their verdict */
	struct timeout timeout;
	u32 slow_start_end; /* threshold before a recovery that began in slow start, 0: it did not */
	DFR_MORE_STATE
};
STATE_FITS(struct dfr);

/* The verdict on so many losses told together; changes neither the window nor the algorithm's course. */
static enum verdict judge(struct sock *sk, u32 losses);
#ifdef DFR_NOTE_VERDICT
static void DFR_NOTE_VERDICT(struct sock *sk, enum verdict verdict);
#endif

/* The parent's test for a random error: the only loss of its window. */
static bool is_single_loss(const struct dfr *dfr, u32 losses)
{
	return dfr->first_loss && losses < 2;
}

static void update_phase(struct sock *sk)
{
	struct dfr *dfr = inet_csk_ca(sk);

	dfr->phase = in_slow_start(tcp_sk(sk)) ? PHASE_SLOW_START : PHASE_AVOIDANCE;
}

/* What a verdict means for the losses that follow. */
static void update_course(struct sock *sk, enum verdict verdict)
{
	struct dfr *dfr = inet_csk_ca(sk);

	dfr->verdict = verdict;
	dfr->is_uncut = verdict < VERDICT_CUT;
	if (verdict == VERDICT_POSTPONED) {
		dfr->phase = PHASE_POSTPONED;
		dfr->first_loss = 0;
		dfr->win_end = tcp_sk(sk)->snd_nxt;
		dfr->postponed++;
	} else if (!dfr->is_uncut) {
		dfr->phase = PHASE_RECOVERY;
		dfr->first_loss = 1;
		dfr->cut++;
	}
#ifdef DFR_NOTE_VERDICT
	DFR_NOTE_VERDICT(sk, verdict);
#endif
}

/* PRR reads the threshold at every ACK and recovery ends at it: writing it now is the postponed cut. */
static void set_later_verdict(struct sock *sk, enum verdict verdict)
{
	struct dfr *dfr = inet_csk_ca(sk);

	update_course(sk, verdict);
	if (!dfr->is_uncut)
		tcp_sk(sk)->snd_ssthresh = half_window(dfr->cwnd0);
}

static bool in_uncut_recovery(const struct sock *sk)
{
	const struct dfr *dfr = inet_csk_ca(sk);

	return dfr->is_uncut && ca_state_of(sk) == TCP_CA_Recovery;
}

/*
 * The losses that the ACK before told of, since the kernel marks them after its callbacks; then the end of the window
 * that a postponed cut waited for.
 */
static void update_window(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct dfr *dfr = inet_csk_ca(sk);

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
	struct dfr *dfr = inet_csk_ca(sk);

	tcp_sk(sk)->snd_ssthresh = half_window(cwnd);
	dfr->verdict = VERDICT_TIMEOUT;
	dfr->rtos++;
#ifdef DFR_NOTE_VERDICT
	DFR_NOTE_VERDICT(sk, VERDICT_TIMEOUT);
#endif
}

CC_OP(void, dfr_init, struct sock *sk)
{
	struct dfr *dfr = inet_csk_ca(sk);

	__builtin_memset(dfr, 0, sizeof(*dfr));
	dfr->first_loss = 1;
	forget_timeout(tcp_sk(sk), &dfr->timeout);
	update_phase(sk);
}

/* A mark is not a random error: it cuts a recovery that has kept its window. */
CC_OP(void, dfr_in_ack_event, struct sock *sk, u32 flags)
{
	struct dfr *dfr = inet_csk_ca(sk);

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
 * The kernel does not say whether it enters a recovery, a reduction by marks or a loss by timeout: this is the answer for
 * a recovery, and nothing is counted before the state is known. Not having cut is to return the window.
 */
CC_OP(u32, dfr_ssthresh, struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct dfr *dfr = inet_csk_ca(sk);
	const u32 losses = max(tp->lost_out, 1u);

	dfr->is_asked = 1;
	dfr->cwnd0 = tp->snd_cwnd;
	note_window(tp, &dfr->timeout);
	dfr->slow_start_end = in_slow_start(tp) ? tp->snd_ssthresh : 0;
	/* Without RACK the kernel marks the first lost packet only after this. */
	dfr->lost_mark = tp->lost_out ? tp->lost : tp->lost + 1;
	dfr->verdict = dfr->is_marked ? VERDICT_MARK : judge(sk, losses);
	return dfr->verdict < VERDICT_CUT ? ssthresh_of(tp->snd_cwnd) : reno_ssthresh(tp);
}

/*
 * LOSS: the kernel asked dfr_ssthresh just before, not knowing that it was a timeout. COMPLETE_CWR: cwnd is the threshold
 * now; a sender that was in slow start and kept its window goes on where it was.
 */
CC_OP(void, dfr_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dfr *dfr = inet_csk_ca(sk);

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

/* Loss: inside a reduction the kernel asks for no further one at a timeout, it is made here. */
static void enter_loss(struct sock *sk)
{
	struct dfr *dfr = inet_csk_ca(sk);
	const u32 cwnd = window_at_late_timeout(sk, &dfr->timeout);

	dfr->is_uncut = 0;
	dfr->first_loss = 1;
	if (cwnd)
		set_timeout_ssthresh(sk, cwnd);
}

/* The state tells what the threshold was asked for. Recovery is also entered from CWR, where nothing was asked. */
CC_OP(void, dfr_set_state, struct sock *sk, u8 new_state)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dfr *dfr = inet_csk_ca(sk);
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
	struct dfr *dfr = inet_csk_ca(sk);

	dfr->first_loss = 1;
	dfr->is_uncut = 0;
	return reno_undo_cwnd(tcp_sk(sk));
}

#define DFR_CALLBACKS                                                                                                  \
	.init = (void *)dfr_init, .in_ack_event = (void *)dfr_in_ack_event, .cong_avoid = (void *)dfr_cong_avoid,      \
	.ssthresh = (void *)dfr_ssthresh, .cwnd_event = (void *)dfr_cwnd_event, .set_state = (void *)dfr_set_state,    \
	.undo_cwnd = (void *)dfr_undo_cwnd

#endif
