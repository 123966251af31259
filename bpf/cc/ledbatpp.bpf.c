// SPDX-License-Identifier: GPL-2.0-only
/*
 * LEDBAT++: background transfers, which yield to all other traffic as soon as it lengthens the queue.
 *
 * Source
 *   P. Balasubramanian, O. Ertugay, D. Havey, M. Bagnulo, "LEDBAT++: Congestion Control for Background Traffic",
 *   draft-irtf-iccrg-ledbat-plus-plus: sections 4.1 to 4.5, numbered as in revision 01 of August 2020. What the
 *   draft takes from LEDBAT is RFC 6817, section 2.4.2. Revision 06 of January 2026 names the same mechanisms, but
 *   its full text could not be had.
 *
 * Idea
 *   The lowest RTT of the last ten minutes is that of an empty path. What the present RTT has beyond it is the
 *   queueing delay. The window grows slowly while that delay is below a target, and shrinks by a share of itself
 *   above it. Loss-based flows fill the queue far beyond the target, so this flow yields to them. In a queue too short
 *   for the target it still grows at most as fast as Reno, and up to 16 times slower on short paths. Now and then it
 *   stops for two round trips. The queue drains, and every LEDBAT++ flow on the path measures the empty path anew.
 *
 * Equations
 *   base                  lowest RTT of the last 10 one-minute intervals                   RFC 6817
 *   delay                 lowest of the last 4 RTTs - base                                 4.5
 *   GAIN                  1 / min(gain_cap, ceil(2 target / base))                         4.2
 *   slow start            cwnd += acked GAIN                                               4.1
 *   its end               delay > 3/4 target, in the first slow start only                 4.1
 *   avoidance, each RTT   delay <= target: cwnd += GAIN                                    4.3
 *                         else cwnd += max(GAIN - Constant cwnd (delay / target - 1), -cwnd / 2)
 *   slowdown              ssthresh = cwnd; cwnd = 2 for 2 RTT; then slow start             4.4
 *   the first slowdown    2 RTT after the first slow start                                 4.4
 *   the next one          9 times its duration after its end                               4.4
 *   loss, mark            ssthresh = max(cwnd / 2, 2)                                      RFC 6817, as Reno
 *
 * Units
 *   Windows in packets; growth also in 2^-20 packets; RTTs and times in us, the target in ms; shares in 1/1024.
 *
 * Life
 *   slow start --(delay > 3/4 target, or a loss)--> avoidance --(2 RTT later)--> slowdown, 2 packets for 2 RTT
 *                                                       ^                            |
 *                                                       |                            v
 *                                                       +---(cwnd = ssthresh)--- ramp up, a slow start
 *   avoidance --(9 durations later)--> slowdown. Loss -> recovery -> where it was; timeout -> loss -> slow start.
 *   On a path whose RTT rises for good by more than the target, the flow has 2 packets until the older RTTs are ten
 *   minutes old.
 *
 * Differs
 *   1. RTTs are the kernel's samples, in us and without TCP timestamps. They include the receiver's delay of ACKs
 *      (4.5), and with segmentation offload there is one sample for each burst.
 *   2. The draft's CEIL is "the smallest integer larger than X". Here it is the usual one: ceil(2) is 2, so GAIN is
 *      1 from base = 2 target on. Before the first RTT sample, GAIN is 1 / gain_cap.
 *   3. "Once per roundtrip measurement" (4.3) is once per window acknowledged, when the first packet sent after the
 *      latest change is acknowledged. The 4 samples of that time count. A delay equal to the target, which the text
 *      leaves out, gives GAIN in both equations.
 *   4. The draft does not say whether the GAIN of slow start also applies to the ramp after a slowdown. Section 4.1
 *      does not except it, so it does; ramp_gain = 0 doubles the window each RTT instead.
 *   5. "2 RTT" of a slowdown are two rounds: until everything sent before it is acknowledged, then until the packets
 *      in flight at that time are. "2 RTT after the initial slow start" is twice the smoothed RTT.
 *   6. A slowdown that falls due during a slow start waits for its end. Otherwise ssthresh would be lost.
 *   7. A loss during the two rounds of a slowdown halves the window to return to, since the lost packets were sent
 *      at that window. The draft is silent. A loss in the ramp halves the window and ends the ramp.
 *   8. A time with nothing in flight does not count into the duration of a slowdown. Else the next one would come 9
 *      pauses later. Base and filter survive pauses, and a minute without samples does not count, as in RFC
 *      6817.
 *   9. The exit by delay also applies after an undo that took the threshold away, since nothing else then bounds
 *      slow start. In avoidance ssthresh follows a shrinking window.
 *   10. The window grows only while it limits the sender. RFC 6817 allows one packet more than is in flight.
 *   11. The kernel detects and repairs losses and reduces the window (SACK, RACK, PRR). Its window is 1 after a
 *      timeout, where the draft has a minimum of 2. The draft enables TCP timestamps; here the host's setting holds.
 *   12. The RFC's randomness, one-way delays and clock-skew corrections are not part of LEDBAT++.
 *
 * Kernel
 *   Works the same on every supported kernel. Nothing of it is paced, unless the host uses fq.
 */
