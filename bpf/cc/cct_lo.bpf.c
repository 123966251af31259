// SPDX-License-Identifier: GPL-2.0-only
/*
 * CCT-LO (reconstruction): CUBIC that gives up more of its window at each loss, so flows converge sooner.
 *
 * Source
 *   U. Ahmad, "Improved transmission control protocol congestion control technique for high bandwidth long
 *   distance networks", PhD thesis, UTM, 2017, doi: none found: algorithm 2, table 4.1 and figures 4.8 to 4.20 by
 *   their titles; list of symbols; abstract. We do not have the text of chapters 2 to 6. The equations and
 *   constants here are this project's reconstruction. They are not the author's.
 *
 * Idea
 *   CUBIC with a cut of 20 % releases too little bandwidth for flows that start later. A larger cut, still below
 *   Reno's half, makes flows converge faster and share more fairly. The price is a longer way back to the old
 *   window.
 *
 * Equations
 *   loss         ssthresh = max((1 - beta_lo) cwnd, 2), 0.2 < beta_lo <= 0.5                  [reconstruction]
 *   time back    K-hat = cbrt(beta_lo Wmax / C)                                                [reconstruction]
 *   the rest     CUBIC with beta_lo wherever its cut appears: fast convergence, Reno-friendly growth of
 *                3 beta_lo / (2 - beta_lo) packets per window acknowledged
 *
 * Units
 *   As bpf_cubic; beta_lo in 1/1024 of the window given up.
 *
 * Life
 *   As bpf_cubic.
 *
 * Differs
 *   1. beta_lo is a reconstruction. The thesis chose a beta-hat from plots that we do not have.
 *   2. The thesis evaluates the curve RTT by RTT, W(iT). Here it is evaluated at every ACK for one RTT ahead, as
 *      in CUBIC.
 *   3. We take "Delta, variable to calculate the difference" to be a statistic: the window released beyond
 *      CUBIC's. The algorithm does not need it.
 *   4. A cut that proves spurious also restores Wmax, which the kernel's CUBIC does not.
 *   5. The larger cut applies in slow start and after timeouts too. HyStart ends slow start, as in the thesis'
 *      baseline.
 *   6. All differences of bpf_cubic.
 *
 * Kernel
 *   As bpf_cubic.
 */
#include "tccc.bpf.h"
#define CUBIC_BETA 819
#define CUBIC_WITH_LO 1
#include "cubic.bpf.h"

ALGORITHM(cct_lo, "CCT-LO: CUBIC with a larger cut at a loss (reconstruction)",
	  "Ahmad 2017, thesis, chapters 3 and 4") = {
	CUBIC_CALLBACKS,
	.name = "cct_lo",
};
