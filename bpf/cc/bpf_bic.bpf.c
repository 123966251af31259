// SPDX-License-Identifier: GPL-2.0-only
/*
 * BIC: binary search for the path's window, between the window of the last loss and the window kept after it.
 *
 * Source
 *   L. Xu, K. Harfoush, I. Rhee, "Binary Increase Congestion Control for Fast Long-Distance Networks", IEEE INFOCOM
 *   2004, volume 4, doi 10.1109/INFCOM.2004.1354672; behaviour and constants of net/ipv4/tcp_bic.c of Linux 6.18.
 *
 * Idea
 *   The path holds more than the window kept after the last loss and less than the window of that loss, Wmax. Each
 *   round trip the window moves by a share of the distance to Wmax. Far from Wmax the step is limited. Beyond Wmax
 *   growth is first as slow as it was just below it. CUBIC is the same curve, made smooth and a function of time.
 *
 * Equations
 *   step: packets per round trip; d = Wmax - cwnd
 *   cwnd <= low_window         step = 1                              as Reno
 *   d / B > Smax               step = Smax                           additive increase, B = 4, Smax = 16
 *   1 < d / B <= Smax          step = d / B                          binary search; the paper's B is 2
 *   d / B <= 1                 step = B / smooth_part                the last packets: 0.2 a round trip
 *   -d < B                     step = B / smooth_part                beyond Wmax: as slowly
 *   -d < (B - 1) Smax          step = -d / (B - 1)                   then ever faster
 *   further                    step = Smax
 *   loss                       ssthresh = beta cwnd, cwnd / 2 up to low_window; at least 2
 *   fast convergence           Wmax = cwnd (1 + beta) / 2 if cwnd < Wmax, else cwnd
 *   delayed ACKs               above low_window, step times the smoothed packets per ACK
 *
 * Units
 *   Windows in packets; beta in 1/1024 of the window; growth in packets acknowledged per packet added, cwnd /
 *   step.
 *
 * Life
 *   slow start -> reno, additive, search and probe in turn -> (loss) recovery -> additive or search; timeout ->
 *   loss -> slow start, and Wmax is forgotten.
 *
 * Differs
 *   1. From the kernel's bic: the count is computed at each ACK. The kernel's is up to HZ/32 jiffies old while
 *      cwnd does not change.
 *   2. From the paper, as the kernel: each step is multiplied by the packets per ACK (delayed_ack). The kernel has
 *      counted packets instead of ACKs since 4.0, so a delayed ACK counts twice. The smoothed ratio, in 1/16,
 *      starts at 2. With an ACK for every packet it settles at 31/16, because its decay is rounded down, so steps
 *      are 1.9 times the paper's even then. An ACK that acknowledges nothing cumulatively, such as the first SACK
 *      of a loss, lowers the ratio by 1/16 or more, down to 1. ACKs of single packets do not raise it again.
 *   3. From the kernel's bic: there is no initial_ssthresh (a scenario sets it for every algorithm alike).
 *      Products that overflow in the kernel above some hundred million packets saturate here.
 *   4. From the paper, as the kernel: B is 4 where the paper halves. Smax is 16 (paper: 32). The cut is 0.2
 *      (paper: 0.125). The slowest step is B / smooth_part (paper: Smin = 0.01). Before the first loss the step is
 *      at least cwnd / 20.
 *   5. From the paper, as the kernel: a timeout forgets Wmax, and an undo does not restore it.
 *
 * Kernel
 *   Uses the kernel's own tcp_slow_start and tcp_cong_avoid_ai (5.13 and newer). Works the same on every supported
 *   kernel. The name is bpf_bic because the kernel's own algorithm is called bic.
 */
#include "tccc.bpf.h"

/* B: one round trip goes 1/B of the way to Wmax. This is the kernel's BICTCP_B, on which the stability depends. */
#define SEARCH_SHARE 4u
/* Before the first loss there is no Wmax, and growth is at least a packet for 20 acknowledged: 5 % per round trip. */
#define COUNT_BEFORE_LOSS 20u
/* Initial packets per ACK, and their unit: the kernel's 2 << ACK_RATIO_SHIFT. */
#define RATIO_UNIT 16u
#define FIRST_RATIO (2u * RATIO_UNIT)

TUNABLE(u32, max_increment, 16, 1, 1024, "packets",
	"Smax, the largest step of a round trip: the kernel's; the paper has 32");
TUNABLE(u32, low_window, 14, 2, 65535, "packets",
	"up to this window grow and halve as Reno: the paper's and the kernel's");
TUNABLE(u32, beta, 819, 1, 1023, "1/1024", "share of cwnd kept at a loss: the kernel's; the paper keeps 896, 0.875");
TUNABLE(u32, smooth_part, 20, 4, 1024, "rounds", "round trips for the last B packets before Wmax: the kernel's");
TUNABLE(u8, fast_convergence, 1, 0, 1, "on or off",
	"a loss below Wmax lowers Wmax further, to free room for new flows");

TUNABLE(u8, delayed_ack, 1, 0, 1, "on or off",
	"multiply growth by the smoothed packets per ACK: the kernel's, 2 at first; the paper has none");

