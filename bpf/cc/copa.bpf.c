// SPDX-License-Identifier: GPL-2.0-only
/*
 * Copa: keeps two packets in the queue, and more only where others fill it.
 *
 * Source
 *   V. Arun, H. Balakrishnan, "Copa: Practical Delay-Based Congestion Control for the Internet", USENIX NSDI 2018, and its
 *   corrected version at web.mit.edu/copa: sections 2.1, 2.2 and 3. Sentences of these sections were compared as other
 *   programs quote them, because no whole text could be had.
 *
 * Idea
 *   If packets arrive at random, the rate 1 / (delta dq) is the best compromise between rate and queueing delay dq. Each
 *   flow moves its window towards that rate. So all flows with one delta get equal rates, and each keeps about 1/delta
 *   packets in the queue. Every flow reacts a round trip late, so the queue swings, and it is empty once in five round
 *   trips. If it is not, another flow fills it. Then delta follows Reno's rule until the queue is empty again.
 *
 * Equations
 *   lowest RTT        RTTmin = min over 10 s                                                  2.1
 *   standing RTT      RTTstanding = min over srtt / 2                                         2.1
 *   queueing delay    dq = RTTstanding - RTTmin                                               2.1, equation 2
 *   target rate       lambda_t = 1 / (delta dq)                                               1, equation 1
 *   each packet       cwnd / RTTstanding <= lambda_t: cwnd += v / (delta cwnd)                2.1, step 3
 *                     else cwnd -= v / (delta cwnd)
 *   velocity          v = 1; doubles each RTT once the window has moved one way for 3 RTTs    2.1, step 4
 *   slow start        doubles each RTT until the rate exceeds lambda_t                        2.1
 *   pacing            2 cwnd / RTTstanding                                                    2.1
 *   nearly empty      dq <= 0.1 (RTTmax - RTTmin), RTTmax = max over 4 RTTs                   2.2
 *   default mode      nearly empty in the last 5 RTTs: delta = 0.5                            2.2
 *   competitive mode  otherwise: 1/delta += 1 each RTT, halved at a loss, at least 2          2.2
 *
 * Units
 *   Windows in packets, with a fraction in 2^-32; 1/delta in 1/1024 packets; RTTs in us; shares in 1/1024.
 *
 * Life
 *   slow start --(rate > target, or a loss)--> default <--(nearly empty)--> competitive. Timeout -> slow start up to half
 *   of the window of before. A recovery changes neither window nor mode.
 *
 * Differs
 *   1. RTTs are the kernel's: one for each ACK, of the packet sent last among those it acknowledges. RTTmin is that of
 *      full packets. A small one takes the bottleneck less time, up to a packet's time, which is half of dq's target.
 *   2. The rate of step 3 divides the window by an RTT of packets that left a round trip ago. So the window is that of
 *      their time, which section 3 assumes too: as much has been delivered since. With the present window, the queue
 *      stops swinging where the packets of all flows in it, the sum of 1/delta, are not few beside those on the path. Then
 *      the competitive mode never ends, although only Copa flows are left. present_window = 1 does as the text says.
 *   3. In the default mode the queue is nearly empty too while less than 1.5 packets of the flow are in it. The paper's
 *      tenth is half a packet there, 0.25 / delta, and its queue is no number of whole packets. But each packet waits for
 *      the one before it in its pair, because an ACK releases two. A flow beside one that fills the queue has 1/delta = 2
 *      in it. The value was chosen by comparing 0, 1, 1.25, 1.5 and 1.75. empty_queue = 0 is the paper's rule alone. A
 *      delay equal to the tenth is nearly empty, so no delay is too.
 *   4. "Once per window" is a round of packets, and "the last 5 RTTs" are five whole rounds without an empty queue. RTTmax
 *      is that of this round and three before. The minima of Nichols' filter may be of a window a quarter shorter.
 *   5. The direction has "remained the same for three RTTs" in the fourth round that moves one way. A round without
 *      movement ends it. The paper is silent on a target crossed within a round at v > 1: v stays until the round ends,
 *      which takes back some of what was too much, and then is 1, whatever the round's direction. Otherwise the window
 *      may swing between nothing and twice the path for good.
 *   6. A packet acknowledged moves the window by a packet at most. Where v / delta exceeds the window, v stops growing.
 *   7. The paper leaves the constants of AIMD open. 1/delta grows by a packet and is halved, as in the authors' genericCC,
 *      and once in a recovery. It does not grow in a recovery. A congestion mark counts as a loss.
 *   8. Slow start adds a packet for each acknowledged, and has the present window's rate. A loss ends it, and so does a
 *      threshold that the kernel remembers of the destination. After a timeout it begins anew.
 *   9. The paper names no least window. It is 2 packets, as in genericCC.
 *   10. In the default mode losses and marks leave the window alone (5.4: "largely insensitive to stochastic loss"). But it
 *      does not grow after a round in which over a tenth of the packets were lost, for which the authors' ccp_copa has a
 *      mode of its own. A policer that shows no delay would see an ever larger window.
 *   11. The window grows only while it limits the sender, and shrinks always. A pause leaves it as it is. RTTmin is 10 s
 *      old after it, and starts anew.
 *
 * Kernel
 *   Works the same on every supported kernel, and needs no qdisc: TCP's own timer paces, or fq where it is installed.
 *   Segmentation offload sends bursts of a millisecond, and merging at the receiver acknowledges them at once. Where these
 *   bursts have more than two packets, Copa's queue is that much longer.
 */
