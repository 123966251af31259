/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Random additions to the delay of a packet: uniform, or those of a Wi-Fi with busy neighbours.
 *
 * Plain C without kernel functions. A value is twice the longest uniform one in nanoseconds, or twice the share of a Wi-Fi
 * and 1 more. Packets stay in order, so those behind a long one leave in a burst.
 */
#ifndef TCCC_JITTER_H
#define TCCC_JITTER_H

#include "draws.h"

/*
 * C. Huitema et al., draft-huitema-ccwg-c4-test-04, "Handling of High Jitter Environments": N1 * 1 ms - r, with N1 of Poisson's
 * distribution and mean 1, and r uniform up to 1 ms if N1 > 0. For a share of the packets, another N2 * 7.5 ms, with N2 of
 * mean 12: these packets are retransmitted over the air.
 */
#define WIFI_DEFERRAL_NS 1000000ull
#define WIFI_DEFERRALS 1
#define WIFI_RETRY_NS 7500000ull
#define WIFI_RETRIES 12

/* exp(-mean) as a share: the probability of none. */
#define SHARE_OF_NO_DEFERRAL 3313563428353947ull
#define SHARE_OF_NO_RETRY 55342144929ull

/*
 * A number of Poisson's distribution, by inversion of one random number. It is at most the first one whose share is below
 * 2^-53: 18 for a mean of 1, and 51 for a mean of 12. Products are below 2^57.
 */
static inline u64 draw_poisson(struct tccc_generator *generator, u64 share_of_none, u64 mean)
{
	u64 left = next_number(generator) >> (64 - SHARE_BITS), share = share_of_none, count = 0;

	while (share && left >= share) {
		left -= share;
		share = share * mean / ++count;
	}
	return count;
}

/* Draws four numbers for each packet, so that one packet's addition does not depend on that of another. */
static inline u64 draw_wifi(struct tccc_generator *generator, u64 share)
{
	const u64 deferrals = draw_poisson(generator, SHARE_OF_NO_DEFERRAL, WIFI_DEFERRALS);
	const u64 early_ns = draw_up_to(generator, WIFI_DEFERRAL_NS);
	const bool is_retried = draw_share(generator, share);
	const u64 retries = draw_poisson(generator, SHARE_OF_NO_RETRY, WIFI_RETRIES);

	return (deferrals ? deferrals * WIFI_DEFERRAL_NS - early_ns : 0) + (is_retried ? retries * WIFI_RETRY_NS : 0);
}

static inline u64 draw_jitter(struct tccc_generator *generator, u64 value)
{
	return value % 2 ? draw_wifi(generator, value / 2) : draw_up_to(generator, value / 2);
}

#endif
