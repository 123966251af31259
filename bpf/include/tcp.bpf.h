/* SPDX-License-Identifier: GPL-2.0-only */
/* Accessors and predicates of a TCP socket, with the names and behaviour of the kernel's include/net/tcp.h. */
#ifndef TCCC_TCP_BPF_H
#define TCCC_TCP_BPF_H

#include "kernel.bpf.h"
#include "math.bpf.h"

static __always_inline struct inet_connection_sock *inet_csk(const struct sock *sk)
{
	return (struct inet_connection_sock *)sk;
}

static __always_inline struct tcp_sock *tcp_sk(const struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

/* The 104 bytes of private state that an algorithm owns in each socket. */
static __always_inline void *inet_csk_ca(const struct sock *sk)
{
	return (void *)inet_csk(sk)->icsk_ca_priv;
}

static __always_inline u8 ca_state_of(const struct sock *sk)
{
	return BPF_CORE_READ_BITFIELD(inet_csk(sk), icsk_ca_state);
}

/* Packets that the sender believes to be in flight: neither arrived nor lost. */
static __always_inline u32 tcp_packets_in_flight(const struct tcp_sock *tp)
{
	return tp->packets_out - tp->sacked_out - tp->lost_out + tp->retrans_out;
}

/* The lowest RTT of the last five minutes, us. ~0: no sample yet. */
static __always_inline u32 tcp_min_rtt(const struct tcp_sock *tp)
{
	return tp->rtt_min.s[0].v;
}

static __always_inline bool in_slow_start(const struct tcp_sock *tp)
{
	return tp->snd_cwnd < tp->snd_ssthresh;
}

/* srtt_us is kept times 8. */
#define SRTT_SHIFT 3
/* The SYN counts as delivered. */
#define DELIVERED_BY_HANDSHAKE 1

/* Whether only the handshake has happened. */
static __always_inline bool is_unused(const struct tcp_sock *tp)
{
	return tp->delivered <= DELIVERED_BY_HANDSHAKE && !tp->packets_out;
}

/*
 * Whether the window, not the application, limits the sender. In slow start a window up to twice the packets in
 * flight counts.
 */
static __always_inline bool is_cwnd_limited(const struct tcp_sock *tp)
{
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return true;
	return in_slow_start(tp) && tp->snd_cwnd < 2 * tp->max_packets_out;
}

/* Whether a lies before b. Sequence numbers wrap. */
static __always_inline bool before(u32 a, u32 b)
{
	return (s32)(a - b) < 0;
}

static __always_inline bool after(u32 a, u32 b)
{
	return before(b, a);
}

/* The kernel's own window functions, used instead of copies. */
extern u32 tcp_slow_start(struct tcp_sock *tp, u32 acked) __ksym;
extern void tcp_cong_avoid_ai(struct tcp_sock *tp, u32 w, u32 acked) __ksym;

/*
 * The first step at every ACK of new data: RFC 5681, equation (2), doubles the window every round trip below the
 * threshold. True when congestion avoidance is next, with the acknowledged packets that remain. Never true unless
 * the window limits the sender.
 */
static __always_inline bool is_past_slow_start(struct tcp_sock *tp, u32 *acked)
{
	if (!is_cwnd_limited(tp))
		return false;
	if (!in_slow_start(tp))
		return true;
	*acked = tcp_slow_start(tp, *acked);
	return *acked;
}

/*
 * What most algorithms keep of Reno. Each name is that of the kernel's function without its prefix tcp_. RFC 5681,
 * equations (2) and (3): double the window every round trip below the threshold, otherwise add one packet.
 */
static __always_inline void reno_cong_avoid(struct tcp_sock *tp, u32 acked)
{
	if (is_past_slow_start(tp, &acked))
		tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked);
}

/* Sets the window: at least 2 packets, and at most the clamp, which may be lower. */
static __always_inline void set_cwnd(struct tcp_sock *tp, u32 packets)
{
	tp->snd_cwnd = min(max(packets, 2u), tp->snd_cwnd_clamp);
}

/*
 * cwnd += acked * rate / cwnd, the rate in 1/1024 packets per window acknowledged: as tcp_cong_avoid_ai, for rates
 * that are not a whole number of packets or of windows. The credit, in 1/1024 packets acknowledged, is the fraction
 * of a packet. Its owner clears it in ssthresh, unless the original algorithm keeps it over a reduction.
 * Range: acked up to 2^28, any rate: their product and the credit stay below 2^61. Error: none, nothing is rounded
 * away.
 */
static __always_inline void grow_per_window(struct tcp_sock *tp, u64 *credit, u32 acked, u32 rate)
{
	const u64 window = (u64)tp->snd_cwnd << SHARE_SHIFT;
	u64 grown = 0;

	if (*credit >= window) { /* collected at a larger window: one packet, as tcp_cong_avoid_ai */
		*credit = 0;
		grown = 1;
	}
	*credit += (u64)acked * rate;
	if (*credit >= window) {
		grown += *credit / window;
		*credit %= window;
	}
	if (grown)
		tp->snd_cwnd = (u32)min(tp->snd_cwnd + grown, (u64)tp->snd_cwnd_clamp);
}

/* A window as threshold: at least 2 packets, and at most the kernel's "no threshold". */
static __always_inline u32 ssthresh_of(u32 packets)
{
	return min(max(packets, 2u), (u32)TCP_INFINITE_SSTHRESH);
}

/*
 * The threshold that keeps a share of the window, in 1/1024: max(share * cwnd, 2), rounded down. Packets.
 * Range: shares below the whole, so the result is never above the kernel's "no threshold".
 */
static __always_inline u32 kept_window(u32 cwnd, u32 share)
{
	const u32 kept = share_of(cwnd, share);

	return max(kept, 2u);
}

/* RFC 5681, equation (4), with the window for the flight size. Packets, 2 and more. */
static __always_inline u32 half_window(u32 cwnd)
{
	const u32 half = cwnd >> 1;

	return max(half, 2u);
}

static __always_inline u32 reno_ssthresh(const struct tcp_sock *tp)
{
	return half_window(tp->snd_cwnd);
}

/* The window before a reduction that proved spurious. Packets. */
static __always_inline u32 reno_undo_cwnd(const struct tcp_sock *tp)
{
	return max(tp->snd_cwnd, tp->prior_cwnd);
}

#endif
