// SPDX-License-Identifier: GPL-2.0-only
/*
 * Modified TCP SACK: a loss while the RTT is near its average counts as a bit error and costs no window.
 *
 * Source
 *   R. D. Mehta, H. T. Loriya, D. R. Keraliya, "A Novel Approach to Enhance the Performance of TCP SACK on
 *   Wireless Links", published 27 July 2024 (the text that we have names no journal, volume or doi: none found):
 *   section 3.1 and the flow chart of figure 1, which the text describes.
 *
 * Idea
 *   Congestion fills queues and raises the RTT well above its average. A bit error does not. So losses within the
 *   tolerance are only retransmitted, however many there are. Above the tolerance the parent algorithm decides
 *   (dfr): it forgives the first loss of a window, and takes the second one for congestion.
 *
 * Equations
 *   average      rtt_avg += gain (rtt - rtt_avg), gain = 1/8, once a round trip, outside Recovery and Loss
 *   deviation    dev = max(rtt - rtt_avg, 0) / rtt_avg, at the ACK that reports a loss
 *   random       dev <= tolerance: retransmit, ssthresh = cwnd
 *   postponed    dev > tolerance, first loss of its window (S_M_LOSS set): retransmit, ssthresh = cwnd; clear S_M_LOSS
 *   cut          dev > tolerance, S_M_LOSS cleared: the postponed recovery, ssthresh = max(cwnd0 / 2, 2); set S_M_LOSS
 *   growth, timeout, mark: as dfr
 *
 * Units
 *   Windows and losses in packets; times in us, the average also in 1/1024 us; deviation in 1/1000 of the average.
 *
 * Life
 *   +--> slow start --> avoidance <--------------------------+
 *   |         |             |                                |
 *   |         +------+------+                                |
 *   |                | loss                                  |
 *   |                |                                       |
 *   |                +-- RTT within tolerance, --> random    |
 *   |                |   guard permits it            |       |
 *   |                |                               v       |
 *   |                +-- first loss of its -----> postponed  |
 *   |                |   window                      |       |
 *   |                |                               v       |
 *   |                +-- any other loss, mark --> recovery --+
 *   |                                           (window halved)
 *   +--- loss <--- timeout, in every state
 *
 *   random and postponed keep the window. When their recovery ends, the flow
 *   continues where it was, in slow start or avoidance. The arrows down from them
 *   are further losses in the same recovery, which are judged in the same way.
 *
 * Differs
 *   1. The flow chart postpones the cut at a first loss above the tolerance. The text instead cuts at once. mode
 *      chooses: 0 is the flow chart, 1 is the text. The published column of 0 % tolerance agrees better with the
 *      flow chart but proves nothing, because both forgive a loss at a deviation of 0.
 *   2. The paper does not specify the average. Here it is exponential with TCP's own gain, and is not updated
 *      during recovery. It takes one sample per round trip, because the paper's simulator times one packet at a
 *      time. With a sample from every ACK it would follow a filling queue within a few ACKs and never see a
 *      deviation. The "current RTT" is the latest sample of any ACK.
 *   3. Only a higher RTT is a deviation. Before the first sample, every loss is above the tolerance.
 *   4. All losses that one ACK reports have one verdict, whether recovery begins with it or continues.
 *   5. The paper leaves open when S_M_LOSS is set again. Here it is set when everything sent before the postponed
 *      loss was detected is acknowledged, and at a cut, a timeout, an undo and a restart after idle time. A random
 *      loss does not change it.
 *   6. guard is ours; guard = 0 is the paper. The paper's rule alone hardly ever reduces the window. Linear growth
 *      fills a queue so slowly that the average follows it: above 35 packets the RTT of a full queue is within
 *      10 % of its average. A short queue does not raise the RTT either. The guard forgives a loss within the
 *      tolerance only if two conditions hold, and otherwise cuts at once:
 *      a. Fewer than guard_queue packets of this flow are queued. The estimate is cwnd (rtt - rtt_min) / rtt, with
 *         the lowest RTT instead of the average. Estimate and threshold are Veno's (bpf_veno), and are valid for
 *         any window.
 *      b. The budget is not used up. Each forgiven loss costs one, also when one ACK reports several. Each
 *         delivered packet earns guard_share of a loss, up to guard_losses, and a cut refills the budget. This
 *         limits how many losses are forgiven where the queue is too short for a, or where rtt_min was measured
 *         while a queue existed.
 *      Risk has the figures of the default. In virtual time at 20 Mbit/s, 40 ms, a queue of 1 BDP and 0.3 % loss
 *      (4 runs of 40 s) neighbours keep these shares of what a second reno leaves them. Beside the default: dtcp
 *      0.98, bpf_cubic 0.96, reno 0.90. Beside guard = 0: dtcp 0.34, bpf_cubic 0.37, reno 0.26. Alone on that path
 *      the default carries 15.4 Mbit/s, guard = 0 carries 19.2 and reno 6.3.
 *   7. rtt_min holds for the life of the connection. When the route gets longer, or the jitter exceeds the time of
 *      three packets, the guard takes more losses for congestion. The flow then reduces at least as often as dfr
 *      or reno.
 *   8. The published simulation had a constant RTT, so the algorithm never cut the window in it. On a real path
 *      the jitter decides.
 *   9. Differences 1 to 10 of dfr. Cuts for "two at once" and for later losses apply only where the RTT is above
 *      the tolerance.
 *
 * Kernel
 *   As dfr. RTT samples are the kernel's samples for congestion control: of the packet that arrived last, also if
 *   it was acknowledged by SACK.
 */
