/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The CUBIC that bpf_cubic, cubic_search and the cct family share: RFC 9438 as the kernel's tcp_cubic computes it,
 * HyStart, HyStart++ of RFC 9406, and the three switches of Ahmad's thesis (with_ss, with_lo, with_erfc).
 *
 * In this order: tunables and private state, the equations, growth in congestion avoidance, what slow start measures
 * (cubic_slow_start.bpf.h), and the callbacks. An algorithm's file defines its defaults as CUBIC_* before it includes this file. Its ALGORITHM
 * line follows, with CUBIC_CALLBACKS. The headers of bpf_cubic.bpf.c and cct*.bpf.c explain the rest, differences
 * included.
 */
#ifndef TCCC_CUBIC_BPF_H
#define TCCC_CUBIC_BPF_H

#include "tccc.bpf.h"

#ifndef CUBIC_BETA
#define CUBIC_BETA 717
#endif
#ifndef CUBIC_HYSTART
#define CUBIC_HYSTART 1
#endif
#ifndef CUBIC_WITH_SS
#define CUBIC_WITH_SS 0
#endif
#ifndef CUBIC_WITH_LO
#define CUBIC_WITH_LO 0
#endif
#ifndef CUBIC_WITH_ERFC
#define CUBIC_WITH_ERFC 0
#endif
/*
 * What a member adds, before the family's own work: statements in which `return` ends the callback, and phases. Only
 * cubic_search.bpf.c adds something.
 */
#ifndef CUBIC_AT_SAMPLE
#define CUBIC_AT_SAMPLE(sk, rtt_us)
#define CUBIC_AT_ACK(sk)
#define CUBIC_AT_STATE(sk, new_state)
#define CUBIC_AT_EVENT(sk, event)
#define CUBIC_OWN_PHASES
#endif
#ifndef CUBIC_HYSTART_MOST
#define CUBIC_HYSTART_MOST 2
#define CUBIC_HYSTART_UNIT "0, 1 or 2"
#define CUBIC_HYSTART_OWN ""
#endif
/* TUNABLE shows its numbers as written. This macro expands numbers that a file defines by name. */
#define CUBIC_TUNABLE(...) TUNABLE(__VA_ARGS__)

CUBIC_TUNABLE(u32, beta, CUBIC_BETA, 1, 1023, "1/1024",
	      "share of cwnd kept at a loss: 717 is RFC 9438's 0.7, 819 is the cut of 20 % of ns-2 and the thesis");
TUNABLE_WAS(u32, c, cubic_scale);
TUNABLE(u32, cubic_scale, 410, 1, 10240, "1/1024 packets/s^3",
	"steepness C of the curve: RFC 9438's 0.4; the kernel's bic_scale 41 times 10");
TUNABLE(u8, fast_convergence, 1, 0, 1, "on or off",
	"a loss below Wmax lowers Wmax further, to free room for new flows");
TUNABLE(u8, tcp_friendliness, 1, 0, 1, "on or off", "never slower than Reno with the same cut: RFC 9438, 4.3");
CUBIC_TUNABLE(u8, hystart, CUBIC_HYSTART, 0, CUBIC_HYSTART_MOST, CUBIC_HYSTART_UNIT,
	      "leave slow start before a loss: 0 off; 1 the kernel's HyStart, with with_ss its delay detector; 2 "
	      "HyStart++" CUBIC_HYSTART_OWN);
TUNABLE(u32, hystart_detect, 3, 0, 3, "mask", "HyStart's detectors: 1 ACK train, 2 delay, 3 both; as the kernel");
TUNABLE(u32, hystart_low_window, 16, 2, 65535, "packets",
	"HyStart, CCT-SS: below it slow start is not left early: too few ACKs");
TUNABLE(u32, hystart_ack_delta_us, 2000, 1, 1000000, "us", "longest gap inside an ACK train; as the kernel");
TUNABLE(u32, hystart_samples, 8, 1, 255, "samples",
	"RTT samples of a round before its lowest counts; as the kernel and N_RTT_SAMPLE of RFC 9406");
