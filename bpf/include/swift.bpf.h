/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What swift and mswift share: an estimate of the path from the spacing of two ACKs, and a first window computed
 * from an estimate. The headers of swift.bpf.c and mswift.bpf.c give sources and differences.
 */
#ifndef TCCC_SWIFT_BPF_H
#define TCCC_SWIFT_BPF_H

#include "tccc.bpf.h"
#include "pacing.bpf.h"

/* The kernel's TCP_INIT_CWND. */
#define KERNEL_INITIAL_WINDOW 10

/* TUNABLE shows its numbers as written. This macro expands numbers that a file defines by name. */
#define SWIFT_TUNABLE(...) TUNABLE(__VA_ARGS__)

TUNABLE(u32, initial_window, 0, 0, 10, "packets",
	"largest first burst, 0: the kernel's; the report's 4 costs a response of 5 to 10 packets one more round trip");
SWIFT_TUNABLE(u32, estimate_divisor, SWIFT_DIVISOR, 1, 8, "divisor", SWIFT_DIVISOR_REASON);
TUNABLE(u32, ack_window_max, 100, 2, 1000000, "packets",
	"largest window from the spacing of ACKs, which a burst of ACKs makes too large: RFC 3742's bound for "
	"doubling");
TUNABLE(u32, min_dt_us, 50, 1, 1000000, "us",
	"ACKs closer than this are a burst of ACKs, not a measure of the path: discarded");
TUNABLE(u8, use_acked_bytes, 0, 0, 1, "on or off",
	"count all packets of the second ACK; the report counts one, which underestimates on purpose");
TUNABLE(u32, pacing_burst, 2, 1, 8, "packets",
	"packets sent at once while paced: two per pacing event in the report, and the kernel's default");

/* Two ACKs of the initial burst. */
struct ack_pair {
	u8 acks;	   /* how many of the two have arrived */
	u32 rtt_us;	   /* RTT of the first, 0: none */
	u32 first_ack_us;  /* when the first arrived; wraps after 71 minutes, longer than the burst can take */
	u32 burst_end_seq; /* end of what was sent before the first arrived */
	u32 dt_us;	   /* between the two */
	u32 est;	   /* packets that the path seems to hold, 0: no estimate */
};

/*
 * capacity = BW RTT = packets / dt * RTT: BBN report 8339; Khalil, eq. (2) with its operands corrected. Packets,
 * floor, saturates. Range: dt of at least 1, which min_dt_us ensures.
 */
static __always_inline u32 path_capacity(u32 rtt_us, u32 dt_us, u32 packets)
{
	return (u32)min((u64)rtt_us * packets / dt_us, (u64)U32_LARGEST);
}

/*
 * Whether the burst that the estimate needs is still to come: only the handshake has happened, or so little was sent
 * that the initial window was never half full. Programs such as iperf3 choose the algorithm after a first message.
 */
static __always_inline bool is_new_connection(const struct tcp_sock *tp)
{
	const bool is_initial = in_slow_start(tp) && tp->snd_cwnd <= KERNEL_INITIAL_WINDOW;

	if (is_unused(tp))
		return true;
	return is_initial && tp->max_packets_out <= tp->snd_cwnd / 2;
}

/*
 * Whether an initial window of packets has arrived, none of them in a burst that filled the window. The application
 * then sends too little at a time for an estimate.
 */
static __always_inline bool is_past_first_window(const struct tcp_sock *tp)
{
	return tp->delivered > DELIVERED_BY_HANDSHAKE + KERNEL_INITIAL_WINDOW;
}

/* Limits the first burst to initial_window; returns the window that the kernel gave. */
static __always_inline u32 limit_first_burst(struct tcp_sock *tp)
{
	const u32 given = tp->snd_cwnd, burst = initial_window;

	if (burst)
		tp->snd_cwnd = min(given, burst);
	return given;
}

/* Gives a connection without an estimate at least the window that the kernel gave it. */
static __always_inline void give_back_window(struct tcp_sock *tp, u32 given)
{
	tp->snd_cwnd = max(tp->snd_cwnd, min(given, tp->snd_cwnd_clamp));
}

/*
 * Records an ACK of new data. Returns true when the pair is complete or can no longer become complete; est shows
 * which. The second ACK counts only for data sent before the first, because the sender spaced what it sent later.
 */
static __always_inline bool update_ack_pair(struct ack_pair *pair, const struct tcp_sock *tp, u32 rtt_us, u32 acked)
{
	const u32 now_us = (u32)tp->tcp_mstamp;

	pair->acks++;
	if (pair->acks == 1) {
		pair->rtt_us = rtt_us;
		pair->first_ack_us = now_us;
		pair->burst_end_seq = tp->snd_nxt;
		return !rtt_us || !before(tp->snd_una, pair->burst_end_seq);
	}
	if (after(tp->snd_una, pair->burst_end_seq))
		return true;
	pair->dt_us = now_us - pair->first_ack_us;
	if (pair->dt_us >= min_dt_us)
		pair->est = path_capacity(pair->rtt_us, pair->dt_us, use_acked_bytes ? acked : 1);
	return true;
}

/* The window from the spacing of ACKs: est / divisor, at most ack_window_max. */
static __always_inline u32 window_from_acks(const struct ack_pair *pair, u32 divisor)
{
	return min(pair->est / max(divisor, 1u), ack_window_max);
}

/*
 * The window for an estimate: at least what slow start has reached, at most the clamp and a threshold that the
 * kernel knows.
 */
static __always_inline u32 first_window(const struct tcp_sock *tp, u32 estimate, u32 slow_start)
{
	return max(min(estimate, min(tp->snd_cwnd_clamp, tp->snd_ssthresh)), slow_start);
}

#endif
