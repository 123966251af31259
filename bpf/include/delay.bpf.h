/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What delay-based algorithms share: the RTTs of one round trip, the lowest RTT, and the number of queued packets
 * that follows from the two.
 *
 * A round begins with begin_delay_round and ends when the first packet sent after that is acknowledged.
 */
#ifndef TCCC_DELAY_BPF_H
#define TCCC_DELAY_BPF_H

#include "tccc.bpf.h"

#define NO_RTT U32_LARGEST
/* With fewer, all samples of a round may come from delayed ACKs. The number is that of the kernel's Vegas and YeAH. */
#define ENOUGH_SAMPLES 3

struct delay {
	u32 base_rtt_us;   /* lowest RTT since forget_delay, the propagation delay; ~0: no sample yet */
	u32 round_rtt_us;  /* lowest RTT of this round, which delayed ACKs do not lengthen; ~0: no sample yet */
	u32 samples;	   /* of this round */
	u32 round_end_seq; /* end of what was sent before this round */
	u64 round_sum_us;  /* of this round's samples */
};

static __always_inline void begin_delay_round(struct delay *delay, const struct tcp_sock *tp)
{
	delay->round_rtt_us = NO_RTT;
	delay->samples = 0;
	delay->round_sum_us = 0;
	delay->round_end_seq = tp->snd_nxt;
}

/* Forgets all RTTs: for a new connection, or after a pause, when the path may be another. */
static __always_inline void forget_delay(struct delay *delay, const struct tcp_sock *tp)
{
	delay->base_rtt_us = NO_RTT;
	begin_delay_round(delay, tp);
}

/* Records a sample. Call in pkts_acked. An RTT of 0 counts as 1 us, because RTTs are divisors. */
static __always_inline void update_delay(struct delay *delay, const struct ack_sample *sample)
{
	u32 rtt_us;

	if (sample->rtt_us < 0)
		return;
	rtt_us = max((u32)sample->rtt_us, 1u);
	delay->base_rtt_us = min(delay->base_rtt_us, rtt_us);
	delay->round_rtt_us = min(delay->round_rtt_us, rtt_us);
	delay->round_sum_us += rtt_us;
	delay->samples++;
}

/* Whether the round is over. Call in cong_avoid, for ACKs of new data. */
static __always_inline bool is_delay_round_over(const struct delay *delay, const struct tcp_sock *tp)
{
	return after(tp->snd_una, delay->round_end_seq);
}

/* Mean RTT of this round, us. Range: one sample and more. Error: none, it is the floor. */
static __always_inline u32 mean_rtt_us(const struct delay *delay)
{
	return (u32)(delay->round_sum_us / delay->samples);
}

/*
 * Packets of the window that are queued: cwnd (rtt - base) / rtt, which is the difference of the expected and the
 * actual rate times the base RTT.
 * Range: any; 0 where rtt is not above base. Error: below one packet, it is the floor.
 */
static __always_inline u32 queued_packets(u32 cwnd, u32 base_rtt_us, u32 rtt_us)
{
	if (rtt_us <= base_rtt_us)
		return 0;
	return (u32)((u64)cwnd * (rtt_us - base_rtt_us) / rtt_us);
}

#endif