#include "tccc.bpf.h"
#include "delay.bpf.h"

PHASES(PHASE_SLOW_START, PHASE_AVOIDANCE, PHASE_POSTPONED, PHASE_RECOVERY, PHASE_LOSS, PHASE_RANDOM);

#include "dfr.bpf.h"

/* Fractions of a microsecond in the average. 2^31 us take 41 bits, so a gain of 2^10 or a percentage below 2^8 fits. */
#define AVERAGE_SHIFT SHARE_SHIFT
#define PERCENT 100u
#define PERMILLE 1000u
#define MODE_DFR 0

/* Section 4.2 tests 0 to 20; more is for paths whose jitter exceeds that. */
TUNABLE(u32, tolerance, 10, 0, 100, "%",
	"RTT above its average up to which a loss is a bit error; the paper tests 0 to 20 and finds 5 to 20 alike");

TUNABLE(u8, mode, 0, 0, 1, "0 or 1",
	"above the tolerance: 0 dfr, the first loss of a window is postponed (figure 1); 1 strict, it cuts at once "
	"(text)");

TUNABLE(u32, average_gain, 128, 1, 1024, "1/1024",
	"weight of a sample in the average RTT: 1/8 as TCP's smoothed RTT; the paper leaves it open");

TUNABLE(u8, average_by_round, 1, 0, 1, "on or off",
	"one sample per round trip enters the average; off: every ACK's, which hides a queue that fills");

TUNABLE(u8, guard, 1, 0, 1, "on or off",
	"forgive a loss only while the queue is short and the budget lasts; 0 is the paper, which may never reduce");

TUNABLE(u32, guard_queue, 3, 1, 65535, "packets",
	"queued packets of this flow from which the guard cuts: the threshold by which Veno distinguishes losses");

TUNABLE_WAS(u32, guard_verdicts, guard_losses);
TUNABLE(u32, guard_losses, 8, 1, 1024, "losses",
	"most that the guard forgives at once: 1 % of bit errors gives 8 in two windows of 400 packets");

TUNABLE(u32, guard_share, 10, 0, 1000, "1/1000",
	"share of lost packets that the guard forgives in the long run: at 1 % Reno keeps 12 packets, more than it "
	"begins with");

struct msack {
	u8 phase;
	struct dfr dfr;
	u32 random;		/* verdicts that took a loss for a bit error */
	u32 judged;		/* losses of the latest verdict */
	u32 budget;		/* losses that the guard may forgive, 1/1000 */
	u32 budget_mark;	/* tp->delivered up to which packets have earned budget */
	u32 rtt_min_us;		/* lowest sample, 0: none yet */
	u32 rtt_last_us;	/* latest sample */
	u32 rtt_avg_us;		/* average, rounded down */
	u32 deviation_permille; /* at the latest verdict */
	u32 round_end;		/* the next sample enters the average at the ACK that reaches this */
	u64 rtt_avg;		/* average in 1/1024 us, 0: no sample yet */
};
STATE_FITS(struct msack);
_Static_assert(__builtin_offsetof(struct msack, dfr) == __builtin_offsetof(struct dfr_state, dfr),
	       "the state begins as the core's");

/* rtt_avg += gain (rtt - rtt_avg); the first sample begins it. Section 3.1: "recorded, averaged out, and stored". */
static u64 averaged(u64 average, u64 rtt)
{
	if (!average)
		return rtt;
	return (average * (SHARE_UNIT - average_gain) + rtt * average_gain) >> SHARE_SHIFT;
}

