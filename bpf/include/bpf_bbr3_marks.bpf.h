/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Marks of what was in flight, delivered and lost: what the kernel does not store in a packet, P.tx_in_flight and P.lost. A
 * part of bpf_bbr3.bpf.c, which includes it after its state and its rate sample.
 */
#ifndef TCCC_BPF_BBR3_MARKS_BPF_H
#define TCCC_BPF_BBR3_MARKS_BPF_H

/* The socket at the end of an ACK, as the packets find it that are sent before the next one. */
struct mark {
	u32 snd_nxt, delivered, lost, in_flight;
};
#define MARKS 32 /* a power of two */

struct marks {
	u32 count; /* written so far; the places are used in turn */
	u32 undo_bw_shortterm, undo_inflight_shortterm, undo_inflight_longterm;
	struct mark mark[MARKS];
};
PRIVATE_STORAGE(bbr3_marks, struct marks);

/*
 * Whether packets that are sent now will be asked for their mark: a probe asks from Refill on, and where a bound exists,
 * every ACK does.
 */
static bool needs_marks(const struct bbr3 *bbr)
{
	return bbr->full_bw_reached &&
	       (bbr->phase == PHASE_REFILL || bbr->is_bw_probe_sample || bbr->inflight_longterm != INFINITE);
}

/*
 * A sixteenth of a flight after the latest mark, or where 1/512 of a flight was lost since. So the marks reach back a
 * round, or to more losses than any probe tolerates.
 */
static void add_mark(const struct tcp_sock *tp, struct marks *marks)
{
	const u32 spacing = tp->packets_out / (MARKS / 2) * tp->mss_cache;
	const struct mark *latest;

	if (!marks)
		return;
	latest = &marks->mark[(marks->count - 1) & (MARKS - 1)];
	if (marks->count && tp->lost - latest->lost <= tp->packets_out / 512 &&
	    tp->snd_nxt - latest->snd_nxt <= spacing)
		return;
	marks->mark[marks->count++ & (MARKS - 1)] =
		(struct mark){tp->snd_nxt, tp->delivered, tp->lost, tcp_packets_in_flight(tp)};
}

/*
 * The place of the latest mark before a packet was sent. It is sought by the packet's end or, if by_count is all ones, by
 * its count of delivered packets plus one: key. Both grow from mark to mark. A bit of the comparison selects the half, so
 * there is no branch. MARKS: the packet is older than all marks.
 */
__noinline u32 place_before(const struct marks *marks, u32 key, u32 by_count)
{
	const struct mark *mark;
	u32 written, back = 0, value;

	if (!marks || !marks->count)
		return MARKS;
	written = min(marks->count, MARKS);
	for (u32 half = MARKS / 2; half; half >>= 1) {
		mark = &marks->mark[(marks->count - back - half) & (MARKS - 1)];
		value = (mark->delivered & by_count) | (mark->snd_nxt & ~by_count);
		back += half & ~(u32)((s32)(value - key) >> 31) & (u32)((s32)(back + half - written) >> 31);
	}
	mark = &marks->mark[(marks->count - 1 - back) & (MARKS - 1)];
	value = (mark->delivered & by_count) | (mark->snd_nxt & ~by_count);
	return before(value, key) ? (marks->count - 1 - back) & (MARKS - 1) : MARKS;
}

/* What recall says of a packet that was sent before the first mark. */
static void assume(const struct tcp_sock *tp, const struct bbr3 *bbr, struct sample *rs)
{
	rs->lost = bbr->lost_in_round;
	rs->tx_in_flight = tp->delivered - rs->prior_delivered + rs->lost;
}

/* P.tx_in_flight, and C.lost - P.lost, of the packet that the sample is about. */
static void recall(struct sock *sk, const struct bbr3 *bbr, struct sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	const struct marks *marks = bbr3_marks_get(sk);
	const u32 place =
		place_before(marks, rs->is_retrans ? rs->prior_delivered + 1 : rs->end_seq, 0 - (u32)rs->is_retrans);
	const struct mark *mark;
	u32 sent = 1, arrived = 0;

	if (!marks || place >= MARKS) {
		assume(tp, bbr, rs);
		return;
	}
	mark = &marks->mark[place];
	if (!rs->is_retrans)
		sent = (rs->end_seq - mark->snd_nxt + tp->mss_cache - 1) / tp->mss_cache;
	if (after(rs->prior_delivered, mark->delivered))
		arrived = rs->prior_delivered - mark->delivered;
	sent = min(sent, tp->packets_out) + mark->in_flight;
	rs->tx_in_flight = max(sent, arrived + 1) - arrived;
	rs->lost = tp->lost - mark->lost;
}

#endif
