// SPDX-License-Identifier: GPL-2.0-only
/*
 * CUBIC with SEARCH: leave slow start when less arrives than was sent a round trip ago, and drain the queue.
 *
 * Source
 *   J. Chung, M. Ataei Kachooei, F. Li, M. Claypool, "SEARCH -- a New Slow Start Algorithm for TCP and QUIC" (SEARCH
 *   4.0), draft-chung-ccwg-search-10, 2026, doi: none found; M. Ataei Kachooei et al., "Improving TCP slow start
 *   performance in wireless networks with SEARCH", IEEE WoWMoM, 2024, doi: none found; CUBIC: see bpf_cubic.
 *   Differs 1 lists what could be read of the draft.
 *   Patents: two of the draft's authors work for Viasat. We found no IPR disclosure for the draft, but could not
 *   search the IETF's list. US 11,082,883 (holder not verified) claims an exit from slow start by delivery rates in
 *   equal periods. We did not examine whether it, or another patent, covers SEARCH. This is no legal advice.
 *
 * Idea
 *   In slow start each window is twice the previous one. Once the path is full, ACKs no longer arrive at the rate at
 *   which packets were sent a round trip ago. SEARCH compares the two over a window of 3.5 round trips, so short
 *   changes of the delay do not count. HyStart reacts to them, and often leaves slow start too early on wireless links.
 *   The window then falls to what one round trip delivers, while one packet leaves for three acknowledged ones.
 *
 * Equations
 *   bins          BIN_DURATION = 3.5 INITIAL_RTT / 10; acked[], sent[]: cumulative bytes at the end of each bin
 *   delivered     curr_delv = acked[curr] - acked[curr - 10]
 *   a RTT ago     prev = curr - RTT / BIN_DURATION, rounded down; f = RTT mod BIN_DURATION, in bins
 *   sent          prev_sent = (1 - f) (sent[prev] - sent[prev - 10]) + f (sent[prev - 1] - sent[prev - 11])
 *   exit          (prev_sent - curr_delv) / prev_sent >= 0.26, if prev > 10 and curr - prev < EXTRA_BINS = 15
 *   target        acked[curr] - acked[curr - ceil(INITIAL_RTT / BIN_DURATION)], at least 10 packets
 *   drain         cwnd = max(in flight + acked / 3, target), until it is the target; ssthresh = cwnd
 *   the rest      CUBIC: see bpf_cubic
 *
 * Units
 *   As bpf_cubic; bytes of bins in 32 bits, which wrap; durations of bins in us.
 *
 * Life
 *   slow start -> (less arrives than was sent) drain -> (target) convex -> (loss) recovery -> concave.
 *   slow start, drain -> (loss) recovery; timeout -> loss -> slow start with new bins. With search_exit 0 and 2, slow
 *   start leads to convex at once.
 *
 * Differs
 *   1. The full text of revision 10 could not be had. We read the full text of SEARCH 3.0, from June 2024, the
 *      authors' Linux module of SEARCH 4.0, and neqo, which follows revision 09 and states where it does not.
 *      EXTRA_BINS and the threshold are those of revision 09 in neqo. The module has 40 bins and 35 %.
 *   2. In revision 09 the interpolation uses the next bin instead of the previous one. The authors of neqo report that
 *      the draft's authors call this a mistake. Here it is the previous bin, as in both programs.
 *   3. Fractions are exact to a byte. The module rounds to hundredths, and shifts its bins to 16 bits.
 *   4. ssthresh is set to the target when the drain begins, not when it ends. Otherwise an undone loss in the drain
 *      would lead to a slow start without an end.
 *   5. SEARCH 3.0 takes INITIAL_RTT once in a connection. Here SEARCH acts in each slow start, with new bins and the
 *      first RTT sample in it. The module does the same.
 *   6. Revision 09 has the reset for missed bins as an option. It is off here (search_alpha = 0), and the module of
 *      SEARCH 4.0 has none. SEARCH 3.1 also reset the bins of a sender that the application limits. SEARCH 4.0 compares
 *      with what was sent, and does not need this.
 *   7. acked[] counts bytes acknowledged in sequence, and sent[] also retransmissions. Bytes that SACK reports count
 *      once the hole before them is filled.
 *   8. An ACK without an RTT sample changes neither the bins nor the window of a drain.
 *   9. SEARCH 3 has no drain, but an optional cut of cwnd at the exit, by what the last two INITIAL_RTTs delivered:
 *      search_exit = 2. It never raises the window.
 *   10. A connection without memory for its bins leaves slow start as the kernel's HyStart does.
 *   11. While nothing is lost, what arrives in a window is what was sent in the window one RTT before each of its ends.
 *      So the difference exists only where the RTT has grown within 3.5 INITIAL_RTT. The text of SEARCH 3.0 says that
 *      detection comes almost exactly two RTTs after the congestion point. The window doubles twice in this time: 26 %
 *      are missing with 5.3 BDPs in flight. A queue of less than about 4.5 BDPs overflows before that, and the loss is
 *      known before SEARCH acts if the queue is less than 1.7 BDPs: scenarios/known/search-exit.toml.
 *   12. All differences of bpf_cubic, except those of HyStart.
 *
 * Kernel
 *   As bpf_cubic. Bins take 232 bytes of socket storage, which count as its option memory. They exist only in slow
 *   start and its drain. The authors' module registers the same name, so load one of the two under another name.
 */
