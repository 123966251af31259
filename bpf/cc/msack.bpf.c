// SPDX-License-Identifier: GPL-2.0-only
/*
 * Modified TCP SACK: a loss while the RTT is near its average is a bit error and costs no window.
 *
 * Source
 *   R. D. Mehta, H. T. Loriya, D. R. Keraliya, "A Novel Approach to Enhance the Performance of TCP SACK on Wireless
 *   Links", 2024: section 3.1 and the flow chart of figure 1, which the text describes.
 *
 * Idea
 *   Congestion fills queues and lifts the RTT well above its average; a bit error does not. A loss within the tolerance
 *   is therefore only retransmitted, however many there are. Above it the parent decides (dfr): the first loss of a
 *   window is forgiven, the second one is congestion.
 *
 * Equations
 *   average      rtt_avg += gain (rtt - rtt_avg), gain = 1/8, once a round trip, outside Recovery and Loss
 *   deviation    dev = max(rtt - rtt_avg, 0) / rtt_avg, at the ACK that tells of a loss
 *   random       dev <= tolerance: retransmit, ssthresh = cwnd
 *   postponed    dev > tolerance, first loss of its window (S_M_LOSS set): retransmit, ssthresh = cwnd; clear S_M_LOSS
 *   cut          dev > tolerance, S_M_LOSS cleared: the postponed recovery, ssthresh = max(cwnd0 / 2, 2); set S_M_LOSS
 *   growth, timeout, mark: as dfr
 *
 * Units
 *   Windows and losses in packets; times in us, the average also in 1/1024 us; deviation in 1/1000 of the average.
 *
 * Life
 *   slow start -> avoidance -> (loss) random, postponed or recovery; random -> (loss above tolerance) postponed ->
 *   (another) recovery -> avoidance; random and postponed end where they began; timeout -> loss -> slow start.
 *
 * Differs
 *   1. The flow chart postpones a first loss above the tolerance, the text beside it cuts at once. mode chooses: 0 is the
 *      flow chart, which alone explains the published row of 0 % tolerance; 1 is the text.
 *   2. The average is unspecified: exponential with TCP's own gain, frozen while recovering. One sample a round trip
 *      enters it, as the simulator of the paper times one packet at a time: over every ACK it would follow a filling
 *      queue within a few ACKs and never see a deviation. The "current RTT" is the latest sample of any ACK.
 *   3. Only a higher RTT is a deviation. Without any sample yet a loss is above the tolerance.
 *   4. Every ACK that tells of losses has one verdict, whether recovery begins with it or goes on.
 *   5. S_M_LOSS is set again, which the paper leaves open, when everything sent before the postponed loss was noticed is
 *      acknowledged, at a cut, a timeout, an undo and a restart after idle time. A random loss leaves it alone.
 *   6. guard is ours: taken literally the algorithm never reduces on a path whose queue is too short to lift the RTT.
 *      After guard_verdicts random verdicts in a row within guard_rtts round trips the window is cut once. Verdicts are
 *      counted from the first of a row, and again from the first one later than that. guard = 0 is the paper.
 *   7. The published simulation had a constant RTT: the algorithm as run never cut at all. On a real path jitter decides;
 *      and a queue that linear growth fills slowly lifts the average with it, so that the losses of a queue that stands
 *      full are random ones. A lower tolerance sees it sooner; this is the paper's choice of the average as reference.
 *   8. Differences 1 to 10 of dfr, with "two at once" and later losses only where the RTT is above the tolerance.
 *
 * Kernel
 *   As dfr. RTT samples are those of the kernel for congestion control: of the packet that arrived last, also by SACK.
 */
#include "tccc.bpf.h"
#define DFR_MORE_PHASES , PHASE_RANDOM
#define DFR_MORE_VERDICTS , VERDICT_RANDOM = 1 /* a bit error: retransmit */, VERDICT_GUARD = 6 /* too many of them */
#define DFR_MORE_STATE                                                                                                 \
	u32 random;		/* verdicts that took a loss for a bit error */                                        \
	u32 rtt_last_us;	/* latest sample */                                                                    \
	u32 rtt_avg_us;		/* average, rounded down */                                                            \
	u32 deviation_permille; /* at the latest verdict */                                                            \
	u32 round_end;		/* the next sample of the average is that of the ACK that reaches this */              \
	u32 random_row;		/* random verdicts without another between them, since row_start_us */                 \
	u64 rtt_avg;		/* average in 1/1024 us, 0: no sample yet */                                           \
	u64 row_start_us;	/* time of the first of these */
