// SPDX-License-Identifier: GPL-2.0-only
/*
 * Prague: a queue of about a millisecond, by marks that a low-latency queue gives early and often.
 *
 * Source
 *   K. De Schepper, O. Tilmans, B. Briscoe, V. Goel, "Prague Congestion Control",
 *   draft-briscoe-iccrg-prague-congestion-control-04, 2024, section 2; RFC 9331, 4. The draft was read as other programs
 *   quote it, because no whole text could be had. What they do not quote is by the behaviour and comments of the authors'
 *   Linux module tcp_prague, version 0.7.
 *
 * Idea
 *   DCTCP for the Internet. A low-latency (L4S) queue marks packets as soon as they wait. The sender estimates the share
 *   of marked packets, and gives back half of that share of its window. So it swings little, and the queue can stay short
 *   on a full link. ECT(1) in its packets chooses that queue, which gives each Prague flow the rate of a classic flow. Its
 *   steps do not depend on the RTT below 25 ms, because in so short a queue the RTTs of flows differ much.
 *
 * Equations
 *   virtual RTT    V = max(srtt, 25 ms), once 500 rounds have passed since slow start; srtt before      2.4.4
 *   share marked   F = marked / delivered, of a virtual RTT                                             2.3.2
 *   estimate       alpha = (1 - g) alpha + g F, g = 2^-alpha_shift_g; alpha = 1 at the first mark        2.3.2
 *   mark           W = W (1 - alpha / 2), at once, at most once in a virtual RTT                        2.4.2
 *   growth         W += (srtt / V)^2 / W for each packet acknowledged without mark                      2.4.4
 *   loss           W = W / 2, of the window before a reduction by a mark in the same virtual RTT        2.4.2
 *   pacing         W / srtt, in slow start 2 W / srtt                                                   tcp_prague
 *   steady rate    k (1 / p - 1) 2 / V packets a second at a share p of marks. At small p, k = (1 + sqrt 3) / 2 = 1.37 for
 *                  marks at random, since a mark must follow the V that suppressed others. k = 1 gives the comment of
 *                  tcp_prague: (1 / p - 1) Mbit/s up to 25 ms, with packets of 1500 bytes
 *
 * Units
 *   Windows in packets, with a fraction in 2^-32; alpha in 2^-30; RTTs in us.
 *
 * Life
 *   slow start --(the first mark halves, or a loss)--> avoidance; loss -> recovery -> avoidance;
 *   timeout -> loss -> slow start up to half of the window.
 *
 * Differs
 *   1. From the draft: ECT(1). The algorithm asks for it, but the kernel's data carries ECT(0). The companion changes it
 *      at the egress of each device. The guest of virtual time has a patch instead, and no companion.
 *   2. From tcp_prague: packets keep their size below 1 Mbit/s, because no BPF program may change the MSS. Below a
 *      window of two packets, pacing alone lowers the rate, to min_rate at the lowest.
 *   3. From tcp_prague: bursts are not limited to 250 us. The kernel hands down what the pacing rate allows in about a
 *      millisecond, and a BPF program can only raise that. On fast links a burst of segmentation offload may be longer
 *      than the step at which marks begin.
 *   4. From tcp_prague: without AccECN the socket is handed to reno by setsockopt, and `ss` shows reno, not prague-reno.
 *      If a BPF program chose the algorithm, such as a policy, this happens after the first round trip.
 *   5. From tcp_prague: one window in packets, and no second mode in bytes per second for small windows. The pacing
 *      rate does not swing by 3 % within a round trip. The draft has neither.
 *   6. From tcp_prague: the draft's 500 round trips before RTT-dependence is reduced; version 0.7 waits 4.
 *      transition_rounds = 4 does as it does.
 *   7. From tcp_prague: a mark moves the window at once, as the draft says, and not by a packet for each ACK. A loss moves
 *      it by half of what each ACK delivers, down to the target. So retransmissions leave during the round trip.
 *   8. From the kernel's rule: the window grows while the flow had at least seven eighths of it in flight, less a packet.
 *      Packets paced over a round trip do not quite fill a window.
 *   9. Packets count, and not bytes. Marks that the ACKs of a round report beyond its deliveries count for no more than
 *      those. A packet lost in the host's own queue ends slow start and leaves the window alone.
 *   10. There is no fallback to Reno's reduction where a classic queue marks, as RFC 3168 has it (RFC 9331, 4.3, item 6).
 *      tcp_prague has it switched off, and removed since. Beside classic flows in such a queue it takes more than its
 *      share.
 *
 * Kernel
 *   Needs Linux 7.0 or newer at both ends: AccECN (RFC 9768), which the handshake requests whatever net.ipv4.tcp_ecn is.
 *   The other end may have any algorithm, but its net.ipv4.tcp_ecn must accept AccECN (3 or 5), or it must listen with
 *   prague. `tccc load prague` attaches the companion `ect1` to every device of the network namespace. A device that
 *   appears later has none, and its packets carry ECT(0): load again. Other sockets' packets pay one call each at the
 *   egress. The companion changes nothing but packets of sockets whose algorithm asks for ECT(1) and that negotiated
 *   AccECN. Pacing works without qdisc; fq paces too.
 */