/* proved at precision 1: at that of the others, EVA does not end within 200 s */
#include "tccc.bpf.h"
#include "pacing.bpf.h"

TUNABLE(u32, queue_pkts, 2, 1, 1024, "packets",
	"1/delta of the default mode, a flow's packets in the queue: the paper's");
TUNABLE(u8, competitive_mode, 1, 0, 1, "on or off",
	"grow 1/delta where others fill the queue; off: always the default mode");
TUNABLE(u8, mode_rounds, 5, 1, 50, "RTTs", "without an empty queue before the competitive mode: the paper's");
TUNABLE(u32, empty_share, 102, 0, 1024, "1/1024",
	"of the recent range of RTTs, below which the queue is empty: the paper's 10 %");
TUNABLE(u32, empty_queue, 1536, 0, 16384, "1/1024 packets",
	"of the flow's in the queue, below which it is empty in the default mode too; 0: the paper's rule alone");
TUNABLE(u32, min_rtt_window_ms, 10000, 1000, 600000, "ms", "age from which the lowest RTT is forgotten: the paper's");
TUNABLE(u8, velocity_rounds, 3, 1, 50, "RTTs", "in one direction before the velocity doubles: the paper's");
TUNABLE(u8, present_window, 0, 0, 1, "on or off",
	"the rate is the present window's per RTT, not that of the packets acknowledged");
TUNABLE(u32, loss_limit, 102, 0, 1024, "1/1024",
	"of the packets of a round lost, above which the window does not grow; 1024: no limit");

#define NO_RTT U32_LARGEST
/* Largest RTT that counts, 268 s. */
#define RTT_MAX_US (1l << 28)
/* RTT before the first sample. */
#define FIRST_RTT_US 1000u
#define US_PER_MS 1000u
#define LEAST_CWND 2u
#define RECENT_ROUNDS 4 /* of RTTmax */
#define ROUNDS_MAX 63	/* that full_rounds and same_rounds hold */
#define PART_SHIFT 32
#define TARGET_SHIFT 10
#define TARGET_UNIT (1u << TARGET_SHIFT)
#define TARGET_MAX (1u << 30)
#define PACED_TWICE 2

PHASES(PHASE_SLOW_START, PHASE_DEFAULT, PHASE_COMPETITIVE);

struct rtt_at {
	u32 rtt_us; /* NO_RTT: none */
	u32 time;
};

