// SPDX-License-Identifier: GPL-2.0-only
/*
 * CCT (reconstruction): CCT-SS, CCT-LO and ERFC together, the thesis' improved technique.
 *
 * Source
 *   U. Ahmad, "Improved transmission control protocol congestion control technique for high bandwidth long
 *   distance networks", PhD thesis, UTM, 2017, doi: none found. We do not have the text of chapters 2 to 6. The
 *   equations and constants here are this project's reconstruction from titles, symbols and the abstract. They are
 *   not the author's.
 *
 * Idea
 *   Leave slow start before it loses packets, give up more at a loss so that flows converge, and lower the average
 *   window so that Reno gets its share. Each part is explained in its own file: cct_ss, cct_lo, erfc.
 *
 * Equations
 *   slow start   exit between L = (1 - beta_ss) U and U = B-hat D + S-hat, or by HyStart's delay detector
 *   loss in it   cut by beta_ss at L or above, else by beta_lo                                           see cct_ss
 *   loss         ssthresh = max((1 - beta_lo) cwnd, 2)                                                   see cct_lo
 *   curve        C' = C (1 - delta)^4 (4 - b) / b * b' / (4 - b') with b' = beta_lo                      see erfc
 *
 * Units
 *   As cct_ss, cct_lo and erfc.
 *
 * Life
 *   As cct_ss.
 *
 * Differs
 *   1. Everything numbered in cct_ss, cct_lo and erfc. Every constant of the three is a reconstruction.
 *   2. The thesis compares the baseline, each part, and all parts together. with_ss, with_lo and with_erfc give
 *      these and the other combinations from this one object. With all of them off and hystart on, this is
 *      bpf_cubic with a cut of 20 %.
 *   3. The 8.4 % by which the abstract's technique outperforms others is an undefined mean over different metrics.
 *      It is not a target here.
 *
 * Kernel
 *   As bpf_cubic.
 */
#include "tccc.bpf.h"
#define CUBIC_BETA 819
#define CUBIC_WITH_SS 1
#define CUBIC_WITH_LO 1
#define CUBIC_WITH_ERFC 1
#include "cubic.bpf.h"

ALGORITHM(cct, "CCT: limits for slow start, larger cut, lower response function (reconstruction)",
	  "Ahmad 2017, thesis, chapters 3 and 4") = {
	CUBIC_CALLBACKS,
	.name = "cct",
};
