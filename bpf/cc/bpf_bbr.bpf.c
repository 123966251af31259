// SPDX-License-Identifier: GPL-2.0-only
/*
 * BBR version 1 as BPF: measures the path's bandwidth and lowest RTT, and paces to their product.
 *
 * Source
 *   N. Cardwell, Y. Cheng, C. S. Gunn, S. Hassas Yeganeh, V. Jacobson, "BBR: congestion-based congestion control",
 *   ACM Queue 14 (5), 2016, doi 10.1145/3012426.3022184; decisions of net/ipv4/tcp_bbr.c of Linux 6.12.
 *
 * Idea
 *   Loss says that a queue is full, too late and sometimes wrongly. The largest delivery rate seen lately is the
 *   bandwidth of the bottleneck, and the lowest RTT is the path without a queue. Packets that leave at this rate, with
 *   about the product of both in flight, fill the path and not the queue. As both cannot be seen at once, the sender
 *   probes for them in turn.
 *
 * Equations
 *   bandwidth         bw = max over 10 rounds of (packets delivered / time), without samples that the application limited
 *   lowest RTT        RTTmin = min over 10 s
 *   BDP               bw RTTmin, rounded up
 *   pacing            rate = 0.99 gain bw
 *   window            cwnd = gain BDP + extra + 3 bursts, 4 at least; it grows by what is delivered until then
 *   startup, drain    gains 2.89 of rate and window; 1/2.89 of the rate until BDP is in flight
 *   bandwidth probe   gains of the rate 1.25, 0.75, then 6 times 1, each for RTTmin; of the window 2
 *   RTT probe         4 packets for 200 ms and a round, when RTTmin was not seen for 10 s
 *   extra             most packets by which ACKs were ahead of bw in 5 to 10 rounds, 100 ms of bw at most
 *   loss              packets are conserved for a round, then the window of before is restored
 *   policer           two intervals with over 20 % loss and equal bandwidth: pace at their mean for 48 rounds
 *
 * Units
 *   Windows in packets. Bandwidths in packets/us times 2^24, rounded down. Gains in 1/256. Times in us; those of the
 *   probe for the lowest RTT and of policers in ms.
 *
 * Life
 *   startup -> (bandwidth grew less than 25 % in 3 rounds) drain -> (queue is empty) bandwidth probe -> (10 s) RTT
 *   probe -> bandwidth probe, or startup if the path was never full. A timeout changes none of these.
 *
 * Differs
 *   1. From the kernel's bbr: the 10 s and 200 ms of the RTT probe are counted in ms, not in jiffies.
 *   2. From the kernel's bbr: where numbers leave their fields, they stop at the largest. The kernel's wrap: bandwidths
 *      at 256 million packets/s, extra at 65535 packets.
 *   3. From the kernel's bbr: the threshold that a loss leaves is 2 packets or more, where a route's metric may be
 *      lower. A limit of the window that sank during an RTT probe holds at once, not from the next ACK.
 *   4. From the kernel's bbr, before Linux 6.10: the packets delivered tell the samples of an RTT probe, because
 *      app_limited cannot be written there. One round before the probe counts as limited too.
 *   5. From the paper, as the kernel: margin of 1 %, bursts, extra and policers. The probe for the lowest RTT ends only
 *      after a round.
 *
 * Kernel
 *   Needs no qdisc: TCP's own timer paces, or fq where it is installed. `ss` does not show the model of a BPF algorithm.
 *   The name is bpf_bbr because the kernel's own algorithm is called bbr.
 */
/* proved at precision 1: at that of the others, EVA does not end within 200 s */
#include "tccc.bpf.h"
#include "pacing.bpf.h"

TUNABLE(u32, high_gain, 739, 257, 1023, "1/256", "of rate and window in startup: 2/ln 2 doubles the rate every round");
TUNABLE(u32, probe_gain, 320, 256, 511, "1/256",
	"of the rate that probes for bandwidth; the next RTTmin yields as much");
TUNABLE(u32, cwnd_gain, 512, 256, 1023, "1/256", "of the window while probing: tolerates late ACKs");
TUNABLE(u32, extra_gain, 256, 0, 1023, "1/256",
	"of the packets by which ACKs came ahead: room for silences between ACKs");
