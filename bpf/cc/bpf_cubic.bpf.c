// SPDX-License-Identifier: GPL-2.0-only
/*
 * CUBIC as BPF: after a loss, return fast to the window of that loss, stay near it, then probe ever faster.
 *
 * Source
 *   L. Xu et al., "CUBIC for fast and long-distance networks", RFC 9438, 2023, doi 10.17487/RFC9438; S. Ha, I.
 *   Rhee, L. Xu, "CUBIC: a new TCP-friendly high-speed TCP variant", ACM SIGOPS Operating Systems Review 42 (5),
 *   2008, doi 10.1145/1400097.1400105; HyStart: S. Ha, I. Rhee, "Taming the elephants: new TCP slow start",
 *   Computer Networks 55 (9), 2011, doi 10.1016/j.comnet.2011.01.014; HyStart++: P. Balasubramanian, Y. Huang, M.
 *   Olson, "HyStart++: modified slow start for TCP", RFC 9406, 2023, doi 10.17487/RFC9406; behaviour of
 *   net/ipv4/tcp_cubic.c of Linux 6.18.
 *
 * Idea
 *   Growth depends on the time since the last cut, not on the round-trip time, so flows with different RTTs grow
 *   at the same pace. The curve is flat near the window at which the path was full, and steep far from it.
 *
 * Equations
 *   curve               W(t) = C (t - K)^3 + Wmax                      RFC 9438, eq. (1)
 *   time to the origin  K = cbrt((Wmax - cwnd) / C)                    RFC 9438, eq. (2)
 *   growth              cnt = cwnd / (W(t + RTT) - cwnd) packets acknowledged per packet, at least 2
 *   Reno-friendly       W_est grows by 3 (1 - beta) / (1 + beta) packets per window acknowledged    RFC 9438, 4.3
 *   loss                ssthresh = max(beta cwnd, 2)                   RFC 9438, 4.6
 *   fast convergence    Wmax = cwnd (1 + beta) / 2 if cwnd < Wmax, else cwnd    RFC 9438, 4.7
 *   HyStart             leave slow start when ACKs arrive without gaps for half the lowest RTT, or when the lowest RTT
 *                       of a round lies an eighth (4 to 16 ms) above the lowest ever
 *   HyStart++           CSS when the lowest RTT of a round lies an eighth (4 to 16 ms) above that of the round before;
 *                       in CSS cwnd += min(N, L) / 4; slow start again when the lowest RTT of a round is below that
 *                       with which CSS began; else ssthresh = cwnd after 5 rounds              RFC 9406, 4.2 and 4.3
 *
 * Units
 *   Windows in packets, shares in 1/1024, C (the tunable cubic_scale) in 1/1024 packets/s^3, K and t in 1/1024 s,
 *   clocks in microseconds.
 *
 * Life
 *   slow start -> (HyStart or loss) concave -> convex -> (loss) recovery -> concave. Where Reno's window would be
 *   larger, the phase is Reno-friendly instead of concave or convex. timeout -> loss -> slow start.
 *   hystart = 2: slow start -> (delay) css -> (5 rounds or loss) concave; css -> (lower delay) slow start.
 *
 * Differs
 *   1. From the kernel's cubic: clocks count microseconds (tcp_mstamp), not jiffies. The curve is evaluated at
 *      most once a millisecond instead of once a jiffy, and again after 32 ms instead of HZ/32 jiffies. RTTs are
 *      not rounded up to jiffies.
 *   2. From the kernel's cubic: the cube root is exact, rounded down. The kernel's has a mean error of 0.2 %.
 *   3. From the kernel's cubic: nothing overflows. The kernel's curve overflows 350 s from the plateau, and its
 *      windows overflow above some millions of packets. Here both saturate.
 *   4. From the kernel's cubic: idle time runs from the transmission of the last delivered packet to the next
 *      transmission. The kernel counts from the last sent packet.
 *   5. From the kernel's cubic: there is no initial_ssthresh (a scenario sets it for every algorithm alike), and
 *      there are no HyStart counters in /proc/net/netstat.
 *   6. From RFC 9438, as the kernel: the target has no upper limit except cnt >= 2. W_est keeps CUBIC's slope also
 *      beyond Wmax (RFC: 1). A timeout forgets Wmax. HyStart is the default, and HyStart++ is hystart = 2. An undo
 *      does not restore Wmax.
 *   7. From RFC 9406, which leaves these open: the first ACK of a byte that was sent in a round begins the next one, as
 *      in the kernel's HyStart. L counts packets, and a socket paces if it or the fq qdisc does. HyStart++ acts while
 *      there is no threshold at all. A route's metric for it, like a loss, leaves standard slow start.
 *   8. The switches with_ss, with_lo and with_erfc, and the tunables that they use, belong to the cct family. They
 *      are off here.
 *
 * Kernel
 *   Uses the kernel's own tcp_slow_start and tcp_cong_avoid_ai (5.13 and newer), and none of its cubictcp
 *   functions. The kernel reports idle time by CA_EVENT_TX_START, and from 7.1 on by cwnd_event_tx_start. Both
 *   callbacks are set. The name is bpf_cubic because the kernel's own algorithm is called cubic.
 */
#include "tccc.bpf.h"
#include "cubic.bpf.h"

ALGORITHM(bpf_cubic, "CUBIC as BPF: back to the last maximum by a cubic curve in time",
	  "RFC 9438; Ha, Rhee & Xu 2008") = {
	CUBIC_CALLBACKS,
	.name = "bpf_cubic",
};
