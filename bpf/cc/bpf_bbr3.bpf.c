// SPDX-License-Identifier: GPL-2.0-only
/*
 * BBRv3: model the path by its bandwidth, its lowest RTT and the inflight it tolerates, and pace to the model.
 *
 * Source
 *   N. Cardwell, I. Swett, J. Beshay, "BBR Congestion Control", draft-ietf-ccwg-bbr, the working group's repository at
 *   4ce5e87, 3 August 2026, doi: none found. From the pseudocode; names are the draft's in snake_case.
 *
 * Idea
 *   A loss does not show how fast a path is. BBR measures the delivery rate and the lowest RTT, and sends at that rate.
 *   It sends faster for a short time to find more bandwidth, and slower to drain the queue this builds. Version 3 also
 *   bounds what is in flight: loss of more than loss_thresh in a probe shows what the path does not tolerate.
 *
 * Equations
 *   model         bw = min(max_bw, bw_shortterm); bdp = bw min_rtt; max_bw of this and the previous cycle
 *   pacing        rate = 0.99 pacing_gain bw
 *   window        max_inflight = cwnd_gain bdp + extra_acked, within the volume cap of the phase
 *   probe         lost > loss_thresh tx_in_flight: inflight_longterm = max(tx_in_flight, beta min(bdp, cwnd))
 *   otherwise     a round with loss: bw_shortterm = max(bw_latest, beta bw_shortterm), inflight_shortterm likewise
 *
 * Units
 *   Volumes in packets; bandwidths in 1/256 packets/s; gains in 1/1024, rounded; times in us, 32 bits, which wrap.
 *
 * Life
 *      startup ----> drain ----> down ----> cruise ----> refill ----> up
 *   2.77, 2     0.5, 2      0.9, 2     1, 2         1, 2         1.25, 2.25      pacing gain, cwnd gain
 *                            ^ |                     ^            |
 *                            | +---------------------+            |              probe wait over before drained
 *                            +------------------------------------+
 *   startup -> drain   the rate grew by less than 25 % in three rounds, or a round in recovery with high loss
 *   drain -> down      inflight <= bdp, or three rounds
 *   down -> cruise     inflight <= bdp and <= 0.85 inflight_longterm
 *   cruise -> refill   2 to 3 s or min(bdp, cwnd, 63) rounds after the previous probe; up 1 round later
 *   up -> down         high loss; the rate stopped growing; the bound that the previous probe broke is reached
 *   any -> probe_rtt   no lower RTT for 5 s. 200 ms and a round at 0.5 bdp, then cruise, or startup if it had not ended
 *
 * Differs
 *   1. The draft counts bytes. The kernel counts packets, and so does this file.
 *   2. The kernel does not store P.tx_in_flight and P.lost. Marks of what was in flight and lost, 16 in a flight and one
 *      at each loss, give both. They are exact unless a loss or retransmission lies between the mark and the packet.
 *   3. A packet that was sent before the first mark, such as all in Startup, had in flight what was delivered and lost
 *      since. That is exact where packets arrive in order. It also serves a connection that got no memory for marks.
 *   4. No callback reports a lost packet. handle_lost_packet runs once in an ACK with losses, for the lost packet that
 *      the kernel shows, else for that of RS. Losses that a timer found count at the next ACK. A timeout in a probe counts
 *      as inflight_too_high with all that was in flight.
 *   5. Startup counts ACKs that report losses, not discontiguous ranges.
 *   6. The kernel drops a rate sample shorter than its lowest RTT. Such a sample is ignored as a whole, also for rounds.
 *   7. The maximum of extra_acked has two slots of five rounds each, so its window is 5 to 10 rounds. Its interval
 *      ends after 10 s, because rounding adds up and the clock wraps.
 *   8. The kernel chooses the size of a burst: what the pacing rate sends in 1 ms, and more where the RTT is short
 *      (tcp_tso_rtt_log). The least is two packets (tcp_min_tso_segs). The draft's send_quantum only sets the offload
 *      budget.
 *   9. The draft leaves ECN open. A mark counts as a loss of its round, and ends a probe as high loss does. It does not
 *      end Startup.
 *   10. ProbeRTT cannot set app_limited on Linux 6.1. Until what was in flight in ProbeRTT has arrived, all samples count
 *       as limited, also those of packets sent before it.
 *   11. Connections without SACK follow the same rules. The draft lets one loss end their Startup.
 *   12. The window stays below the kernel's clamp, and the rate below SO_MAX_PACING_RATE.
 *   13. The rounds since a probe are compared with min(bdp, cwnd) where a round begins, not at each ACK. So Down lasts a
 *       round where the BDP is less than a packet, and max_bw forgets the past there too.
 *   14. Google's code has more that the draft has not: a response to ECN in data centres, PLB, a fast path.
 *
 * Kernel
 *   Writes sk_pacing_status and sk_pacing_rate. No qdisc is needed. A connection uses the socket's 104 bytes, and from
 *   its first loss after Startup or its first refill on 528 bytes of socket storage, which count as its option memory.
 *   The receiver's kernel needs nothing. The name "bbr3" is left to patched kernels.
 */