struct copa {
	u8 phase;
	u8 full_rounds : 6; /* ends of rounds since the queue was nearly empty */
	u8 is_competitive : 1;
	u8 is_up : 1;		       /* the window grew in the latest round */
	u8 same_rounds : 6;	       /* rounds in which the window moved as in the round before */
	u8 is_lossy : 1;	       /* the latest round lost too many packets for growth */
	u8 is_lowest_small : 1;	       /* RTTmin is that of packets smaller than the MSS */
	u8 doublings : 5;	       /* of the velocity, v = 2^doublings */
	u8 is_reversed : 1;	       /* the rate crossed the target in this round, and v > 1 */
	u32 parts;		       /* of a packet, beside the whole packets of the window, 2^-32 */
	u32 target;		       /* 1/delta, 1/1024 packets */
	u32 prior_target;	       /* before the latest loss */
	u32 round_end;		       /* packets delivered when the round began, cumulative */
	u32 round_lost;		       /* packets lost when the round began, cumulative */
	u32 acked_seq;		       /* snd_una at the latest ACK */
	u32 highest_us[RECENT_ROUNDS]; /* RTT of each round, the present one first; 0: none */
	u64 round_window;	       /* window when the round began, 2^-32 packets */
	struct rtt_at lowest[3];       /* RTTmin first; time in ms */
	struct rtt_at standing[3];     /* RTTstanding first; time in us */
};
STATE_FITS(struct copa);

/* ---- Round-trip times ---- */

static void drop_oldest(struct rtt_at *best, struct rtt_at sample)
{
	best[0] = best[1];
	best[1] = best[2];
	best[2] = sample;
}

/*
 * The lowest RTT of a window of time: Kathleen Nichols' three best samples, as lib/win_minmax.c. Error: the window may be
 * a quarter shorter. A time wraps: after a pause of that length, an old sample may count once more.
 */
static void add_rtt(struct rtt_at *best, struct rtt_at sample, u32 window)
{
	const u32 age = sample.time - best[0].time;

	if (sample.rtt_us <= best[0].rtt_us || sample.time - best[2].time > window) {
		best[0] = best[1] = best[2] = sample;
		return;
	}
	if (sample.rtt_us <= best[1].rtt_us)
		best[1] = best[2] = sample;
	else if (sample.rtt_us <= best[2].rtt_us)
		best[2] = sample;
	if (age > window) {
		drop_oldest(best, sample);
		if (sample.time - best[0].time > window)
			drop_oldest(best, sample);
	} else if (best[1].time == best[0].time && age > window / 4) {
		best[1] = best[2] = sample;
	} else if (best[2].time == best[1].time && age > window / 2) {
		best[2] = sample;
	}
}

/*
 * Whether this ACK is of packets smaller than the MSS. Their RTT lacks part of the time that the bottleneck needs for
 * a packet. An eighth less than the MSS still counts as full: options take it. An ACK out of sequence does not tell.
 */
static bool acks_small_packets(struct copa *copa, const struct tcp_sock *tp, u32 acked)
{
	const u32 bytes = tp->snd_una - copa->acked_seq;

	copa->acked_seq = tp->snd_una;
	if (!bytes)
		return copa->is_lowest_small;
	return (u64)bytes * 8 < (u64)acked * tp->mss_cache * 7;
}

/* Small packets give RTTmin only while there are no others. */
static void update_lowest(struct copa *copa, struct rtt_at sample, bool is_small)
{
	const bool is_old = sample.time - copa->lowest[2].time > min_rtt_window_ms;

	if (is_small && !copa->is_lowest_small && !is_old)
		return;
	if (!is_small && copa->is_lowest_small)
		copa->lowest[0].rtt_us = NO_RTT;
	copa->is_lowest_small = is_small;
	add_rtt(copa->lowest, sample, min_rtt_window_ms);
}

static void update_rtts(struct copa *copa, const struct tcp_sock *tp, const struct rate_sample *rs)
{
	const bool is_small = acks_small_packets(copa, tp, rs->acked_sacked);
	struct rtt_at sample;

	if (rs->rtt_us < 0)
		return;
	sample.rtt_us = (u32)min(max(rs->rtt_us, 1l), RTT_MAX_US);
	copa->highest_us[0] = max(copa->highest_us[0], sample.rtt_us);
	sample.time = (u32)(tp->tcp_mstamp / US_PER_MS);
	update_lowest(copa, sample, is_small);
	/* tau = srtt / 2. */
	sample.time = (u32)tp->tcp_mstamp;
	add_rtt(copa->standing, sample, tp->srtt_us >> (SRTT_SHIFT + 1));
}