#include "tccc.bpf.h"
#include "delay.bpf.h"

#define US_PER_MS 1000u
#define US_PER_MINUTE (60 * US_PER_SEC)
#define PART_SHIFT 20 /* parts of a packet: GAIN is at least 2^-10, so it keeps ten bits */
#define PART_UNIT (1u << PART_SHIFT)
#define HISTORY 10 /* BASE_HISTORY of RFC 6817 */
#define FILTER 4   /* CURRENT_FILTER of RFC 6817 */
#define LEAST_CWND 2u
#define COARSE_SHIFT 10
#define ROUNDS_TO_FIRST_SLOWDOWN 2

TUNABLE(u32, target_ms, 60, 1, 1000, "ms",
	"queueing delay that the flow allows: the draft's, above the usual delay of ACKs; RFC 6817 has at most 100");
TUNABLE(u32, gain_cap, 16, 1, 1024, "RTTs",
	"most round trips per packet of growth: the draft's; 1 grows as Reno on every path");
TUNABLE(u32, decrease, 1024, 64, 4096, "1/1024",
	"Constant of the decrease: the draft recommends 1, and permits experiments");
TUNABLE(u32, exit_share, 768, 1, 1024, "1/1024", "share of the target that ends the first slow start: the draft's 3/4");
TUNABLE(u8, slowdown_rounds, 2, 1, 16, "RTTs", "time at 2 packets: the draft's; the first round drains the queue");
TUNABLE(u32, slowdown_gap, 9, 0, 1000, "durations",
	"time between slowdowns: the draft's, so at most a tenth of the time is lost; 0: no slowdowns");
TUNABLE(u8, ramp_gain, 1, 0, 1, "on or off", "GAIN also applies to the ramp after a slowdown; off: the ramp doubles");
TUNABLE(u8, base_minutes, 10, 1, 10, "minutes", "age from which an RTT is forgotten: RFC 6817's BASE_HISTORY");

PHASES(PHASE_SLOW_START, PHASE_AVOIDANCE, PHASE_SLOWDOWN, PHASE_RAMP_UP, PHASE_RECOVERY, PHASE_LOSS);

#include "reduction.bpf.h"

struct ledbatpp {
	u8 phase;
	u8 stage;	       /* the phase of the draft, also during recoveries; PHASE_SLOW_START is the first one */
	u8 rounds;	       /* of this slowdown at 2 packets */
	u32 parts;	       /* growth below one packet, 2^-20 packets */
	u32 base_us[HISTORY];  /* lowest RTT of each minute, the present one first; ~0: none */
	u32 recent_us[FILTER]; /* latest RTTs, newest first; ~0: none */
	u32 minute;	       /* the present minute of the clock */
	u32 delay_us;	       /* queueing delay at the latest ACK */
	u32 round_end_seq;     /* end of what was sent before this round, or this round of a slowdown */
	u32 goal;	       /* window to return to after a slowdown, packets */
	u32 last_ack;	       /* time of the latest ACK, 1024 us */
	u64 slowdown_start_us;
	u64 next_slowdown_us;
};
STATE_FITS(struct ledbatpp);

/* The lowest of a list. ~0: none known. */
static __always_inline u32 lowest_of(const u32 *rtts_us, u32 count)
{
	u32 lowest_us = NO_RTT;

	for (u32 i = 0; i < count; i++)
		lowest_us = min(lowest_us, rtts_us[i]);
	return lowest_us;
}

/* Makes room for a new first entry. */
static __always_inline void shift(u32 *rtts_us, u32 count)
{
	for (u32 i = count - 1; i > 0; i--)
		rtts_us[i] = rtts_us[i - 1];
	rtts_us[0] = NO_RTT;
}