TUNABLE(u32, min_rtt_window_ms, 10000, 1000, 600000, "ms",
	"age at which the lowest RTT is measured again: the paper's");
TUNABLE(u32, probe_rtt_ms, 200, 10, 1000, "ms", "time with 4 packets in flight: 2 % of the paper's 10 s");

/* packets/us. Range: from 0.06 packets/s to 256 million. */
#define BW_SHIFT 24
#define BW_UNIT (1ull << BW_SHIFT)
#define GAIN_SHIFT 8
#define GAIN_UNIT (1u << GAIN_SHIFT)
#define NO_RTT U32_LARGEST

/* Paced 1 % below the bandwidth, so that queues drain. */
#define PACED_PERCENT 99
#define INITIAL_CWND 10
#define LEAST_CWND 4u
#define BW_ROUNDS 10
#define CYCLE_PHASES 8
/* Startup ends after this many rounds without growth by a quarter. */
#define FULL_BW_ROUNDS 3
#define FULL_BW_GAIN (GAIN_UNIT * 5 / 4)

/* Bytes per second below which packets leave one by one: 1.2 Mbit/s. */
#define SINGLE_PACKETS_RATE 150000
/* Largest burst: what one packet to the device may hold besides its headers, and packets. */
#define BURST_BYTES (65536 - 1 - 320)
#define BURST_PKTS 127u

#define EXTRA_ROUNDS 5
#define EXTRA_US 100000
#define EPOCH_PKTS (1u << 20)

PHASES(PHASE_STARTUP, PHASE_DRAIN, PHASE_PROBE_BW, PHASE_PROBE_RTT);

struct bw_sample {
	u32 round;
	u32 bw;
};

struct bpf_bbr {
	u8 phase;
	u8 cycle_index; /* of the gains in the bandwidth probe */
	u8 prior_ca_state;
	u8 full_bw_rounds; /* without growth */
	u8 policed_rounds; /* of the interval, then with its bandwidth */
	u8 is_full : 1;	   /* startup has filled the path */
	u8 is_round_start : 1;
	u8 is_conserving : 1; /* first round of a recovery */
	u8 is_restart : 1;    /* sending resumed after a pause of the application */
	u8 has_rtt : 1;
	u8 has_probe_round : 1;	    /* a round of the RTT probe is over */
	u8 is_policed : 1;	    /* policed_bw is used */
	u8 is_policer_sampling : 1; /* an interval is running */
	u16 pacing_gain;	    /* since the latest ACK */
	u32 min_rtt_us;		    /* NO_RTT: none yet */
	u32 min_rtt_ms;		    /* when it was seen */
	u32 probe_rtt_end_ms;	    /* 0: the window is not yet in flight */
	u32 rounds;
	u32 round_end; /* packets delivered at its end, cumulative */
	struct bw_sample best[3];
	u32 full_bw; /* largest that grew by a quarter */
	u32 policed_bw;
	u32 policed_delivered; /* at the start of the interval, cumulative */
	u32 policed_lost;
	u32 policed_ms;
	u32 prior_cwnd;	   /* before recovery or RTT probe, packets */
	u32 limited_until; /* packets delivered when the limit of an RTT probe ends, cumulative; only before 6.10 */
	u16 extra;	   /* most packets ahead, in the last 5 rounds or fewer */
	u16 prior_extra;   /* in the 5 rounds before */
	u32 epoch_acked : 20;
	u32 extra_rounds : 5;
	u64 cycle_us; /* when the gain began */
	u64 epoch_us;
};
STATE_FITS(struct bpf_bbr);

static u32 now_ms(const struct tcp_sock *tp)
{
	return (u32)(tp->tcp_mstamp / 1000);
}

static u64 elapsed_us(u64 now_us, u64 then_us)
{
	return (s64)(now_us - then_us) > 0 ? now_us - then_us : 0;
}

#include "bpf_bbr_max_bw.bpf.h"

static u32 max_bw(const struct bpf_bbr *bbr)
{
	return bbr->best[0].bw;
}

static u32 bw_of(const struct bpf_bbr *bbr)
{
	return bbr->is_policed ? bbr->policed_bw : max_bw(bbr);
}

/* ---- From bandwidth to rate, bursts and packets in flight ---- */