/* proved at precision 1: at that of the others, EVA does not end within 200 s */
#include "tccc.bpf.h"
#include "pacing.bpf.h"

PHASES(PHASE_STARTUP, PHASE_DRAIN, PHASE_DOWN, PHASE_CRUISE, PHASE_REFILL, PHASE_UP, PHASE_PROBE_RTT);

TUNABLE(u32, loss_thresh, 20, 1, 200, "1/1000", "BBR.LossThresh, 2 %: loss of a round that a probe tolerates");
TUNABLE(u32, beta, 717, 1, 1023, "1/1024", "BBR.Beta, 0.7 as in CUBIC: what a round with loss leaves of the model");
TUNABLE(u32, headroom, 154, 0, 1023, "1/1024", "BBR.Headroom, 0.15: of inflight_longterm, left to other flows");
TUNABLE(u32, startup_full_loss_count, 6, 1, 255, "ACKs",
	"BBRStartupFullLossCnt: ACKs with losses in a round that end Startup; fewer may be a burst");
TUNABLE(u32, probe_rtt_interval_us, 5000000, 100000, 100000000, "us",
	"BBR.ProbeRTTInterval: half of the window of min_rtt, so that one ProbeRTT remembers the previous");

enum ack_phase { ACKS_INIT, ACKS_REFILLING, ACKS_PROBE_STARTING, ACKS_PROBE_FEEDBACK, ACKS_PROBE_STOPPING };

#define INFINITE U32_LARGEST
#define MIN_RTT_FILTER_US 10000000u
#define PROBE_RTT_DURATION_US 200000u
#define PROBE_WAIT_US 2000000u
#define PROBE_WAIT_STEP_US 3906u /* 256 of them are a second */
#define EXTRA_ACKED_SLOT 5	 /* rounds */
#define EXTRA_ACKED_US 10000000u
#define MIN_PIPE_CWND 4u
#define FULL_BW_GROWTH 1280 /* 1.25 */
#define FULL_BW_ROUNDS 3
#define DRAIN_ROUNDS 3
#define RENO_ROUNDS_MAX 63u
#define PROBE_UP_ROUNDS_MAX 30u
#define PACED 1014 /* 1 % below the bandwidth, in 1/1024 */
#define SEND_QUANTUM_BYTES_MAX 65536ull
#define MS_SHIFT 10				 /* a millisecond, as the kernel takes it for bursts: 1/1024 s */
#define BDP_UNIT (BANDWIDTH_UNIT >> SHARE_SHIFT) /* bandwidth times us in 1/1024 packets */

/* "Summary of Control Behavior in the State Machine", by phase. The eighth place is for the verifier. */
static const struct {
	u32 pacing, cwnd;
} gains[8] = {
	[PHASE_STARTUP] = {2836, 2048},	 [PHASE_DRAIN] = {512, 2048},	[PHASE_DOWN] = {922, 2048},
	[PHASE_CRUISE] = {1024, 2048},	 [PHASE_REFILL] = {1024, 2048}, [PHASE_UP] = {1280, 2304},
	[PHASE_PROBE_RTT] = {1024, 512},
};

