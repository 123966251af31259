/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The times at which the serialiser begins and finishes a packet.
 *
 * Plain C without kernel functions. The kernel has no 128-bit division, but 64 bits are enough:
 * - Work is 8 * 10^9 * bytes plus a remainder. A packet has at most 65535 bytes and the remainder is below
 *   RATE_BPS_MAX, so work is below 2^49 + 2^40.
 * - The part of a packet sent before the rate changes is a time multiplied by a rate. It is computed only if the work
 *   does not end before the change, so it is at most that work.
 * - Times are nanoseconds since the start of the host or guest. Work divided by a rate of at least 1 bit/s adds less than 2^50.
 */
#ifndef TCCC_PACE_H
#define TCCC_PACE_H

#include "direction.h"

#define BITS_PER_BYTE 8
#define NS_PER_SEC 1000000000ull
#define NS_PER_MS 1000000ull
#define NEVER_NS (~0ull)
/* Bytes that one opportunity of a trace delivers: OPPORTUNITY_BYTES of src/lab/path/rate_trace.rs. */
#define OPPORTUNITY_BYTES 1500

/* A value that changes at known times. Callers ask for it at times that never decrease. */
struct steps {
	const struct tccc_step *list;
	u64 count;
	u64 next;
	u64 begin_ns;
	u64 next_at_ns;
	u64 value;
};

static inline u64 step_moment(const struct steps *steps, u64 index)
{
	if (index == steps->count)
		return NEVER_NS;
	if (steps->list[index].at_ns > NEVER_NS - steps->begin_ns)
		return NEVER_NS;
	return steps->begin_ns + steps->list[index].at_ns;
}

/* Advances to a time. Returns whether that reached a step. */
static inline bool steps_pass(struct steps *steps, u64 moment_ns)
{
	if (moment_ns < steps->next_at_ns)
		return false;
	while (steps->next < steps->count && step_moment(steps, steps->next) <= moment_ns)
		steps->value = steps->list[steps->next++].value;
	steps->next_at_ns = step_moment(steps, steps->next);
	return true;
}

static inline u64 steps_at(struct steps *steps, u64 moment_ns)
{
	steps_pass(steps, moment_ns);
	return steps->value;
}

/* Starts the changes of one kind. Their times count from begin_ns. NEVER_NS: the changes never come. */
static inline void steps_begin(struct steps *steps, const struct direction *direction, enum tccc_change change,
			       u64 begin_ns)
{
	steps->list = direction->steps[change];
	steps->count = direction->request->step_counts[change];
	steps->next = 0;
	steps->begin_ns = begin_ns;
	steps->next_at_ns = step_moment(steps, 0);
}

/* The serialiser of one direction. It sends one packet at a time, in order. */
struct serialiser {
	struct steps rate; /* bits per second; 0 takes no time */
	u64 free_at_ns;
	u64 rest; /* remainder of work below a nanosecond, in the unit of work */

	/*
	 * The trace's opportunities repeat in rounds. `index` is the opportunity in use, counted over all rounds.
	 * `left` is the number of bytes that it still takes.
	 */
	const u32 *times_ms;
	u64 in_round;
	u64 round_ms;
	u64 begin_ns;
	u64 index;
	u32 left;
	bool follows_trace;
};

/* Continues at the rate. Packets taken before keep their times. */
static inline void follow_rate(struct serialiser *serialiser, const struct direction *direction, u64 begin_ns)
{
	steps_begin(&serialiser->rate, direction, TCCC_CHANGE_RATE, begin_ns);
	serialiser->rate.value = direction->request->rate_bps;
	serialiser->follows_trace = false;
}

static inline void go_to_opportunity(struct serialiser *serialiser, u64 index)
{
	serialiser->index = index;
	serialiser->left = OPPORTUNITY_BYTES;
}

/* Continues with the opportunities of the trace, which starts at begin_ns. */
static inline void follow_trace(struct serialiser *serialiser, const struct direction *direction, u64 begin_ns)
{
	serialiser->times_ms = direction->opportunities;
	serialiser->in_round = direction->request->opportunity_count;
	serialiser->round_ms = direction->request->round_ms;
	serialiser->begin_ns = begin_ns;
	serialiser->rest = 0;
	serialiser->follows_trace = true;
	go_to_opportunity(serialiser, 0);
}