#define DFR_NOTE_VERDICT msack_note_verdict
#include "dfr.bpf.h"

/* Fractions of a microsecond in the average: 2^31 us take 41 bits, times a gain of 2^10 or a percentage below 2^8 fits. */
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
	"one sample a round trip enters the average; off: every ACK's, which hides a queue that fills");

TUNABLE(u8, guard, 1, 0, 1, "on or off",
	"cut once when too many losses in a row were taken for bit errors: a full short queue; 0 is the paper");

TUNABLE(u32, guard_verdicts, 8, 1, 1024, "verdicts",
	"random verdicts in a row that are too many: 1 % of bit errors gives 8 in two windows of 400 packets");

TUNABLE(u32, guard_rtts, 2, 1, 64, "average RTTs", "time within which they are too many: a loss and its recovery");

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
	struct dfr *msack = inet_csk_ca(sk);
	const bool is_round_over = !msack->rtt_avg || !before(tp->snd_una, msack->round_end);

	msack->rtt_last_us = rtt_us;
	if (ca_state_of(sk) >= TCP_CA_Recovery || (average_by_round && !is_round_over))
		return;
	msack->round_end = tp->snd_nxt;
	msack->rtt_avg = averaged(msack->rtt_avg, (u64)rtt_us << AVERAGE_SHIFT);
	msack->rtt_avg_us = (u32)(msack->rtt_avg >> AVERAGE_SHIFT);
}

/* dev = max(rtt - rtt_avg, 0) / rtt_avg, for the trace: the decision itself is made without rounding. */
static u32 deviation_permille(const struct dfr *msack)
{
	const u64 rtt = (u64)msack->rtt_last_us << AVERAGE_SHIFT;

	if (!msack->rtt_avg || rtt <= msack->rtt_avg)
		return 0;
	return (u32)min((rtt - msack->rtt_avg) * PERMILLE / msack->rtt_avg, (u64)U32_LARGEST);
}

/* dev <= tolerance, figure 1. */
static bool is_within_tolerance(const struct dfr *msack)
{
	const u64 rtt = (u64)msack->rtt_last_us << AVERAGE_SHIFT;

	return msack->rtt_avg && rtt * PERCENT <= msack->rtt_avg * (PERCENT + tolerance);
}

/* The row of random verdicts is still within its round trips. */
static bool is_row_young(const struct sock *sk, const struct dfr *msack)
{
	return tcp_sk(sk)->tcp_mstamp - msack->row_start_us <= (u64)guard_rtts * msack->rtt_avg_us;
}

static bool is_guard_due(const struct sock *sk, const struct dfr *msack)
{
	const u32 row = is_row_young(sk, msack) ? msack->random_row : 0;

	return guard && row + 1 >= guard_verdicts;
}

static void msack_note_verdict(struct sock *sk, enum verdict verdict)
{
	struct dfr *msack = inet_csk_ca(sk);

	if (verdict != VERDICT_RANDOM) {
		msack->random_row = 0;
		return;
	}
	msack->random++;
	if (ca_state_of(sk) != TCP_CA_Recovery) /* recovery begins with it; later a postponed cut stays postponed */
		msack->phase = PHASE_RANDOM;
	if (!msack->random_row || !is_row_young(sk, msack)) {
		msack->random_row = 0;
		msack->row_start_us = tcp_sk(sk)->tcp_mstamp;
	}
	msack->random_row++;
}

/* The flow chart of figure 1. */
static enum verdict judge(struct sock *sk, u32 losses)
{
	struct dfr *msack = inet_csk_ca(sk);

	msack->deviation_permille = deviation_permille(msack);
	if (is_within_tolerance(msack))
		return is_guard_due(sk, msack) ? VERDICT_GUARD : VERDICT_RANDOM;
	if (mode == MODE_DFR && is_single_loss(msack, losses))
		return VERDICT_POSTPONED;
	return VERDICT_CUT;
}

/* The losses are judged first: the ACK that told of them is the one before, and so is the RTT. */
CC_OP(void, msack_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	update_window(sk);
	if (sample->rtt_us >= 0)
		update_rtt(sk, max((u32)sample->rtt_us, 1u));
}

ALGORITHM(msack, "Modified TCP SACK: no cut for a loss while the RTT is near its average",
	  "Mehta, Loriya & Keraliya 2024, figure 1") = {
	DFR_CALLBACKS,
	.pkts_acked = (void *)msack_pkts_acked,
	.name = "msack",
};
