// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hybla as BPF: on a path with a long RTT, such as a satellite link, grow per second as Reno does at 25 ms.
 *
 * Source
 *   C. Caini, R. Firrincieli, "TCP Hybla: a TCP enhancement for heterogeneous networks", International Journal of
 *   Satellite Communications and Networking 22 (5), 2004, doi 10.1002/sat.799; behaviour of net/ipv4/tcp_hybla.c of
 *   Linux 6.18.
 *
 * Idea
 *   Reno grows once per round trip. A flow over a satellite therefore sends less than its neighbour over a cable
 *   for two reasons: it takes fewer steps a second, and each window takes longer to send. Hybla multiplies growth
 *   by the RTT over a reference of 25 ms once for each reason, so both send at the same rate.
 *
 * Equations
 *   RTT over reference    rho = max(RTT / RTT0, 1), RTT the lowest smoothed one
 *   slow start            cwnd += (2^rho - 1) acked
 *   avoidance             cwnd += rho^2 acked / cwnd
 *   first window          max(cwnd, rho)
 *   loss                  ssthresh = max(cwnd / 2, 2)
 *
 * Units
 *   Windows in packets; rho in 1/8; fractions of a packet in 1/1024.
 *
 * Life
 *   slow start -> avoidance -> (loss) recovery -> avoidance; timeout -> loss -> slow start.
 *
 * Differs
 *   1. From the kernel's hybla: rho only raises the first window of a connection. The kernel sets cwnd to rho
 *      whenever the algorithm is chosen. That is 1 packet below 50 ms, and a collapse in the middle of a
 *      connection. The kernel also sets the connection's clamp to 65535, which the next algorithm of the socket
 *      would inherit. Here window_max limits growth instead.
 *   2. From the kernel's hybla: growth counts acknowledged packets, not ACKs, so delayed ACKs do not slow it.
 *   3. From the kernel's hybla: nothing is lost by rounding. The kernel keeps 1/128 packet, and in avoidance
 *      rounds the step of each ACK down to it: 13 % less growth at 50 packets and rho = 1.5, 31 % less at 100.
 *      Above 128 rho^2 packets the step is 0, and the kernel grows as Reno.
 *   4. From the paper, as the kernel: the threshold is not multiplied by rho, and packets are not spaced. rho is
 *      in 1/8, rounded down, so 2^rho is up to 8 % too small. Growth is Reno's in rounds with losses or reordering.
 *      The whole part of the exponent is at most 16, which belongs to an RTT of 400 ms. From there on, a single ACK
 *      in slow start may raise the window to the threshold or to window_max.
 *   5. If the RTT is not known when the connection begins, rho is computed as soon as it is known. The kernel's
 *      rho then stays 1.
 *
 * Kernel
 *   Uses the kernel's own tcp_slow_start and tcp_cong_avoid_ai (5.13 and newer). The name is bpf_hybla because the
 *   kernel's own algorithm is called hybla.
 */
#include "tccc.bpf.h"
#include "phase.bpf.h"

/* rho is in 1/8, as srtt_us is. */
#define RHO_SHIFT 3
#define RHO_ONE (1u << RHO_SHIFT)
/* 512: an RTT of 12.8 s at the reference of 25 ms; rho^2 in 1/1024 is 2^28 then. */
#define RHO_MOST (1u << (9 + RHO_SHIFT))
#define EXPONENT_MOST 16u
#define US_PER_MS 1000u

TUNABLE(u32, rtt0_ms, 25, 1, 1000, "ms", "RTT0, RTT of the Reno flows to match: the paper's and the kernel's");

TUNABLE(u32, window_max, 65535, 2, 16777216, "packets",
	"window above which Hybla does not grow: the kernel's clamp; without it one ACK of a long path could add "
	"65535 packets");

struct bpf_hybla {
	u8 phase;
	u8 is_disturbed;     /* losses or reordering: grow as Reno */
	u16 slow_credit;     /* growth in slow start below one packet, 1/1024 packets */
	u32 rho;	     /* 1/8 */
	u32 min_srtt_us_by8; /* lowest smoothed RTT, times 8 as the kernel keeps it; 0: none yet */
	u64 credit;	     /* growth in avoidance below one packet */
};
STATE_FITS(struct bpf_hybla);

