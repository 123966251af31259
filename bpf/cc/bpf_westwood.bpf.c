// SPDX-License-Identifier: GPL-2.0-only
/*
 * Westwood+ as BPF: grow as Reno, but after a loss continue with the window that the measured bandwidth fills.
 *
 * Source
 *   S. Mascolo, C. Casetti, M. Gerla, M. Sanadidi, R. Wang, "TCP Westwood: bandwidth estimation for enhanced
 *   transport over wireless links", ACM MobiCom 2001, doi 10.1145/381677.381704; L. Grieco, S. Mascolo,
 *   "Performance evaluation and comparison of Westwood+, New Reno, and Vegas TCP congestion control", ACM SIGCOMM
 *   CCR 34 (2), 2004, doi 10.1145/997150.997155; behaviour of net/ipv4/tcp_westwood.c of Linux 6.18.
 *
 * Idea
 *   Halving ignores the cause of a loss: a bit error on a wireless link costs as much as a full queue. The packets
 *   that arrive per second show what the path carries. Multiplied by the lowest RTT, this is the window that fills
 *   the path and leaves queues empty.
 *
 * Equations
 *   slow start, avoidance as Reno
 *   sample                b = packets delivered in an interval / its length; an interval is an RTT, 50 ms at least
 *   filter                BWE' = 7/8 BWE' + 1/8 b, BWE = 7/8 BWE + 1/8 BWE'; both begin with the first sample
 *   loss                  ssthresh = max(BWE RTTmin, 2), cwnd = min(cwnd before the loss, ssthresh)
 *   timeout               ssthresh = max(BWE RTTmin, 2), cwnd restarts from 1, RTTmin is measured again
 *
 * Units
 *   Windows in packets, bandwidths in 1/256 packets/s, all rounded down; RTTs in us.
 *
 * Life
 *   slow start -> avoidance -> (loss) recovery -> avoidance; timeout -> loss -> slow start.
 *
 * Differs
 *   1. From the papers, as the kernel: the estimate is applied at the end of a recovery. During the recovery the
 *      kernel moves the window towards half of what it was (PRR, RFC 6937).
 *   2. From the kernel's westwood: packets are counted by the kernel's own counter of delivered packets, each
 *      once, whether acknowledged cumulatively or selectively. The kernel's module counts bytes, and one packet at
 *      a duplicate ACK, which it subtracts from the next cumulative ACK. On the fast path, where the ACK that ends
 *      a recovery arrives, it does not subtract that packet. So packets that arrived during the recovery count
 *      twice there, and the next window is too large.
 *   3. From the kernel's westwood: clocks count microseconds, not jiffies, and RTTs are not rounded up to jiffies.
 *      That rounding makes the kernel's RTTmin, and the window after a loss, up to one jiffy larger (8 % at
 *      40.7 ms, HZ 250). rtt_tick_us = 4000 has the same effect.
 *   4. From the kernel's westwood: before the first sample a loss halves the window, where the kernel goes to
 *      2 packets. The window after a loss is never larger than before it, as in the papers. A reduction that was
 *      undone stays undone. After a timeout RTTmin waits for the next sample, where the kernel takes the previous
 *      one.
 *   5. From the 2001 paper, as Westwood+: there is one bandwidth sample per RTT instead of one per ACK, because
 *      ACKs are compressed. As in the kernel, the packets of the ACK that ends an interval count for the next one.
 *
 * Kernel
 *   Uses the kernel's own tcp_slow_start and tcp_cong_avoid_ai (5.13 and newer). The name is bpf_westwood because
 *   the kernel's own algorithm is called westwood.
 */
#include "tccc.bpf.h"
#include "phase.bpf.h"

TUNABLE(u32, interval_us, 50000, 1000, 1000000, "us",
	"shortest time over which bandwidth is measured: the kernel's 50 ms");
TUNABLE(u32, filter_shift, 3, 0, 7, "bits", "weight of a bandwidth sample, 1/2^n: an eighth, the kernel's");
TUNABLE(u32, rtt_tick_us, 1, 1, 10000, "us",
	"RTTs are rounded up to a multiple of this: 1 is exact; the kernel's jiffy is 4000 at HZ = 250");

struct bpf_westwood {
	u8 phase;
	u8 has_estimate;    /* a bandwidth was measured */
	u8 is_rtt_stale;    /* a timeout: RTTmin restarts with the next sample */
	u8 is_undone;	    /* this reduction proved spurious */
	u32 bw_once;	    /* BWE', bandwidth filtered once, 1/256 packets/s */
	u32 bw;		    /* BWE, filtered twice, 1/256 packets/s */
	u32 rtt_us;	    /* latest sample in whole ticks, 0: none yet */
	u32 min_rtt_us;	    /* RTTmin, 0: none yet */
	u32 delivered;	    /* packets delivered up to the ACK before this one */
	u32 delivered_mark; /* packets delivered before this interval */
	u64 interval_start_us;
};
STATE_FITS(struct bpf_westwood);

