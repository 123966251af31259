// SPDX-License-Identifier: GPL-2.0-only
/*
 * ERFC (reconstruction): CUBIC with a flatter curve, so that its average window is closer to Reno's.
 *
 * Source
 *   U. Ahmad, "Improved transmission control protocol congestion control technique for high bandwidth long
 *   distance networks", PhD thesis, UTM, 2017, doi: none found: table 4.3 and figure 4.21 by their titles; list of
 *   symbols; abstract. We do not have the text of chapters 2 to 6. The equations and constants here are this
 *   project's reconstruction. They are not the author's.
 *   Response function of CUBIC: RFC 9438, section 5.
 *
 * Idea
 *   At the same loss rate and large windows, CUBIC's average window is above Reno's, which is unfair to Reno.
 *   Giving up a fixed share delta of that average moves the response function towards Reno's.
 *
 * Equations
 *   CUBIC    Wc(p) = (C (4 - b) / (4 b))^(1/4) (RTT / p)^(3/4), b the cut                     RFC 9438, section 5
 *   share    delta = (Wc - Werfc) / Wc                                                        [reconstruction]
 *   curve    C' = C (1 - delta)^4 (4 - b) / b * b' / (4 - b'), b' the cut in use              [reconstruction]
 *   the rest CUBIC with C' for C
 *
 * Units
 *   As bpf_cubic; delta in 1/1024 of the average window; C' in the state field scale.
 *
 * Life
 *   As bpf_cubic.
 *
 * Differs
 *   1. The thesis names delta and the difference of two response functions, and no more. How they determine the
 *      window is a reconstruction.
 *   2. delta lowers the average window of the deterministic loss model. The Reno-friendly region does not depend
 *      on C and keeps its window.
 *   3. b is the thesis' cut of 20 % (beta = 819). b' equals b unless with_lo is set.
 *   4. C' is computed once per connection and rounded to 1/1024.
 *   5. All differences of bpf_cubic.
 *
 * Kernel
 *   As bpf_cubic.
 */
#include "tccc.bpf.h"
#define CUBIC_BETA 819
#define CUBIC_WITH_ERFC 1
#include "cubic.bpf.h"

ALGORITHM(erfc, "ERFC: CUBIC with a lower response function (reconstruction)",
	  "Ahmad 2017, thesis, chapters 3 and 4") = {
	CUBIC_CALLBACKS,
	.name = "erfc",
};