PHASES(PHASE_SLOW_START, PHASE_RENO, PHASE_ADDITIVE, PHASE_SEARCH, PHASE_PROBE, PHASE_RECOVERY, PHASE_LOSS);

#include "reduction.bpf.h"

struct bpf_bic {
	u8 phase;
	u32 cnt;       /* packets acknowledged per packet of growth */
	u32 w_max;     /* window before the latest cut, lowered by fast convergence; 0: none yet */
	u32 ack_ratio; /* packets per ACK, smoothed, 1/16 */
};
STATE_FITS(struct bpf_bic);

/* cwnd / step for the slowest step, B / smooth_part. */
static u32 slowest_count(u32 cwnd)
{
	return saturated((u64)cwnd * smooth_part / SEARCH_SHARE);
}

static u32 fastest_count(u32 cwnd)
{
	return cwnd / max(max_increment, 1u);
}

/* Below Wmax. `missing` is Wmax - cwnd, the header's d, and at least 1. */
static u32 search_count(u32 cwnd, u32 missing)
{
	const u32 step = missing / SEARCH_SHARE;

	if (step > max_increment)
		return fastest_count(cwnd);
	return step <= 1 ? slowest_count(cwnd) : cwnd / step;
}

/* At Wmax, or `past` packets beyond it. */
static u32 probe_count(u32 cwnd, u32 past)
{
	if (past < SEARCH_SHARE)
		return slowest_count(cwnd);
	if (past < max_increment * (SEARCH_SHARE - 1))
		return saturated((u64)cwnd * (SEARCH_SHARE - 1) / past);
	return fastest_count(cwnd);
}

static u32 count_of(const struct bpf_bic *bic, u32 cwnd)
{
	const u32 w_max = bic->w_max;
	u32 cnt;

	if (cwnd <= low_window)
		return cwnd;
	cnt = cwnd < w_max ? search_count(cwnd, w_max - cwnd) : probe_count(cwnd, cwnd - w_max);
	if (!w_max)
		cnt = min(cnt, COUNT_BEFORE_LOSS);
	return delayed_ack ? saturated((u64)cnt * RATIO_UNIT / max(bic->ack_ratio, 1u)) : cnt;
}

static void update_phase(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bpf_bic *bic = inet_csk_ca(sk);
	const u32 cwnd = tp->snd_cwnd;

	if (in_slow_start(tp))
		bic->phase = PHASE_SLOW_START;
	else if (cwnd <= low_window)
		bic->phase = PHASE_RENO;
	else if (cwnd >= bic->w_max)
		bic->phase = PHASE_PROBE;
	else
		bic->phase = (bic->w_max - cwnd) / SEARCH_SHARE > max_increment ? PHASE_ADDITIVE : PHASE_SEARCH;
}

static void forget_maximum(struct bpf_bic *bic)
{
	bic->cnt = 1;
	bic->w_max = 0;
	bic->ack_ratio = FIRST_RATIO;
}

CC_OP(void, bpf_bic_init, struct sock *sk)
{
	struct bpf_bic *bic = inet_csk_ca(sk);

	forget_maximum(bic);
	update_phase(sk);
}

CC_OP(void, bpf_bic_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bpf_bic *bic = inet_csk_ca(sk);
	u32 cnt;

	update_phase(sk);
	if (!is_past_slow_start(tp, &acked))
		return;
	cnt = count_of(bic, tp->snd_cwnd);
	bic->cnt = max(cnt, 1u);
	tcp_cong_avoid_ai(tp, bic->cnt, acked);
}

CC_OP(void, bpf_bic_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct bpf_bic *bic = inet_csk_ca(sk);

	if (ca_state_of(sk) == TCP_CA_Open)
		bic->ack_ratio += sample->pkts_acked - bic->ack_ratio / RATIO_UNIT;
}

CC_OP(u32, bpf_bic_ssthresh, struct sock *sk)
{
	struct bpf_bic *bic = inet_csk_ca(sk);
	const u32 cwnd = tcp_sk(sk)->snd_cwnd;
	u32 kept;

	bic->w_max = fast_convergence && cwnd < bic->w_max ? converged_maximum(cwnd, beta) : cwnd;
	kept = cwnd <= low_window ? cwnd / 2 : share_of(cwnd, beta);
	return max(kept, 2u);
}

CC_OP(void, bpf_bic_set_state, struct sock *sk, u8 new_state)
{
	struct bpf_bic *bic = inet_csk_ca(sk);

	update_reduction_phase(sk, new_state);
	if (new_state == TCP_CA_Loss)
		forget_maximum(bic);
}

CC_OP(u32, bpf_bic_undo_cwnd, struct sock *sk)
{
	return reno_undo_cwnd(tcp_sk(sk));
}

ALGORITHM(bpf_bic, "BIC as BPF: binary search for the window of the last loss", "Xu, Harfoush & Rhee 2004") = {
	.init = (void *)bpf_bic_init,
	.cong_avoid = (void *)bpf_bic_cong_avoid,
	.pkts_acked = (void *)bpf_bic_pkts_acked,
	.ssthresh = (void *)bpf_bic_ssthresh,
	.set_state = (void *)bpf_bic_set_state,
	.undo_cwnd = (void *)bpf_bic_undo_cwnd,
	.name = "bpf_bic",
};