static inline u64 opportunity_ns(const struct serialiser *serialiser, u64 index)
{
	const u64 round = index / serialiser->in_round, place = index % serialiser->in_round;

	return serialiser->begin_ns + (round * serialiser->round_ms + serialiser->times_ms[place]) * NS_PER_MS;
}

/* Index of the first opportunity at or after a time. The time is after begin_ns. */
static inline u64 search_opportunity(const struct serialiser *serialiser, u64 moment_ns)
{
	const u64 ms = (moment_ns - serialiser->begin_ns + NS_PER_MS - 1) / NS_PER_MS;
	const u64 round = (ms - 1) / serialiser->round_ms, in_ms = ms - round * serialiser->round_ms;
	u64 low = 0, high = serialiser->in_round;

	while (low < high) {
		const u64 middle = low + (high - low) / 2;

		if (serialiser->times_ms[middle] < in_ms)
			low = middle + 1;
		else
			high = middle;
	}
	return round * serialiser->in_round + low;
}

/* Goes to the first opportunity from a time on that still takes bytes. Returns its time. */
static inline u64 reach_opportunity(struct serialiser *serialiser, u64 moment_ns)
{
	u64 next;

	if (!serialiser->left)
		go_to_opportunity(serialiser, serialiser->index + 1);
	if (opportunity_ns(serialiser, serialiser->index) < moment_ns) {
		/* Usually the next one is late enough. After a pause it has to be searched for. */
		next = serialiser->index + 1;
		if (opportunity_ns(serialiser, next) < moment_ns)
			next = search_opportunity(serialiser, moment_ns);
		go_to_opportunity(serialiser, next);
	}
	return opportunity_ns(serialiser, serialiser->index);
}

/* When a packet begins to be sent. Call it for packets in the order of their arrival. */
static inline u64 serialiser_begins_ns(struct serialiser *serialiser, u64 arrival_ns)
{
	u64 from_ns = arrival_ns;

	/* A packet may share the opportunity of the one before it. */
	if (serialiser->follows_trace)
		from_ns = reach_opportunity(serialiser, arrival_ns);
	return from_ns > serialiser->free_at_ns ? from_ns : serialiser->free_at_ns;
}

/* Sends at the exact rate: while the serialiser is busy, fractions of a nanosecond carry over to the next packet. */
static inline void send_at_rate(struct serialiser *serialiser, u64 from_ns, u32 bytes)
{
	struct steps *rate = &serialiser->rate;
	u64 work = (u64)bytes * BITS_PER_BYTE * NS_PER_SEC, rate_bps;

	if (from_ns <= serialiser->free_at_ns)
		work += serialiser->rest;
	while ((rate_bps = steps_at(rate, from_ns))) {
		if (work / rate_bps <= rate->next_at_ns - from_ns) {
			serialiser->free_at_ns = from_ns + work / rate_bps;
			serialiser->rest = work % rate_bps;
			return;
		}
		work -= (rate->next_at_ns - from_ns) * rate_bps;
		from_ns = rate->next_at_ns;
	}
	serialiser->free_at_ns = from_ns;
	serialiser->rest = 0;
}

/* Uses as many opportunities as the bytes need. */
static inline void send_by_trace(struct serialiser *serialiser, u32 bytes)
{
	u64 left_ns;

	while (bytes > serialiser->left) {
		bytes -= serialiser->left;
		go_to_opportunity(serialiser, serialiser->index + 1);
	}
	serialiser->left -= bytes;
	left_ns = opportunity_ns(serialiser, serialiser->index);
	if (left_ns > serialiser->free_at_ns)
		serialiser->free_at_ns = left_ns;
}

/* Sends a packet from a time on. Returns when its last bit has left. */
static inline u64 serialiser_take(struct serialiser *serialiser, u64 from_ns, u32 bytes)
{
	if (serialiser->follows_trace)
		send_by_trace(serialiser, bytes);
	else
		send_at_rate(serialiser, from_ns, bytes);
	return serialiser->free_at_ns;
}

#endif