/* 7/8 old + 1/8 sample. Error: none, it is the floor. */
static u32 filtered(u32 old, u32 sample)
{
	const u32 shift = min(filter_shift, 7u);

	return (u32)((((u64)old << shift) - old + sample) >> shift);
}

static void update_bandwidth(struct bpf_westwood *westwood, u32 sample)
{
	if (!westwood->has_estimate) {
		westwood->has_estimate = 1;
		westwood->bw_once = westwood->bw = sample;
		return;
	}
	westwood->bw_once = filtered(westwood->bw_once, sample);
	westwood->bw = filtered(westwood->bw, westwood->bw_once);
}

static void update_interval(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bpf_westwood *westwood = inet_csk_ca(sk);
	const u64 now_us = tp->tcp_mstamp, lasted_us = now_us - westwood->interval_start_us;

	if (westwood->rtt_us && lasted_us > max(westwood->rtt_us, interval_us)) {
		update_bandwidth(westwood, bandwidth_of(westwood->delivered - westwood->delivered_mark, lasted_us));
		westwood->delivered_mark = westwood->delivered;
		westwood->interval_start_us = now_us;
	}
	westwood->delivered = tp->delivered;
}

/* As the kernel's usecs_to_jiffies. Range: RTTs below 2^31 us, ticks up to 10000 us. Error: none, it is the ceiling. */
static u32 whole_ticks(u32 rtt_us)
{
	const u32 tick_us = rtt_tick_us;

	if (tick_us <= 1)
		return rtt_us;
	return (rtt_us + tick_us - 1) / tick_us * tick_us;
}

static void update_rtt(struct bpf_westwood *westwood, u32 sample_us)
{
	const u32 rtt_us = whole_ticks(sample_us);

	if (!westwood->min_rtt_us || westwood->is_rtt_stale || rtt_us < westwood->min_rtt_us)
		westwood->min_rtt_us = rtt_us;
	westwood->is_rtt_stale = 0;
	westwood->rtt_us = rtt_us;
}

/* ssthresh = BWE RTTmin: 2001 paper, section 2.2. Before the first estimate Reno's. */
static u32 estimated_ssthresh(struct sock *sk)
{
	const struct bpf_westwood *westwood = inet_csk_ca(sk);

	if (!westwood->has_estimate)
		return reno_ssthresh(tcp_sk(sk));
	return ssthresh_of(packets_in(westwood->bw, westwood->min_rtt_us));
}

CC_OP(void, bpf_westwood_init, struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bpf_westwood *westwood = inet_csk_ca(sk);

	__builtin_memset(westwood, 0, sizeof(*westwood));
	westwood->delivered = westwood->delivered_mark = tp->delivered;
	westwood->interval_start_us = tp->tcp_mstamp;
	update_phase(sk);
}

CC_OP(void, bpf_westwood_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct bpf_westwood *westwood = inet_csk_ca(sk);

	if (sample->rtt_us > 0)
		update_rtt(westwood, sample->rtt_us);
	update_interval(sk);
}

CC_OP(void, bpf_westwood_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	update_phase(sk);
	reno_cong_avoid(tcp_sk(sk), acked);
}

/* The threshold towards which a recovery moves the window until the estimate is applied. */
CC_OP(u32, bpf_westwood_ssthresh, struct sock *sk)
{
	struct bpf_westwood *westwood = inet_csk_ca(sk);

	westwood->is_undone = 0;
	return reno_ssthresh(tcp_sk(sk));
}

/* LOSS: a timeout. COMPLETE_CWR: the end of a reduction. */
CC_OP(void, bpf_westwood_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct bpf_westwood *westwood = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (event == CA_EVENT_LOSS) {
		tp->snd_ssthresh = estimated_ssthresh(sk);
		westwood->is_rtt_stale = 1;
	} else if (event == CA_EVENT_COMPLETE_CWR && westwood->has_estimate && !westwood->is_undone) {
		tp->snd_ssthresh = estimated_ssthresh(sk);
		set_cwnd(tp, min(tp->snd_ssthresh, tp->prior_cwnd));
	}
}

CC_OP(void, bpf_westwood_set_state, struct sock *sk, u8 new_state)
{
	update_reduction_phase(sk, new_state);
}

CC_OP(u32, bpf_westwood_undo_cwnd, struct sock *sk)
{
	struct bpf_westwood *westwood = inet_csk_ca(sk);

	westwood->is_undone = 1;
	return reno_undo_cwnd(tcp_sk(sk));
}

ALGORITHM(bpf_westwood, "Westwood+ as BPF: after a loss the window that the measured bandwidth fills",
	  "Grieco & Mascolo 2004") = {
	.init = (void *)bpf_westwood_init,
	.pkts_acked = (void *)bpf_westwood_pkts_acked,
	.cong_avoid = (void *)bpf_westwood_cong_avoid,
	.ssthresh = (void *)bpf_westwood_ssthresh,
	.cwnd_event = (void *)bpf_westwood_cwnd_event,
	.set_state = (void *)bpf_westwood_set_state,
	.undo_cwnd = (void *)bpf_westwood_undo_cwnd,
	.name = "bpf_westwood",
};