/* Range: 2.9 Tbit/s at a gain of 2.89, as the kernel. */
static u64 rate_of(const struct tcp_sock *tp, u32 bw, u32 gain)
{
	const u64 rate = (u64)bw * tp->mss_cache * gain >> GAIN_SHIFT;

	return rate * (US_PER_SEC / 100 * PACED_PERCENT) >> BW_SHIFT;
}

static void set_rate(struct sock *sk, u64 rate)
{
	sk->sk_pacing_rate = min(rate, (u64)sk->sk_max_pacing_rate);
}

/* The first rate: high_gain cwnd / RTT, with 1 ms before the first sample. */
static void set_first_rate(struct sock *sk)
{
	struct bpf_bbr *bbr = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);
	const u32 srtt_us = tp->srtt_us >> SRTT_SHIFT;
	u32 rtt_us = 1000;

	if (tp->srtt_us) {
		rtt_us = max(srtt_us, 1u);
		bbr->has_rtt = 1;
	}
	set_rate(sk, rate_of(tp, (u32)((u64)tp->snd_cwnd * BW_UNIT / rtt_us), high_gain));
}

/* Startup never lowers the rate. */
static void pace(struct sock *sk, u32 bw, u32 gain)
{
	struct bpf_bbr *bbr = inet_csk_ca(sk);
	const u64 rate = rate_of(tcp_sk(sk), bw, gain);

	if (!bbr->has_rtt && tcp_sk(sk)->srtt_us)
		set_first_rate(sk);
	if (bbr->is_full || min(rate, (u64)sk->sk_max_pacing_rate) > sk->sk_pacing_rate)
		set_rate(sk, rate);
}

static u32 least_burst(const struct sock *sk)
{
	return sk->sk_pacing_rate < SINGLE_PACKETS_RATE ? 1 : 2;
}

/* Packets that TCP sends at once: those of 1 s / 2^sk_pacing_shift. */
static u32 burst_of(const struct sock *sk)
{
	const u64 bytes = (u64)sk->sk_pacing_rate >> (sk->sk_pacing_shift & 63);
	const u32 packets = (u32)min(bytes, (u64)BURST_BYTES) / tcp_sk(sk)->mss_cache;
	const u32 least = least_burst(sk);

	return min(max(packets, least), BURST_PKTS);
}

/* gain bw RTTmin, rounded up. */
static u32 bdp_of(const struct bpf_bbr *bbr, u32 bw, u32 gain)
{
	if (bbr->min_rtt_us == NO_RTT)
		return INITIAL_CWND;
	return (u32)((((u64)bw * bbr->min_rtt_us * gain >> GAIN_SHIFT) + BW_UNIT - 1) >> BW_SHIFT);
}

/* Room for a burst in the qdisc, one in the device and one at the receiver, and for ACKs of every other packet. */
static u32 with_bursts(const struct sock *sk, u32 packets)
{
	const struct bpf_bbr *bbr = inet_csk_ca(sk);
	const u32 even = (packets + 3 * burst_of(sk) + 1) & ~1u;

	return bbr->phase == PHASE_PROBE_BW && bbr->cycle_index == 0 ? even + 2 : even;
}

static u32 inflight_of(const struct sock *sk, u32 gain)
{
	const struct bpf_bbr *bbr = inet_csk_ca(sk);

	return with_bursts(sk, bdp_of(bbr, max_bw(bbr), gain));
}

/* Packets in the network when the next one leaves: those paced into the future are not there yet. */
static u32 inflight_at_departure(const struct sock *sk, u32 packets)
{
	const struct bpf_bbr *bbr = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);
	const u64 now_ns = tp->tcp_clock_cache, wait_ns = max(tp->tcp_wstamp_ns, now_ns) - now_ns;
	const u32 delivered = (u32)((u64)bw_of(bbr) * (wait_ns / 1000) >> BW_SHIFT);

	if (bbr->pacing_gain > GAIN_UNIT)
		packets += burst_of(sk);
	return delivered < packets ? packets - delivered : 0;
}

/* ---- The phases ---- */

static u32 cycle_gain(u32 index)
{
	if (index == 0)
		return probe_gain;
	return index == 1 ? 2 * GAIN_UNIT - probe_gain : GAIN_UNIT;
}