#include "tccc.bpf.h"
#include "pacing.bpf.h"

TUNABLE(u8, alpha_shift_g, 4, 0, 10, "power of 2", "g = 2^-4 is the weight of a virtual RTT in alpha: 2.3.2");
TUNABLE(u32, alpha_on_mark, 1024, 0, 1024, "1/1024", "alpha at the first mark, which halves the window then: 2.3.2");
TUNABLE(u32, virtual_rtt_us, 25000, 0, 1000000, "us",
	"RTT below which steps no longer depend on the RTT: 2.4.4; 0: they always do");
TUNABLE(u16, transition_rounds, 500, 0, 60000, "RTTs", "after slow start, before RTT-dependence is reduced: 2.4.4");
TUNABLE(u32, min_rate, 12500, 1000, 1000000, "bytes per second", "lowest pacing rate: 100 kbit/s, as tcp_prague");

#define ALPHA_SHIFT 30
#define ALPHA_MAX (1u << ALPHA_SHIFT)
#define PART_SHIFT 32
#define PART_UNIT (1ull << PART_SHIFT)
/* The lowest window, 1/64 packet. */
#define LEAST_WINDOW (PART_UNIT / 64)
#define LEAST_AFTER_LOSS (2 * PART_UNIT)
/* srtt and V are divided with this fraction. */
#define RATIO_SHIFT 16
/* Windows count to 1/1024 packet when they divide, and in a pacing rate. */
#define COARSE_SHIFT 10
/* A larger window counts as this many packets in the pacing rate. In bytes, and times 1000000, they fit 64 bits. */
#define PACED_WINDOW_MAX (1u << 23)
#define ROUNDS_MAX 0xffffu
/* RTT before the first sample. */
#define FIRST_RTT_US 1000u
#define SOL_TCP 6
#define TCP_CONGESTION 13

PHASES(PHASE_SLOW_START, PHASE_AVOIDANCE, PHASE_RECOVERY, PHASE_LOSS);

/* A virtual RTT: it has passed once this is acknowledged and V is over. */
struct span {
	u32 end_seq;
	u64 begin_us;
};

struct prague {
	u8 phase;
	u8 has_mark : 1;      /* alpha has a value */
	u8 is_cut : 1;	      /* a mark has reduced the window, and its virtual RTT is not over */
	u8 is_recovering : 1; /* a loss has reduced it, and what was in flight then has not arrived */
	u8 is_pacing : 1;     /* pacing was switched on here */
	u16 rounds;	      /* since slow start */
	u32 alpha;	      /* estimated share of marked packets, 2^-30 */
	u32 seen_ce;	      /* marks up to the latest ACK, cumulative */
	u32 old_delivered;    /* packets delivered when the estimate's virtual RTT began */
	u32 old_delivered_ce; /* packets of these that were marked */
	struct span estimate;
	struct span cut;
	u64 window;	 /* 2^-32 packets */
	u64 before_cut;	 /* window before the latest reduction by a mark */
	u64 before_loss; /* window before the latest reduction by a loss, for an undo */
};
STATE_FITS(struct prague);

/*
 * Hands a socket without AccECN to reno. The kernel then sets ECT no longer, as nobody would answer to marks. It refuses
 * that in an init which another BPF program has caused, so a round trip later is the second attempt.
 * 4 unreached in bpf_setsockopt: other algorithms set a priority
 */
static void fall_back_without_accecn(struct sock *sk)
{
	char reno[] = "reno";

	if (!(tcp_sk(sk)->ecn_flags & TCP_ECN_ACCECN))
		bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, reno, sizeof(reno));
}

/* ---- Virtual round trips ---- */

static u32 srtt_us(const struct tcp_sock *tp)
{
	const u32 us = tp->srtt_us >> SRTT_SHIFT;

	return max(us, 1u);
}

