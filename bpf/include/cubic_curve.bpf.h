/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CUBIC's equations: the cube root, the curve W(t), the growth that meets it, Reno's growth with the same cut, and C
 * as ERFC lowers it. They read tunables and change no state.
 */
#ifndef TCCC_CUBIC_CURVE_BPF_H
#define TCCC_CUBIC_CURVE_BPF_H

#include "cubic_state.bpf.h"

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

#endif
