/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A histogram of times: how long packets wait in a queue, or how long datagrams are on their way.
 *
 * Plain C without kernel functions. A bucket is at most a 32nd wider than its shortest time. Times below 1,024 ns
 * count as none, and times of 36 minutes and more as the longest.
 */
#ifndef TCCC_TIMES_H
#define TCCC_TIMES_H

#include "request.h"

struct times {
	u64 counts[TCCC_TIMES_BUCKETS];
};

static inline u32 times_bucket(u64 time_ns)
{
	u32 power, step, bucket;

	if (time_ns >> TCCC_TIMES_LEAST_BITS == 0)
		return 0;
	power = 63 - (u32)__builtin_clzll(time_ns);
	step = (u32)(time_ns >> (power - TCCC_TIMES_STEP_BITS)) - (1u << TCCC_TIMES_STEP_BITS);
	bucket = 1 + ((power - TCCC_TIMES_LEAST_BITS) << TCCC_TIMES_STEP_BITS) + step;
	return bucket < TCCC_TIMES_BUCKETS ? bucket : TCCC_TIMES_BUCKETS - 1;
}

/* Returns the bucket of the time. */
static inline u32 times_add(struct times *times, u64 time_ns)
{
	const u32 bucket = times_bucket(time_ns);

	times->counts[bucket]++;
	return bucket;
}

#endif