static bool is_less_dependent(const struct prague *prague, const struct tcp_sock *tp)
{
	return !in_slow_start(tp) && prague->rounds >= transition_rounds;
}

/* V = max(srtt, 25 ms)  2.4.4 */
static u32 round_us(const struct prague *prague, const struct tcp_sock *tp)
{
	const u32 rtt_us = srtt_us(tp), least_us = is_less_dependent(prague, tp) ? virtual_rtt_us : 0;

	return max(rtt_us, least_us);
}

static void begin_span(struct span *span, const struct tcp_sock *tp)
{
	span->end_seq = tp->snd_nxt;
	span->begin_us = tp->tcp_mstamp;
}

/* What is acknowledged decides. V counts in addition where it is longer than the RTT. */
static bool is_over(const struct span *span, const struct prague *prague, const struct tcp_sock *tp)
{
	if (before(tp->snd_una, span->end_seq))
		return false;
	return !is_less_dependent(prague, tp) || tp->tcp_mstamp - span->begin_us >= round_us(prague, tp);
}

/* ---- The estimate ---- */

static void begin_estimate(struct prague *prague, const struct tcp_sock *tp)
{
	prague->old_delivered = tp->delivered;
	prague->old_delivered_ce = tp->delivered_ce;
	begin_span(&prague->estimate, tp);
}

/* alpha = (1 - g) alpha + g F  2.3.2. Error: below 2^-29 in a virtual RTT. */
static void update_alpha(struct prague *prague, const struct tcp_sock *tp)
{
	const u32 delivered = max(tp->delivered - prague->old_delivered, 1u);
	const u32 marked = min(tp->delivered_ce - prague->old_delivered_ce, delivered);
	const u32 share = (u32)(((u64)marked << ALPHA_SHIFT) / delivered);

	prague->alpha = prague->alpha - (prague->alpha >> alpha_shift_g) + (share >> alpha_shift_g);
	prague->alpha = min(prague->alpha, ALPHA_MAX);
}

static void end_round(struct prague *prague, const struct tcp_sock *tp)
{
	if (prague->has_mark)
		update_alpha(prague, tp);
	if (!in_slow_start(tp))
		prague->rounds = (u16)min(prague->rounds + 1u, ROUNDS_MAX);
	begin_estimate(prague, tp);
}

/* ---- The window ---- */

/* The window that the kernel sees: the next whole number of packets, two or more. Pacing follows the fraction. */
static u32 whole_window(const struct prague *prague, const struct tcp_sock *tp)
{
	const u64 packets = (prague->window + PART_UNIT - 1) >> PART_SHIFT;
	const u32 most = min(tp->snd_cwnd_clamp, (u32)TCP_INFINITE_SSTHRESH);

	return (u32)min(max(packets, 2ull), (u64)most);
}

/* The kernel has set the window, at a timeout or an undo, or its clamp has changed. */
static void take_over_window(struct prague *prague, const struct tcp_sock *tp)
{
	if (!prague->is_recovering && tp->snd_cwnd != whole_window(prague, tp))
		prague->window = (u64)min(tp->snd_cwnd, (u32)TCP_INFINITE_SSTHRESH) << PART_SHIFT;
}

/* W alpha / 2, 2^-32 packets. Range: any window, alpha up to 1. Error: none, it is the floor. */
static u64 half_of_marked(u64 window, u32 alpha)
{
	const u64 whole = window >> PART_SHIFT, part = window & (PART_UNIT - 1);

	return (whole * alpha << (PART_SHIFT - ALPHA_SHIFT - 1)) + (part * alpha >> (ALPHA_SHIFT + 1));
}

/* W = W (1 - alpha / 2)  2.4.2 */
static void react_to_mark(struct prague *prague, struct tcp_sock *tp)
{
	if (prague->is_cut || prague->is_recovering)
		return;
	prague->is_cut = 1;
	begin_span(&prague->cut, tp);
	prague->before_cut = prague->window;
	prague->window -= half_of_marked(prague->window, prague->alpha);
	prague->window = max(prague->window, LEAST_WINDOW);
	tp->snd_ssthresh = ssthresh_of(whole_window(prague, tp));
}

/* W = W / 2, including what a mark in the same virtual RTT has taken  2.4.2 */
static void react_to_loss(struct prague *prague, const struct tcp_sock *tp)
{
	const u64 half = (prague->is_cut ? max(prague->before_cut, prague->window) : prague->window) / 2;

	prague->before_loss = prague->window;
	prague->window = min(prague->window, max(half, LEAST_AFTER_LOSS));
	prague->is_cut = 0;
}