#include "tccc.bpf.h"

#define CUBIC_HYSTART 3
#define CUBIC_HYSTART_MOST 3
#define CUBIC_HYSTART_UNIT "0 to 3"
#define CUBIC_HYSTART_OWN "; 3 SEARCH"
#define CUBIC_OWN_PHASES , PHASE_DRAIN
#define CUBIC_AT_SAMPLE(sk, rtt_us)                                                                                    \
	if (takes_sample(sk, rtt_us))                                                                                  \
	return
#define CUBIC_AT_ACK(sk)                                                                                               \
	if (holds_window(sk))                                                                                          \
	return
#define CUBIC_AT_STATE(sk, new_state) note_state(sk, new_state)
#define CUBIC_AT_EVENT(sk, event) note_event(sk, event)

static bool takes_sample(struct sock *sk, u32 rtt_us);
static bool holds_window(struct sock *sk);
static void note_state(struct sock *sk, u8 new_state);
static void note_event(struct sock *sk, enum tcp_ca_event event);

#include "cubic.bpf.h"

TUNABLE(u32, search_window, 350, 100, 1000, "1/100 RTT",
	"WINDOW_SIZE, 3.5 times the first RTT: longer than the cycles of the RTT that the authors saw on wireless "
	"links");
TUNABLE(u32, search_thresh, 26, 1, 99, "%",
	"THRESH, revision 09: share of what was sent that may be missing; the authors' module has 35");
TUNABLE(u8, search_exit, 1, 0, 2, "0, 1 or 2",
	"at the end of slow start: 0 keep the window; 1 drain, SEARCH 4.0; 2 cut at once, the option of SEARCH 3");
TUNABLE(u32, search_drain_acks, 3, 1, 255, "packets",
	"packets acknowledged per packet sent in the drain; the authors' module has 3, and more drains faster");
TUNABLE(u32, search_alpha, 0, 0, 255, "first RTTs",
	"ALPHA: time without ACKs after which the bins begin anew; 0 never, as the authors' module; SEARCH 3.1 had 2");

#define HYSTART_OF_SEARCH 3
/* The values of search_exit. */
#define EXIT_BY_DRAIN 1
#define EXIT_BY_CUT 2

#define WINDOW_BINS 10u	 /* W */
#define EXTRA_BINS 15u	 /* farthest look back for an RTT that has grown, in bins */
#define INITIAL_CWND 10u /* TCP_INIT_CWND of the kernel */
#define PERCENT 100u

/* Rings: the draft needs 11 and 26 places. A power of two is what the verifier can follow. */
#define ACKED_SLOTS 16u
#define SENT_SLOTS 32u

struct bins {
	u64 end_us;	     /* bin_end */
	u32 first_rtt_us;    /* INITIAL_RTT */
	u32 width_us;	     /* BIN_DURATION; 0: no bin yet */
	u32 index;	     /* curr_idx, but below 2 SENT_SLOTS: only its place and W + EXTRA_BINS passed matter */
	u32 target;	     /* of the drain, packets */
	u32 prior_delivered; /* in the drain, the socket's count at the latest ACK */
	u32 credit;	     /* in the drain, packets acknowledged towards the next one to send */
	u32 acked[ACKED_SLOTS];
	u32 sent[SENT_SLOTS];
};
PRIVATE_STORAGE(search_bins, struct bins);

/* The bins. */

static void note_bytes(const struct tcp_sock *tp, struct bins *bins)
{
	bins->acked[bins->index % ACKED_SLOTS] = (u32)tp->bytes_acked;
	bins->sent[bins->index % SENT_SLOTS] = (u32)tp->bytes_sent;
}