TUNABLE(u32, hystart_delay_min_us, 4000, 1, 1000000, "us",
	"a rise of the RTT below this does not count; as the kernel and MIN_RTT_THRESH of RFC 9406");
TUNABLE(u32, hystart_delay_max_us, 16000, 1, 1000000, "us",
	"a rise of the RTT above this always counts; as the kernel and MAX_RTT_THRESH of RFC 9406");
TUNABLE(u32, hystart_ack_limit, 8, 1, 65535, "packets",
	"HyStart++: most that one ACK adds to the window unless the socket paces; L of RFC 9406");
TUNABLE(u32, css_growth_divisor, 4, 1, 1024, "1/growth",
	"HyStart++: CSS grows slower than slow start by this; RFC 9406");
TUNABLE(u8, css_rounds, 5, 1, 254, "rounds", "HyStart++: rounds of CSS before congestion avoidance; RFC 9406");
CUBIC_TUNABLE(u8, with_ss, CUBIC_WITH_SS, 0, 1, "on or off", "CCT-SS: leave slow start between the limits L and U");
TUNABLE(u32, beta_ss, 128, 1, 1023, "1/1024",
	"CCT-SS, reconstruction: L = (1 - beta_ss) U and cut there; below 0.2 raises CUBIC's L; our sweep chose 102");
TUNABLE(u32, min_train_acks, 8, 2, 255, "ACKs", "CCT-SS, reconstruction: ACKs of a train before its rate counts");
CUBIC_TUNABLE(u8, with_lo, CUBIC_WITH_LO, 0, 1, "on or off", "CCT-LO: cut by beta_lo instead of 1 - beta");
TUNABLE(u32, beta_lo, 358, 1, 1023, "1/1024",
	"CCT-LO, reconstruction: cut at a loss, 0.35 is the middle of chapter 1's 0.2 to 0.5; our sweep chose 461");
CUBIC_TUNABLE(u8, with_erfc, CUBIC_WITH_ERFC, 0, 1, "on or off",
	      "ERFC: lower C so that the average window falls by delta");
TUNABLE(u32, delta, 154, 0, 512, "1/1024",
	"ERFC, reconstruction: share of the average window to give up, 0.15; our sweep chose 205");

PHASES(PHASE_SLOW_START, PHASE_CONCAVE, PHASE_CONVEX, PHASE_RENO_FRIENDLY, PHASE_RECOVERY, PHASE_LOSS,
       PHASE_CSS CUBIC_OWN_PHASES);
#include "reduction.bpf.h"

struct cubic {
	u8 phase;
	u8 css_round;	    /* HyStart++: round of CSS, 0: slow start; EXIT_FOUND: it ended before a loss */
	u8 rtt_samples;	    /* of this round */
	u8 train_acks;	    /* CCT-SS: of this train, without its first */
	u32 cnt;	    /* packets acknowledged per packet of growth */
	u32 w_max;	    /* window before the latest cut, or less by fast convergence; 0: none yet */
	u32 origin;	    /* window of the plateau */
	u32 k;		    /* time from the cut to the plateau, 1/1024 s */
	u32 last_cwnd;	    /* window when the curve was last read */
	u64 epoch_us;	    /* when this epoch began, 0: with the next ACK */
	u32 update_us;	    /* when that was; wraps after 71 minutes, then one reading comes 32 ms late */
	u32 ack_cnt;	    /* packets acknowledged towards the next increase of w_reno */
	u32 w_reno;	    /* Reno's window with the same cut, W_est of RFC 9438 */
	u32 min_rtt_us;	    /* lowest RTT since the latest timeout, 0: no sample yet */
	u32 round_end_seq;  /* the round ends when this is acknowledged */
	u32 round_rtt_us;   /* lowest RTT of this round, ~0: no sample yet */
	u32 last_rtt_us;    /* HyStart++: lowest RTT of the round before, ~0: no sample */
	u32 css_rtt_us;	    /* HyStart++: lowest RTT of the round when CSS began */
	u32 train_start_us; /* HyStart: the round's first ACK; CCT-SS: the train's first */
	u32 last_ack_us;    /* HyStart: last ACK of the train; CCT-SS: last ACK */
	u32 train_pkts;	    /* CCT-SS: packets acknowledged after the train's first ACK */
	u32 b_round;	    /* CCT-SS: highest bandwidth of this round, 1/256 packets/s */
	u32 b_hat;	    /* CCT-SS: highest of this round and the previous one, 1/256 packets/s; 0: none yet */
	u32 s_hat;	    /* CCT-SS: buffer seen in use */
	u32 u;		    /* CCT-SS: upper limit U, 0: no estimate */
	u32 prior_w_max;    /* before the latest cut, for an undo */
	u32 prior_u;	    /* likewise */
	u16 scale;	    /* C in use, 1/1024 packets/s^3 */
	u16 friendly_scale; /* packets acknowledged per packet of w_reno, in 1/8 of cwnd */
};
STATE_FITS(struct cubic);

