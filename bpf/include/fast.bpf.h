/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The FAST core that fast and fastfit share: an averaged RTT, and once a round trip a step towards the window that
 * keeps alpha packets queued.
 *
 * An algorithm's file includes this, keeps a struct fast_path in its state and sets alpha.
 */
#ifndef TCCC_FAST_BPF_H
#define TCCC_FAST_BPF_H

#include "tccc.bpf.h"
#include "delay.bpf.h"
#include "phase.bpf.h"

/* Averages are in 2^-16 us. With a weight of 3 / 2^31 the sum of two still fits 64 bits. */
#define RTT_SHIFT 16
/* Weights of an average are in 2^-16. */
#define WEIGHT_SHIFT 16
#define WEIGHT_UNIT (1u << WEIGHT_SHIFT)
/* eta = min(3 / w, 1 / 4): Wei et al. 2006, section III.B. */
#define WEIGHT_PACKETS 3u
#define WEIGHT_MOST (WEIGHT_UNIT / 4)
/* baseRTT / RTT in 2^-30. */
#define RATIO_SHIFT 30

TUNABLE(u32, gain, 512, 1, 1024, "1/1024",
	"gamma, share of the distance to the wanted window that a round covers: 0.5, as in ns-2");

struct fast_path {
	u8 is_disturbed; /* by a reduction, until a packet sent after it has arrived; RTTs do not count */
	u32 weight;	 /* eta of this round, 2^-16 */
	u32 alpha;	 /* packets to keep in the queue */
	u64 avg_rtt;	 /* averaged RTT, 2^-16 us, 0: no sample yet */
	struct delay delay;
};

/* Below 2^31 us, 1 us and more. */
static __always_inline u32 average_rtt_us(const struct fast_path *path)
{
	const u32 avg_us = (u32)(path->avg_rtt >> RTT_SHIFT);

	return max(avg_us, 1u);
}

/* The weight is computed once a round, so that an ACK needs no division. */
static __always_inline void update_weight(const struct tcp_sock *tp, struct fast_path *path)
{
	const u32 weight = (WEIGHT_PACKETS << WEIGHT_SHIFT) / max(tp->snd_cwnd, 1u);

	path->weight = min(max(weight, 1u), WEIGHT_MOST);
}

/*
 * avgRTT = (1 - eta) avgRTT + eta RTT: section III.B. Range: RTTs below 2^31 us: 47 and 16 bits. Error: it stays below
 * the exact average by 2^-16 us / eta at most, 0.3 ms at a window of 2^16 packets, 5 us at 1000.
 */
static __always_inline void update_average(struct fast_path *path, const struct ack_sample *sample)
{
	u64 rtt;

	if (path->is_disturbed)
		return;
	update_delay(&path->delay, sample);
	if (sample->rtt_us < 0)
		return;
	rtt = (u64)max((u32)sample->rtt_us, 1u) << RTT_SHIFT;
	if (!path->avg_rtt)
		path->avg_rtt = rtt;
	else
		path->avg_rtt = (path->avg_rtt * (WEIGHT_UNIT - path->weight) + rtt * path->weight) >> WEIGHT_SHIFT;
}

/* Packets of the window that are queued, by the averaged RTT. */
static __always_inline u32 averaged_queue(u32 cwnd, const struct fast_path *path)
{
	return queued_packets(cwnd, path->delay.base_rtt_us, average_rtt_us(path));
}

/*
 * min(2 w, (1 - gamma) w + gamma (baseRTT / RTT w + alpha)): section III.B, eq. (4).
 * Range: windows and alpha below 2^31. Error: half a packet of rounding and gamma w 2^-30.
 */
static __always_inline u32 equation_window(u32 cwnd, const struct fast_path *path)
{
	const u32 base_us = path->delay.base_rtt_us, avg_us = average_rtt_us(path), step = min(gain, SHARE_UNIT);
	const u64 ratio = base_us < avg_us ? ((u64)base_us << RATIO_SHIFT) / avg_us : 1ull << RATIO_SHIFT;
	const u64 wanted = ((cwnd * ratio) >> (RATIO_SHIFT - SHARE_SHIFT)) + ((u64)path->alpha << SHARE_SHIFT);
	const u64 kept = (u64)cwnd << SHARE_SHIFT;
	const u64 next =
		(kept * (SHARE_UNIT - step) + wanted * step + (1u << (2 * SHARE_SHIFT - 1))) >> (2 * SHARE_SHIFT);

	return (u32)min(next, 2ull * cwnd);
}

/* Call in init. */
static __always_inline void begin_fast(const struct tcp_sock *tp, struct fast_path *path, u32 alpha)
{
	path->is_disturbed = 0;
	path->alpha = alpha;
	path->avg_rtt = 0;
	forget_delay(&path->delay, tp);
	update_weight(tp, path);
}

/*
 * The first packets of this round met alpha packets in the queue: w (RTT - baseRTT) >= alpha RTT. RTT is the lowest
 * of the round, which its own bursts do not lengthen.
 * Range: windows and RTTs below 2^31; base and RTT known.
 */
static __always_inline bool is_queue_standing(u32 cwnd, const struct fast_path *path)
{
	const u64 rtt_us = path->delay.round_rtt_us;

	return path->delay.samples >= ENOUGH_SAMPLES &&
	       cwnd * (rtt_us - path->delay.base_rtt_us) >= path->alpha * rtt_us;
}

static __always_inline void set_slow_start_window(struct tcp_sock *tp, const struct fast_path *path, u32 acked)
{
	if (is_queue_standing(tp->snd_cwnd, path))
		tp->snd_ssthresh = ssthresh_of(tp->snd_cwnd);
	else if (is_cwnd_limited(tp))
		tcp_slow_start(tp, acked);
}

/*
 * Call in set_state. Packets in flight during a reduction do not show the queue: if an outage held them back and its
 * timeout proves spurious, the RTT of each contains the outage. At the end of the reduction a round begins, and
 * packets sent in it count.
 */
static __always_inline void update_disturbance(const struct tcp_sock *tp, struct fast_path *path, u8 new_state)
{
	if (new_state > TCP_CA_Disorder)
		path->is_disturbed = 1;
	if (path->is_disturbed)
		begin_delay_round(&path->delay, tp);
}

/*
 * Runs slow start. Returns true at the end of a round in congestion avoidance; the caller then sets the window. Call
 * at each ACK.
 */
static __always_inline bool is_equation_due(struct tcp_sock *tp, struct fast_path *path, u32 acked)
{
	const bool has_samples = path->delay.samples;

	if (in_slow_start(tp))
		set_slow_start_window(tp, path, acked);
	if (!is_delay_round_over(&path->delay, tp))
		return false;
	path->is_disturbed = 0;
	begin_delay_round(&path->delay, tp);
	update_weight(tp, path);
	return has_samples && !in_slow_start(tp);
}

/*
 * The window grows only while it limits the sender. ssthresh follows a window that shrinks: slow start would take the
 * window back to ssthresh.
 */
static __always_inline void set_equation_window(struct tcp_sock *tp, const struct fast_path *path)
{
	const u32 next = equation_window(tp->snd_cwnd, path);

	if (next < tp->snd_cwnd || is_cwnd_limited(tp))
		set_cwnd(tp, next);
	tp->snd_ssthresh = min(tp->snd_ssthresh, ssthresh_of(tp->snd_cwnd));
}

#endif
