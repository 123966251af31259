/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * When a packet begins to be sent and when its last bit has left: src/path/steps.rs and tunlink/serialiser.rs in C.
 *
 * Plain C, without the kernel, which has no division of 128 bits. 64 bits are enough:
 * - Work is 8 * 10^9 * bytes plus a rest. A packet has at most 65535 bytes and a rest is below RATE_BPS_MAX, so work is below
 *   2^49 + 2^40.
 * - The part of a packet sent before the rate changes is a time times a rate. It is only formed where the work does not end
 *   before the change, and is then at most that work.
 * - Moments are nanoseconds since the start of the guest. Work over a rate of at least 1 bit/s adds less than 2^50 to one.
 */
#ifndef TCCC_PACE_H
#define TCCC_PACE_H

#include "direction.h"

#define BITS_PER_BYTE 8
#define NS_PER_SEC 1000000000ull
#define NS_PER_MS 1000000ull
#define NEVER_NS (~0ull)
/* What one opportunity of a trace delivers: OPPORTUNITY_BYTES of src/path/rate_trace.rs. */
#define OPPORTUNITY_BYTES 1500

/* A value that changes at known moments, asked for at moments that never go back. */
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

/* Goes on to a moment; whether that reached a step. */
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

/* A value with the changes of one kind, whose moments count from begin_ns; NEVER_NS: they do not come. */
static inline void steps_begin(struct steps *steps, const struct direction *direction, enum tccc_change change,
			       u64 begin_ns)
{
	steps->list = direction->steps[change];
	steps->count = direction->request->step_counts[change];
	steps->next = 0;
	steps->begin_ns = begin_ns;
	steps->next_at_ns = step_moment(steps, 0);
}

/* The serialiser of one direction: one packet at a time, in order. */
struct serialiser {
	struct steps rate; /* bits per second; 0 takes no time */
	u64 free_at_ns;
	u64 rest; /* work that whole nanoseconds left undone, bits times nanoseconds */

	/* The trace's opportunities, which repeat: the one in use, counted over all rounds, and the bytes it still takes. */
	const u32 *times_ms;
	u64 in_round;
	u64 begin_ns;
	u64 index;
	u32 left;
	bool follows_trace;
};

/* Goes on at the rate; packets taken before keep their times. */
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

/* Goes on by the opportunities of the trace, which begins at a moment. */
static inline void follow_trace(struct serialiser *serialiser, const struct direction *direction, u64 begin_ns)
{
	serialiser->times_ms = direction->opportunities;
	serialiser->in_round = direction->request->opportunity_count;
	serialiser->begin_ns = begin_ns;
	serialiser->rest = 0;
	serialiser->follows_trace = true;
	go_to_opportunity(serialiser, 0);
}

/* The last opportunity of a round ends it. */
static inline u64 round_ms(const struct serialiser *serialiser)
{
	return serialiser->times_ms[serialiser->in_round - 1];
}

static inline u64 opportunity_ns(const struct serialiser *serialiser, u64 index)
{
	const u64 round = index / serialiser->in_round, place = index % serialiser->in_round;

	return serialiser->begin_ns + (round * round_ms(serialiser) + serialiser->times_ms[place]) * NS_PER_MS;
}

/* The first opportunity of all rounds at a moment or after it; the moment is after the beginning. */
static inline u64 search_opportunity(const struct serialiser *serialiser, u64 moment_ns)
{
	const u64 ms = (moment_ns - serialiser->begin_ns + NS_PER_MS - 1) / NS_PER_MS;
	const u64 round = (ms - 1) / round_ms(serialiser), in_ms = ms - round * round_ms(serialiser);
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

/* Goes to the first opportunity from a moment on that takes a byte; returns when it comes. */
static inline u64 reach_opportunity(struct serialiser *serialiser, u64 moment_ns)
{
	u64 next;

	if (!serialiser->left)
		go_to_opportunity(serialiser, serialiser->index + 1);
	if (opportunity_ns(serialiser, serialiser->index) < moment_ns) {
		/* Most often the next one will do; after a pause it is searched for. */
		next = serialiser->index + 1;
		if (opportunity_ns(serialiser, next) < moment_ns)
			next = search_opportunity(serialiser, moment_ns);
		go_to_opportunity(serialiser, next);
	}
	return opportunity_ns(serialiser, serialiser->index);
}

/* When a packet that arrives now begins to be sent; asked for packets in the order of their arrival. */
static inline u64 serialiser_begins_ns(struct serialiser *serialiser, u64 arrival_ns)
{
	u64 from_ns = arrival_ns;

	/* A packet may share the opportunity of the one before it. */
	if (serialiser->follows_trace)
		from_ns = reach_opportunity(serialiser, arrival_ns);
	return from_ns > serialiser->free_at_ns ? from_ns : serialiser->free_at_ns;
}

/* Sends at the rate, exactly: the part of a nanosecond that is left over is carried on while the serialiser is busy. */
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

/* Uses as many opportunities as the bytes take. */
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

/* Sends a packet from a moment on; returns when it has left. */
static inline u64 serialiser_take(struct serialiser *serialiser, u64 from_ns, u32 bytes)
{
	if (serialiser->follows_trace)
		send_by_trace(serialiser, bytes);
	else
		send_at_rate(serialiser, from_ns, bytes);
	return serialiser->free_at_ns;
}

#endif