struct bbr3 {
	u8 phase;
	u8 ack_phase : 3, probe_up_rounds : 5;
	u8 full_bw_count : 2, full_bw_reached : 1, full_bw_now : 1;
	u8 undo_startup : 1, undo_up : 1; /* undo_state: what a loss ended */
	u8 prev_probe_too_high : 1, prev_probe_precautionary : 1;
	u8 is_bw_probe_sample : 1, is_loss_in_round : 1, idle_restart : 1;
	u8 is_probe_rtt_low : 1, probe_rtt_round_done : 1; /* low: inflight has reached probe_rtt_cwnd */
	u8 extra_acked_rounds : 3;			   /* of the present slot */
	u8 rounds_since_probe_up;			   /* in Drain: since Startup */
	u8 bw_probe_wait;				   /* PROBE_WAIT_STEP_US beyond PROBE_WAIT_US */
	u8 initial_cwnd;
	u8 loss_acks_in_round;
	u16 lost_in_round; /* packets */
	u16 lost;	   /* the socket's count at the latest look, low bits */
	u32 min_rtt_us;	   /* INFINITE: no sample yet */
	u32 probe_rtt_min_us;
	u32 min_rtt_stamp, probe_rtt_min_stamp;
	u32 cycle_stamp; /* in ProbeRTT: when it was low */
	u32 max_bw[2];	 /* of the previous cycle and of this one */
	u32 bw, bw_latest, bw_shortterm, full_bw;
	u32 inflight_latest, inflight_shortterm, inflight_longterm;
	u32 probe_up_acked;
	u32 prior_cwnd;
	u32 next_round_delivered, loss_round_delivered;
	u32 limited_until; /* ProbeRTT limits the samples of packets sent up to this count of delivered ones; 0: none */
	u32 extra_acked[2]; /* of the previous slot and of this one */
	u32 extra_acked_start, extra_acked_delivered;
};
STATE_FITS(struct bbr3);

/* RS, the rate sample. Not is_valid: the ACK delivered nothing that can be measured. */
struct sample {
	u32 delivery_rate, delivered, prior_delivered, newly_acked;
	u32 end_seq; /* last_acked_packet_id */
	u32 tx_in_flight, lost;
	u32 rtt_us;	    /* INFINITE: none */
	u32 is_app_limited; /* 0: no. Not a bool, whose two values the verifier would follow separately */
	bool is_retrans, is_valid;
	bool round_start, loss_round_start;
};

#include "bpf_bbr3_marks.bpf.h"
#include "bpf_bbr3_model.bpf.h"

/* ---- update_model_and_state, in the draft's order ---- */

static void update_latest_delivery_signals(const struct tcp_sock *tp, struct bbr3 *bbr, struct sample *rs)
{
	bbr->bw_latest = max(bbr->bw_latest, rs->delivery_rate);
	bbr->inflight_latest = max(bbr->inflight_latest, rs->delivered);
	rs->loss_round_start = rs->is_valid && !before(rs->prior_delivered, bbr->loss_round_delivered);
	if (rs->loss_round_start)
		bbr->loss_round_delivered = tp->delivered;
}

static void update_max_bw(const struct tcp_sock *tp, struct bbr3 *bbr, struct sample *rs)
{
	rs->round_start = rs->is_valid && !before(rs->prior_delivered, bbr->next_round_delivered);
	if (rs->round_start) {
		bbr->next_round_delivered = tp->delivered;
		bbr->rounds_since_probe_up = (u8)min(bbr->rounds_since_probe_up + 1u, 0xffu);
	}
	if (rs->delivery_rate >= max_bw_of(bbr) || !rs->is_app_limited)
		bbr->max_bw[1] = max(bbr->max_bw[1], rs->delivery_rate);
}

static void adapt_lower_bounds_from_congestion(const struct tcp_sock *tp, struct bbr3 *bbr)
{
	const bool is_probing_bw = bbr->phase == PHASE_STARTUP || bbr->phase == PHASE_REFILL || bbr->phase == PHASE_UP;

	if (is_probing_bw || !bbr->is_loss_in_round)
		return;
	if (bbr->bw_shortterm == INFINITE)
		bbr->bw_shortterm = max_bw_of(bbr);
	if (bbr->inflight_shortterm == INFINITE)
		bbr->inflight_shortterm = tp->snd_cwnd;
	bbr->bw_shortterm = max(bbr->bw_latest, share_of(bbr->bw_shortterm, beta));
	bbr->inflight_shortterm = max(bbr->inflight_latest, share_of(bbr->inflight_shortterm, beta));
}