/* (srtt / V)^2, 2^-32. Range: srtt up to 2^29. Error: 2^-16 of the ratio. */
static u64 step_of(const struct prague *prague, const struct tcp_sock *tp)
{
	const u64 ratio = ((u64)srtt_us(tp) << RATIO_SHIFT) / round_us(prague, tp);

	return min(ratio * ratio, PART_UNIT);
}

/*
 * (srtt / V)^2 / W for each packet  2.4.4, at most a packet. Range: acked below 2^31. Error: the window counts to
 * 1/1024 packet.
 */
static u64 growth(const struct prague *prague, const struct tcp_sock *tp, u32 acked)
{
	const u64 window = prague->window >> (PART_SHIFT - COARSE_SHIFT);
	const u64 each = (step_of(prague, tp) << COARSE_SHIFT) / window;

	return min(acked, (u32)TCP_INFINITE_SSTHRESH) * min(each, PART_UNIT);
}

/* In slow start a packet for each, up to the threshold. */
static void grow(struct prague *prague, const struct tcp_sock *tp, u32 acked)
{
	const u64 most = (u64)min(tp->snd_cwnd_clamp, (u32)TCP_INFINITE_SSTHRESH) << PART_SHIFT;
	u64 next = prague->window + growth(prague, tp, acked);

	if (in_slow_start(tp)) {
		next = prague->window + ((u64)min(acked, (u32)TCP_INFINITE_SSTHRESH) << PART_SHIFT);
		next = min(next, (u64)tp->snd_ssthresh << PART_SHIFT);
	}
	prague->window = max(prague->window, min(next, most));
}

/* Whether the window limits the flow, and not its application. */
static bool is_limited(const struct prague *prague, const struct tcp_sock *tp)
{
	const u64 used = (u64)tp->max_packets_out + 1;

	return is_cwnd_limited(tp) || (used << PART_SHIFT) / 7 >= prague->window / 8;
}

/* Halves the window during a recovery: each ACK sends half of what it delivers. */
static void set_window(const struct prague *prague, struct tcp_sock *tp, u32 acked)
{
	const u32 target = whole_window(prague, tp), step = acked / 2 + (acked & 1);
	const u32 cwnd = min(tp->snd_cwnd, tp->snd_cwnd_clamp);
	const u32 next = cwnd > step ? cwnd - step : 0;

	tp->snd_cwnd = prague->is_recovering ? max(target, next) : target;
}

/* ---- Pacing ---- */

/* W / srtt, bytes per second; twice that in slow start. */
static void pace(struct sock *sk)
{
	const struct prague *prague = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);
	const u64 window = min(prague->window >> (PART_SHIFT - COARSE_SHIFT), (u64)PACED_WINDOW_MAX << COARSE_SHIFT);
	const u32 rtt_us = tp->srtt_us ? srtt_us(tp) : FIRST_RTT_US;
	u64 rate = (window * tp->mss_cache >> COARSE_SHIFT) * US_PER_SEC / rtt_us;

	if (in_slow_start(tp))
		rate *= 2;
	rate = max(rate, (u64)min_rate);
	sk->sk_pacing_rate = min(rate, (u64)sk->sk_max_pacing_rate);
}

static void update_phase(struct sock *sk)
{
	struct prague *prague = inet_csk_ca(sk);

	if (ca_state_of(sk) == TCP_CA_Loss)
		prague->phase = PHASE_LOSS;
	else if (prague->is_recovering)
		prague->phase = PHASE_RECOVERY;
	else
		prague->phase = in_slow_start(tcp_sk(sk)) ? PHASE_SLOW_START : PHASE_AVOIDANCE;
}

/* ---- Callbacks ---- */

/* Marks of this ACK. The first one gives alpha its value. */
static u32 new_marks(struct prague *prague, const struct tcp_sock *tp)
{
	const u32 marks = tp->delivered_ce - prague->seen_ce;

	prague->seen_ce = tp->delivered_ce;
	if (marks && !prague->has_mark) {
		prague->has_mark = 1;
		prague->alpha = alpha_on_mark << (ALPHA_SHIFT - SHARE_SHIFT);
		begin_estimate(prague, tp);
	}
	return marks;
}