static u32 standing_rtt_us(const struct copa *copa)
{
	return copa->standing[0].rtt_us;
}

/* dq = RTTstanding - RTTmin  equation 2. us */
static u32 queueing_delay_us(const struct copa *copa)
{
	const u32 lowest_us = copa->lowest[0].rtt_us, standing_us = standing_rtt_us(copa);

	return standing_us > lowest_us ? standing_us - lowest_us : 0;
}

/* RTTmax - RTTmin. us */
static u32 rtt_range_us(const struct copa *copa)
{
	u32 highest_us = 0;

	for (u32 i = 0; i < RECENT_ROUNDS; i++)
		highest_us = max(highest_us, copa->highest_us[i]);
	return highest_us > copa->lowest[0].rtt_us ? highest_us - copa->lowest[0].rtt_us : 0;
}

/* ---- Rate and target ---- */

/*
 * The window in which the acknowledged packets left: as much has been delivered since. A sample without it, and slow
 * start, have the present window.
 */
static u32 sent_window(const struct tcp_sock *tp, const struct rate_sample *rs)
{
	if (rs->delivered <= 0 || present_window || in_slow_start(tp))
		return tp->snd_cwnd;
	return (u32)rs->delivered;
}

/* cwnd / RTTstanding > lambda_t = 1 / (delta dq)  2.1, so cwnd dq > RTTstanding / delta. Range: 1/delta below 2^20. */
static bool is_above_target(const struct copa *copa, u32 window)
{
	return (u64)window * queueing_delay_us(copa) > (u64)copa->target * standing_rtt_us(copa) >> TARGET_SHIFT;
}

/*
 * dq <= 0.1 (RTTmax - RTTmin)  2.2. In the default mode also cwnd dq / RTTstanding < empty_queue: the flow's own packets in
 * the queue.
 */
static bool is_nearly_empty(const struct copa *copa, u32 window)
{
	if (queueing_delay_us(copa) <= share_of(rtt_range_us(copa), empty_share))
		return true;
	return !copa->is_competitive &&
	       (u64)window * queueing_delay_us(copa) < (u64)empty_queue * standing_rtt_us(copa) >> TARGET_SHIFT;
}

static u32 default_target(void)
{
	return queue_pkts << TARGET_SHIFT;
}

/* ---- Rounds ---- */

/* 2^-32 packets */
static u64 window_of(const struct copa *copa, const struct tcp_sock *tp)
{
	return ((u64)tp->snd_cwnd << PART_SHIFT) + copa->parts;
}

static void begin_round(struct copa *copa, const struct tcp_sock *tp)
{
	copa->round_end = tp->delivered;
	copa->round_lost = tp->lost;
	copa->round_window = window_of(copa, tp);
}

/* v / delta, 1/1024 packets. Range: any 1/delta and v. */
static u64 stride_of(const struct copa *copa)
{
	return (u64)copa->target << copa->doublings;
}

static void reset_velocity(struct copa *copa)
{
	copa->doublings = 0;
	copa->same_rounds = 0;
	copa->is_reversed = 0;
}

/*
 * 2.1, step 4. The window of now is compared with that of a round ago. The velocity doubles from the fourth round in one
 * direction on: it has then "remained the same for three RTTs". At v / delta = cwnd a round doubles the window, so v stops.
 */
static void update_velocity(struct copa *copa, const struct tcp_sock *tp)
{
	const u64 window = window_of(copa, tp);
	const bool is_up = window > copa->round_window;
	const bool is_same = is_up == copa->is_up && window != copa->round_window;

	copa->is_up = is_up;
	if (!is_same || copa->is_reversed || in_slow_start(tp)) {
		reset_velocity(copa);
		return;
	}
	copa->same_rounds = min(copa->same_rounds + 1, ROUNDS_MAX);
	if (copa->same_rounds >= velocity_rounds && stride_of(copa) < (u64)tp->snd_cwnd << TARGET_SHIFT)
		copa->doublings++;
}

/* 1/delta += 1 for a round without loss  2.2, as Reno's window. */
static void raise_target(struct sock *sk)
{
	struct copa *copa = inet_csk_ca(sk);

	if (copa->is_competitive && ca_state_of(sk) < TCP_CA_CWR && is_cwnd_limited(tcp_sk(sk)))
		copa->target = min(copa->target + TARGET_UNIT, TARGET_MAX);
}