static void advance_cycle(struct sock *sk)
{
	struct bpf_bbr *bbr = inet_csk_ca(sk);

	bbr->cycle_index = (bbr->cycle_index + 1) % CYCLE_PHASES;
	bbr->cycle_us = tcp_sk(sk)->delivered_mstamp;
}

/* Begins at any gain but the one that yields, so that flows do not probe together. */
static void probe_bandwidth(struct sock *sk)
{
	struct bpf_bbr *bbr = inet_csk_ca(sk);

	bbr->phase = PHASE_PROBE_BW;
	bbr->cycle_index = CYCLE_PHASES - 1 - random_below(CYCLE_PHASES - 1);
	advance_cycle(sk);
}

/* A probe lasts until it has filled the path or lost; what follows it, until the queue is empty, RTTmin at most. */
static bool is_gain_over(const struct sock *sk, const struct rate_sample *rs)
{
	const struct bpf_bbr *bbr = inet_csk_ca(sk);
	const bool is_long = elapsed_us(tcp_sk(sk)->delivered_mstamp, bbr->cycle_us) > bbr->min_rtt_us;
	u32 inflight;

	if (bbr->pacing_gain == GAIN_UNIT)
		return is_long;
	inflight = inflight_at_departure(sk, rs->prior_in_flight);
	if (bbr->pacing_gain > GAIN_UNIT)
		return is_long && (rs->losses || inflight >= inflight_of(sk, bbr->pacing_gain));
	return is_long || inflight <= inflight_of(sk, GAIN_UNIT);
}

static void check_startup(struct bpf_bbr *bbr, const struct rate_sample *rs, bool is_limited)
{
	if (bbr->is_full || !bbr->is_round_start || is_limited)
		return;
	if (max_bw(bbr) >= (u32)((u64)bbr->full_bw * FULL_BW_GAIN >> GAIN_SHIFT)) {
		bbr->full_bw = max_bw(bbr);
		bbr->full_bw_rounds = 0;
		return;
	}
	bbr->full_bw_rounds++;
	bbr->is_full = bbr->full_bw_rounds >= FULL_BW_ROUNDS;
}

static void check_drain(struct sock *sk)
{
	struct bpf_bbr *bbr = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (bbr->phase == PHASE_STARTUP && bbr->is_full) {
		bbr->phase = PHASE_DRAIN;
		tp->snd_ssthresh = ssthresh_of(inflight_of(sk, GAIN_UNIT));
	}
	if (bbr->phase == PHASE_DRAIN &&
	    inflight_at_departure(sk, tcp_packets_in_flight(tp)) <= inflight_of(sk, GAIN_UNIT))
		probe_bandwidth(sk);
}

/* The window of before a recovery or an RTT probe, which both shrink it. */
static void save_cwnd(struct sock *sk)
{
	struct bpf_bbr *bbr = inet_csk_ca(sk);
	const u32 cwnd = tcp_sk(sk)->snd_cwnd;
	const bool is_whole = bbr->prior_ca_state < TCP_CA_Recovery && bbr->phase != PHASE_PROBE_RTT;

	bbr->prior_cwnd = is_whole ? cwnd : max(bbr->prior_cwnd, cwnd);
}

static void check_probe_rtt_over(struct sock *sk)
{
	struct bpf_bbr *bbr = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	const u32 prior = min(bbr->prior_cwnd, tp->snd_cwnd_clamp);

	if (!bbr->probe_rtt_end_ms || !after(now_ms(tp), bbr->probe_rtt_end_ms))
		return;
	bbr->min_rtt_ms = now_ms(tp);
	tp->snd_cwnd = max(tp->snd_cwnd, prior);
	if (bbr->is_full)
		probe_bandwidth(sk);
	else
		bbr->phase = PHASE_STARTUP;
}

/* 4 packets for 200 ms and a round, from when no more are in flight. */
static void update_probe_rtt(struct sock *sk)
{
	struct bpf_bbr *bbr = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	if (!bbr->probe_rtt_end_ms) {
		if (tcp_packets_in_flight(tp) > LEAST_CWND)
			return;
		bbr->probe_rtt_end_ms = now_ms(tp) + probe_rtt_ms;
		bbr->has_probe_round = 0;
		bbr->round_end = tp->delivered;
		return;
	}
	if (bbr->is_round_start)
		bbr->has_probe_round = 1;
	if (bbr->has_probe_round)
		check_probe_rtt_over(sk);
}

