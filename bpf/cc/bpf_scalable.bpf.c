// SPDX-License-Identifier: GPL-2.0-only
/*
 * Scalable TCP as BPF: grow by a fixed share of the window per round trip, and give back an eighth at a loss.
 *
 * Source
 *   T. Kelly, "Scalable TCP: improving performance in highspeed wide area networks", ACM SIGCOMM CCR 33 (2), 2003,
 *   doi 10.1145/956981.956989; behaviour of net/ipv4/tcp_scalable.c of Linux 6.18.
 *
 * Idea
 *   The larger Reno's window is, the longer it needs to recover from a loss: half a window of round trips. If
 *   growth and cut are both shares of the window, recovery takes the same number of round trips at any window.
 *
 * Equations
 *   slow start            cwnd += acked
 *   avoidance             cwnd += 0.01 acked                         a = 0.01: ack_count = 100
 *                         cwnd += acked / cwnd while cwnd < 100      Reno's growth, which is faster there
 *   loss                  ssthresh = max(cwnd - cwnd / 8, 2)         b = 0.125: cut = 128/1024
 *   recovery takes        log(1 - b) / log(1 / (1 + a)) = 13.4 round trips at any window
 *
 * Units
 *   Windows in packets; shares in 1/1024 of the window.
 *
 * Life
 *   slow start -> avoidance -> (loss) recovery -> avoidance; timeout -> loss -> slow start.
 *
 * Differs
 *   1. From the kernel's scalable: nothing, up to windows of 2^31 packets.
 *   2. From the paper, as the kernel: below 1 / a packets, where Reno grows as fast or faster, growth is Reno's,
 *      but the cut is an eighth there too. The paper's legacy window of 16 packets, below which everything is
 *      Reno's, is not implemented.
 *   3. Older kernels, and their copy in ns-2, count to 50 instead of 100, because they count ACKs instead of
 *      packets, and a delayed ACK acknowledges two packets.
 *   4. A timeout cuts by an eighth too, as in the kernel. The paper does not change timeouts.
 *
 * Kernel
 *   Uses the kernel's own tcp_slow_start and tcp_cong_avoid_ai (5.13 and newer). The name is bpf_scalable because
 *   the kernel's own algorithm is called scalable.
 */
#include "tccc.bpf.h"
#include "phase.bpf.h"

TUNABLE(u32, ack_count, 100, 1, 65535, "packets",
	"acknowledged packets per packet of growth, 1 / a: the paper's and the kernel's; older kernels: 50");
TUNABLE(u32, cut, 128, 1, 1023, "1/1024", "share of cwnd given up at a loss, b: the paper's and the kernel's eighth");

struct bpf_scalable {
	u8 phase;
};
STATE_FITS(struct bpf_scalable);

CC_OP(void, bpf_scalable_init, struct sock *sk)
{
	update_phase(sk);
}

CC_OP(void, bpf_scalable_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	const u32 count = ack_count;
	u32 cwnd;

	update_phase(sk);
	if (!is_past_slow_start(tp, &acked))
		return;
	/* cwnd += 0.01 acked: section 3. */
	cwnd = tp->snd_cwnd;
	tcp_cong_avoid_ai(tp, min(cwnd, count), acked);
}

CC_OP(u32, bpf_scalable_ssthresh, struct sock *sk)
{
	const u32 cwnd = tcp_sk(sk)->snd_cwnd;

	return ssthresh_of(cwnd - share_of(cwnd, cut));
}

CC_OP(void, bpf_scalable_set_state, struct sock *sk, u8 new_state)
{
	update_reduction_phase(sk, new_state);
}

CC_OP(u32, bpf_scalable_undo_cwnd, struct sock *sk)
{
	return reno_undo_cwnd(tcp_sk(sk));
}

ALGORITHM(bpf_scalable, "Scalable TCP as BPF: grow by 1 % of the acknowledged packets, cut an eighth", "Kelly 2003") = {
	.init = (void *)bpf_scalable_init,
	.cong_avoid = (void *)bpf_scalable_cong_avoid,
	.ssthresh = (void *)bpf_scalable_ssthresh,
	.set_state = (void *)bpf_scalable_set_state,
	.undo_cwnd = (void *)bpf_scalable_undo_cwnd,
	.name = "bpf_scalable",
};