/* Base delay: RFC 6817, 2.4.2, update_base_delay. us; ~0: no sample yet. */
static u32 base_delay_us(const struct ledbatpp *ledbat)
{
	u32 lowest_us = NO_RTT;

	for (u32 i = 0; i < HISTORY; i++)
		if (i < base_minutes)
			lowest_us = min(lowest_us, ledbat->base_us[i]);
	return lowest_us;
}

/* The queueing delay: 4.5. us; 0 without samples. */
static u32 queueing_delay_us(const struct ledbatpp *ledbat)
{
	const u32 base_us = base_delay_us(ledbat), current_us = lowest_of(ledbat->recent_us, FILTER);

	return current_us > base_us ? current_us - base_us : 0;
}

static u32 target_us(void)
{
	return target_ms * US_PER_MS;
}

/*
 * GAIN = 1 / min(gain_cap, ceil(2 target / base))  4.2, in 2^-20 packets, rounded up, so that the growth of several
 * rounds is not a part short of a packet. Range: any base from 1 us on. Error: below 2^-20 packets.
 */
static u32 gain_parts(const struct ledbatpp *ledbat)
{
	const u32 base_us = base_delay_us(ledbat), cap = gain_cap;
	u32 divisor = cap;
	u64 ratio;

	if (base_us != NO_RTT) {
		ratio = ((u64)2 * target_us() + base_us - 1) / base_us;
		divisor = (u32)min(max(ratio, 1ull), (u64)cap);
	}
	return (PART_UNIT + divisor - 1) / divisor;
}

/* 1024 us, wraps after 50 days */
static u32 coarse_time(u64 time_us)
{
	return (u32)(time_us >> COARSE_SHIFT);
}

static void begin_round(struct ledbatpp *ledbat, const struct tcp_sock *tp)
{
	ledbat->round_end_seq = tp->snd_nxt;
}

static bool is_round_over(const struct ledbatpp *ledbat, const struct tcp_sock *tp)
{
	return after(tp->snd_una, ledbat->round_end_seq);
}

/* Whether slow start has a window to reach. One above the clamp cannot be reached. */
static bool is_below_threshold(const struct tcp_sock *tp)
{
	return tp->snd_cwnd < min(tp->snd_ssthresh, tp->snd_cwnd_clamp);
}

/* cwnd += acked GAIN  4.1, up to the threshold. Range: acked up to 2^28, whose growth takes 48 bits. */
static void grow_by_gain(struct tcp_sock *tp, struct ledbatpp *ledbat, u32 acked, u32 gain)
{
	const u64 growth = (u64)acked * gain + ledbat->parts;
	const u32 most = min(tp->snd_ssthresh, tp->snd_cwnd_clamp);

	if (!is_cwnd_limited(tp))
		return;
	tp->snd_cwnd = max(tp->snd_cwnd, (u32)min(tp->snd_cwnd + (growth >> PART_SHIFT), (u64)most));
	ledbat->parts = growth % PART_UNIT;
}

static void begin_avoidance(struct ledbatpp *ledbat, const struct tcp_sock *tp)
{
	ledbat->stage = PHASE_AVOIDANCE;
	begin_round(ledbat, tp);
}

/* The first slowdown follows "2 RTT after the initial slow start completes": 4.4. */
static void end_first_slow_start(struct ledbatpp *ledbat, const struct tcp_sock *tp)
{
	ledbat->next_slowdown_us = tp->tcp_mstamp + ROUNDS_TO_FIRST_SLOWDOWN * (tp->srtt_us >> SRTT_SHIFT);
	begin_avoidance(ledbat, tp);
}

/* Section 4.1. The first slow start ends on delay. Later ones have a threshold. */
static void slow_start(struct tcp_sock *tp, struct ledbatpp *ledbat, u32 acked)
{
	const bool is_first = ledbat->stage == PHASE_SLOW_START || tp->snd_ssthresh >= TCP_INFINITE_SSTHRESH;

	if (is_first && ledbat->delay_us > share_of(target_us(), exit_share))
		tp->snd_ssthresh = ssthresh_of(tp->snd_cwnd);
	else
		grow_by_gain(tp, ledbat, acked, gain_parts(ledbat));
}

/* Section 4.4: "set SSTHRESH to the current version of the congestion window CWND, and then reduce CWND to 2 packets". */
static void begin_slowdown(struct tcp_sock *tp, struct ledbatpp *ledbat)
{
	ledbat->stage = PHASE_SLOWDOWN;
	ledbat->rounds = 0;
	ledbat->parts = 0;
	ledbat->goal = ssthresh_of(tp->snd_cwnd);
	ledbat->slowdown_start_us = tp->tcp_mstamp;
	tp->snd_ssthresh = ledbat->goal;
	set_cwnd(tp, LEAST_CWND);
	begin_round(ledbat, tp);
}