/* Equations: they read tunables and change no state. */

/* Times on the curve are in 1/1024 s, as the kernel's; the longest is 2580 s, whose cube still fits 64 bits. */
#define CURVE_TIME_SHIFT 10
#define CUBE_ROOT_MAX 2642245u /* floor(cbrt(2^64 - 1)) */
#define CUBE_ROOT_BITS 22
/* (Wmax - cwnd) / C in (1/1024 s)^3, for C in 1/1024 packets/s^3: 2^40 = 2^(3 * 10 + 10). */
#define CURVE_CUBE_SHIFT 40
/* This many of the 40 bits are dropped before C multiplies the cube: 2^(64 - 14) * C stays below 2^64. */
#define CURVE_EARLY_SHIFT 14
#define CURVE_SCALE_MAX 10240u /* C = 10 */
/* The growth of Reno with CUBIC's cut is kept in 1/8. */
#define FRIENDLY_SHIFT 3
/* On the plateau the window grows by one packet for 100 windows acknowledged. */
#define COUNT_PLATEAU_WINDOWS 100u

/*
 * floor(cbrt(value)), bit by bit. Dividing by the trial avoids an overflow of its cube. The function is not static
 * because the verifier checks a global function once, with an unknown value, but a static one with each of its 2^22
 * results.
 * Range: any value. Error: root <= cbrt(value) < root + 1.
 */
__noinline u32 cube_root(u64 value)
{
	u32 root = 0;

	for (u32 bit = 1u << (CUBE_ROOT_BITS - 1); bit; bit >>= 1) {
		const u64 trial = root | bit;

		if (trial * trial <= value / trial)
			root = (u32)trial;
	}
	return root;
}

/* K = cbrt((Wmax - cwnd) / C): RFC 9438, 4.2; the quotient saturates at 64 bits, where K is 2580 s. */
static __always_inline u32 time_to_origin(u32 missing, u32 scale)
{
	const u64 per_packet = (1ull << CURVE_CUBE_SHIFT) / max(scale, 1u);
	const u64 most = ~0ull / per_packet; /* the divisor is at least 2^40 / 2^32, never 0 */

	return cube_root(per_packet * min((u64)missing, most));
}

/*
 * W(t) = C (t - K)^3 + Wmax: RFC 9438, 4.2, eq. 1, clamped to 32 bits.
 * Range: times up to CUBE_ROOT_MAX. Error: below one packet, towards the origin.
 */
static __always_inline u32 window_at(u32 t, u32 k, u32 origin, u32 scale)
{
	const u32 distance = min(t < k ? k - t : t - k, CUBE_ROOT_MAX);
	const u64 cube = (u64)distance * distance * distance;
	const u64 rise =
		((cube >> CURVE_EARLY_SHIFT) * min(scale, CURVE_SCALE_MAX)) >> (CURVE_CUBE_SHIFT - CURVE_EARLY_SHIFT);

	if (t < k)
		return rise < origin ? (u32)(origin - rise) : 0;
	return (u32)min(origin + rise, (u64)U32_LARGEST);
}

