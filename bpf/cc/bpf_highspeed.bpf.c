// SPDX-License-Identifier: GPL-2.0-only
/*
 * HighSpeed TCP as BPF: Reno up to 38 packets; above that, larger windows grow faster and are cut less.
 *
 * Source
 *   S. Floyd, "HighSpeed TCP for large congestion windows", RFC 3649, 2003, doi 10.17487/RFC3649: section 5 and
 *   appendix B; behaviour of net/ipv4/tcp_highspeed.c of Linux 6.18.
 *
 * Idea
 *   Reno fills 10 Gbit/s at 100 ms only if at most one packet in five billion is lost. HighSpeed TCP aims
 *   at a window of 83000 packets at one loss in ten million. Between that point and Reno's window of 38 packets
 *   its response function is a straight line in logarithms. It is fair to Reno where Reno works, and faster where
 *   Reno does not.
 *
 * Equations
 *   slow start            cwnd += acked
 *   avoidance             cwnd += a(cwnd) acked / cwnd
 *   loss                  ssthresh = max((1 - b(cwnd)) cwnd, 2), in the first slow start max(cwnd / 2, 2)
 *   cut                   b(w) = 0.5 - 0.4 ln(w / 38) / ln(83000 / 38)         RFC 3649, eq. (3)
 *   growth                a(w) = w^2 p(w) 2 b(w) / (2 - b(w)), p(w) = 0.078 / w^1.2     RFC 3649, eq. (4) and section 5
 *   as the table of appendix B: an entry for each whole a(w) from 1 to 73, at 38 to 94717 packets
 *
 * Units
 *   Windows in packets; a in packets per window acknowledged; b in 1/1024 of the window.
 *
 * Life
 *   slow start -> avoidance -> (loss) recovery -> avoidance; timeout -> loss -> slow start.
 *
 * Differs
 *   1. As the kernel, a window between two table entries uses a and b of the upper entry. So a is up to one packet
 *      above a(w): 2 instead of 1 to 2 between 38 and 118 packets, and 30 instead of 29 to 30 at 10000.
 *   2. From the kernel's highspeed: b is in 1/1024 instead of 1/256, rounded to the nearest. The table has one
 *      more entry, the last.
 *   3. From the kernel's highspeed: growth counts acknowledged packets, not ACKs, so delayed ACKs do not slow it.
 *      All packets of one ACK use the a of the window before that ACK. Packets that remain after the end of slow
 *      start count.
 *   4. From the kernel's highspeed: the phase and the fraction of a packet are kept apart from snd_cwnd_cnt. The
 *      arithmetic allows any window, where the kernel limits the clamp instead.
 *   5. Limited slow start (RFC 3742), which RFC 3649 recommends, is not included, as in the kernel.
 *   6. A timeout cuts by b too, as in the kernel.
 *   7. As the kernel, b is that of the window at the last ACK outside slow start. So a loss in the first slow
 *      start halves the window, and a loss in a later slow start cuts by the b from before it.
 *
 * Kernel
 *   Uses the kernel's own tcp_slow_start (5.13 and newer). The name is bpf_highspeed because the kernel's own
 *   algorithm is called highspeed.
 */
#include "tccc.bpf.h"
#include "phase.bpf.h"

#define ENTRIES 73u

/* Entry i applies to windows above that of entry i - 1, up to its own. Its a is i + 1. */
struct aimd {
	u32 cwnd; /* packets */
	u32 b;	  /* 1/1024 */
};