/*
 * Section 4.4: "Keep CWND frozen at 2 packets for 2 RTT". A recovery meanwhile leaves both at 2 packets. An undo
 * restores the threshold, which is the goal before the loss.
 */
static void hold(struct tcp_sock *tp, struct ledbatpp *ledbat)
{
	if (tp->snd_ssthresh < TCP_INFINITE_SSTHRESH)
		ledbat->goal = max(ledbat->goal, tp->snd_ssthresh);
	tp->snd_ssthresh = ssthresh_of(ledbat->goal);
	set_cwnd(tp, LEAST_CWND);
	if (before(tp->snd_una, ledbat->round_end_seq))
		return; /* some of what was in flight when the round began still is */
	begin_round(ledbat, tp);
	ledbat->rounds++;
	if (ledbat->rounds >= slowdown_rounds)
		ledbat->stage = PHASE_RAMP_UP;
}

/* Section 4.4: "ramp up the congestion window according to the slow start algorithm, until the congestion window reaches SSTHRESH". */
static void ramp_up(struct tcp_sock *tp, struct ledbatpp *ledbat, u32 acked)
{
	grow_by_gain(tp, ledbat, acked, ramp_gain ? gain_parts(ledbat) : PART_UNIT);
	if (is_below_threshold(tp))
		return;
	ledbat->next_slowdown_us = tp->tcp_mstamp + slowdown_gap * (tp->tcp_mstamp - ledbat->slowdown_start_us);
	begin_avoidance(ledbat, tp);
}

/*
 * Constant cwnd (delay / target - 1)  4.3, in 2^-20 packets, at most the window. Range: a delay above the target, windows
 * below 2^31. Error: the share of the window is rounded down to 2^-20.
 */
static u64 decrease_parts(u64 window, u32 delay_us)
{
	const u64 excess = (u64)(delay_us - target_us()) * decrease, whole = (u64)target_us() << SHARE_SHIFT;
	u64 share;

	if (excess >= whole)
		return window;
	share = (excess << (PART_SHIFT - SHARE_SHIFT)) / target_us();
	return (window >> PART_SHIFT) * share + ((window % PART_UNIT * share) >> PART_SHIFT);
}

/* Section 4.3, once a round: up by GAIN, or down by the excess of the delay, at most by half. */
static void end_of_round(struct tcp_sock *tp, struct ledbatpp *ledbat)
{
	const u64 window = ((u64)tp->snd_cwnd << PART_SHIFT) + ledbat->parts;
	const u64 grown = window + (is_cwnd_limited(tp) ? gain_parts(ledbat) : 0);
	u64 next = grown;

	if (ledbat->delay_us > target_us())
		next = max(grown - decrease_parts(window, ledbat->delay_us), window - window / 2);
	next = max(next, (u64)LEAST_CWND << PART_SHIFT);
	ledbat->parts = next % PART_UNIT;
	set_cwnd(tp, (u32)min(next >> PART_SHIFT, (u64)TCP_INFINITE_SSTHRESH));
	tp->snd_ssthresh = ssthresh_of(min(tp->snd_ssthresh, tp->snd_cwnd));
}

static void avoid(struct tcp_sock *tp, struct ledbatpp *ledbat)
{
	if (slowdown_gap && tp->tcp_mstamp >= ledbat->next_slowdown_us) {
		begin_slowdown(tp, ledbat);
	} else if (is_round_over(ledbat, tp)) {
		end_of_round(tp, ledbat);
		begin_round(ledbat, tp);
	}
}

/* Outside a slowdown: slow start below the threshold, avoidance from there on. */
static void run(struct tcp_sock *tp, struct ledbatpp *ledbat, u32 acked)
{
	if (!is_below_threshold(tp)) {
		if (ledbat->stage == PHASE_SLOW_START)
			end_first_slow_start(ledbat, tp);
		avoid(tp, ledbat);
		return;
	}
	slow_start(tp, ledbat, acked);
}

static void update_phase(struct ledbatpp *ledbat, const struct tcp_sock *tp)
{
	const bool is_avoidance = ledbat->stage == PHASE_AVOIDANCE;

	ledbat->phase = is_avoidance && is_below_threshold(tp) ? PHASE_SLOW_START : ledbat->stage;
}