static void begin_bins(const struct tcp_sock *tp, struct bins *bins)
{
	bins->index = 0;
	bins->end_us = tp->tcp_mstamp + bins->width_us;
	note_bytes(tp, bins);
}

/* BIN_DURATION = WINDOW_SIZE / W */
static void set_width(struct bins *bins, u32 rtt_us)
{
	const u32 width_us = (u32)((u64)rtt_us * search_window / (PERCENT * WINDOW_BINS)); /* at most the RTT */

	bins->first_rtt_us = rtt_us;
	bins->width_us = max(width_us, 1u);
}

/* Bins in which no ACK arrived have the counts of the bin before them. */
static void fill_bins(struct bins *bins, u32 count)
{
	const u32 last = bins->index;

	for (u32 i = 1; i < SENT_SLOTS; i++) {
		if (i > count)
			break;
		bins->acked[(last + i) % ACKED_SLOTS] = bins->acked[last % ACKED_SLOTS];
		bins->sent[(last + i) % SENT_SLOTS] = bins->sent[last % SENT_SLOTS];
	}
}

/* Ends the bins whose time has passed. */
static void pass_bins(const struct tcp_sock *tp, struct bins *bins, u64 passed)
{
	const u32 steps = (u32)min(passed, (u64)SENT_SLOTS);

	fill_bins(bins, steps - 1);
	bins->index += steps;
	if (bins->index >= 2 * SENT_SLOTS)
		bins->index = SENT_SLOTS + bins->index % SENT_SLOTS;
	bins->end_us += passed * bins->width_us;
	note_bytes(tp, bins);
}

/* passed > ALPHA INITIAL_RTT / BIN_DURATION */
static bool is_stale(const struct bins *bins, u64 passed, u32 width_us)
{
	return search_alpha && passed > search_alpha * (u64)(bins->first_rtt_us / width_us);
}

/* Bytes acknowledged in the last bins. */
static u32 acked_in(const struct bins *bins, u32 count)
{
	return bins->acked[bins->index % ACKED_SLOTS] - bins->acked[(bins->index - count) % ACKED_SLOTS];
}

/* Bytes sent in the W bins up to this one. */
static u32 sent_until(const struct bins *bins, u32 bin)
{
	return bins->sent[bin % SENT_SLOTS] - bins->sent[(bin - WINDOW_BINS) % SENT_SLOTS];
}

/*
 * norm_diff >= THRESH, once there are bins for the window and for the one an RTT ago.
 * Error: prev_sent is rounded down to a byte. The sum below stays under 2^32 width_us, so it fits 64 bits.
 */
static bool is_flat(const struct bins *bins, u32 rtt_us, u32 width_us)
{
	const u32 back = rtt_us / width_us, part_us = rtt_us % width_us, prev = bins->index - back;
	u64 delivered, sent;

	if (back >= EXTRA_BINS || bins->index <= back + WINDOW_BINS)
		return false;
	delivered = acked_in(bins, WINDOW_BINS);
	sent = (u64)sent_until(bins, prev - 1) * part_us + (u64)sent_until(bins, prev) * (width_us - part_us);
	sent /= width_us;
	return sent > delivered && (sent - delivered) * PERCENT >= sent * search_thresh;
}

/* The end of slow start. */

/* Packets delivered in the last bins, of which the window has W. */
static u32 packets_in_bins(const struct tcp_sock *tp, const struct bins *bins, u32 count)
{
	return acked_in(bins, min(count, WINDOW_BINS)) / tp->mss_cache;
}

static void begin_drain(struct sock *sk, struct cubic *cubic, struct bins *bins)
{
	struct tcp_sock *tp = tcp_sk(sk);
	const u32 rtt_bins = (u32)(((u64)bins->first_rtt_us + bins->width_us - 1) / max(bins->width_us, 1u));
	const u32 delivered = packets_in_bins(tp, bins, rtt_bins);

	bins->target = max(delivered, INITIAL_CWND);
	bins->prior_delivered = tp->delivered;
	bins->credit = 0;
	tp->snd_ssthresh = ssthresh_of(bins->target);
	cubic->phase = PHASE_DRAIN;
}

static void end_slow_start(struct sock *sk)
{
	search_bins_delete(sk);
	set_slow_start_exit(tcp_sk(sk));
	update_phase(sk);
}