/* Packets acknowledged per packet of growth, so that cwnd meets the target one round trip later. */
static __always_inline u32 count_towards(u32 target, u32 cwnd)
{
	const u32 missing = target > cwnd ? target - cwnd : 0;

	if (missing)
		return cwnd / missing;
	return (u32)min((u64)cwnd * COUNT_PLATEAU_WINDOWS, (u64)U32_LARGEST);
}

/* The share of cwnd kept at a loss in congestion avoidance. */
static __always_inline u32 kept_share(void)
{
	const u32 kept = with_lo ? SHARE_UNIT - beta_lo : beta;

	return min(kept, SHARE_UNIT - 1);
}

/*
 * Reno with this cut grows by 3 (1 - kept) / (1 + kept) packets per window: RFC 9438, 4.3. Here the windows per packet,
 * in 1/8, rounded down as the kernel does. Range: kept below SHARE_UNIT; result at most 5458.
 */
static __always_inline u32 friendly_scale_of(u32 kept)
{
	return ((SHARE_UNIT + kept) << FRIENDLY_SHIFT) / 3 / (SHARE_UNIT - kept);
}

/*
 * ERFC: C' = C (1 - delta)^4 (4 - b) / b * b' / (4 - b'), b the cut 1 - beta and b' the cut in use, so that the average
 * window is (1 - delta) times that of C with b. Range: shares below SHARE_UNIT, b 1 and more. The result is clamped to
 * 1..10240. Error: half of 1/1024.
 */
static __always_inline u32 response_scale(u32 scale, u32 give_up, u32 cut, u32 cut_in_use)
{
	const u64 kept = SHARE_UNIT - give_up;
	const u64 b = cut, b_in_use = cut_in_use;
	const u64 lowered = (min(scale, CURVE_SCALE_MAX) * kept * kept * kept * kept) >> (2 * SHARE_SHIFT);
	const u64 ratio = lowered * (4 * SHARE_UNIT - b) * b_in_use / (b * (4 * SHARE_UNIT - b_in_use));
	const u64 rounded = (ratio + (1ull << (2 * SHARE_SHIFT - 1))) >> (2 * SHARE_SHIFT);

	return (u32)min(max(rounded, 1ull), (u64)CURVE_SCALE_MAX);
}

static __always_inline u32 curve_scale(void)
{
	const u32 scale = cubic_scale;

	if (!with_erfc)
		return min(max(scale, 1u), CURVE_SCALE_MAX);
	return response_scale(scale, delta, SHARE_UNIT - beta, SHARE_UNIT - kept_share());
}

/* Growth in congestion avoidance: an epoch, the curve, packets acknowledged per packet of growth. */

/*
 * The curve is evaluated again after a change of cwnd, but not within 1 ms, and after 32 ms at the latest. The
 * kernel's limits are one jiffy and HZ/32 jiffies.
 */
#define UPDATE_SOONEST_US 1000u
#define UPDATE_LATEST_US 32000u
/*
 * Packets acknowledged per packet of growth. Two lets the window grow by half per round trip, the most that CUBIC
 * allows.
 */
#define COUNT_LEAST 2u
/*
 * Before the first loss the curve has no origin. The window then grows by at least one packet for 20 acknowledged,
 * which is 5 % per round trip.
 */
#define COUNT_BEFORE_LOSS 20u

static void begin_epoch(struct cubic *cubic, u32 cwnd, u32 acked, u64 now_us)
{
	cubic->epoch_us = now_us;
	cubic->ack_cnt = acked;
	cubic->w_reno = cwnd;
	if (cubic->w_max <= cwnd) {
		cubic->k = 0;
		cubic->origin = cwnd;
		return;
	}
	cubic->k = time_to_origin(cubic->w_max - cwnd, cubic->scale);
	cubic->origin = cubic->w_max;
}

