/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What swift and mswift share: an estimate of the path from the spacing of two ACKs, and a first window made from an
 * estimate. Sources and differences: swift.bpf.c and mswift.bpf.c.
 */
#ifndef TCCC_SWIFT_BPF_H
#define TCCC_SWIFT_BPF_H

#include "tccc.bpf.h"
#include "pacing.bpf.h"

/* The kernel's TCP_INIT_CWND. */
#define KERNEL_INITIAL_WINDOW 10

TUNABLE(u32, initial_window, 4, 2, 10, "packets",
	"window at the start: the report's burst of four; a smaller one of the kernel or a scenario stays");
TUNABLE(u32, g, 2, 1, 8, "divisor",
	"the window is the ACK estimate over g: the report's tables use 2 and 8, 1 is a test");
TUNABLE(u32, min_dt_us, 50, 1, 1000000, "us",
	"ACKs closer than this are a burst of ACKs, not a measure of the path: discarded");
TUNABLE(u8, use_acked_bytes, 0, 0, 1, "on or off",
	"count all packets of the second ACK; the report counts one, which underestimates on purpose");
TUNABLE(u32, pacing_burst, 2, 1, 8, "packets",
	"packets sent at once while paced: the report's two a pacing event, and the kernel's default");

/* Two ACKs of the initial burst. */
struct ack_pair {
	u8 acks;	   /* how many of the two have arrived */
	u32 rtt_us;	   /* RTT of the first, 0: none */
	u32 first_ack_us;  /* when the first arrived; wraps after 71 minutes, longer than the burst can take */
	u32 burst_end_seq; /* end of what was sent before the first arrived */
	u32 dt_us;	   /* between the two */
	u32 est;	   /* packets that the path holds, 0: no estimate */
};

/*
 * capacity = BW RTT = packets / dt * RTT: BBN report 8339; Khalil, eq. (2) with its operands set right. Packets, floor,
 * saturates. Range: dt of at least 1, as min_dt_us makes it.
 */
static __always_inline u32 path_capacity(u32 rtt_us, u32 dt_us, u32 packets)
{
	return (u32)min((u64)rtt_us * packets / dt_us, (u64)U32_LARGEST);
}

/*
 * The burst that the estimate needs is still to come: nothing but the handshake has happened, or so little that the
 * initial window was never half full. Programs such as iperf3 choose the algorithm after a first message.
 */
static __always_inline bool is_new_connection(const struct tcp_sock *tp)
{
	const bool is_initial = in_slow_start(tp) && tp->snd_cwnd <= KERNEL_INITIAL_WINDOW;

	if (is_unused(tp))
		return true;
	return is_initial && tp->max_packets_out <= tp->snd_cwnd / 2;
}

/*
 * Takes an ACK of new data in; true when the pair is complete, or will never be: est says which.
 * The second ACK counts only for data sent before the first: what came later was spaced by the sender.
 */
static __always_inline bool update_ack_pair(struct ack_pair *pair, const struct tcp_sock *tp, u32 rtt_us, u32 acked)
{
	const u32 now_us = (u32)tp->tcp_mstamp;

	pair->acks++;
	if (pair->acks == 1) {
		pair->rtt_us = rtt_us;
		pair->first_ack_us = now_us;
		pair->burst_end_seq = tp->snd_nxt;
		return !rtt_us;
	}
	if (after(tp->snd_una, pair->burst_end_seq))
		return true;
	pair->dt_us = now_us - pair->first_ack_us;
	if (pair->dt_us >= min_dt_us)
		pair->est = path_capacity(pair->rtt_us, pair->dt_us, use_acked_bytes ? acked : 1);
	return true;
}

/* The window for an estimate: not below what slow start has, nor above the clamp or a threshold the kernel knows. */
static __always_inline u32 first_window(const struct tcp_sock *tp, u32 estimate, u32 slow_start)
{
	return max(min(estimate, min(tp->snd_cwnd_clamp, tp->snd_ssthresh)), slow_start);
}

#endif
