/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reads and checks a request for one direction of a link, and finds its arrays.
 *
 * Plain C without kernel functions.
 */
#ifndef TCCC_DIRECTION_H
#define TCCC_DIRECTION_H

#include "request.h"

/*
 * Upper bounds that keep every sum and product of shaper.h within 64 bits. A rate of 1.1 Tbit/s and times of 13 days
 * are far above what a scenario may ask for (src/lab/path.rs).
 */
#define RATE_BPS_MAX (1ull << 40)
#define TIME_NS_MAX (1ull << 50)
/* The threshold of a share of 100 %. */
#define SHARE_WHOLE (1ull << 53)
/* A round of this many milliseconds is 49 days. */
#define ROUND_MS_MAX (~(u32)0)
/* Keeps count * size within 64 bits in take_array. Far more elements than the largest request can hold. */
#define COUNT_MAX (1ull << 32)

/* The pointers point into the bytes of the request, which must outlive this struct. */
struct direction {
	const struct tccc_link_request *request;
	const struct tccc_step *steps[TCCC_CHANGES];
	const struct tccc_loss *losses;
	const u64 *positions;
	const u32 *opportunities;
};

/* Number of values below the limit in an ascending list. */
static inline u64 count_below(const u64 *values, u64 count, u64 limit)
{
	u64 low = 0, high = count;

	while (low < high) {
		const u64 middle = low + (high - low) / 2;

		if (values[middle] < limit)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static inline bool is_limit(const struct tccc_limit *limit, bool may_be_none)
{
	return limit->unit <= TCCC_LIMIT_BYTES && (may_be_none || limit->unit != TCCC_LIMIT_NONE) &&
	       limit->most <= TIME_NS_MAX;
}

static inline bool is_jitter(u64 value)
{
	return value / 2 <= (value % 2 ? SHARE_WHOLE : TIME_NS_MAX);
}

static inline bool is_link_request(const struct tccc_link_request *request)
{
	return !request->device[TCCC_DEVICE_NAME - 1] && request->rate_bps <= RATE_BPS_MAX &&
	       request->delay_ns <= TIME_NS_MAX && is_jitter(request->jitter) && request->held_back_ns <= TIME_NS_MAX &&
	       request->host_delay_ns <= TIME_NS_MAX && request->sample_ns <= TIME_NS_MAX &&
	       request->policer_bps <= RATE_BPS_MAX && request->policer_burst_ns <= TIME_NS_MAX &&
	       is_limit(&request->queue, false) && is_limit(&request->queue_low, true) &&
	       is_limit(&request->mark, true) && request->hold.time_ns <= TIME_NS_MAX &&
	       !(request->hold.time_ns && (request->held_back_ns || (request->hold.every && request->hold.newest))) &&
	       request->loss_count > 0;
}

/* Whether a step sets a value that shaper.h can compute with. */
static inline bool is_step_value(const struct direction *direction, enum tccc_change change, u64 value)
{
	switch (change) {
	case TCCC_CHANGE_RATE:
		return value > 0 && value <= RATE_BPS_MAX;
	case TCCC_CHANGE_DELAY:
		return value <= TIME_NS_MAX;
	case TCCC_CHANGE_JITTER:
		return is_jitter(value);
	case TCCC_CHANGE_UP:
		return value <= 1;
	case TCCC_CHANGE_QUEUE:
		return value / 2 <= TIME_NS_MAX;
	case TCCC_CHANGE_DISCIPLINE:
		return value > 0;
	default:
		return value < direction->request->loss_count;
	}
}

static inline bool are_steps(const struct direction *direction, enum tccc_change change)
{
	const struct tccc_step *steps = direction->steps[change];
	const u64 count = direction->request->step_counts[change];

	for (u64 n = 0; n < count; n++) {
		if (!is_step_value(direction, change, steps[n].value) || (n && steps[n - 1].at_ns >= steps[n].at_ns))
			return false;
	}
	return true;
}

static inline bool are_losses(const struct direction *direction)
{
	const u64 positions = direction->request->position_count;

	for (u64 n = 0; n < direction->request->loss_count; n++) {
		const struct tccc_loss *loss = &direction->losses[n];

		if (loss->kind < TCCC_LOSS_INDEPENDENT || loss->kind > TCCC_LOSS_POSITIONS)
			return false;
		if (loss->first_position > positions || loss->positions > positions - loss->first_position)
			return false;
		for (u64 at = 1; at < loss->positions; at++) {
			const u64 *position = &direction->positions[loss->first_position + at];

			if (position[-1] >= position[0])
				return false;
		}
	}
	return true;
}

/* A round ends with its last opportunity, or later. */
static inline bool are_opportunities(const struct direction *direction)
{
	const u64 count = direction->request->opportunity_count, round_ms = direction->request->round_ms;

	for (u64 n = 1; n < count; n++) {
		if (direction->opportunities[n - 1] > direction->opportunities[n])
			return false;
	}
	return !count || (round_ms && round_ms <= ROUND_MS_MAX && direction->opportunities[count - 1] <= round_ms);
}

/* The part of a request that has not been read yet. */
struct unread {
	const char *bytes;
	u64 length;
	bool is_short;
};

/* Takes an array from the front. The pointer is valid only if `is_short` is false. */
static inline const void *take_array(struct unread *unread, u64 count, u64 size)
{
	const char *array = unread->bytes;

	if (unread->is_short || count > COUNT_MAX || count * size > unread->length) {
		unread->is_short = true;
		return NULL;
	}
	unread->bytes += count * size;
	unread->length -= count * size;
	return array;
}

/* Reads a request. False: a size or a value is wrong. */
static inline bool direction_read(struct direction *direction, const void *bytes, u64 length)
{
	const struct tccc_link_request *request = bytes;
	struct unread unread = {.bytes = bytes, .length = length};
	int change;

	take_array(&unread, 1, sizeof(*request));
	if (unread.is_short || !is_link_request(request))
		return false;
	direction->request = request;
	for (change = 0; change < TCCC_CHANGES; change++)
		direction->steps[change] = take_array(&unread, request->step_counts[change], sizeof(struct tccc_step));
	direction->losses = take_array(&unread, request->loss_count, sizeof(struct tccc_loss));
	direction->positions = take_array(&unread, request->position_count, sizeof(u64));
	direction->opportunities = take_array(&unread, request->opportunity_count, sizeof(u32));
	if (unread.is_short || unread.length)
		return false;
	for (change = 0; change < TCCC_CHANGES; change++) {
		if (!are_steps(direction, change))
			return false;
	}
	return are_losses(direction) && are_opportunities(direction);
}

#endif
