/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Random numbers and losses of one direction. Results are repeated by seed, so a seed's losses never change.
 *
 * Plain C without kernel functions. A share is a threshold for the 53 random bits of a number: the probability times
 * 2^53, rounded up (src/lab/path/request.rs).
 */
#ifndef TCCC_DRAWS_H
#define TCCC_DRAWS_H

#include "direction.h"

#define SHARE_BITS 53
/*
 * Number of positions of lost packets that are stored for the record. They show whether two runs had the same losses,
 * and can be given to another run as `positions`.
 */
#define FIRST_LOST_KEPT 1000

/* M. O'Neill, "PCG: A Family of Simple Fast Space-Efficient Statistically Good Algorithms for Random Number Generation". */
#define PCG_MULTIPLIER_HIGH 0x2360ed051fc65da4ull
#define PCG_MULTIPLIER_LOW 0x4385df649fccf645ull
#define PCG_ROTATION_BITS 6

typedef unsigned __int128 wide;

static inline wide joined(u64 high, u64 low)
{
	return (wide)high << 64 | low;
}

/* The next number of PCG64: one step of the state, then the output function XSL-RR. It needs no division. */
static inline u64 next_number(struct tccc_generator *generator)
{
	const wide state =
		joined(generator->state_high, generator->state_low) * joined(PCG_MULTIPLIER_HIGH, PCG_MULTIPLIER_LOW) +
		joined(generator->increment_high, generator->increment_low);
	const u64 high = (u64)(state >> 64), low = (u64)state;
	const u32 rotation = (u32)(high >> (64 - PCG_ROTATION_BITS));
	const u64 mixed = high ^ low;

	generator->state_high = high;
	generator->state_low = low;
	return mixed >> rotation | mixed << (-rotation & 63);
}

/* True with the probability of a share. */
static inline bool draw_share(struct tccc_generator *generator, u64 share)
{
	return next_number(generator) >> (64 - SHARE_BITS) < share;
}

/* Uniform in 0..=most: the high half of a product of 64 by 64 bits. Draws no number if `most` is 0. */
static inline u64 draw_up_to(struct tccc_generator *generator, u64 most)
{
	return most ? (u64)((wide)next_number(generator) * (most + 1) >> 64) : 0;
}

/* The loss model of a direction, and the packets that it has lost. */
struct losses {
	const struct direction *direction;
	struct tccc_loss model;
	struct tccc_generator draws;
	struct tccc_generator state_draws;
	u64 next_position; /* index of the model's next position */
	u64 packet;	   /* number of the last packet, from 1 */
	u64 last_lost;
	u64 runs;
	u64 first_lost_count;
	u64 first_lost[FIRST_LOST_KEPT];
	bool is_bad;
};

/* Switches to another model, which begins in the good state. The random numbers and the count of packets continue. */
static inline void losses_change(struct losses *losses, u64 model)
{
	const struct direction *direction = losses->direction;
	const struct tccc_loss *loss = &direction->losses[model];

	losses->model = *loss;
	losses->is_bad = false;
	losses->next_position =
		count_below(direction->positions + loss->first_position, loss->positions, losses->packet + 1);
}

/* Resets the counts. */
static inline void losses_restart_runs(struct losses *losses)
{
	losses->runs = 0;
	losses->first_lost_count = 0;
}

/* Starts before the first packet, with the first model and the first random numbers. */
static inline void losses_begin(struct losses *losses, const struct direction *direction)
{
	losses->direction = direction;
	losses->draws = direction->request->generators[TCCC_STREAM_LOSS];
	losses->state_draws = direction->request->generators[TCCC_STREAM_STATE];
	losses->packet = 0;
	losses->last_lost = 0;
	losses_restart_runs(losses);
	losses_change(losses, 0);
}

static inline bool is_lost_by_states(struct losses *losses)
{
	const struct tccc_loss *model = &losses->model;
	const u64 loss = losses->is_bad ? model->bad_loss : model->good_loss;
	const u64 change = losses->is_bad ? model->to_good : model->to_bad;

	losses->is_bad ^= draw_share(&losses->state_draws, change);
	return draw_share(&losses->draws, loss);
}

static inline bool is_lost_by_position(struct losses *losses)
{
	const struct tccc_loss *model = &losses->model;
	const u64 *positions = losses->direction->positions + model->first_position;

	if (losses->next_position == model->positions || positions[losses->next_position] != losses->packet)
		return false;
	losses->next_position++;
	return true;
}

static inline void count_lost(struct losses *losses)
{
	losses->runs += losses->last_lost + 1 != losses->packet || !losses->runs;
	losses->last_lost = losses->packet;
	if (losses->first_lost_count < FIRST_LOST_KEPT)
		losses->first_lost[losses->first_lost_count++] = losses->packet;
}

/*
 * Whether the next packet is lost. Independent losses draw one number for each packet, even with a share of 0. So the
 * packets that are lost with a small probability are also lost with a larger one.
 */
static inline bool losses_take_next(struct losses *losses)
{
	bool is_lost;

	losses->packet++;
	switch (losses->model.kind) {
	case TCCC_LOSS_INDEPENDENT:
		is_lost = draw_share(&losses->draws, losses->model.good_loss);
		break;
	case TCCC_LOSS_STATES:
		is_lost = is_lost_by_states(losses);
		break;
	default:
		is_lost = is_lost_by_position(losses);
	}
	if (is_lost)
		count_lost(losses);
	return is_lost;
}

#endif