static void update_ack_aggregation(const struct tcp_sock *tp, struct bbr3 *bbr, const struct sample *rs)
{
	const u32 interval_us = elapsed(tp, bbr->extra_acked_start);
	u32 expected = packets_in(bbr->bw, interval_us), extra;

	if (rs->round_start && ++bbr->extra_acked_rounds >= (bbr->full_bw_reached ? EXTRA_ACKED_SLOT : 1)) {
		bbr->extra_acked_rounds = 0;
		bbr->extra_acked[0] = bbr->extra_acked[1];
		bbr->extra_acked[1] = 0;
	}
	if (bbr->extra_acked_delivered <= expected || interval_us > EXTRA_ACKED_US) {
		bbr->extra_acked_delivered = 0;
		bbr->extra_acked_start = (u32)tp->tcp_mstamp;
		expected = 0;
	}
	bbr->extra_acked_delivered = saturated((u64)bbr->extra_acked_delivered + rs->newly_acked);
	extra = min(bbr->extra_acked_delivered - expected, tp->snd_cwnd);
	bbr->extra_acked[1] = max(bbr->extra_acked[1], extra);
}

static void check_full_bw_reached(struct bbr3 *bbr, const struct sample *rs)
{
	if (bbr->full_bw_now || !rs->round_start || rs->is_app_limited)
		return;
	if (rs->delivery_rate >= share_of(bbr->full_bw, FULL_BW_GROWTH)) {
		reset_full_bw(bbr, rs->delivery_rate);
	} else if (++bbr->full_bw_count >= FULL_BW_ROUNDS) {
		bbr->full_bw_now = bbr->full_bw_reached = 1;
	}
}

/* High loss: a round in recovery, more than loss_thresh, in enough places. */
static bool is_startup_loss_high(const struct sock *sk, const struct bbr3 *bbr, struct sample *rs)
{
	if (bbr->full_bw_reached || !rs->loss_round_start || ca_state_of(sk) != TCP_CA_Recovery ||
	    bbr->loss_acks_in_round < startup_full_loss_count)
		return false;
	assume(tcp_sk(sk), bbr, rs);
	return is_inflight_too_high(rs);
}

static void check_startup_done(const struct sock *sk, struct bbr3 *bbr, struct sample *rs)
{
	u32 bdp;

	if (is_startup_loss_high(sk, bbr, rs)) {
		bbr->undo_startup = 1;
		bbr->full_bw_now = bbr->full_bw_reached = 1;
		bdp = bdp_multiple(bbr, bbr->bw, SHARE_UNIT);
		bbr->inflight_longterm = max(bdp, bbr->inflight_latest);
	}
	if (bbr->phase == PHASE_STARTUP && bbr->full_bw_reached) {
		bbr->phase = PHASE_DRAIN;
		bbr->rounds_since_probe_up = 0;
	}
}

/* Whether the window, held at inflight_longterm, limited the sender in the last round. */
static bool is_longterm_limited(const struct tcp_sock *tp, const struct bbr3 *bbr)
{
	return BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited) && tp->snd_cwnd >= bbr->inflight_longterm;
}

/* The bound grows by 1, 2, 4, ... packets in a round, spread over it. */
static void probe_inflight_longterm_upward(const struct tcp_sock *tp, struct bbr3 *bbr, const struct sample *rs)
{
	const u32 acked_per_inc = max(tp->snd_cwnd >> bbr->probe_up_rounds, 1u);
	u32 delta;

	if (!is_longterm_limited(tp, bbr))
		return;
	bbr->probe_up_acked = saturated((u64)bbr->probe_up_acked + rs->newly_acked);
	delta = bbr->probe_up_acked / acked_per_inc;
	bbr->probe_up_acked -= delta * acked_per_inc;
	bbr->inflight_longterm = saturated((u64)bbr->inflight_longterm + delta);
	if (rs->round_start)
		bbr->probe_up_rounds = (u8)min(bbr->probe_up_rounds + 1u, PROBE_UP_ROUNDS_MAX);
}