static void prague_control(struct sock *sk, const struct rate_sample *rs)
{
	struct prague *prague = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	const u32 marks = new_marks(prague, tp), acked = rs->acked_sacked;

	take_over_window(prague, tp);
	if (prague->is_cut && is_over(&prague->cut, prague, tp))
		prague->is_cut = 0;
	if (marks)
		react_to_mark(prague, tp);
	if (acked > marks && !prague->is_recovering && is_limited(prague, tp))
		grow(prague, tp, acked - marks);
	set_window(prague, tp, acked);
	update_phase(sk);
	pace(sk);
	if (is_over(&prague->estimate, prague, tp)) {
		end_round(prague, tp);
		fall_back_without_accecn(sk); /* last, because the state may be another algorithm's then */
	}
}

CONG_CONTROL_BOTH(prague, prague_control)

CC_OP(void, prague_init, struct sock *sk)
{
	struct prague *prague = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	__builtin_memset(prague, 0, sizeof(*prague));
	prague->window = (u64)min(tp->snd_cwnd, (u32)TCP_INFINITE_SSTHRESH) << PART_SHIFT;
	prague->seen_ce = tp->delivered_ce;
	begin_estimate(prague, tp);
	update_phase(sk);
	prague->is_pacing = set_pacing_on(sk);
	pace(sk);
	fall_back_without_accecn(sk);
}

/* The kernel asks at a mark too, before cong_control sets that threshold. */
CC_OP(u32, prague_ssthresh, struct sock *sk)
{
	return reno_ssthresh(tcp_sk(sk));
}

/* A loss. The window falls to the target with the next ACKs. */
static void enter_recovery(struct sock *sk)
{
	struct prague *prague = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	take_over_window(prague, tp);
	react_to_loss(prague, tp);
	prague->is_recovering = 1;
	tp->snd_ssthresh = ssthresh_of(whole_window(prague, tp));
}

/* What was in flight at the loss has arrived. */
static void leave_recovery(struct sock *sk)
{
	struct prague *prague = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (prague->is_recovering)
		tp->snd_cwnd = whole_window(prague, tp);
	prague->is_recovering = 0;
}

/* After a timeout, with the window that the kernel has set. */
static void begin_anew(struct prague *prague)
{
	prague->is_recovering = 0;
	prague->is_cut = 0;
	prague->rounds = 0;
}

CC_OP(void, prague_set_state, struct sock *sk, u8 new_state)
{
	struct prague *prague = inet_csk_ca(sk);

	if (new_state == TCP_CA_Recovery && ca_state_of(sk) != TCP_CA_Recovery)
		enter_recovery(sk);
	else if (new_state == TCP_CA_Open)
		leave_recovery(sk);
	else if (new_state == TCP_CA_Loss)
		begin_anew(prague);
}

/* A timeout. The kernel has asked for the threshold, and sets the window itself. */
CC_OP(void, prague_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct prague *prague = inet_csk_ca(sk);

	if (event == CA_EVENT_LOSS)
		prague->before_loss = prague->window;
}

CC_OP(u32, prague_undo_cwnd, struct sock *sk)
{
	struct prague *prague = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 packets;

	prague->window = max(prague->window, prague->before_loss);
	prague->is_recovering = 0;
	packets = whole_window(prague, tp);
	return max(tp->snd_cwnd, packets);
}

CC_OP(void, prague_release, struct sock *sk)
{
	const struct prague *prague = inet_csk_ca(sk);

	set_pacing_off(sk, prague->is_pacing);
}

/* Packets leave one by one as long as the kernel's millisecond of data is not more. */
CC_OP(u32, prague_min_tso_segs, struct sock *sk)
{
	return 1;
}

ALGORITHM(prague, "Prague: a queue of a millisecond, by early marks of a low-latency queue (L4S)",
	  "draft-briscoe-iccrg-prague-congestion-control-04; RFC 9331") = {
	.init = (void *)prague_init,
	.release = (void *)prague_release,
	.cong_control = (void *)prague_cong_control,
	.cong_control___2 = (void *)prague_cong_control_2,
	.ssthresh = (void *)prague_ssthresh,
	.set_state = (void *)prague_set_state,
	.cwnd_event = (void *)prague_cwnd_event,
	.undo_cwnd = (void *)prague_undo_cwnd,
	.min_tso_segs = (void *)prague_min_tso_segs,
	.flags = TCP_CONG_NEEDS_ECN | TCP_CONG_NEEDS_ACCECN | TCP_CONG_ECT_1_NEGOTIATION | TCP_CONG_NO_FALLBACK_RFC3168,
	.name = "prague",
};