#include "bpf_bbr_policer.bpf.h"

/* ---- The model ---- */

/* True if the ACK has a sample. */
static bool update_bandwidth(struct sock *sk, const struct rate_sample *rs, bool is_limited)
{
	struct bpf_bbr *bbr = inet_csk_ca(sk);
	u64 bw;

	bbr->is_round_start = 0;
	if (rs->delivered < 0 || rs->interval_us <= 0)
		return false;
	if (!before(rs->prior_delivered, bbr->round_end)) {
		bbr->round_end = tcp_sk(sk)->delivered;
		bbr->rounds++;
		bbr->is_round_start = 1;
		bbr->is_conserving = 0;
	}
	update_policer(sk, rs->losses, is_limited);
	bw = (u64)rs->delivered * BW_UNIT / (u64)rs->interval_us;
	if (!is_limited || bw >= max_bw(bbr))
		add_bw(bbr, saturated(bw));
	return true;
}

/* After 5 rounds, the oldest 5 no longer count. */
static void turn_extra(struct bpf_bbr *bbr)
{
	const u32 rounds = bbr->extra_rounds + 1;

	bbr->extra_rounds = rounds % EXTRA_ROUNDS;
	if (rounds < EXTRA_ROUNDS)
		return;
	bbr->prior_extra = bbr->extra;
	bbr->extra = 0;
}

/* ACKs of an epoch are ahead of bw; it ends when they are not. */
static void update_extra(struct sock *sk, const struct rate_sample *rs)
{
	struct bpf_bbr *bbr = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);
	const u64 now_us = tp->delivered_mstamp;
	u32 expected, ahead, acked;

	if (!extra_gain || !rs->acked_sacked)
		return;
	if (bbr->is_round_start)
		turn_extra(bbr);
	expected = (u32)((u64)bw_of(bbr) * (u32)elapsed_us(now_us, bbr->epoch_us) >> BW_SHIFT);
	acked = bbr->epoch_acked;
	if (acked <= expected || acked + rs->acked_sacked >= EPOCH_PKTS) {
		acked = expected = 0;
		bbr->epoch_us = now_us;
	}
	acked = min(acked + rs->acked_sacked, EPOCH_PKTS - 1);
	bbr->epoch_acked = acked;
	ahead = min(min(acked - expected, tp->snd_cwnd), 0xffffu);
	bbr->extra = (u16)max(ahead, bbr->extra);
}

static void update_min_rtt(struct sock *sk, const struct rate_sample *rs)
{
	struct bpf_bbr *bbr = inet_csk_ca(sk);
	const u32 now = now_ms(tcp_sk(sk));
	const bool is_old = after(now, bbr->min_rtt_ms + min_rtt_window_ms);

	if (rs->rtt_us >= 0 && (rs->rtt_us < bbr->min_rtt_us || (is_old && !rs->is_ack_delayed))) {
		bbr->min_rtt_us = (u32)rs->rtt_us;
		bbr->min_rtt_ms = now;
	}
	if (is_old && !bbr->is_restart && bbr->phase != PHASE_PROBE_RTT) {
		bbr->phase = PHASE_PROBE_RTT;
		save_cwnd(sk);
		bbr->probe_rtt_end_ms = 0;
	}
}

/* ---- The window ---- */

/* Extra packets for silences between ACKs, 100 ms of the bandwidth at most. */
static u32 extra_of(const struct bpf_bbr *bbr)
{
	const u32 most = (u32)((u64)bw_of(bbr) * EXTRA_US >> BW_SHIFT);
	const u32 extra = extra_gain * max(bbr->extra, bbr->prior_extra) >> GAIN_SHIFT;

	return bbr->is_full ? min(extra, most) : 0;
}