/* cwnd -= what the last 2 INITIAL_RTTs delivered: SEARCH 3 */
static void cut_overshoot(struct tcp_sock *tp, const struct bins *bins)
{
	const u64 two_rtts_us = 2 * (u64)bins->first_rtt_us;
	const u32 overshoot = packets_in_bins(tp, bins, (u32)(two_rtts_us / max(bins->width_us, 1u)));
	const u32 kept = tp->snd_cwnd > overshoot ? tp->snd_cwnd - overshoot : 0;

	tp->snd_cwnd = min(tp->snd_cwnd, max(kept, INITIAL_CWND));
}

static void leave_slow_start(struct sock *sk, struct cubic *cubic, struct bins *bins)
{
	if (search_exit == EXIT_BY_DRAIN) {
		begin_drain(sk, cubic, bins);
		return;
	}
	if (search_exit == EXIT_BY_CUT)
		cut_overshoot(tcp_sk(sk), bins);
	end_slow_start(sk);
}

/* cwnd = max(in flight + a packet for three acknowledged, target) */
static void drain(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bins *bins = search_bins_get(sk);
	u32 wanted;

	if (!bins) {
		end_slow_start(sk);
		return;
	}
	bins->credit += tp->delivered - bins->prior_delivered;
	bins->prior_delivered = tp->delivered;
	wanted = tcp_packets_in_flight(tp) + bins->credit / search_drain_acks;
	bins->credit %= search_drain_acks;
	set_cwnd(tp, max(wanted, bins->target));
	if (wanted <= bins->target)
		end_slow_start(sk);
}

/* What SEARCH adds to the callbacks of the family. */

static void update_search(struct sock *sk, struct cubic *cubic, struct bins *bins, u32 rtt_us)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	const u32 width_us = bins->width_us;
	u64 passed;

	if (!width_us) {
		set_width(bins, rtt_us);
		begin_bins(tp, bins);
		return;
	}
	if (tp->tcp_mstamp <= bins->end_us)
		return;
	passed = (tp->tcp_mstamp - bins->end_us) / width_us + 1;
	if (is_stale(bins, passed, width_us)) {
		if (passed > WINDOW_BINS)
			set_width(bins, rtt_us);
		begin_bins(tp, bins);
		return;
	}
	pass_bins(tp, bins, passed);
	if (is_flat(bins, rtt_us, width_us))
		leave_slow_start(sk, cubic, bins);
}

/* Whether SEARCH has used the RTT sample. Otherwise it is one for HyStart. */
static bool takes_sample(struct sock *sk, u32 rtt_us)
{
	struct cubic *cubic = inet_csk_ca(sk);
	struct bins *bins;

	if (hystart != HYSTART_OF_SEARCH)
		return false;
	if (cubic->phase == PHASE_DRAIN) {
		drain(sk);
		return true;
	}
	if (!in_slow_start(tcp_sk(sk)) || cubic->phase == PHASE_RECOVERY)
		return true;
	bins = search_bins_create(sk);
	if (!bins)
		return false;
	update_search(sk, cubic, bins, rtt_us);
	return true;
}

/* Whether the ACK must not change the window. Slow start may have ended at a threshold: then the bins go. */
static bool holds_window(struct sock *sk)
{
	const struct cubic *cubic = inet_csk_ca(sk);

	if (cubic->phase == PHASE_DRAIN)
		return true;
	if (cubic->phase == PHASE_SLOW_START && !in_slow_start(tcp_sk(sk)))
		search_bins_delete(sk);
	return false;
}

/* A reduction or a timeout ends this slow start and its drain. */
static void note_state(struct sock *sk, u8 new_state)
{
	if (new_state >= TCP_CA_CWR)
		search_bins_delete(sk);
}

/* After idle time the kernel restarts the window, and slow start up to the threshold. */
static void note_event(struct sock *sk, enum tcp_ca_event event)
{
	struct cubic *cubic = inet_csk_ca(sk);

	if (event != CA_EVENT_CWND_RESTART)
		return;
	search_bins_delete(sk);
	if (cubic->phase == PHASE_DRAIN)
		cubic->phase = PHASE_SLOW_START;
}

CC_OP(void, cubic_search_release, struct sock *sk)
{
	search_bins_delete(sk);
}

ALGORITHM(cubic_search, "CUBIC with SEARCH: leave slow start when deliveries fall behind",
	  "draft-chung-ccwg-search-10") = {
	CUBIC_CALLBACKS,
	.release = (void *)cubic_search_release,
	.name = "cubic_search",
};
