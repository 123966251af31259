// SPDX-License-Identifier: GPL-2.0-only
/*
 * Compound TCP: Reno's window plus a second window that grows fast on an empty path and shrinks when packets queue.
 *
 * Source
 *   K. Tan, J. Song, Q. Zhang, M. Sridharan, "A Compound TCP approach for high-speed and long distance networks",
 *   IEEE INFOCOM 2006, doi 10.1109/INFOCOM.2006.188: section III; draft-sridharan-tcpm-ctcp, 2008.
 *
 * Idea
 *   Reno is too slow to use a large path. The delay window fills the gap, and is given up as soon as packets
 *   queue. Only Reno is then left to compete with other flows. The sender uses the sum of both windows.
 *
 * Equations
 *   window       win = cwnd + dwnd                                              eq. (1)
 *   each ACK     cwnd += acked / win                                            eq. (2)
 *   each round   diff = win (RTT - baseRTT) / RTT                               Vegas's estimate
 *                dwnd += max(alpha win^k - 1, 0)     diff < gamma               eq. (5), alpha = 1/8, k = 3/4
 *                dwnd -= min(zeta diff, dwnd)        diff >= gamma
 *   loss         win = (1 - beta) win, cwnd = cwnd / 2, dwnd the rest           beta = 1/2
 *   timeout      ssthresh = (1 - beta) win, dwnd = 0
 *   dwnd therefore stays 0 below a window of 16. win grows by 1 + (alpha win^k - 1) packets a round: 2.8 at 64 packets,
 *   4.0 at 100 and 22 at 1000.
 *
 * Units
 *   Windows and diff in packets; growth of dwnd in 1/1024 packets; alpha, beta in 1/1024; RTTs in us.
 *
 * Life
 *   slow start -> avoidance (dwnd = 0) <-> compound (dwnd > 0) -> (loss) recovery -> compound; timeout -> loss -> slow
 *   start.
 *
 * Differs
 *   1. The kernel has one window. It is win, and cwnd is win - dwnd. Where the kernel itself shrinks the window
 *      (when the sender is application-limited, after idle time, at a timeout), dwnd shrinks first.
 *   2. RTT is the lowest of the round, which delayed ACKs do not lengthen, not the smoothed RTT. A round with
 *      fewer than three samples changes nothing.
 *   3. gamma is fixed at the paper's 30. The 2006 report's adjustment of gamma by emulated Reno windows is not
 *      implemented.
 *   4. Fractions of dwnd are kept until they make a packet. win^(3/4) is rounded down to 1/256.
 *   5. dwnd changes only while the window limits the sender, and only in rounds without loss or reordering.
 *   6. ECN is treated as a loss. A reduction that proves spurious restores both windows.
 *
 * Kernel
 *   Uses the kernel's own tcp_slow_start and tcp_cong_avoid_ai (5.13 and newer). Works the same on every supported
 *   kernel. Linux had a module in some release candidates of 2.6.18 and removed it.
 *
 * Patents
 *   Reported to be covered by patents of Microsoft, whose draft declares claims under BCP 79. Numbers and status
 *   were not verified. For research; never a default.
 */
#include "tccc.bpf.h"
#include "delay.bpf.h"

/* win^(3/4) is in 1/256: for a window of 31 bits it has 24 bits before the point and 8 after it. */
#define POWER_SHIFT 8
/* Roots are in 1/2^16, so that a window times a root fits into 64 bits. */
#define ROOT_SHIFT 16
#define ROOT_BITS 32

TUNABLE_WAS(u32, alpha, growth_scale);
TUNABLE(u32, growth_scale, 128, 1, 1024, "1/1024", "alpha, scale of the growth of dwnd: 1/8, section III.C");
TUNABLE_WAS(u32, beta, cut_share);
TUNABLE(u32, cut_share, 512, 1, 1023, "1/1024", "beta, cut of the whole window at a loss: 1/2, as Reno");
TUNABLE_WAS(u32, gamma_pkts, queue_limit);
TUNABLE(u32, queue_limit, 30, 1, 65535, "packets", "gamma, queue from which dwnd shrinks: 30, section III.C");
TUNABLE_WAS(u32, zeta, drain_rate);
TUNABLE(u32, drain_rate, 1, 1, 64, "packets", "zeta, packets of dwnd given up per packet queued: 1");

