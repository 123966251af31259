// SPDX-License-Identifier: GPL-2.0-only
/*
 * Modified Swift Start: the receiver times pairs of packets, and the sender fills the path in its second round trip.
 *
 * Source
 *   E. A. Khalil, "A Modified Congestion Control Algorithm for Evaluating High BDP Networks", sections 2.2 and 4;
 *   journal, volume, year and doi: none found. It builds on Swift Start: see swift.
 *
 * Idea
 *   The return path, delayed ACKs and queues change the spacing of ACKs. Only the bottleneck sets the spacing of
 *   the data. So the sender marks the segments of its first window as pairs, First and Second. The receiver
 *   measures the interval between the two arrivals and returns it in a TCP option on its ACKs. RTT over interval
 *   is the window that fills the path; no safety margin is needed. The sender paces this window over the second
 *   round trip and then continues with slow start.
 *
 * Equations
 *   interval      dt = t_second - t_first                          eq. (1), at the receiver
 *   bandwidth     BW = SegSize / dt                                eq. (2)
 *   first window  cwnd = RTT MSS / dt bytes = RTT / dt packets     section 4.1; estimate_divisor is 1
 *   pacing        rate = cwnd MSS / RTT
 *   afterwards    slow start, congestion avoidance and losses as RFC 5681
 *
 * Units
 *   Windows in packets; times in microseconds; rates in bytes per second. The option's dt is in microseconds.
 *
 * Life
 *   connection
 *       |
 *       v    an interval arrives            its round trip is
 *     probe -----------------------> paced -------------------> done
 *       |                                    acknowledged        ^
 *       |    the burst is acknowledged                           |
 *       +-----------------------> fallback -- slow start ends ---+
 *       |    without an interval                                 |
 *       |                                                        |
 *       +--- ten packets arrived, no burst filled the window ----+
 *
 *   A loss, a mark or a timeout leads from any phase to done, which is Reno.
 *
 * Differs
 *   1. Equations (1) and (2) are printed with their operands reversed. The paper's own examples use them as above.
 *   2. cwnd is a whole number of packets, the nearest one. At T1 and 0.1 s a window of 15 differs by up to 3.4 %
 *      from RTT / dt. At OC-1 the difference is negligible. The paper's windows are in bytes.
 *   3. dt is in whole microseconds. At OC-1 (231.48 us) the window differs by up to 0.22 % from the paper's.
 *   4. The paper gives no format. An experimental option (kind 254, RFC 6994) with ExID 0x5353 carries mark and
 *      interval.
 *   5. There are two pairs: the first four segments of the first burst that fills the window. The interval of the
 *      second pair, with its own RTT, replaces that of the first, as in the paper's example. A pair with a lost,
 *      reordered or short segment gives no interval.
 *   6. The RTT is the kernel's sample for the ACK that carried the interval. This is the RTT of the Second if the
 *      ACK acknowledges it alone.
 *   7. An interval counts only for a pair that was sent and acknowledged, and only between min_option_dt_us and
 *      the RTT. est_max limits what a lying receiver can ask for. The window never falls below what slow start has
 *      reached.
 *   8. The window is not raised above a threshold that the kernel knows from an earlier connection.
 *   9. The window does not grow while it is paced, because the estimate is the window. Slow start continues with
 *      the third round trip.
 *   10. estimate_divisor is Swift Start's alpha. The paper no longer needs it. But the paper's own second windows
 *      are 13 to 17 % too large, because the RTT of the second pair includes the queue of the first pair.
 *   11. The kernel does not pace the first ten packets of a connection, so after a burst of four, six packets of
 *      the second round trip follow each other without a gap.
 *   12. The paper's sender has SACK and fast retransmit off. Here the host's settings apply.
 *   13. If no interval arrives, slow start has continued meanwhile. fallback = 1 then uses the spacing of the
 *      first two ACKs, with swift's limit on it.
 *   14. The paper starts with a window of four. Here the first burst is the kernel's initial window unless
 *      initial_window limits it, because a response of 5 to 10 packets would take one more round trip. The
 *      kernel's window is restored when no interval arrives: the peer does not have the program, one ACK
 *      acknowledges the burst, the intervals are too short to measure, or the first ten packets arrive without
 *      filling the window.
 *
 * Kernel
 *   Needs its companion program on both hosts. `tccc load mswift` attaches it with the algorithm, `tccc load
 *   mswift --receiver` attaches it alone. Both hosts need sock_ops header options (5.10 and newer), and the sender
 *   needs what swift needs. A socket must have the algorithm before it fills its first window. Turn GRO off at the
 *   receiver: it delivers packets in batches, which shortens intervals. TSO and GSO at the sender do not matter,
 *   because the kernel sends packets one by one while probing: the pacing rate is low then, and nothing paces. If
 *   pacing begins in this phase (fq is attached, or the application sets SO_MAX_PACING_RATE), a packet takes 2 ms
 *   until the next ACK sets the rate again.
 *   Below an RTT of about 3 ms TCP itself merges the first window. It has no pairs then, and slow start is used.
 *   Arrival times are taken by TCP and have an error of some microseconds: T1 and OC-1 are measured well, 1 Gbit/s
 *   (12 us) is not. Some networks drop packets with unknown options. Retransmissions carry none.
 */
