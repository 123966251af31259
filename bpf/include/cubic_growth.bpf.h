/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CUBIC in congestion avoidance: begins an epoch, reads the curve, and counts the packets acknowledged per packet of
 * growth.
 */
#ifndef TCCC_CUBIC_GROWTH_BPF_H
#define TCCC_CUBIC_GROWTH_BPF_H

#include "cubic_curve.bpf.h"

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

#endif