/* True if it decided a transition. */
static bool adapt_long_term_model(struct sock *sk, struct bbr3 *bbr, struct sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	const bool is_end = bbr->ack_phase == ACKS_PROBE_STOPPING && rs->round_start;

	if (bbr->ack_phase == ACKS_PROBE_STARTING && rs->round_start)
		bbr->ack_phase = ACKS_PROBE_FEEDBACK;
	if (is_end) {
		bbr->is_bw_probe_sample = 0;
		bbr->ack_phase = ACKS_INIT;
	}
	if (is_end && is_in_probe_bw(bbr) && !rs->is_app_limited && bbr->max_bw[1]) {
		bbr->max_bw[0] = bbr->max_bw[1];
		bbr->max_bw[1] = 0;
	}
	if (is_end && is_in_probe_bw(bbr) && bbr->prev_probe_precautionary && !bbr->prev_probe_too_high) {
		start_refill(tp, bbr);
		return true;
	}
	if (bbr->inflight_longterm == INFINITE)
		return false;
	recall(sk, bbr, rs);
	if (is_inflight_too_high(rs))
		return false;
	bbr->inflight_longterm = max(bbr->inflight_longterm, rs->tx_in_flight);
	if (bbr->phase == PHASE_UP)
		probe_inflight_longterm_upward(tp, bbr, rs);
	return false;
}

static bool is_time_to_probe_bw(const struct tcp_sock *tp, const struct bbr3 *bbr, const struct sample *rs)
{
	const u32 wait_us = PROBE_WAIT_US + bbr->bw_probe_wait * PROBE_WAIT_STEP_US;

	if (elapsed(tp, bbr->cycle_stamp) > wait_us || bbr->rounds_since_probe_up >= RENO_ROUNDS_MAX)
		return true;
	return rs->round_start && bbr->rounds_since_probe_up >= target_inflight(bbr, tp->snd_cwnd);
}

static bool is_time_to_go_down(const struct tcp_sock *tp, struct bbr3 *bbr, const struct sample *rs)
{
	if (bbr->prev_probe_too_high && tcp_packets_in_flight(tp) >= bbr->inflight_longterm) {
		bbr->prev_probe_precautionary = 1;
		return true;
	}
	if (!is_longterm_limited(tp, bbr))
		return bbr->full_bw_now;
	reset_full_bw(bbr, rs->delivery_rate);
	return false;
}

static void update_probe_bw_cycle_phase(struct sock *sk, struct bbr3 *bbr, struct sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (!rs->is_valid || !bbr->full_bw_reached || adapt_long_term_model(sk, bbr, rs))
		return;
	if (bbr->phase == PHASE_DOWN || bbr->phase == PHASE_CRUISE) {
		if (is_time_to_probe_bw(tp, bbr, rs))
			start_refill(tp, bbr);
		else if (bbr->phase == PHASE_DOWN &&
			 tcp_packets_in_flight(tp) <= inflight_with_headroom(bbr->inflight_longterm) &&
			 is_drained(sk, bbr, max_bw_of(bbr)))
			bbr->phase = PHASE_CRUISE;
	} else if (bbr->phase == PHASE_REFILL && rs->round_start) {
		bbr->is_bw_probe_sample = 1;
		bbr->ack_phase = ACKS_PROBE_STARTING;
		bbr->next_round_delivered = tp->delivered;
		reset_full_bw(bbr, rs->delivery_rate);
		bbr->phase = PHASE_UP;
	} else if (bbr->phase == PHASE_UP && is_time_to_go_down(tp, bbr, rs)) {
		bbr->prev_probe_too_high = 0;
		start_down(tp, bbr);
	}
}

/* Returns probe_rtt_expired. */
static bool update_min_rtt(const struct tcp_sock *tp, struct bbr3 *bbr, const struct sample *rs)
{
	const bool is_expired = elapsed(tp, bbr->probe_rtt_min_stamp) > probe_rtt_interval_us;

	if (rs->rtt_us != INFINITE && (rs->rtt_us < bbr->probe_rtt_min_us || is_expired)) {
		bbr->probe_rtt_min_us = max(rs->rtt_us, 1u);
		bbr->probe_rtt_min_stamp = (u32)tp->tcp_mstamp;
	}
	if (bbr->probe_rtt_min_us < bbr->min_rtt_us || elapsed(tp, bbr->min_rtt_stamp) > MIN_RTT_FILTER_US) {
		bbr->min_rtt_us = bbr->probe_rtt_min_us;
		bbr->min_rtt_stamp = bbr->probe_rtt_min_stamp;
	}
	return is_expired;
}

static void check_probe_rtt_done(struct tcp_sock *tp, struct bbr3 *bbr)
{
	if (!bbr->is_probe_rtt_low || elapsed(tp, bbr->cycle_stamp) <= PROBE_RTT_DURATION_US)
		return;
	bbr->probe_rtt_min_stamp = (u32)tp->tcp_mstamp;
	restore_cwnd(tp, bbr);
	reset_short_term_model(bbr);
	if (bbr->full_bw_reached)
		start_down(tp, bbr);
	bbr->phase = bbr->full_bw_reached ? PHASE_CRUISE : PHASE_STARTUP;
}

