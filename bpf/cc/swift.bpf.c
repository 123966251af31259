// SPDX-License-Identifier: GPL-2.0-only
/*
 * Swift Start: measure the path by the spacing of the first two ACKs, start with a share of it, and pace what follows.
 *
 * Source
 *   C. Partridge, D. Rockwell, M. Allman, R. Krishnan, J. Sterbenz, "A Swifter Start for TCP", BBN technical
 *   report 8339, 22 March 2002, doi: none found. Bound of the window: S. Floyd, "Limited slow-start for TCP with
 *   large congestion windows", RFC 3742, 2004, doi 10.17487/RFC3742.
 *
 * Idea
 *   Slow start needs many round trips to fill a long fast path. Two packets sent together leave the bottleneck one
 *   packet time apart, and so do their ACKs. Packet size over spacing is the bandwidth, and bandwidth times RTT is
 *   the window that fills the path. A share of that window is enough to be fast and small enough to be safe.
 *   Pacing keeps it out of queues.
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
 *   probe -> (second ACK) paced -> (end of the first slow start, loss or timeout) done. Without an estimate, or
 *   when the first packets never fill the window: probe -> done.
 *
 * Differs
 *   1. The sizes cancel out of the equations, so the estimate is in packets.
 *   2. estimate_divisor divides. The report's gamma is a fraction between 1 and 1/8.
 *   3. The burst is the first one that fills the window. Messages before it are too small and too far apart to
 *      measure anything. The second ACK must acknowledge data of the same burst, otherwise there is no estimate.
 *   4. ACKs closer than min_dt_us are not a measurement (the report's clock had a resolution of 1 ms). Slow start
 *      then continues.
 *   5. The report's reasoning has one ACK per segment. A receiver may acknowledge two segments at once, which
 *      halves the estimate, as the report intends. use_acked_bytes counts both.
 *   6. The window is not raised above a threshold that the kernel knows from an earlier connection.
 *   7. RTT1 is the kernel's sample for the first ACK. The pacing rate uses the smoothed RTT.
 *   8. The kernel does not pace the first ten packets of a connection, so after a burst of four, six packets of the
 *      second round trip follow each other without a gap.
 *   9. There is no second estimate after idle time. The footnote's alternative, pacing for one round only, is not
 *      implemented.
 *   10. The report starts with a burst of four. Here the burst is the kernel's initial window unless
 *      initial_window limits it, because a response of 5 to 10 packets would take one more round trip. The
 *      kernel's window is restored when there is no estimate: one ACK acknowledges the burst (GRO, a receiver's
 *      offloads), the ACKs are too close, or the first ten packets arrive without filling the window.
 *   11. ACK compression: a queue or a radio link on the return path can hold ACKs and release them together. Two
 *      ACKs 50 us apart at an RTT of 100 ms give an estimate of 2000 packets whatever the path holds. This is
 *      Khalil's criticism (see mswift). The sender cannot distinguish such a burst from a fast path, so
 *      ack_window_max limits the window: 100 packets are what slow start may double in one round trip by RFC 3742.
 *      The report has no limit. The scenarios of the papers set ack_window_max to its highest value.
 *   12. Pacing lasts until the end of the first slow start. Paced packets fill the path and the queue before the
 *       first drop, where Reno's bursts meet a full queue earlier. So the first slow start may lose more than Reno's.
 *       An example in virtual time has 20 Mbit/s, 80 ms, a queue of 66 packets, and 20 % of the ACKs compressed by
 *       10 ms. It loses 245 packets (95 % interval 180 to 296, n = 12), and Reno 99 (91 to 107). At 40 ms the
 *       difference is small: 156 and 144. A lower ack_window_max does not change it.
 *
 * Kernel
 *   Writes sk_pacing_status and sk_pacing_rate (6.0 and newer). No qdisc is needed; with fq the qdisc paces
 *   instead. After every ACK the kernel sets the rate to twice the window per RTT. It calls min_tso_segs before
 *   each transmission, where this algorithm sets the rate to once the window per RTT. Afterwards the
 *   kernel sets the rate again, and nothing uses it.
 */
#include "tccc.bpf.h"
TUNABLE_WAS(u32, g, estimate_divisor);
#define SWIFT_DIVISOR 2
#define SWIFT_DIVISOR_REASON "the ACK estimate is divided by this: the report's tables use 2 and 8; 1 is for tests"
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

/* Returns whether it raised the window. This ACK then must not grow the window again. */
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
