/* SPDX-License-Identifier: GPL-2.0-only */
/* Pacing through the socket's own pacing rate, for the algorithms that space a window over a round trip. */
#ifndef TCCC_PACING_BPF_H
#define TCCC_PACING_BPF_H

#include "tccc.bpf.h"

/* A larger window counts as this many bytes, 2 TiB. Times 8000000 they still fit 64 bits. */
#define PACED_BYTES_MAX (1ull << 41)

/* window / RTT, bytes per second, floor. Range: any RTT from 1/8 us on; 0 where there is none. */
static __always_inline u64 paced_rate(u32 cwnd, u32 mss, u32 rtt_us_times_8)
{
	const u64 bytes = min((u64)cwnd * mss, PACED_BYTES_MAX);

	if (!rtt_us_times_8)
		return 0;
	return bytes * (US_PER_SEC << SRTT_SHIFT) / rtt_us_times_8;
}

/* Switches pacing on unless the application or the fq qdisc has done so. True if it was done here. */
static __always_inline bool set_pacing_on(struct sock *sk)
{
	if (sk->sk_pacing_status != SK_PACING_NONE)
		return false;
	sk->sk_pacing_status = SK_PACING_NEEDED;
	return true;
}

/*
 * Switches off only what was switched on here. Meanwhile the fq qdisc may do the pacing, or the application may have set
 * SO_MAX_PACING_RATE. The kernel then finds pacing on already, so its limit would end with ours.
 */
static __always_inline void set_pacing_off(struct sock *sk, bool is_ours)
{
	if (is_ours && sk->sk_pacing_status == SK_PACING_NEEDED && sk->sk_max_pacing_rate == ~0ul)
		sk->sk_pacing_status = SK_PACING_NONE;
}

/*
 * Sets a pacing rate, but never above the rate that the kernel has just set: twice the window per RTT in slow start,
 * within the application's limit.
 */
static __always_inline void set_pacing_rate(struct sock *sk, u64 rate)
{
	if (rate && rate < sk->sk_pacing_rate)
		sk->sk_pacing_rate = rate;
}

#endif