#include "tccc.bpf.h"
TUNABLE_WAS(u32, alpha, estimate_divisor);
#define SWIFT_DIVISOR 1
#define SWIFT_DIVISOR_REASON "the window is the pair's estimate divided by this: 1, because the paper needs no margin"
#include "swift.bpf.h"
#include "pair.bpf.h"

#define FALLBACK_SWIFT 1
/* Drivers lower sk_pacing_shift. Nothing raises it above the value of sk_init_common. */
#define PACING_SHIFT_MAX 10u

TUNABLE(u8, fallback, 0, 0, 1, "0 slow start, 1 swift", "what to do when the receiver returns no interval");
TUNABLE_WAS(u32, g, fallback_divisor);
TUNABLE(u32, fallback_divisor, 2, 1, 8, "divisor",
	"with fallback = 1 the window is the ACK estimate divided by this: as in swift");
TUNABLE(u32, min_option_dt_us, 10, 1, 1000000, "us",
	"software cannot measure shorter intervals between arrivals: a packet takes 12 us at 1 Gbit/s");
TUNABLE(u32, est_max, 8192, 4, 1000000, "packets",
	"highest estimate accepted: the paper's largest window is 7228 packets, and a receiver may lie");

PHASES(PHASE_PROBE, PHASE_PACED, PHASE_FALLBACK, PHASE_DONE);

struct mswift {
	u8 phase;
	u8 is_pacing;	     /* pacing was switched on here */
	u8 pairs_used;	     /* pairs whose interval was read */
	u32 rtt_us;	     /* sample of this ACK, 0: none */
	u32 dt_us;	     /* interval in use, 0: none */
	u32 rtt_pair_us;     /* RTT it was combined with */
	u32 est;	     /* packets that the path holds: RTT / dt / estimate_divisor, at most est_max */
	u32 given_cwnd;	     /* the kernel's initial window */
	u32 slow_start_cwnd; /* window that slow start had reached before the estimate */
	u32 pace_end_seq;    /* the second round trip ends when more than this is acknowledged */
	struct ack_pair ack; /* the first two ACKs, for the fallback */
};
STATE_FITS(struct mswift);

static struct pair_exchange *exchange_of(struct sock *sk, u64 flags)
{
	return bpf_sk_storage_get(&pair_exchanges, sk, 0, flags);
}

static void end_marking(struct sock *sk)
{
	struct pair_exchange *exchange = exchange_of(sk, 0);

	if (exchange)
		exchange->is_marking = 0;
}

static void begin_pacing(struct sock *sk, u8 phase)
{
	struct mswift *mswift = inet_csk_ca(sk);

	mswift->phase = phase;
	mswift->is_pacing |= set_pacing_on(sk);
}

static void end_pacing(struct sock *sk)
{
	struct mswift *mswift = inet_csk_ca(sk);

	set_pacing_off(sk, mswift->is_pacing);
	mswift->is_pacing = 0;
	mswift->phase = PHASE_DONE;
}