static void handle_probe_rtt(struct tcp_sock *tp, struct bbr3 *bbr, const struct sample *rs)
{
	const u32 in_flight = tcp_packets_in_flight(tp);

	bbr->limited_until = max(tp->delivered + in_flight, 1u);
	if (bbr->is_probe_rtt_low) {
		bbr->probe_rtt_round_done |= rs->round_start;
		if (bbr->probe_rtt_round_done)
			check_probe_rtt_done(tp, bbr);
	} else if (in_flight <= probe_rtt_cwnd(bbr)) {
		bbr->is_probe_rtt_low = 1;
		bbr->cycle_stamp = (u32)tp->tcp_mstamp;
		bbr->probe_rtt_round_done = 0;
		bbr->next_round_delivered = tp->delivered;
	}
}

static void check_probe_rtt(struct sock *sk, struct bbr3 *bbr, const struct sample *rs, bool is_expired)
{
	if (bbr->phase != PHASE_PROBE_RTT && is_expired && !bbr->idle_restart) {
		save_cwnd(sk, bbr);
		bbr->phase = PHASE_PROBE_RTT;
		bbr->is_probe_rtt_low = 0;
		bbr->ack_phase = ACKS_PROBE_STOPPING;
		bbr->next_round_delivered = tcp_sk(sk)->delivered;
	}
	if (bbr->phase == PHASE_PROBE_RTT)
		handle_probe_rtt(tcp_sk(sk), bbr, rs);
	if (rs->is_valid)
		bbr->idle_restart = 0;
}

static void update_model_and_state(struct sock *sk, struct bbr3 *bbr, struct sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	update_latest_delivery_signals(tp, bbr, rs);
	update_max_bw(tp, bbr, rs);
	if (rs->loss_round_start) {
		adapt_lower_bounds_from_congestion(tp, bbr);
		bbr->is_loss_in_round = 0;
	}
	update_ack_aggregation(tp, bbr, rs);
	check_full_bw_reached(bbr, rs);
	check_startup_done(sk, bbr, rs);
	if (bbr->phase == PHASE_DRAIN && (is_drained(sk, bbr, bbr->bw) || bbr->rounds_since_probe_up > DRAIN_ROUNDS))
		start_down(tp, bbr);
	update_probe_bw_cycle_phase(sk, bbr, rs);
	check_probe_rtt(sk, bbr, rs, update_min_rtt(tp, bbr, rs));
	if (rs->loss_round_start) {
		bbr->bw_latest = rs->delivery_rate;
		bbr->inflight_latest = rs->delivered;
		bbr->loss_acks_in_round = 0;
		bbr->lost_in_round = 0;
	}
	bbr->bw = min(max_bw_of(bbr), bbr->bw_shortterm);
}

/* ---- update_control_parameters ---- */

static void set_pacing_rate_with_gain(struct sock *sk, const struct bbr3 *bbr, u32 gain)
{
	const u64 packets = (u64)bbr->bw * gain >> SHARE_SHIFT; /* per second, in 1/256 */
	const u64 wanted = (packets * tcp_sk(sk)->mss_cache >> BANDWIDTH_SHIFT) * PACED >> SHARE_SHIFT;
	const u64 rate = min(wanted, (u64)sk->sk_max_pacing_rate);

	if (rate && (bbr->full_bw_reached || rate > sk->sk_pacing_rate))
		sk->sk_pacing_rate = rate;
}

static void set_cwnd_for_model(struct sock *sk, const struct bbr3 *bbr, const struct sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	const u32 extra_acked = max(bbr->extra_acked[0], bbr->extra_acked[1]);
	const u64 inflight = (u64)bdp_multiple(bbr, bbr->bw, gains[bbr->phase & 7].cwnd) + extra_acked;
	const u32 max_inflight = quantization_budget(sk, bbr, inflight);
	u32 cwnd = saturated((u64)tp->snd_cwnd + rs->newly_acked), cap = INFINITE;

	if (bbr->full_bw_reached)
		cwnd = min(cwnd, max_inflight);
	else if (tp->snd_cwnd >= max_inflight && tp->delivered >= bbr->initial_cwnd)
		cwnd = tp->snd_cwnd;
	/* The column "Volume Cap" of the table, and ProbeRTT's. */
	if (bbr->phase == PHASE_CRUISE || bbr->phase == PHASE_PROBE_RTT)
		cap = inflight_with_headroom(bbr->inflight_longterm);
	else if (is_in_probe_bw(bbr))
		cap = bbr->inflight_longterm;
	cap = min(cap, bbr->inflight_shortterm);
	if (bbr->phase == PHASE_PROBE_RTT) {
		const u32 low = probe_rtt_cwnd(bbr);

		cap = min(cap, low);
	}
	cwnd = min(cwnd, cap);
	cwnd = max(cwnd, MIN_PIPE_CWND);
	tp->snd_cwnd = min(cwnd, tp->snd_cwnd_clamp);
}