PHASES(PHASE_SLOW_START, PHASE_AVOIDANCE, PHASE_COMPOUND, PHASE_RECOVERY, PHASE_LOSS);

#include "reduction.bpf.h"

struct compound {
	u8 phase;
	u8 is_sampling; /* the connection is undisturbed: its rounds count */
	u16 dwnd_frac;	/* growth of dwnd below one packet, 1/1024 */
	u32 dwnd;	/* delay window; the rest of snd_cwnd is Reno's */
	u32 prior_dwnd; /* before the latest reduction, for an undo */
	u32 diff;	/* packets queued in the latest round that was measured */
	u32 win;	/* both windows after the latest ACK or reduction */
	struct delay delay;
};
STATE_FITS(struct compound);

/*
 * floor(sqrt(value)), bit by bit. Not static: the verifier follows a global function once, with an unknown value.
 * Range: any value. Error: root <= sqrt(value) < root + 1.
 */
__noinline u32 square_root(u64 value)
{
	u64 root = 0;

	for (u64 bit = 1ull << (ROOT_BITS - 1); bit; bit >>= 1) {
		const u64 trial = root | bit;

		if (trial * trial <= value)
			root = trial;
	}
	return (u32)root;
}

/*
 * win^(3/4) = sqrt(win sqrt(win)), in 1/256. Range: windows below 2^31: 31 + 31.5 bits under the second root.
 * Error: below 1/128, towards 0. The first root's part, 2^-16 win / (2 win^(3/4)), is less than the second's 1/256.
 */
static u32 three_quarter_power(u32 win)
{
	const u64 root = square_root((u64)win << (2 * ROOT_SHIFT));

	return square_root(win * root);
}

/* (alpha win^k - 1)+  eq. (5), in 1/1024 packets. */
static u64 dwnd_growth(u32 win)
{
	const u64 grown = ((u64)growth_scale * three_quarter_power(win)) >> POWER_SHIFT;

	return grown > SHARE_UNIT ? grown - SHARE_UNIT : 0;
}

static void update_phase(struct sock *sk)
{
	struct compound *compound = inet_csk_ca(sk);

	if (in_slow_start(tcp_sk(sk)))
		compound->phase = PHASE_SLOW_START;
	else
		compound->phase = compound->dwnd ? PHASE_COMPOUND : PHASE_AVOIDANCE;
}

static void forget_dwnd(struct compound *compound)
{
	compound->dwnd = 0;
	compound->dwnd_frac = 0;
}

/* Takes from dwnd what the kernel took from the window since the latest ACK, as far as dwnd allows. */
static void follow_window(const struct tcp_sock *tp, struct compound *compound)
{
	const u32 taken = compound->win > tp->snd_cwnd ? compound->win - tp->snd_cwnd : 0;

	compound->dwnd -= min(taken, compound->dwnd);
	compound->win = tp->snd_cwnd;
}

/* Grows dwnd and the window by the same number of packets, so Reno's part stays. */
static void set_dwnd_grown(struct tcp_sock *tp, struct compound *compound)
{
	const u64 grown = dwnd_growth(tp->snd_cwnd) + compound->dwnd_frac;
	const u64 room = tp->snd_cwnd_clamp > tp->snd_cwnd ? tp->snd_cwnd_clamp - tp->snd_cwnd : 0;
	const u32 packets = (u32)min(grown >> SHARE_SHIFT, room);

	compound->dwnd_frac = grown & (SHARE_UNIT - 1);
	compound->dwnd += packets;
	set_cwnd(tp, tp->snd_cwnd + packets);
}