/* RFC 3649, appendix B: w and b(w), computed by the program given there. */
static const struct aimd table[ENTRIES] = {
	{38, 512},    {118, 452},   {221, 418},	  {347, 394},	{495, 375},   {663, 360},   {851, 346},	  {1058, 335},
	{1284, 324},  {1529, 315},  {1793, 307},  {2076, 299},	{2378, 292},  {2699, 285},  {3039, 279},  {3399, 273},
	{3778, 267},  {4177, 262},  {4596, 257},  {5036, 252},	{5497, 247},  {5979, 243},  {6483, 238},  {7009, 234},
	{7558, 230},  {8130, 226},  {8726, 222},  {9346, 219},	{9991, 215},  {10661, 212}, {11358, 208}, {12082, 205},
	{12834, 202}, {13614, 199}, {14424, 196}, {15265, 193}, {16137, 190}, {17042, 187}, {17981, 184}, {18955, 181},
	{19965, 178}, {21013, 176}, {22101, 173}, {23230, 170}, {24402, 168}, {25618, 165}, {26881, 162}, {28193, 160},
	{29557, 157}, {30975, 155}, {32450, 152}, {33986, 150}, {35586, 148}, {37253, 145}, {38992, 143}, {40808, 140},
	{42707, 138}, {44694, 135}, {46776, 133}, {48961, 131}, {51258, 128}, {53677, 126}, {56230, 123}, {58932, 121},
	{61799, 118}, {64851, 116}, {68113, 113}, {71617, 110}, {75401, 108}, {79517, 105}, {84035, 102}, {89053, 99},
	{94717, 95},
};

struct bpf_highspeed {
	u8 phase;
	u32 entry;     /* of the table, for last_cwnd */
	u32 last_cwnd; /* window that was looked up */
	u64 credit;    /* growth below one packet */
};
STATE_FITS(struct bpf_highspeed);

/*
 * The first entry of at least this window, or the last. Not static: the verifier follows a global function once, but a
 * static one with each of its results.
 */
__noinline u32 entry_of(u32 cwnd)
{
	u32 below = 0; /* number of entries known to have smaller windows */

	for (u32 step = 64; step; step >>= 1)
		if (below + step < ENTRIES && table[below + step - 1].cwnd < cwnd)
			below += step;
	return below;
}

static void update_entry(struct bpf_highspeed *highspeed, u32 cwnd)
{
	if (highspeed->last_cwnd == cwnd)
		return;
	highspeed->last_cwnd = cwnd;
	highspeed->entry = entry_of(cwnd);
}

CC_OP(void, bpf_highspeed_init, struct sock *sk)
{
	struct bpf_highspeed *highspeed = inet_csk_ca(sk);

	highspeed->entry = 0;
	highspeed->last_cwnd = 0;
	highspeed->credit = 0;
	update_phase(sk);
}

CC_OP(void, bpf_highspeed_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct bpf_highspeed *highspeed = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	update_phase(sk);
	if (!is_past_slow_start(tp, &acked))
		return;
	update_entry(highspeed, tp->snd_cwnd);
	/* cwnd += a(cwnd) / cwnd: RFC 3649, section 4. */
	grow_per_window(tp, &highspeed->credit, acked, (highspeed->entry + 1) << SHARE_SHIFT);
}

CC_OP(u32, bpf_highspeed_ssthresh, struct sock *sk)
{
	struct bpf_highspeed *highspeed = inet_csk_ca(sk);
	const u32 cwnd = tcp_sk(sk)->snd_cwnd;

	highspeed->credit = 0; /* as snd_cwnd_cnt, which the kernel clears at a reduction */
	/* cwnd = (1 - b(w)) cwnd: RFC 3649, section 4; w is the window at the last ACK of avoidance. */
	return ssthresh_of(cwnd - share_of(cwnd, table[min(highspeed->entry, ENTRIES - 1)].b));
}

CC_OP(void, bpf_highspeed_set_state, struct sock *sk, u8 new_state)
{
	update_reduction_phase(sk, new_state);
}

CC_OP(u32, bpf_highspeed_undo_cwnd, struct sock *sk)
{
	return reno_undo_cwnd(tcp_sk(sk));
}

ALGORITHM(bpf_highspeed, "HighSpeed TCP as BPF: faster growth and smaller cuts at larger windows", "RFC 3649") = {
	.init = (void *)bpf_highspeed_init,
	.cong_avoid = (void *)bpf_highspeed_cong_avoid,
	.ssthresh = (void *)bpf_highspeed_ssthresh,
	.set_state = (void *)bpf_highspeed_set_state,
	.undo_cwnd = (void *)bpf_highspeed_undo_cwnd,
	.name = "bpf_highspeed",
};