/* Section 4.1: "LEDBAT++ sender limits the initial window to 2 packets". */
CC_OP(void, ledbatpp_init, struct sock *sk)
{
	struct ledbatpp *ledbat = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	__builtin_memset(ledbat, 0, sizeof(*ledbat));
	__builtin_memset(ledbat->base_us, 0xff, sizeof(ledbat->base_us));
	__builtin_memset(ledbat->recent_us, 0xff, sizeof(ledbat->recent_us));
	ledbat->stage = PHASE_SLOW_START;
	ledbat->minute = (u32)(tp->tcp_mstamp / US_PER_MINUTE);
	begin_round(ledbat, tp);
	if (is_unused(tp))
		set_cwnd(tp, min(tp->snd_cwnd, LEAST_CWND));
	update_phase(ledbat, tp);
}

CC_OP(void, ledbatpp_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct ledbatpp *ledbat = inet_csk_ca(sk);
	const u32 minute = (u32)(tcp_sk(sk)->tcp_mstamp / US_PER_MINUTE);

	if (sample->rtt_us < 0)
		return;
	if (minute != ledbat->minute) {
		shift(ledbat->base_us, HISTORY);
		ledbat->minute = minute;
	}
	shift(ledbat->recent_us, FILTER);
	ledbat->recent_us[0] = max((u32)sample->rtt_us, 1u);
	ledbat->base_us[0] = min(ledbat->base_us[0], ledbat->recent_us[0]);
}

CC_OP(void, ledbatpp_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct ledbatpp *ledbat = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	ledbat->delay_us = queueing_delay_us(ledbat);
	ledbat->last_ack = coarse_time(tp->tcp_mstamp);
	if (ledbat->stage == PHASE_SLOWDOWN)
		hold(tp, ledbat);
	else if (ledbat->stage == PHASE_RAMP_UP)
		ramp_up(tp, ledbat, acked);
	else
		run(tp, ledbat, acked);
	update_phase(ledbat, tp);
}

CC_OP(u32, ledbatpp_ssthresh, struct sock *sk)
{
	struct ledbatpp *ledbat = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	ledbat->parts = 0;
	if (ledbat->stage == PHASE_SLOWDOWN) {
		ledbat->goal = half_window(ledbat->goal);
		return LEAST_CWND;
	}
	if (ledbat->stage == PHASE_SLOW_START)
		end_first_slow_start(ledbat, tp);
	return reno_ssthresh(tp);
}

/* A time without anything in flight does not count into the duration of a slowdown. */
static void skip_pause(struct sock *sk)
{
	struct ledbatpp *ledbat = inet_csk_ca(sk);
	const u64 now_us = tcp_sk(sk)->tcp_mstamp;
	const u64 pause_us = (u64)(coarse_time(now_us) - ledbat->last_ack) << COARSE_SHIFT;

	ledbat->slowdown_start_us = min(ledbat->slowdown_start_us + pause_us, now_us);
}

CC_OP(void, ledbatpp_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_TX_START)
		skip_pause(sk);
}

CC_OP(void, ledbatpp_cwnd_event_tx_start, struct sock *sk)
{
	skip_pause(sk);
}

CC_OP(void, ledbatpp_set_state, struct sock *sk, u8 new_state)
{
	update_reduction_phase(sk, new_state);
}

/* In a slowdown the window stays. */
CC_OP(u32, ledbatpp_undo_cwnd, struct sock *sk)
{
	const struct ledbatpp *ledbat = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	return ledbat->stage == PHASE_SLOWDOWN ? tp->snd_cwnd : reno_undo_cwnd(tp);
}

ALGORITHM(ledbatpp, "LEDBAT++: background transfers that yield to all other traffic, by the queueing delay",
	  "draft-irtf-iccrg-ledbat-plus-plus, sections 4.1 to 4.5") = {
	.init = (void *)ledbatpp_init,
	.pkts_acked = (void *)ledbatpp_pkts_acked,
	.cong_avoid = (void *)ledbatpp_cong_avoid,
	.ssthresh = (void *)ledbatpp_ssthresh,
	.cwnd_event = (void *)ledbatpp_cwnd_event,
	.cwnd_event_tx_start = (void *)ledbatpp_cwnd_event_tx_start,
	.set_state = (void *)ledbatpp_set_state,
	.undo_cwnd = (void *)ledbatpp_undo_cwnd,
	.name = "ledbatpp",
};
