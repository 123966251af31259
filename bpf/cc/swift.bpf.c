// SPDX-License-Identifier: GPL-2.0-only
/*
 * Swift Start: measure the path by the spacing of the first two ACKs, jump to a share of it, and pace what follows.
 *
 * Source
 *   C. Partridge, D. Rockwell, M. Allman, R. Krishnan, J. Sterbenz, "A Swifter Start for TCP", BBN technical report 8339,
 *   22 March 2002, doi: none found. Bound of the window: S. Floyd, "Limited slow-start for TCP with large congestion
 *   windows", RFC 3742, 2004, doi 10.17487/RFC3742.
 *
 * Idea
 *   Slow start needs many round trips to fill a long fast path. Two packets sent together leave the bottleneck one
 *   packet time apart, and so do their ACKs: packet over spacing is the bandwidth, times the RTT it is the window that
 *   fills the path. A share of it is enough to be fast and small enough to be safe; pacing keeps it out of queues.
 *
 * Equations
 *   bandwidth     BW = SegSize / (t_ack2 - t_ack1)
 *   capacity      est = BW (t_ack1 - t_seg1) / SegSize = RTT1 / dt
 *   first window  cwnd = max(cwnd, min(est / estimate_divisor, ack_window_max))
 *   pacing        rate = cwnd SegSize / srtt
 *   afterwards    slow start, congestion avoidance and losses as RFC 5681
 *
 * Units
 *   Windows in packets; times in microseconds; rates in bytes per second.
 *
 * Life
 *   probe -> (second ACK) paced -> (end of the first slow start, loss or timeout) done. Without an estimate, or when the
 *   first packets never fill the window: probe -> done.
 *
 * Differs
 *   1. The sizes cancel out of the equations: the estimate is in packets.
 *   2. estimate_divisor divides; the report's gamma is a fraction between 1 and 1/8.
 *   3. The burst is the first one that fills the window: messages before it are too small and too far apart to tell
 *      anything. The second ACK must be for data of the same burst, else there is no estimate.
 *   4. ACKs closer than min_dt_us are no measure (the report's clock had 1 ms); then slow start goes on.
 *   5. The report acknowledges every segment in its reasoning; a receiver may acknowledge two at once, which halves the
 *      estimate, as the report wants; use_acked_bytes counts them.
 *   6. The window is not raised above a threshold that the kernel knows from an earlier connection.
 *   7. RTT1 is the kernel's sample for the first ACK; the pacing rate uses the smoothed RTT.
 *   8. The kernel does not pace the first ten packets of a connection: six of the second round follow each other.
 *   9. No second estimate after idle time. The footnote's alternative, pacing for one round only, is not offered.
 *   10. The report starts with a burst of four. Here the burst is the kernel's initial window unless initial_window limits
 *       it: a response of 5 to 10 packets otherwise takes one more round trip. Without an estimate the kernel's window is
 *       given back: one ACK covers the burst (GRO, a receiver's offloads), the ACKs are too close, or the first ten packets
 *       arrive without filling the window.
 *   11. ACK compression: a queue or a radio link on the way back can hold ACKs and release them together. Two ACKs 50 us
 *       apart at an RTT of 100 ms make an estimate of 2000 packets whatever the path holds; this is Khalil's criticism (see
 *       mswift). The sender cannot tell such a burst from a fast path, so ack_window_max bounds the window: 100 packets are
 *       what slow start may double in one round trip by RFC 3742. The report has no bound; the scenarios of the papers
 *       set ack_window_max to its highest value.
 *
 * Kernel
 *   Writes sk_pacing_status and sk_pacing_rate (6.0 and newer), no qdisc needed; with fq the queue paces instead. The
 *   kernel sets the rate anew after every ACK, to twice the window per RTT: the callback min_tso_segs, which it asks
 *   before each transmission, is where the rate goes back to once. Afterwards the rate is the kernel's again and unused.
 */
#include "tccc.bpf.h"
TUNABLE_WAS(u32, g, estimate_divisor);
#define SWIFT_DIVISOR 2
#define SWIFT_DIVISOR_REASON "the window is the ACK estimate over this: the report's tables use 2 and 8, 1 is a test"
#include "swift.bpf.h"