/* The count that leads to W(t + RTT): RFC 9438, 4.4 and 4.5. */
static void update_count(struct cubic *cubic, u32 cwnd, u64 now_us)
{
	const u64 elapsed_us = now_us > cubic->epoch_us ? now_us - cubic->epoch_us : 0;
	const u64 t = ((elapsed_us + cubic->min_rtt_us) << CURVE_TIME_SHIFT) / US_PER_SEC;
	const u32 target = window_at((u32)min(t, (u64)CUBE_ROOT_MAX), cubic->k, cubic->origin, cubic->scale);

	cubic->cnt = count_towards(target, cwnd);
	if (!cubic->w_max)
		cubic->cnt = min(cubic->cnt, COUNT_BEFORE_LOSS);
}

/* W_est of RFC 9438, 4.3: where Reno with the same cut would be ahead, grow at least as fast. */
static void update_friendly(struct cubic *cubic, u32 cwnd)
{
	const u64 windows = ((u64)cwnd * cubic->friendly_scale) >> FRIENDLY_SHIFT;
	const u32 per_packet = (u32)min(max(windows, 1ull), (u64)U32_LARGEST);
	u32 ahead;

	if (cubic->ack_cnt > per_packet) {
		const u32 packets = (cubic->ack_cnt - 1) / per_packet;

		cubic->ack_cnt -= packets * per_packet;
		cubic->w_reno += packets;
	}
	ahead = cubic->w_reno > cwnd ? cubic->w_reno - cwnd : 0;
	if (ahead)
		cubic->cnt = min(cubic->cnt, cwnd / ahead);
}

static void update_growth(struct cubic *cubic, u32 cwnd, u32 acked, u64 now_us)
{
	const u32 since_us = (u32)now_us - cubic->update_us;

	cubic->ack_cnt += acked;
	if (cubic->last_cwnd == cwnd && since_us < UPDATE_LATEST_US)
		return;
	if (!cubic->epoch_us || since_us >= UPDATE_SOONEST_US) {
		cubic->last_cwnd = cwnd;
		cubic->update_us = (u32)now_us;
		if (!cubic->epoch_us)
			begin_epoch(cubic, cwnd, acked, now_us);
		update_count(cubic, cwnd, now_us);
	}
	if (tcp_friendliness)
		update_friendly(cubic, cwnd);
	cubic->cnt = max(cubic->cnt, COUNT_LEAST);
}

#include "cubic_slow_start.bpf.h"

/* The callbacks, and what they decide at a loss, a timeout, idle time and an undo. */

/* RTT samples count again after this time of an epoch. During and just after a recovery they do not show the path. */
#define RTT_SETTLE_US 1000000u

static void update_phase(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct cubic *cubic = inet_csk_ca(sk);

	if (in_slow_start(tp))
		cubic->phase = is_in_css(tp, cubic) ? PHASE_CSS : PHASE_SLOW_START;
	else if (tcp_friendliness && cubic->w_reno >= tp->snd_cwnd)
		cubic->phase = PHASE_RENO_FRIENDLY;
	else
		cubic->phase = tp->snd_cwnd < cubic->w_max ? PHASE_CONCAVE : PHASE_CONVEX;
}

/* Clears what a timeout makes invalid: as the kernel, and all estimates of CCT-SS except the lowest RTT. */
static void forget_path(struct sock *sk, struct cubic *cubic)
{
	cubic->cnt = cubic->w_max = cubic->origin = cubic->k = 0;
	cubic->epoch_us = 0;
	cubic->last_cwnd = cubic->update_us = cubic->ack_cnt = cubic->w_reno = 0;
	if (!with_ss)
		cubic->min_rtt_us = 0;
	cubic->b_round = cubic->b_hat = cubic->s_hat = cubic->u = 0;
	forget_round(cubic);
	begin_round(sk, cubic);
}