/* ---- Callbacks ---- */

/* The mark of ProbeRTT ends as the kernel's app_limited does: with what was in flight. */
static void generate_rate_sample(struct bbr3 *bbr, const struct rate_sample *rate, struct sample *rs)
{
	rs->newly_acked = rate->acked_sacked;
	rs->rtt_us = (u32)rate->rtt_us; /* -1: none */
	if (rate->delivered <= 0 || rate->interval_us <= 0)
		return;
	if (bbr->limited_until && after(rate->prior_delivered, bbr->limited_until))
		bbr->limited_until = 0;
	rs->is_valid = true;
	rs->is_app_limited = (u32)rate->is_app_limited | bbr->limited_until;
	rs->is_retrans = rate->is_retrans;
	rs->end_seq = rate->last_end_seq;
	rs->delivered = (u32)rate->delivered;
	rs->prior_delivered = rate->prior_delivered;
	rs->delivery_rate = bandwidth_of(rs->delivered, (u64)rate->interval_us);
}

static void update_on_ack(struct sock *sk, const struct rate_sample *rate)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bbr3 *bbr = inet_csk_ca(sk);
	const bool has_lost = count_losses(tp, bbr);
	struct sample rs = {.is_valid = false};

	generate_rate_sample(bbr, rate, &rs);
	if (has_lost) {
		if (!bbr->is_loss_in_round)
			save_state_upon_loss(sk, bbr);
		note_loss(tp, bbr);
		handle_lost_packet(sk, bbr, &rs);
	}
	update_model_and_state(sk, bbr, &rs);
	set_pacing_rate_with_gain(sk, bbr, gains[bbr->phase & 7].pacing);
	set_cwnd_for_model(sk, bbr, &rs);
	if (needs_marks(bbr))
		add_mark(tp, bbr3_marks_create(sk));
}

CONG_CONTROL_BOTH(bpf_bbr3, update_on_ack)

CC_OP(void, bpf_bbr3_init, struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bbr3 *bbr = inet_csk_ca(sk);
	const u32 now = (u32)tp->tcp_mstamp, srtt_us = tp->srtt_us >> SRTT_SHIFT;
	const u64 nominal = paced_rate(tp->snd_cwnd, tp->mss_cache, srtt_us ? tp->srtt_us : 1000u << SRTT_SHIFT);

	__builtin_memset(bbr, 0, sizeof(*bbr));
	bbr->min_rtt_us = bbr->probe_rtt_min_us = srtt_us ? srtt_us : INFINITE;
	bbr->min_rtt_stamp = bbr->probe_rtt_min_stamp = bbr->extra_acked_start = now;
	bbr->inflight_longterm = INFINITE;
	reset_short_term_model(bbr);
	bbr->next_round_delivered = bbr->loss_round_delivered = tp->delivered;
	bbr->lost = (u16)tp->lost;
	bbr->initial_cwnd = (u8)min(tp->snd_cwnd, 0xffu);
	set_pacing_on(sk);
	sk->sk_pacing_rate = min(nominal * gains[PHASE_STARTUP].pacing >> SHARE_SHIFT, (u64)sk->sk_max_pacing_rate);
}

/* A reduction begins. At a timeout, this is the last callback that sees the window. */
CC_OP(u32, bpf_bbr3_ssthresh, struct sock *sk)
{
	struct bbr3 *bbr = inet_csk_ca(sk);

	save_state_upon_loss(sk, bbr);
	return ssthresh_of(tcp_sk(sk)->snd_ssthresh);
}