/* A grown window, limited by window_max. A window that is already larger stays. Packets. */
static u32 limited(const struct tcp_sock *tp, u64 grown)
{
	if (grown > window_max)
		grown = max(tp->snd_cwnd, window_max);
	return (u32)min(grown, (u64)tp->snd_cwnd_clamp);
}

/* 2^(n/8) in 1/1024, rounded. clang places tables of up to 16 bytes in another section; the last entry avoids this. */
static const u16 power_of_eighths[RHO_ONE + 1] = {1024, 1117, 1218, 1328, 1448, 1579, 1722, 1878, 2048};

/*
 * 2^rho in 1/1024 packets. Range: rho in 1/8. The whole part saturates at 16; the eighths still count.
 * Error: half of 1/1024, times 2^rho.
 */
static u32 power_of_two(u32 rho)
{
	const u32 exponent = rho >> RHO_SHIFT;

	return (u32)power_of_eighths[rho % RHO_ONE] << min(exponent, EXPONENT_MOST);
}

/* rho = RTT / RTT0, at least 1: section 3. In 1/8, floor. */
static void update_rho(struct bpf_hybla *hybla, u32 srtt_us_by8)
{
	if (!srtt_us_by8 || (hybla->min_srtt_us_by8 && srtt_us_by8 >= hybla->min_srtt_us_by8))
		return;
	hybla->min_srtt_us_by8 = srtt_us_by8;
	hybla->rho = min(max(srtt_us_by8 / (rtt0_ms * US_PER_MS), RHO_ONE), RHO_MOST);
}

/* cwnd += 2^rho - 1, up to the threshold: section 3. Range: 2^28 packets acknowledged, whose growth has 55 bits. */
static void grow_in_slow_start(struct tcp_sock *tp, struct bpf_hybla *hybla, u32 acked)
{
	const u64 growth = (u64)acked * (power_of_two(hybla->rho) - SHARE_UNIT) + hybla->slow_credit;
	const u64 grown = tp->snd_cwnd + (growth >> SHARE_SHIFT);

	hybla->slow_credit = growth % SHARE_UNIT;
	tp->snd_cwnd = limited(tp, min(grown, (u64)tp->snd_ssthresh));
}

CC_OP(void, bpf_hybla_init, struct sock *sk)
{
	struct bpf_hybla *hybla = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	u32 first_window;

	__builtin_memset(hybla, 0, sizeof(*hybla));
	hybla->rho = RHO_ONE;
	update_rho(hybla, tp->srtt_us);
	first_window = limited(tp, hybla->rho >> RHO_SHIFT);
	if (is_unused(tp) && tp->snd_cwnd < first_window)
		tp->snd_cwnd = first_window;
	update_phase(sk);
}

CC_OP(void, bpf_hybla_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct bpf_hybla *hybla = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	update_phase(sk);
	update_rho(hybla, tp->srtt_us);
	if (!is_cwnd_limited(tp))
		return;
	if (hybla->is_disturbed)
		reno_cong_avoid(tp, acked);
	else if (in_slow_start(tp))
		grow_in_slow_start(tp, hybla, acked);
	else if (tp->snd_cwnd < window_max) /* cwnd += rho^2 / cwnd: section 3; 1/8 squared times 16 is 1/1024 */
		grow_per_window(tp, &hybla->credit, acked, hybla->rho * hybla->rho * (SHARE_UNIT / RHO_ONE / RHO_ONE));
}

CC_OP(u32, bpf_hybla_ssthresh, struct sock *sk)
{
	return reno_ssthresh(tcp_sk(sk));
}

CC_OP(void, bpf_hybla_set_state, struct sock *sk, u8 new_state)
{
	struct bpf_hybla *hybla = inet_csk_ca(sk);

	update_reduction_phase(sk, new_state);
	hybla->is_disturbed = new_state != TCP_CA_Open;
}

CC_OP(u32, bpf_hybla_undo_cwnd, struct sock *sk)
{
	return reno_undo_cwnd(tcp_sk(sk));
}

ALGORITHM(bpf_hybla, "Hybla as BPF: growth of a long path made as fast as that of a 25 ms path",
	  "Caini & Firrincieli 2004") = {
	.init = (void *)bpf_hybla_init,
	.cong_avoid = (void *)bpf_hybla_cong_avoid,
	.ssthresh = (void *)bpf_hybla_ssthresh,
	.set_state = (void *)bpf_hybla_set_state,
	.undo_cwnd = (void *)bpf_hybla_undo_cwnd,
	.name = "bpf_hybla",
};