static void set_dwnd_shrunk(struct tcp_sock *tp, struct compound *compound)
{
	const u32 packets = (u32)min((u64)compound->diff * drain_rate, (u64)compound->dwnd);
	const u32 left = tp->snd_cwnd > packets ? tp->snd_cwnd - packets : 0;

	compound->dwnd -= packets;
	compound->dwnd_frac = 0;
	set_cwnd(tp, left);
}

static void end_of_round(struct tcp_sock *tp, struct compound *compound)
{
	const struct delay *delay = &compound->delay;

	if (!in_slow_start(tp) && delay->samples >= ENOUGH_SAMPLES) {
		compound->diff = queued_packets(tp->snd_cwnd, delay->base_rtt_us, delay->round_rtt_us);
		if (compound->diff < queue_limit)
			set_dwnd_grown(tp, compound);
		else
			set_dwnd_shrunk(tp, compound);
	}
	begin_delay_round(&compound->delay, tp);
}

CC_OP(void, compound_init, struct sock *sk)
{
	struct compound *compound = inet_csk_ca(sk);

	compound->is_sampling = 1;
	compound->prior_dwnd = 0;
	compound->diff = 0;
	compound->win = tcp_sk(sk)->snd_cwnd;
	forget_dwnd(compound);
	forget_delay(&compound->delay, tcp_sk(sk));
	update_phase(sk);
}

CC_OP(void, compound_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct compound *compound = inet_csk_ca(sk);

	update_delay(&compound->delay, sample);
}

CC_OP(void, compound_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct compound *compound = inet_csk_ca(sk);

	follow_window(tp, compound);
	update_phase(sk);
	if (!is_cwnd_limited(tp))
		return;
	reno_cong_avoid(tp, acked);
	if (compound->is_sampling && is_delay_round_over(&compound->delay, tp))
		end_of_round(tp, compound);
	compound->win = tp->snd_cwnd;
}

/* win = (1 - beta) win, cwnd = cwnd / 2, dwnd the rest */
CC_OP(u32, compound_ssthresh, struct sock *sk)
{
	struct compound *compound = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);
	const u32 win = tp->snd_cwnd, kept = ssthresh_of(win - share_of(win, cut_share));
	u32 reno;

	follow_window(tp, compound);
	reno = half_window(win > compound->dwnd ? win - compound->dwnd : 0);
	compound->prior_dwnd = compound->dwnd;
	compound->dwnd = kept > reno ? min(kept - reno, compound->dwnd) : 0;
	compound->dwnd_frac = 0;
	compound->win = kept;
	return kept;
}

/* CWND_RESTART: the kernel shrinks the window after idle time. */
CC_OP(void, compound_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct compound *compound = inet_csk_ca(sk);

	if (event == CA_EVENT_CWND_RESTART)
		forget_dwnd(compound);
}

CC_OP(void, compound_set_state, struct sock *sk, u8 new_state)
{
	struct compound *compound = inet_csk_ca(sk);

	update_reduction_phase(sk, new_state);
	if (new_state == TCP_CA_Loss)
		forget_dwnd(compound);
	compound->is_sampling = new_state == TCP_CA_Open;
	if (compound->is_sampling)
		begin_delay_round(&compound->delay, tcp_sk(sk));
}

CC_OP(u32, compound_undo_cwnd, struct sock *sk)
{
	struct compound *compound = inet_csk_ca(sk);

	compound->dwnd = compound->prior_dwnd;
	compound->win = reno_undo_cwnd(tcp_sk(sk));
	return compound->win;
}

ALGORITHM(compound, "Compound: Reno's window plus a delay window that yields to any queue",
	  "Tan, Song, Zhang & Sridharan 2006") = {
	.init = (void *)compound_init,
	.pkts_acked = (void *)compound_pkts_acked,
	.cong_avoid = (void *)compound_cong_avoid,
	.ssthresh = (void *)compound_ssthresh,
	.cwnd_event = (void *)compound_cwnd_event,
	.set_state = (void *)compound_set_state,
	.undo_cwnd = (void *)compound_undo_cwnd,
	.name = "compound",
};