static void update_rtt(struct sock *sk, u32 rtt_us)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct msack *msack = inet_csk_ca(sk);
	const bool is_round_over = !msack->rtt_avg || !before(tp->snd_una, msack->round_end);

	msack->rtt_last_us = rtt_us;
	if (!msack->rtt_min_us || rtt_us < msack->rtt_min_us)
		msack->rtt_min_us = rtt_us;
	if (ca_state_of(sk) >= TCP_CA_Recovery || (average_by_round && !is_round_over))
		return;
	msack->round_end = tp->snd_nxt;
	msack->rtt_avg = averaged(msack->rtt_avg, (u64)rtt_us << AVERAGE_SHIFT);
	msack->rtt_avg_us = (u32)(msack->rtt_avg >> AVERAGE_SHIFT);
}

/* dev = max(rtt - rtt_avg, 0) / rtt_avg, for the trace: the decision itself is made without rounding. */
static u32 deviation_permille(const struct msack *msack)
{
	const u64 rtt = (u64)msack->rtt_last_us << AVERAGE_SHIFT;

	if (!msack->rtt_avg || rtt <= msack->rtt_avg)
		return 0;
	return (u32)min((rtt - msack->rtt_avg) * PERMILLE / msack->rtt_avg, (u64)U32_LARGEST);
}

/* dev <= tolerance, figure 1. */
static bool is_within_tolerance(const struct msack *msack)
{
	const u64 rtt = (u64)msack->rtt_last_us << AVERAGE_SHIFT;

	return msack->rtt_avg && rtt * PERCENT <= msack->rtt_avg * (PERCENT + tolerance);
}

/* Whether guard_queue packets of this flow are queued. Veno's estimate needs no average that moves with the queue. */
static bool is_queue_standing(const struct tcp_sock *tp, const struct msack *msack)
{
	return queued_packets(tp->snd_cwnd, msack->rtt_min_us, msack->rtt_last_us) >= guard_queue;
}

static void fill_budget(const struct tcp_sock *tp, struct msack *msack)
{
	msack->budget = guard_losses * PERMILLE;
	msack->budget_mark = tp->delivered;
}

/* budget += guard_share for every packet delivered since, up to guard_losses. */
static void update_budget(const struct tcp_sock *tp, struct msack *msack)
{
	const u64 earned = (u64)(tp->delivered - msack->budget_mark) * guard_share;

	msack->budget = (u32)min(msack->budget + earned, (u64)guard_losses * PERMILLE);
	msack->budget_mark = tp->delivered;
}

static bool is_guard_due(const struct tcp_sock *tp, const struct msack *msack)
{
	return guard && (is_queue_standing(tp, msack) || (u64)msack->judged * PERMILLE > msack->budget);
}

static bool is_forgiven(enum verdict verdict)
{
	return verdict == VERDICT_RANDOM || verdict == VERDICT_POSTPONED;
}

static void note_verdict(struct sock *sk, enum verdict verdict)
{
	struct msack *msack = inet_csk_ca(sk);

	if (verdict == VERDICT_RANDOM) {
		msack->random++;
		msack->budget -= min((u64)msack->judged * PERMILLE, (u64)msack->budget);
		if (ca_state_of(sk) != TCP_CA_Recovery) /* recovery begins; later a postponed cut stays postponed */
			msack->phase = PHASE_RANDOM;
	} else if (!is_forgiven(verdict)) {
		fill_budget(tcp_sk(sk), msack);
	}
}

/* The flow chart of figure 1, and the guard. */
static enum verdict judge(struct sock *sk, u32 losses)
{
	struct msack *msack = inet_csk_ca(sk);

	msack->deviation_permille = deviation_permille(msack);
	msack->judged = losses;
	update_budget(tcp_sk(sk), msack);
	if (is_within_tolerance(msack))
		return is_guard_due(tcp_sk(sk), msack) ? VERDICT_GUARD : VERDICT_RANDOM;
	if (mode == MODE_DFR && is_single_loss(&msack->dfr, losses))
		return VERDICT_POSTPONED;
	return VERDICT_CUT;
}

CC_OP(void, msack_init, struct sock *sk)
{
	struct msack *msack = inet_csk_ca(sk);

	__builtin_memset(msack, 0, sizeof(*msack));
	forget_losses(sk);
	fill_budget(tcp_sk(sk), msack);
}

/* The losses are judged first, because the previous ACK reported them, and its RTT belongs to them. */
CC_OP(void, msack_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	update_window(sk);
	if (sample->rtt_us >= 0)
		update_rtt(sk, max((u32)sample->rtt_us, 1u));
}

ALGORITHM(msack, "Modified TCP SACK: no cut for a loss while the RTT is near its average",
	  "Mehta, Loriya & Keraliya 2024, figure 1") = {
	.init = (void *)msack_init,
	DFR_CALLBACKS,
	.pkts_acked = (void *)msack_pkts_acked,
	.name = "msack",
};
