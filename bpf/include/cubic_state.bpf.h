/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CUBIC's tunables, phases and private state. An algorithm's file overrides the defaults CUBIC_* before it includes
 * cubic.bpf.h.
 */
#ifndef TCCC_CUBIC_STATE_BPF_H
#define TCCC_CUBIC_STATE_BPF_H

#include "tccc.bpf.h"

#ifndef CUBIC_BETA
#define CUBIC_BETA 717
#endif
#ifndef CUBIC_HYSTART
#define CUBIC_HYSTART 1
#endif
#ifndef CUBIC_WITH_SS
#define CUBIC_WITH_SS 0
#endif
#ifndef CUBIC_WITH_LO
#define CUBIC_WITH_LO 0
#endif
#ifndef CUBIC_WITH_ERFC
#define CUBIC_WITH_ERFC 0
#endif
/* TUNABLE shows its numbers as written. This macro expands numbers that a file defines by name. */
#define CUBIC_TUNABLE(...) TUNABLE(__VA_ARGS__)

CUBIC_TUNABLE(u32, beta, CUBIC_BETA, 1, 1023, "1/1024",
	      "share of cwnd kept at a loss: 717 is RFC 9438's 0.7, 819 is the cut of 20 % of ns-2 and the thesis");
TUNABLE_WAS(u32, c, cubic_scale);
TUNABLE(u32, cubic_scale, 410, 1, 10240, "1/1024 packets/s^3",
	"steepness C of the curve: RFC 9438's 0.4; the kernel's bic_scale 41 times 10");
TUNABLE(u8, fast_convergence, 1, 0, 1, "on or off",
	"a loss below Wmax lowers Wmax further, to free room for new flows");
TUNABLE(u8, tcp_friendliness, 1, 0, 1, "on or off", "never slower than Reno with the same cut: RFC 9438, 4.3");
CUBIC_TUNABLE(u8, hystart, CUBIC_HYSTART, 0, 1, "on or off",
	      "leave slow start by HyStart before a loss; with with_ss only by its delay detector, beside the limits");
TUNABLE(u32, hystart_detect, 3, 0, 3, "mask", "HyStart's detectors: 1 ACK train, 2 delay, 3 both; as the kernel");
TUNABLE(u32, hystart_low_window, 16, 2, 65535, "packets", "below it slow start is not left early: too few ACKs");
TUNABLE(u32, hystart_ack_delta_us, 2000, 1, 1000000, "us", "longest gap inside an ACK train; as the kernel");
TUNABLE(u32, hystart_samples, 8, 1, 255, "samples", "RTT samples of a round before its lowest counts; as the kernel");
TUNABLE(u32, hystart_delay_min_us, 4000, 1, 1000000, "us",
	"a rise of the RTT below this never ends slow start; as the kernel");
TUNABLE(u32, hystart_delay_max_us, 16000, 1, 1000000, "us",
	"a rise of the RTT above this always ends it; as the kernel");
CUBIC_TUNABLE(u8, with_ss, CUBIC_WITH_SS, 0, 1, "on or off", "CCT-SS: leave slow start between the limits L and U");
TUNABLE(u32, beta_ss, 128, 1, 1023, "1/1024",
	"CCT-SS, reconstruction: L = (1 - beta_ss) U and cut there; below 0.2 raises CUBIC's L; our sweep chose 102");
TUNABLE(u32, min_train_acks, 8, 2, 255, "ACKs", "CCT-SS, reconstruction: ACKs of a train before its rate counts");
CUBIC_TUNABLE(u8, with_lo, CUBIC_WITH_LO, 0, 1, "on or off", "CCT-LO: cut by beta_lo instead of 1 - beta");
TUNABLE(u32, beta_lo, 358, 1, 1023, "1/1024",
	"CCT-LO, reconstruction: cut at a loss, 0.35 is the middle of chapter 1's 0.2 to 0.5; our sweep chose 461");
CUBIC_TUNABLE(u8, with_erfc, CUBIC_WITH_ERFC, 0, 1, "on or off",
	      "ERFC: lower C so that the average window falls by delta");
TUNABLE(u32, delta, 154, 0, 512, "1/1024",
	"ERFC, reconstruction: share of the average window to give up, 0.15; our sweep chose 205");

PHASES(PHASE_SLOW_START, PHASE_CONCAVE, PHASE_CONVEX, PHASE_RENO_FRIENDLY, PHASE_RECOVERY, PHASE_LOSS);
#include "reduction.bpf.h"

struct cubic {
	u8 phase;
	u8 exit_found;	    /* HyStart ended slow start */
	u8 rtt_samples;	    /* of this round */
	u8 train_acks;	    /* CCT-SS: of this train, without its first */
	u32 cnt;	    /* packets acknowledged per packet of growth */
	u32 w_max;	    /* window before the latest cut, or less by fast convergence; 0: none yet */
	u32 origin;	    /* window of the plateau */
	u32 k;		    /* time from the cut to the plateau, 1/1024 s */
	u64 epoch_us;	    /* when this epoch began, 0: with the next ACK */
	u32 last_cwnd;	    /* window when the curve was last read */
	u32 update_us;	    /* when that was; wraps after 71 minutes, then one reading comes 32 ms late */
	u32 ack_cnt;	    /* packets acknowledged towards the next increase of w_reno */
	u32 w_reno;	    /* Reno's window with the same cut, W_est of RFC 9438 */
	u32 min_rtt_us;	    /* lowest RTT since the latest timeout, 0: no sample yet */
	u32 round_end_seq;  /* the round ends when this is acknowledged */
	u32 round_rtt_us;   /* lowest RTT of this round, ~0: no sample yet */
	u32 train_start_us; /* HyStart: the round's first ACK; CCT-SS: the train's first */
	u32 last_ack_us;    /* HyStart: last ACK of the train; CCT-SS: last ACK */
	u32 train_pkts;	    /* CCT-SS: packets acknowledged after the train's first ACK */
	u32 b_round;	    /* CCT-SS: highest bandwidth of this round, 1/256 packets/s */
	u32 b_hat;	    /* CCT-SS: highest of this round and the previous one, 1/256 packets/s; 0: none yet */
	u32 s_hat;	    /* CCT-SS: buffer seen in use */
	u32 l;		    /* CCT-SS: lower limit L */
	u32 u;		    /* CCT-SS: upper limit U, 0: no estimate */
	u32 prior_w_max;    /* before the latest cut, for an undo */
	u32 prior_u;	    /* likewise */
	u16 scale;	    /* C in use, 1/1024 packets/s^3 */
	u16 friendly_scale; /* packets acknowledged per packet of w_reno, in 1/8 of cwnd */
};
STATE_FITS(struct cubic);

#endif