/*
 * cwnd = RTT / (estimate_divisor dt): section 4.1, in packets, rounded to the nearest, at most est_max.
 * Range: dt from 1 us on; estimate_divisor * dt below 2^35.
 */
static u32 window_of(u32 rtt_us, u32 dt_us)
{
	const u64 spacing_us = (u64)dt_us * estimate_divisor;

	return (u32)min((rtt_us + spacing_us / 2) / spacing_us, (u64)est_max);
}

/* Whether an interval is long enough to measure, and not longer than the RTT of the pair's Second. */
static bool is_believable(u32 dt_us, u32 rtt_us)
{
	return dt_us >= min_option_dt_us && dt_us <= rtt_us;
}

/* Step: reads the interval of an acknowledged pair. Returns whether there is a new estimate. */
static bool update_estimate(struct sock *sk)
{
	struct mswift *mswift = inet_csk_ca(sk);
	struct pair_exchange *exchange = exchange_of(sk, 0);
	u32 dt_us, pairs;

	if (!exchange)
		return false;
	exchange->is_marking = 0; /* an ACK has come: the first window is sent */
	dt_us = exchange->dt_us;
	exchange->dt_us = 0;
	pairs = pairs_acknowledged(exchange, tcp_sk(sk)->snd_una);
	if (!dt_us || pairs <= mswift->pairs_used)
		return false;
	mswift->pairs_used = pairs;
	if (!is_believable(dt_us, mswift->rtt_us))
		return false;
	mswift->dt_us = dt_us;
	mswift->rtt_pair_us = mswift->rtt_us;
	mswift->est = window_of(mswift->rtt_us, dt_us);
	return true;
}

/* Step: sets the window of an estimate. */
static void set_window(struct sock *sk)
{
	struct mswift *mswift = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	tp->snd_cwnd = first_window(tp, mswift->est, mswift->slow_start_cwnd);
}

/* Step: the first estimate begins the paced round trip. */
static void begin_paced_round(struct sock *sk)
{
	struct mswift *mswift = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	mswift->slow_start_cwnd = tp->snd_cwnd;
	mswift->pace_end_seq = tp->snd_nxt;
	begin_pacing(sk, PHASE_PACED);
}

/* Step: the whole first burst is acknowledged, and no interval has come with it. */
static void fall_back(struct sock *sk)
{
	struct mswift *mswift = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	mswift->phase = PHASE_FALLBACK;
	give_back_window(tp, mswift->given_cwnd);
	if (fallback != FALLBACK_SWIFT || !mswift->ack.est)
		return;
	begin_pacing(sk, PHASE_FALLBACK);
	tp->snd_cwnd = first_window(tp, window_from_acks(&mswift->ack, fallback_divisor), tp->snd_cwnd);
}

/*
 * Step: the window was not full when these packets were sent. No burst of this connection has been measured so far.
 */
static void wait_for_burst(struct sock *sk)
{
	struct mswift *mswift = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	mswift->ack.acks = 0;
	if (!is_past_first_window(tp))
		return;
	end_marking(sk);
	mswift->phase = PHASE_DONE;
	give_back_window(tp, mswift->given_cwnd);
}

/* An ACK in PHASE_PROBE. */
static void probe(struct sock *sk, u32 acked)
{
	struct mswift *mswift = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (!is_cwnd_limited(tp)) {
		wait_for_burst(sk);
		return;
	}
	if (mswift->ack.acks < 2)
		update_ack_pair(&mswift->ack, tp, mswift->rtt_us, acked);
	if (update_estimate(sk)) {
		begin_paced_round(sk);
		set_window(sk);
	} else if (!before(tp->snd_una, mswift->ack.burst_end_seq)) {
		fall_back(sk);
	}
}

/* An ACK in PHASE_PACED: the second pair's estimate replaces the first's, and the round trip may be over. */
static void pace(struct sock *sk)
{
	const struct mswift *mswift = inet_csk_ca(sk);

	if (update_estimate(sk))
		set_window(sk);
	if (after(tcp_sk(sk)->snd_una, mswift->pace_end_seq))
		end_pacing(sk);
}