PHASES(PHASE_PROBE, PHASE_PACED, PHASE_DONE);

struct swift {
	u8 phase;
	u8 is_pacing;	     /* pacing was switched on here */
	u32 rtt_us;	     /* sample of this ACK, 0: none */
	u32 given_cwnd;	     /* the kernel's initial window */
	struct ack_pair ack; /* the two ACKs */
};
STATE_FITS(struct swift);

static void end_pacing(struct sock *sk)
{
	struct swift *swift = inet_csk_ca(sk);

	set_pacing_off(sk, swift->is_pacing);
	swift->is_pacing = 0;
	swift->phase = PHASE_DONE;
}

/* No estimate will come. */
static void give_up(struct sock *sk)
{
	struct swift *swift = inet_csk_ca(sk);

	swift->phase = PHASE_DONE;
	give_back_window(tcp_sk(sk), swift->given_cwnd);
}

/* True when the window was raised: this ACK has had its growth. */
static bool probe(struct sock *sk, u32 acked)
{
	struct swift *swift = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	const u32 slow_start = tp->snd_cwnd;

	if (!is_cwnd_limited(tp)) {
		swift->ack.acks = 0;
		if (is_past_first_window(tp))
			give_up(sk);
		return false;
	}
	if (!update_ack_pair(&swift->ack, tp, swift->rtt_us, acked))
		return false;
	if (!swift->ack.est) {
		give_up(sk);
		return false;
	}
	swift->phase = PHASE_PACED;
	swift->is_pacing = set_pacing_on(sk);
	tp->snd_cwnd = first_window(tp, window_from_acks(&swift->ack, estimate_divisor), slow_start);
	return tp->snd_cwnd > slow_start;
}

CC_OP(void, swift_init, struct sock *sk)
{
	struct swift *swift = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	__builtin_memset(swift, 0, sizeof(*swift));
	swift->phase = PHASE_DONE;
	if (!is_new_connection(tp))
		return;
	swift->phase = PHASE_PROBE;
	swift->given_cwnd = limit_first_burst(tp);
}

CC_OP(void, swift_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct swift *swift = inet_csk_ca(sk);

	swift->rtt_us = max(sample->rtt_us, 0);
}

CC_OP(void, swift_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct swift *swift = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (swift->phase != PHASE_PROBE || !probe(sk, acked))
		reno_cong_avoid(tp, acked);
	if (swift->phase == PHASE_PACED && !in_slow_start(tp))
		end_pacing(sk);
}

CC_OP(u32, swift_min_tso_segs, struct sock *sk)
{
	const struct swift *swift = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	if (swift->phase == PHASE_PACED)
		set_pacing_rate(sk, paced_rate(tp->snd_cwnd, tp->mss_cache, tp->srtt_us));
	return pacing_burst;
}

CC_OP(u32, swift_ssthresh, struct sock *sk)
{
	return reno_ssthresh(tcp_sk(sk));
}

/* Every reduction ends the first slow start, also one that later proves spurious. */
CC_OP(void, swift_set_state, struct sock *sk, u8 new_state)
{
	if (new_state >= TCP_CA_CWR)
		end_pacing(sk);
}

CC_OP(u32, swift_undo_cwnd, struct sock *sk)
{
	return reno_undo_cwnd(tcp_sk(sk));
}

CC_OP(void, swift_release, struct sock *sk)
{
	end_pacing(sk);
}

ALGORITHM(swift, "Swift Start: a first window from the spacing of two ACKs, paced",
	  "Partridge et al. 2002, BBN report 8339") = {
	.init = (void *)swift_init,
	.release = (void *)swift_release,
	.pkts_acked = (void *)swift_pkts_acked,
	.cong_avoid = (void *)swift_cong_avoid,
	.min_tso_segs = (void *)swift_min_tso_segs,
	.ssthresh = (void *)swift_ssthresh,
	.set_state = (void *)swift_set_state,
	.undo_cwnd = (void *)swift_undo_cwnd,
	.name = "swift",
};
