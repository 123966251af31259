/* SPDX-License-Identifier: GPL-2.0-only */
/* Arithmetic that algorithms share: integers only, each with its range and error. */
#ifndef TCCC_MATH_BPF_H
#define TCCC_MATH_BPF_H

#include "kernel.bpf.h"

#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))

#define U32_LARGEST 0xffffffffu
#define US_PER_SEC 1000000ull

/* Shares of a window are fixed point: SHARE_UNIT is the whole. */
#define SHARE_SHIFT 10
#define SHARE_UNIT (1u << SHARE_SHIFT)

/* The value, but at most the largest 32-bit number. */
static __always_inline u32 saturated(u64 value)
{
	return (u32)min(value, 0xffffffffull);
}

/*
 * Fast convergence of BIC and CUBIC (RFC 9438, 4.7): cwnd (1 + kept) / 2, kept in 1/1024. This is the middle between
 * the window at a loss and what is kept of it. Range: any packets, kept up to SHARE_UNIT. Error: none, it is the floor.
 */
static __always_inline u32 converged_maximum(u32 cwnd, u32 kept)
{
	return (u32)(((u64)cwnd * (SHARE_UNIT + kept)) >> (SHARE_SHIFT + 1));
}

/*
 * floor(packets * share), share in 1/1024.
 * Range: any packets below 2^32, share up to 2^32: the product is formed in 64 bits. Error: none, it is the floor.
 */
static __always_inline u32 share_of(u32 packets, u32 share)
{
	return (u32)(((u64)packets * share) >> SHARE_SHIFT);
}

/* Bandwidths are packets per second in 1/256: 32 bits reach 16 million packets per second. */
#define BANDWIDTH_SHIFT 8
#define BANDWIDTH_UNIT (US_PER_SEC << BANDWIDTH_SHIFT)

/*
 * packets / time, in 1/256 packets/s. Range: fewer than 2^36 packets, as 2^36 BANDWIDTH_UNIT fits 64 bits; saturates;
 * a time of 1 us and more. Error: none, it is the floor.
 */
static __always_inline u32 bandwidth_of(u64 packets, u64 time_us)
{
	return (u32)min(packets * BANDWIDTH_UNIT / time_us, (u64)U32_LARGEST);
}

/* Packets that a bandwidth sends in a time. Range: any; saturates. Error: none, it is the floor. */
static __always_inline u32 packets_in(u32 bandwidth, u32 time_us)
{
	return (u32)min((u64)bandwidth * time_us / BANDWIDTH_UNIT, (u64)U32_LARGEST);
}

#endif