/*
 * A pacing rate at which TCP sends one packet at a time: half a packet in the time that sk_pacing_shift allows.
 * Nothing uses it for pacing. If pacing begins before the next ACK sets the rate again, a packet takes 2 ms, and 16
 * ms at the lowest shift that drivers set, 7. Bytes per second. Range: any mss.
 */
static u64 rate_of_single_packets(const struct sock *sk)
{
	const u32 shift = min((u32)sk->sk_pacing_shift, PACING_SHIFT_MAX);

	return ((u64)tcp_sk(sk)->mss_cache << shift) / 2;
}

CC_OP(void, mswift_init, struct sock *sk)
{
	struct mswift *mswift = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	struct pair_exchange *exchange;

	__builtin_memset(mswift, 0, sizeof(*mswift));
	mswift->phase = PHASE_DONE;
	mswift->slow_start_cwnd = tp->snd_cwnd;
	if (!is_new_connection(tp))
		return;
	mswift->phase = PHASE_PROBE;
	mswift->given_cwnd = limit_first_burst(tp);
	exchange = exchange_of(sk, BPF_SK_STORAGE_GET_F_CREATE);
	if (!exchange)
		return;
	__builtin_memset(exchange, 0, sizeof(*exchange));
	exchange->is_marking = 1;
}

CC_OP(void, mswift_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct mswift *mswift = inet_csk_ca(sk);

	mswift->rtt_us = max(sample->rtt_us, 0);
}

CC_OP(void, mswift_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct mswift *mswift = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (mswift->phase == PHASE_PROBE)
		probe(sk, acked);
	else if (mswift->phase == PHASE_PACED)
		pace(sk);
	if (mswift->phase == PHASE_PACED)
		return;
	reno_cong_avoid(tp, acked);
	if (mswift->phase == PHASE_FALLBACK && !in_slow_start(tp))
		end_pacing(sk);
}

CC_OP(u32, mswift_min_tso_segs, struct sock *sk)
{
	const struct mswift *mswift = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);
	const u32 rtt_us = min(mswift->rtt_pair_us, U32_LARGEST >> SRTT_SHIFT);

	switch (mswift->phase) {
	case PHASE_PROBE:
		if (sk->sk_pacing_status == SK_PACING_NONE)
			set_pacing_rate(sk, rate_of_single_packets(sk));
		return 1;
	case PHASE_PACED:
		set_pacing_rate(sk, paced_rate(tp->snd_cwnd, tp->mss_cache, rtt_us << SRTT_SHIFT));
		break;
	case PHASE_FALLBACK:
		if (mswift->is_pacing)
			set_pacing_rate(sk, paced_rate(tp->snd_cwnd, tp->mss_cache, tp->srtt_us));
		break;
	}
	return pacing_burst;
}

CC_OP(u32, mswift_ssthresh, struct sock *sk)
{
	return reno_ssthresh(tcp_sk(sk));
}

/* A loss ends everything that is not Reno. */
CC_OP(void, mswift_set_state, struct sock *sk, u8 new_state)
{
	struct mswift *mswift = inet_csk_ca(sk);

	if (new_state < TCP_CA_CWR || mswift->phase == PHASE_DONE)
		return;
	end_marking(sk);
	end_pacing(sk);
}

CC_OP(u32, mswift_undo_cwnd, struct sock *sk)
{
	return reno_undo_cwnd(tcp_sk(sk));
}

CC_OP(void, mswift_release, struct sock *sk)
{
	end_pacing(sk);
}

ALGORITHM(mswift, "Modified Swift Start: the receiver times packet pairs, the window is RTT / dt",
	  "Khalil, sections 2.2 and 4") = {
	.init = (void *)mswift_init,
	.release = (void *)mswift_release,
	.pkts_acked = (void *)mswift_pkts_acked,
	.cong_avoid = (void *)mswift_cong_avoid,
	.min_tso_segs = (void *)mswift_min_tso_segs,
	.ssthresh = (void *)mswift_ssthresh,
	.set_state = (void *)mswift_set_state,
	.undo_cwnd = (void *)mswift_undo_cwnd,
	.name = "mswift",
};