/* After idle time the curve continues where it stopped, and the next ACKs do not continue the last train. */
static void resume_after_idle(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct cubic *cubic = inet_csk_ca(sk);
	const u64 now_us = tp->tcp_mstamp, last_sent_us = tp->first_tx_mstamp;

	if (cubic->epoch_us && now_us > last_sent_us)
		cubic->epoch_us = min(cubic->epoch_us + (now_us - last_sent_us), now_us);
	if (with_ss)
		begin_round(sk, cubic);
}

/*
 * cwnd += min(N, L), in CSS a quarter of it: RFC 9406, 4.2. L is infinite where the socket paces: 4.3. Returns the
 * acknowledged packets that remain for congestion avoidance: none, as there is no threshold.
 */
static u32 hystart_plus_slow_start(struct sock *sk, const struct cubic *cubic, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (sk->sk_pacing_status == SK_PACING_NONE)
		acked = min(acked, hystart_ack_limit);
	if (!cubic->css_round)
		return tcp_slow_start(tp, acked);
	tcp_cong_avoid_ai(tp, css_growth_divisor, acked); /* keeps the rest of the division */
	return 0;
}

/* Returns the acknowledged packets that remain for congestion avoidance. */
static u32 slow_start(struct sock *sk, const struct cubic *cubic, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (has_hystart_plus(tp))
		return hystart_plus_slow_start(sk, cubic, acked);
	return tcp_slow_start(tp, acked);
}

/* Slow start between CCT-SS's limits. It ends at L and never goes above U. Returns as slow_start does. */
static u32 slow_start_to_limits(struct sock *sk, const struct cubic *cubic, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	const u32 upper = cubic->u;

	if (!upper || tp->snd_cwnd < hystart_low_window)
		return slow_start(sk, cubic, acked);
	if (tp->snd_cwnd >= lower_limit(upper)) {
		set_slow_start_exit(tp);
		return acked;
	}
	acked = slow_start(sk, cubic, acked);
	if (tp->snd_cwnd > upper)
		tp->snd_cwnd = upper;
	return acked;
}

/*
 * With CCT-SS a loss in slow start cuts by beta_ss, to U at most. With HyStart as well, a loss below L is an
 * ordinary one. The path overflowed before the limits were reached, or there are none (L is 0), and beta_ss would
 * keep too much.
 */
static u32 slow_start_reduced_window(const struct cubic *cubic, u32 cwnd)
{
	const u32 kept = lower_limit(cwnd), upper = cubic->u;

	if (hystart && (!upper || cwnd < lower_limit(upper)))
		return kept_window(cwnd, kept_share());
	return ssthresh_of(upper && upper < kept ? upper : kept);
}

/* Wmax = cwnd (1 + beta) / 2 when the loss came below the last Wmax: RFC 9438, 4.7. */
static u32 next_w_max(u32 w_max, u32 cwnd)
{
	if (fast_convergence && cwnd < w_max)
		return converged_maximum(cwnd, kept_share());
	return cwnd;
}

CC_OP(void, cubic_init, struct sock *sk)
{
	struct cubic *cubic = inet_csk_ca(sk);

	__builtin_memset(cubic, 0, sizeof(*cubic));
	cubic->scale = (u16)curve_scale();
	cubic->friendly_scale = (u16)friendly_scale_of(kept_share());
	forget_round(cubic);
	begin_round(sk, cubic);
	update_phase(sk);
}