static void end_round(struct sock *sk)
{
	struct copa *copa = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);
	const u32 lost = tp->lost - copa->round_lost, delivered = tp->delivered - copa->round_end;

	copa->is_lossy = ((u64)lost << SHARE_SHIFT) > ((u64)lost + delivered) * loss_limit;
	copa->full_rounds = min(copa->full_rounds + 1, ROUNDS_MAX);
	for (u32 i = RECENT_ROUNDS - 1; i > 0; i--)
		copa->highest_us[i] = copa->highest_us[i - 1];
	copa->highest_us[0] = 0;
	update_velocity(copa, tp);
	raise_target(sk);
	begin_round(copa, tp);
}

/* 2.2. The round in which the queue was nearly empty is not one of the five. */
static void update_mode(struct copa *copa, u32 window)
{
	if (is_nearly_empty(copa, window))
		copa->full_rounds = 0;
	copa->is_competitive = competitive_mode && copa->full_rounds > mode_rounds;
	if (!copa->is_competitive)
		copa->target = copa->prior_target = default_target();
}

/* ---- The window ---- */

/*
 * acked v / (delta cwnd)  2.1, in 2^-32 packets, at most a packet for each packet acknowledged. Range: acked below 2^31,
 * windows from 1 to 2^31 packets. Error: the window counts to 1/1024 packets; acked / 2^32 are rounded down.
 */
static u64 step_parts(const struct copa *copa, const struct tcp_sock *tp, u32 acked)
{
	const u64 window = window_of(copa, tp) >> (PART_SHIFT - TARGET_SHIFT);
	const u64 stride = min(stride_of(copa), window) << (PART_SHIFT - TARGET_SHIFT);
	const u64 ratio = (stride / window << TARGET_SHIFT) + (stride % window << TARGET_SHIFT) / window;

	return min(acked, (u32)TCP_INFINITE_SSTHRESH) * ratio;
}

static void set_window(struct copa *copa, struct tcp_sock *tp, u64 window)
{
	tp->snd_cwnd = (u32)(window >> PART_SHIFT);
	copa->parts = (u32)window;
}

/* Range: both below 2^63. */
static void grow(struct copa *copa, struct tcp_sock *tp, u64 parts)
{
	const u64 window = window_of(copa, tp), most = (u64)tp->snd_cwnd_clamp << PART_SHIFT;
	const u64 next = min(window + parts, most);

	set_window(copa, tp, max(next, window));
}

static void shrink(struct copa *copa, struct tcp_sock *tp, u64 parts)
{
	const u64 window = window_of(copa, tp), least = min(window, (u64)LEAST_CWND << PART_SHIFT);
	const u64 next = window > parts ? window - parts : 0;

	set_window(copa, tp, max(next, least));
}

static void slow_start(struct tcp_sock *tp, u32 acked)
{
	const u32 most = min(tp->snd_ssthresh, tp->snd_cwnd_clamp);
	const u32 next = (u32)min((u64)tp->snd_cwnd + acked, (u64)most);

	tp->snd_cwnd = max(next, tp->snd_cwnd);
}

static void update_window(struct copa *copa, struct tcp_sock *tp, u32 acked, bool is_above)
{
	const bool may_grow = is_cwnd_limited(tp) && !copa->is_lossy;

	if (copa->doublings && copa->is_up == is_above)
		copa->is_reversed = 1;
	if (is_above)
		shrink(copa, tp, in_slow_start(tp) ? 0 : step_parts(copa, tp, acked));
	else if (may_grow && in_slow_start(tp))
		slow_start(tp, acked);
	else if (may_grow)
		grow(copa, tp, step_parts(copa, tp, acked));
	if (is_above || !in_slow_start(tp))
		tp->snd_ssthresh = ssthresh_of(min(tp->snd_ssthresh, tp->snd_cwnd));
}