/* The window that a recovery leaves: as much as was delivered for a round, then what was before. */
static u32 recovered_cwnd(struct sock *sk, const struct rate_sample *rs)
{
	struct bpf_bbr *bbr = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);
	const u32 flight = tcp_packets_in_flight(tp) + rs->acked_sacked;
	const u8 prior = bbr->prior_ca_state, state = ca_state_of(sk);
	u32 cwnd = tp->snd_cwnd;

	if (rs->losses > 0)
		cwnd = max((s32)(cwnd - (u32)rs->losses), 1);
	if (state == TCP_CA_Recovery && prior != TCP_CA_Recovery) {
		bbr->is_conserving = 1;
		bbr->round_end = tp->delivered;
		cwnd = flight;
	} else if (prior >= TCP_CA_Recovery && state < TCP_CA_Recovery) {
		bbr->is_conserving = 0;
		cwnd = max(cwnd, bbr->prior_cwnd);
	}
	bbr->prior_ca_state = state;
	return bbr->is_conserving ? max(cwnd, flight) : cwnd;
}

/* Grows by what is delivered up to the target, once startup is over no further. */
static u32 grown_cwnd(struct sock *sk, u32 cwnd, u32 acked, u32 gain)
{
	const struct bpf_bbr *bbr = inet_csk_ca(sk);
	const u32 target = with_bursts(sk, bdp_of(bbr, bw_of(bbr), gain) + extra_of(bbr));

	if (bbr->is_full)
		cwnd = min(cwnd + acked, target);
	else if (cwnd < target || tcp_sk(sk)->delivered < INITIAL_CWND)
		cwnd += acked;
	return max(cwnd, LEAST_CWND);
}

static void update_cwnd(struct sock *sk, const struct rate_sample *rs, u32 gain)
{
	struct bpf_bbr *bbr = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	u32 cwnd = tp->snd_cwnd;

	if (rs->acked_sacked) {
		cwnd = recovered_cwnd(sk, rs);
		if (!bbr->is_conserving)
			cwnd = grown_cwnd(sk, cwnd, rs->acked_sacked, gain);
	}
	cwnd = min(max(cwnd, 1u), tp->snd_cwnd_clamp);
	tp->snd_cwnd = bbr->phase == PHASE_PROBE_RTT ? min(cwnd, LEAST_CWND) : cwnd;
}

/* ---- Callbacks ---- */

/* Rate of the window in startup and drain, in the bandwidth probe, in the RTT probe. */
static u32 update_gains(struct bpf_bbr *bbr)
{
	switch (bbr->phase) {
	case PHASE_STARTUP:
		bbr->pacing_gain = high_gain;
		return high_gain;
	case PHASE_DRAIN:
		bbr->pacing_gain = GAIN_UNIT * GAIN_UNIT / high_gain;
		return high_gain;
	case PHASE_PROBE_BW:
		bbr->pacing_gain = bbr->is_policed ? GAIN_UNIT : cycle_gain(bbr->cycle_index);
		return cwnd_gain;
	default:
		bbr->pacing_gain = GAIN_UNIT;
		return GAIN_UNIT;
	}
}

/* True where the samples of the packets in flight must not count as the path's bandwidth: an RTT probe. */
static bool update_model(struct sock *sk, const struct rate_sample *rs, bool is_limited)
{
	struct bpf_bbr *bbr = inet_csk_ca(sk);

	if (update_bandwidth(sk, rs, is_limited))
		update_extra(sk, rs);
	if (bbr->phase == PHASE_PROBE_BW && is_gain_over(sk, rs))
		advance_cycle(sk);
	check_startup(bbr, rs, is_limited);
	check_drain(sk);
	update_min_rtt(sk, rs);
	return bbr->phase == PHASE_PROBE_RTT;
}

static void set_outputs(struct sock *sk, const struct rate_sample *rs)
{
	struct bpf_bbr *bbr = inet_csk_ca(sk);
	u32 gain;

	if (bbr->phase == PHASE_PROBE_RTT)
		update_probe_rtt(sk);
	if (rs->delivered > 0)
		bbr->is_restart = 0;
	gain = update_gains(bbr);
	pace(sk, bw_of(bbr), bbr->pacing_gain);
	update_cwnd(sk, rs, gain);
}

/* Packets delivered when what is in flight now has arrived, not 0. */
static u32 limit_of(const struct tcp_sock *tp)
{
	const u32 limit = tp->delivered + tcp_packets_in_flight(tp);

	return limit ? limit : 1;
}

CC_OP(void, bpf_bbr_cong_control, struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	if (update_model(sk, rs, rs->is_app_limited))
		tcp_sk(sk)->app_limited = limit_of(tcp_sk(sk));
	set_outputs(sk, rs);
}