/* A mark, or a timeout, for which the kernel has reduced the window already. */
static void handle_signal(struct sock *sk, struct bbr3 *bbr)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	const struct sample rs = {.tx_in_flight = tp->packets_out - tp->sacked_out, .is_app_limited = tp->app_limited};

	count_losses(tp, bbr);
	note_loss(tp, bbr);
	if (bbr->is_bw_probe_sample)
		handle_inflight_too_high(tp, bbr, &rs, bbr->prior_cwnd);
	add_mark(tp, bbr3_marks_get(sk));
}

/* The window is restored here: ca_state_of is still the old state, and cong_control sees the new one only. */
CC_OP(void, bpf_bbr3_set_state, struct sock *sk, u8 new_state)
{
	struct bbr3 *bbr = inet_csk_ca(sk);

	if (new_state == TCP_CA_CWR || new_state == TCP_CA_Loss)
		handle_signal(sk, bbr);
	else if (ca_state_of(sk) >= TCP_CA_Recovery && new_state < TCP_CA_Recovery)
		restore_cwnd(tcp_sk(sk), bbr);
}

/* handle_spurious_loss_detection. Without marks nothing had been bounded before. */
CC_OP(u32, bpf_bbr3_undo_cwnd, struct sock *sk)
{
	struct bbr3 *bbr = inet_csk_ca(sk);
	const struct marks *marks = bbr3_marks_get(sk);

	bbr->is_loss_in_round = 0;
	reset_full_bw(bbr, 0);
	bbr->bw_shortterm = max(bbr->bw_shortterm, marks ? marks->undo_bw_shortterm : INFINITE);
	bbr->inflight_shortterm = max(bbr->inflight_shortterm, marks ? marks->undo_inflight_shortterm : INFINITE);
	bbr->inflight_longterm = max(bbr->inflight_longterm, marks ? marks->undo_inflight_longterm : INFINITE);
	if (bbr->undo_startup)
		bbr->full_bw_reached = 0;
	if (bbr->undo_startup && bbr->phase != PHASE_PROBE_RTT)
		bbr->phase = PHASE_STARTUP;
	if (bbr->undo_up && bbr->phase != PHASE_UP && bbr->phase != PHASE_PROBE_RTT)
		start_refill(tcp_sk(sk), bbr);
	bbr->undo_startup = 0;
	bbr->undo_up = 0;
	return max(tcp_sk(sk)->snd_cwnd, bbr->prior_cwnd);
}

static void handle_restart_from_idle(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr3 *bbr = inet_csk_ca(sk);

	if (!tp->app_limited)
		return;
	bbr->idle_restart = 1;
	bbr->extra_acked_start = (u32)tp->tcp_mstamp;
	if (is_in_probe_bw(bbr))
		set_pacing_rate_with_gain(sk, bbr, SHARE_UNIT);
	else if (bbr->phase == PHASE_PROBE_RTT)
		check_probe_rtt_done(tp, bbr);
}

CC_OP(void, bpf_bbr3_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_TX_START)
		handle_restart_from_idle(sk);
}

CC_OP(void, bpf_bbr3_cwnd_event_tx_start, struct sock *sk)
{
	handle_restart_from_idle(sk);
}

/* Room for a flight, its retransmissions and what waits: as the kernel's bbr. */
CC_OP(u32, bpf_bbr3_sndbuf_expand, struct sock *sk)
{
	return 3;
}

CC_OP(void, bpf_bbr3_release, struct sock *sk)
{
	bbr3_marks_delete(sk);
}

ALGORITHM(bpf_bbr3, "BBRv3: paces to a model of the path's bandwidth, lowest RTT and tolerated inflight",
	  "draft-ietf-ccwg-bbr, August 2026") = {
	.init = (void *)bpf_bbr3_init,
	.release = (void *)bpf_bbr3_release,
	.cong_control = (void *)bpf_bbr3_cong_control,
	.cong_control___2 = (void *)bpf_bbr3_cong_control_2,
	.ssthresh = (void *)bpf_bbr3_ssthresh,
	.cwnd_event = (void *)bpf_bbr3_cwnd_event,
	.cwnd_event_tx_start = (void *)bpf_bbr3_cwnd_event_tx_start,
	.set_state = (void *)bpf_bbr3_set_state,
	.undo_cwnd = (void *)bpf_bbr3_undo_cwnd,
	.sndbuf_expand = (void *)bpf_bbr3_sndbuf_expand,
	.name = "bpf_bbr3",
};