CC_OP(void, cubic_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct cubic *cubic = inet_csk_ca(sk);
	const u64 now_us = tp->tcp_mstamp;
	bool is_first_ack;
	u32 rtt_us;

	if (sample->rtt_us < 0)
		return;
	if (cubic->epoch_us && now_us < cubic->epoch_us + RTT_SETTLE_US)
		return;
	rtt_us = max((u32)sample->rtt_us, 1u);
	if (!cubic->min_rtt_us || rtt_us < cubic->min_rtt_us)
		cubic->min_rtt_us = rtt_us;
	CUBIC_AT_SAMPLE(sk, rtt_us);
	if (!in_slow_start(tp) || cubic->css_round == EXIT_FOUND || !(with_ss || hystart))
		return;
	is_first_ack = after(tp->snd_una, cubic->round_end_seq); /* windowEnd of RFC 9406 */
	if (is_first_ack) {
		begin_round(sk, cubic);
		if (is_in_css(tp, cubic))
			end_css_round(tp, cubic);
	}
	if (hystart == HYSTART_OF_RFC_9406 && !with_ss) {
		update_round_rtt(cubic, rtt_us);
		return;
	}
	if (!with_ss) {
		detect_exit(sk, cubic, rtt_us);
		return;
	}
	if (!is_first_ack) /* a train's first ACK shows when it begins, not how fast it is */
		update_bandwidth(cubic, (u32)now_us, sample->pkts_acked);
	observe_path(sk, cubic, rtt_us);
}

static void grow(struct sock *sk, struct cubic *cubic, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (in_slow_start(tp)) {
		acked = with_ss ? slow_start_to_limits(sk, cubic, acked) : slow_start(sk, cubic, acked);
		if (!acked)
			return;
	}
	update_growth(cubic, tp->snd_cwnd, acked, tp->tcp_mstamp);
	tcp_cong_avoid_ai(tp, max(cubic->cnt, COUNT_LEAST), acked);
}

CC_OP(void, cubic_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct cubic *cubic = inet_csk_ca(sk);

	CUBIC_AT_ACK(sk);
	update_phase(sk);
	if (is_cwnd_limited(tp))
		grow(sk, cubic, acked);
	if (has_hystart_plus(tp))
		judge_round(cubic);
}

CC_OP(u32, cubic_ssthresh, struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct cubic *cubic = inet_csk_ca(sk);
	const u32 cwnd = tp->snd_cwnd;

	cubic->epoch_us = 0;
	cubic->w_reno = 0;
	cubic->prior_u = cubic->u;
	cubic->prior_w_max = cubic->w_max;
	cubic->w_max = next_w_max(cubic->w_max, cwnd);
	if (with_ss && in_slow_start(tp))
		return slow_start_reduced_window(cubic, cwnd);
	return kept_window(cwnd, kept_share());
}

/* The kernel calls cubic_ssthresh just before CA_EVENT_LOSS, which first shows that the loss is a timeout. */
CC_OP(void, cubic_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct tcp_sock *tp = tcp_sk(sk);

	CUBIC_AT_EVENT(sk, event);
	if (event == CA_EVENT_TX_START)
		resume_after_idle(sk);
	if (event == CA_EVENT_LOSS && with_ss)
		tp->snd_ssthresh = kept_window(tp->snd_cwnd, kept_share());
}

CC_OP(void, cubic_cwnd_event_tx_start, struct sock *sk)
{
	resume_after_idle(sk);
}

CC_OP(void, cubic_set_state, struct sock *sk, u8 new_state)
{
	struct cubic *cubic = inet_csk_ca(sk);

	CUBIC_AT_STATE(sk, new_state);
	update_reduction_phase(sk, new_state);
	if (new_state == TCP_CA_Loss)
		forget_path(sk, cubic);
}

CC_OP(u32, cubic_undo_cwnd, struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct cubic *cubic = inet_csk_ca(sk);

	if (with_lo)
		cubic->w_max = cubic->prior_w_max;
	if (with_ss)
		cubic->u = cubic->prior_u;
	return reno_undo_cwnd(tp);
}

#define CUBIC_CALLBACKS                                                                                                \
	.init = (void *)cubic_init, .pkts_acked = (void *)cubic_pkts_acked, .cong_avoid = (void *)cubic_cong_avoid,    \
	.ssthresh = (void *)cubic_ssthresh, .cwnd_event = (void *)cubic_cwnd_event,                                    \
	.cwnd_event_tx_start = (void *)cubic_cwnd_event_tx_start, .set_state = (void *)cubic_set_state,                \
	.undo_cwnd = (void *)cubic_undo_cwnd

#endif