/* Before Linux 6.10, which refuses to write app_limited. */
CC_OP(void, bpf_bbr_cong_control_2, struct sock *sk, const struct rate_sample *rs)
{
	struct bpf_bbr *bbr = inet_csk_ca(sk);
	const bool is_own = bbr->limited_until && !after(rs->prior_delivered, bbr->limited_until);

	if (!is_own)
		bbr->limited_until = 0;
	if (update_model(sk, rs, rs->is_app_limited || is_own))
		bbr->limited_until = limit_of(tcp_sk(sk));
	set_outputs(sk, rs);
}

CC_OP(void, bpf_bbr_init, struct sock *sk)
{
	struct bpf_bbr *bbr = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	__builtin_memset(bbr, 0, sizeof(*bbr));
	bbr->min_rtt_us = tcp_min_rtt(tp);
	bbr->min_rtt_ms = now_ms(tp);
	bbr->round_end = tp->delivered;
	bbr->epoch_us = tp->tcp_mstamp;
	tp->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	set_first_rate(sk);
	forget_policer(sk);
	set_pacing_on(sk);
}

/* Sending resumes: the rate of the model is enough, because the application needs no more. */
static void restart(struct sock *sk)
{
	struct bpf_bbr *bbr = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	if (!tp->app_limited)
		return;
	bbr->is_restart = 1;
	bbr->epoch_us = tp->tcp_mstamp;
	bbr->epoch_acked = 0;
	if (bbr->phase == PHASE_PROBE_BW)
		pace(sk, bw_of(bbr), GAIN_UNIT);
	else if (bbr->phase == PHASE_PROBE_RTT)
		check_probe_rtt_over(sk);
}

CC_OP(void, bpf_bbr_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_TX_START)
		restart(sk);
}

CC_OP(void, bpf_bbr_cwnd_event_tx_start, struct sock *sk)
{
	restart(sk);
}

/* A loss does not reduce the window here; recovered_cwnd does. */
CC_OP(u32, bpf_bbr_ssthresh, struct sock *sk)
{
	save_cwnd(sk);
	return ssthresh_of(tcp_sk(sk)->snd_ssthresh);
}

/* A timeout ends the round. */
CC_OP(void, bpf_bbr_set_state, struct sock *sk, u8 new_state)
{
	struct bpf_bbr *bbr = inet_csk_ca(sk);

	if (new_state != TCP_CA_Loss)
		return;
	bbr->prior_ca_state = TCP_CA_Loss;
	bbr->full_bw = 0;
	bbr->is_round_start = 1;
	update_policer(sk, true, false);
}

CC_OP(u32, bpf_bbr_undo_cwnd, struct sock *sk)
{
	struct bpf_bbr *bbr = inet_csk_ca(sk);

	bbr->full_bw = 0;
	bbr->full_bw_rounds = 0;
	forget_policer(sk);
	return tcp_sk(sk)->snd_cwnd;
}

CC_OP(u32, bpf_bbr_min_tso_segs, struct sock *sk)
{
	return least_burst(sk);
}

/* The send buffer holds three windows, because the window may grow during a recovery. */
CC_OP(u32, bpf_bbr_sndbuf_expand, struct sock *sk)
{
	return 3;
}

ALGORITHM(bpf_bbr, "BBR version 1 as BPF: paces to the measured bandwidth and lowest RTT", "Cardwell et al. 2016") = {
	.init = (void *)bpf_bbr_init,
	.cong_control = (void *)bpf_bbr_cong_control,
	.cong_control___2 = (void *)bpf_bbr_cong_control_2,
	.cwnd_event = (void *)bpf_bbr_cwnd_event,
	.cwnd_event_tx_start = (void *)bpf_bbr_cwnd_event_tx_start,
	.ssthresh = (void *)bpf_bbr_ssthresh,
	.set_state = (void *)bpf_bbr_set_state,
	.undo_cwnd = (void *)bpf_bbr_undo_cwnd,
	.min_tso_segs = (void *)bpf_bbr_min_tso_segs,
	.sndbuf_expand = (void *)bpf_bbr_sndbuf_expand,
	.name = "bpf_bbr",
};
