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

static void write_mark(const struct tcp_sock *tp, struct marks *marks)
{
	marks->mark[marks->count++ & (MARKS - 1)] =
		(struct mark){tp->snd_nxt, tp->delivered, tp->lost, tcp_packets_in_flight(tp)};
}

static struct marks *open_marks(struct sock *sk)
{
	struct marks *marks = bbr3_marks_create(sk);

	if (marks && !marks->count)
		for (u32 i = 0; i < MARKS; i++)
			write_mark(tcp_sk(sk), marks);
	return marks;
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
	if (tp->lost - latest->lost > tp->packets_out / 512 || tp->snd_nxt - latest->snd_nxt > spacing)
		write_mark(tp, marks);
}

/*
 * The latest mark before a packet was sent, by its end or, for a retransmission, by its count of delivered packets.
 * Both grow from mark to mark. A bit of the comparison selects the half, so the verifier sees no branch. NULL: the packet
 * is older than all marks.
 */
static const struct mark *mark_before(const struct marks *marks, const struct sample *rs)
{
	const u32 by_count = 0 - (u32)rs->is_retrans;
	const u32 key = ((rs->prior_delivered + 1) & by_count) | (rs->end_seq & ~by_count);
	const struct mark *mark;
	u32 back = 0, value;

	for (u32 half = MARKS / 2; half; half >>= 1) {
		mark = &marks->mark[(marks->count - back - half) & (MARKS - 1)];
		value = (mark->delivered & by_count) | (mark->snd_nxt & ~by_count);
		back += half & ~(u32)((s32)(value - key) >> 31);
	}
	mark = &marks->mark[(marks->count - 1 - back) & (MARKS - 1)];
	value = (mark->delivered & by_count) | (mark->snd_nxt & ~by_count);
	return before(value, key) ? mark : NULL;
}

/* P.tx_in_flight, and C.lost - P.lost, of the packet that the sample is about. */
static void recall(const struct tcp_sock *tp, const struct bbr3 *bbr, const struct marks *marks, struct sample *rs)
{
	const struct mark *mark = marks ? mark_before(marks, rs) : NULL;
	u32 sent = 1, arrived = 0;

	if (!mark) {
		rs->lost = bbr->lost_in_round;
		rs->tx_in_flight = tp->delivered - rs->prior_delivered + rs->lost;
		return;
	}
	if (!rs->is_retrans)
		sent = (rs->end_seq - mark->snd_nxt + tp->mss_cache - 1) / tp->mss_cache;
	if (after(rs->prior_delivered, mark->delivered))
		arrived = rs->prior_delivered - mark->delivered;
	sent = min(sent, tp->packets_out) + mark->in_flight;
	rs->tx_in_flight = max(sent, arrived + 1) - arrived;
	rs->lost = tp->lost - mark->lost;
}

#endif