/* 2 cwnd / RTTstanding  2.1. Bytes per second; before the first sample with the RTT of the handshake. */
static void pace(struct sock *sk)
{
	const struct copa *copa = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 rtt_us = standing_rtt_us(copa);
	u64 rate;

	if (rtt_us == NO_RTT)
		rtt_us = tp->srtt_us ? min(tp->srtt_us >> SRTT_SHIFT, (u32)RTT_MAX_US) : FIRST_RTT_US;
	rate = PACED_TWICE * paced_rate(tp->snd_cwnd, tp->mss_cache, max(rtt_us, 1u) << SRTT_SHIFT);
	sk->sk_pacing_rate = min(rate, (u64)sk->sk_max_pacing_rate);
}

static void update_phase(struct copa *copa, const struct tcp_sock *tp)
{
	if (in_slow_start(tp))
		copa->phase = PHASE_SLOW_START;
	else
		copa->phase = copa->is_competitive ? PHASE_COMPETITIVE : PHASE_DEFAULT;
}

/* ---- Callbacks ---- */

static void copa_control(struct sock *sk, const struct rate_sample *rs)
{
	struct copa *copa = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	u32 window;

	update_rtts(copa, tp, rs);
	if (rs->delivered >= 0 && !before(rs->prior_delivered, copa->round_end))
		end_round(sk);
	window = sent_window(tp, rs);
	if (standing_rtt_us(copa) != NO_RTT)
		update_mode(copa, window);
	if (rs->acked_sacked)
		update_window(copa, tp, rs->acked_sacked, is_above_target(copa, window));
	update_phase(copa, tp);
	pace(sk);
}

CONG_CONTROL_BOTH(copa, copa_control)

CC_OP(void, copa_init, struct sock *sk)
{
	struct copa *copa = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	__builtin_memset(copa, 0, sizeof(*copa));
	for (u32 i = 0; i < 3; i++)
		copa->lowest[i].rtt_us = copa->standing[i].rtt_us = NO_RTT;
	copa->target = copa->prior_target = default_target();
	copa->is_up = 1;
	copa->is_lowest_small = 1;
	copa->acked_seq = tp->snd_una;
	begin_round(copa, tp);
	update_phase(copa, tp);
	set_pacing_on(sk);
	pace(sk);
}

/* At a loss, a mark or a timeout. Only a timeout uses the threshold, because the window stays. */
CC_OP(u32, copa_ssthresh, struct sock *sk)
{
	struct copa *copa = inet_csk_ca(sk);

	copa->prior_target = copa->target;
	copa->target = max(copa->target / 2, default_target());
	return reno_ssthresh(tcp_sk(sk));
}

/* A timeout ends the round. Its losses do not count against slow start. */
CC_OP(void, copa_set_state, struct sock *sk, u8 new_state)
{
	struct copa *copa = inet_csk_ca(sk);

	if (new_state != TCP_CA_Loss)
		return;
	copa->parts = 0;
	copa->is_lossy = 0;
	reset_velocity(copa);
	begin_round(copa, tcp_sk(sk));
}

CC_OP(u32, copa_undo_cwnd, struct sock *sk)
{
	struct copa *copa = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	copa->target = max(copa->target, copa->prior_target);
	return ca_state_of(sk) == TCP_CA_Loss ? reno_undo_cwnd(tp) : tp->snd_cwnd;
}

/* Packets leave one by one as long as the kernel's millisecond of data is not more. */
CC_OP(u32, copa_min_tso_segs, struct sock *sk)
{
	return 1;
}

/* The send buffer holds three windows, because the window may grow during a recovery. */
CC_OP(u32, copa_sndbuf_expand, struct sock *sk)
{
	return 3;
}

ALGORITHM(copa, "Copa: two packets in the queue by delay, more only where others fill it",
	  "Arun and Balakrishnan, NSDI 2018") = {
	.init = (void *)copa_init,
	.cong_control = (void *)copa_cong_control,
	.cong_control___2 = (void *)copa_cong_control_2,
	.ssthresh = (void *)copa_ssthresh,
	.set_state = (void *)copa_set_state,
	.undo_cwnd = (void *)copa_undo_cwnd,
	.min_tso_segs = (void *)copa_min_tso_segs,
	.sndbuf_expand = (void *)copa_sndbuf_expand,
	.name = "copa",
};
