/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What algorithms that look at delay share: the RTTs of one round trip, the lowest RTT ever, and the packets in queues
 * that the two tell of.
 *
 * A round begins with begin_delay_round and is over when the first packet sent after that is acknowledged.
 */
#ifndef TCCC_DELAY_BPF_H
#define TCCC_DELAY_BPF_H

#include "tccc.bpf.h"

#define NO_RTT U32_LARGEST
/* Fewer samples of a round than this may all be of delayed ACKs: the number of the kernel's Vegas and YeAH. */
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

/* No RTT is known: a new connection, or one whose path may be another after a pause. */
static __always_inline void forget_delay(struct delay *delay, const struct tcp_sock *tp)
{
	delay->base_rtt_us = NO_RTT;
	begin_delay_round(delay, tp);
}

/* To be called in pkts_acked. An RTT of 0 counts as 1 us: RTTs are divided by. */
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

/* To be asked in cong_avoid, of ACKs of new data. */
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
 * Packets of the window that stand in queues: cwnd (rtt - base) / rtt, the difference of the expected and the actual
 * rate times the base RTT. Range: any; 0 where rtt is not above base. Error: below one packet, it is the floor.
 */
static __always_inline u32 queued_packets(u32 cwnd, u32 base_rtt_us, u32 rtt_us)
{
	if (rtt_us <= base_rtt_us)
		return 0;
	return (u32)((u64)cwnd * (rtt_us - base_rtt_us) / rtt_us);
}

#endif
