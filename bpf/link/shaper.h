/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Decides what happens to a packet that enters one direction of a link: lost, policed, refused by the queue, or due at a
 * time.
 *
 * Plain C without kernel functions. The caller passes the time with each packet. All times are nanoseconds of one
 * monotonic clock. With a queue discipline of the kernel (guest/discipline.c), shaper_pass() comes before that queue, and
 * shaper_leave_queue() after it.
 */
#ifndef TCCC_SHAPER_H
#define TCCC_SHAPER_H

#include "draws.h"
#include "jitter.h"
#include "pace.h"
#include "queue.h"
#include "times.h"
#include "verdict.h"
#include "waiting.h"

struct verdict {
	enum verdict_kind kind;
	bool is_held_back;
	bool begins_batch; /* if the link holds packets of its kind and none is held */
	u64 due_ns;
};

/* Properties of a packet that some links treat differently. */
struct traits {
	bool is_low; /* its header asks for low priority */
	bool is_ack; /* it is a pure acknowledgement */
};

/* The terms on which a packet enters the queue: its random delays, and the limit of the queue for its priority. */
struct terms {
	u64 jitter_ns;
	u64 held_back_ns;
	bool begins_batch;
	struct tccc_limit limit;
};

/* One direction of a link: the loss draw, the drop-tail queue, the serialiser, the delay. */
struct shaper {
	struct direction direction;
	struct serialiser serialiser;
	struct steps is_up;
	struct steps delay;
	struct steps loss;
	struct steps jitter;
	struct steps room;	 /* of the queue, as in TCCC_CHANGE_QUEUE */
	struct tccc_limit limit; /* the same, as it is now */
	bool has_queue;		 /* packets can wait, because sending one takes time */
	struct tccc_generator jitter_draws;
	struct tccc_generator reorder_draws;
	struct tccc_generator duplicate_draws;
	struct tccc_generator ack_loss_draws;
	struct tccc_generator hold_draws;
	struct tccc_generator host_draws;
	struct terms copy_terms;
	bool has_copy;
	bool is_marked;
	u64 last_arrival_ns;
	u64 last_due_ns;
	u64 last_wait_ns;     /* of the packet that left the queue last, or has been told when it will */
	u32 last_wait_bucket; /* of that wait in the histogram, if there is a queue */
	bool is_policing;     /* not before the run: calibration measures the link alone */
	u64 bucket_full_ns;   /* when the policer's bucket is full again, if nothing more comes */
	struct waiting_queue queue;
	struct queue_samples samples;
	struct times waits; /* of packets in the queue, until their first bit is sent; empty if the link has no rate */
	struct tccc_link_counters counters;
	struct losses losses;
};

/* Resets all changes over time. Their times count from begin_ns. */
static inline void shaper_follow(struct shaper *shaper, u64 begin_ns)
{
	const struct direction *direction = &shaper->direction;

	follow_rate(&shaper->serialiser, direction, begin_ns);
	steps_begin(&shaper->delay, direction, TCCC_CHANGE_DELAY, begin_ns);
	shaper->delay.value = direction->request->delay_ns;
	steps_begin(&shaper->is_up, direction, TCCC_CHANGE_UP, begin_ns);
	shaper->is_up.value = true;
	steps_begin(&shaper->loss, direction, TCCC_CHANGE_LOSS, begin_ns);
	shaper->loss.value = 0;
	steps_begin(&shaper->jitter, direction, TCCC_CHANGE_JITTER, begin_ns);
	shaper->jitter.value = direction->request->jitter;
	steps_begin(&shaper->room, direction, TCCC_CHANGE_QUEUE, begin_ns);
	shaper->limit = direction->request->queue;
}

/* Whether this direction treats acknowledgements differently. */
static inline bool shaper_inspects_acks(const struct shaper *shaper)
{
	const struct tccc_link_request *request = shaper->direction.request;

	return request->ack_loss || (request->hold.time_ns && !request->hold.every);
}

/* Restarts the random numbers. Changes over time and the policer are off until shaper_start(). */
static inline void shaper_reseed(struct shaper *shaper)
{
	const struct tccc_generator *generators = shaper->direction.request->generators;

	shaper_follow(shaper, NEVER_NS);
	losses_begin(&shaper->losses, &shaper->direction);
	shaper->is_policing = false;
	shaper->bucket_full_ns = 0;
	shaper->jitter_draws = generators[TCCC_STREAM_JITTER];
	shaper->reorder_draws = generators[TCCC_STREAM_REORDER];
	shaper->duplicate_draws = generators[TCCC_STREAM_DUPLICATE];
	shaper->ack_loss_draws = generators[TCCC_STREAM_ACK_LOSS];
	shaper->hold_draws = generators[TCCC_STREAM_HOLD];
	shaper->host_draws = generators[TCCC_STREAM_HOST];
}

/* Starts the policer, the rate trace and the changes over time. The last two count from begin_ns. */
static inline void shaper_start(struct shaper *shaper, u64 begin_ns)
{
	shaper_follow(shaper, begin_ns);
	shaper->is_policing = true;
	if (shaper->direction.request->opportunity_count)
		follow_trace(&shaper->serialiser, &shaper->direction, begin_ns);
}

/* Resets the counters. */
static inline void shaper_restart_counters(struct shaper *shaper)
{
	shaper->counters = (struct tccc_link_counters){0};
	shaper->waits = (struct times){0};
	losses_restart_runs(&shaper->losses);
}

/* Makes an all-zero shaper ready for packets. The bytes of the request must outlive it. False: the request is wrong. */
static inline bool shaper_read(struct shaper *shaper, const void *bytes, u64 length)
{
	const struct tccc_link_request *request = bytes;

	if (!direction_read(&shaper->direction, bytes, length))
		return false;
	shaper->has_queue = request->rate_bps || request->opportunity_count || request->step_counts[TCCC_CHANGE_RATE];
	shaper_reseed(shaper);
	return true;
}

/* The counters, including those that the losses keep. */
static inline struct tccc_link_counters shaper_counters(const struct shaper *shaper)
{
	struct tccc_link_counters counters = shaper->counters;

	counters.loss_runs = shaper->losses.runs;
	counters.first_lost_count = shaper->losses.first_lost_count;
	return counters;
}

/* When a packet that the host sends now reaches the link. The host's delay never reorders packets. */
static inline u64 shaper_arrival_ns(struct shaper *shaper, u64 now_ns)
{
	const u64 arrival_ns = now_ns + draw_up_to(&shaper->host_draws, shaper->direction.request->host_delay_ns);

	if (arrival_ns > shaper->last_arrival_ns)
		shaper->last_arrival_ns = arrival_ns;
	return shaper->last_arrival_ns;
}

/* Takes the samples that are due by a time. Times never decrease. */
static inline void shaper_sample(struct shaper *shaper, u64 until_ns)
{
	struct queue_samples *samples = &shaper->samples;

	while (queue_sample_is_due(samples, until_ns)) {
		const u64 begins_ns = serialiser_begins_ns(&shaper->serialiser, samples->next_ns);

		waiting_leave(&shaper->queue, samples->next_ns);
		queue_sample_take(samples, shaper->queue.packets, begins_ns - samples->next_ns, &shaper->counters);
		samples->next_ns += shaper->direction.request->sample_ns;
	}
}

/* The limit of the queue for a packet that arrives now. */
static inline const struct tccc_limit *limit_at(struct shaper *shaper, u64 arrival_ns, bool is_low)
{
	const struct tccc_limit *low = &shaper->direction.request->queue_low;

	if (steps_pass(&shaper->room, arrival_ns)) {
		shaper->limit.unit = shaper->room.value % 2 ? TCCC_LIMIT_BYTES : TCCC_LIMIT_PKTS;
		shaper->limit.most = shaper->room.value / 2;
	}
	return is_low && low->unit != TCCC_LIMIT_NONE ? low : &shaper->limit;
}

/* After shaper->jitter was asked for the time of the packet's arrival. */
static inline struct terms draw_terms(struct shaper *shaper, const struct tccc_limit *limit)
{
	const struct tccc_link_request *request = shaper->direction.request;
	struct terms terms = {.jitter_ns = draw_jitter(&shaper->jitter_draws, shaper->jitter.value), .limit = *limit};

	if (request->held_back && draw_share(&shaper->reorder_draws, request->held_back))
		terms.held_back_ns = request->held_back_ns;
	if (request->hold.time_ns)
		terms.begins_batch = draw_share(&shaper->hold_draws, request->hold.share);
	return terms;
}

static inline void draw_copy(struct shaper *shaper, const struct tccc_limit *limit)
{
	const u64 share = shaper->direction.request->duplicate;

	shaper->has_copy = share && draw_share(&shaper->duplicate_draws, share);
	if (shaper->has_copy)
		shaper->copy_terms = draw_terms(shaper, limit);
}

/* Adds a packet to the queue. Not called for a packet that finds the serialiser idle. */
static inline enum verdict_kind wait_in_queue(struct shaper *shaper, u64 serialised_from_ns, u32 bytes)
{
	struct tccc_link_counters *counters = &shaper->counters;
	struct waiting_queue *queue = &shaper->queue;

	if (!waiting_push(queue, serialised_from_ns, bytes)) {
		counters->failed_pkts++;
		return VERDICT_FAILED;
	}
	if (queue->packets > counters->max_queue_pkts)
		counters->max_queue_pkts = queue->packets;
	return VERDICT_DUE;
}

/* Serialises and delays a packet that leaves the queue, when the serialiser is free, after this wait. */
static inline struct verdict shaper_leave_queue(struct shaper *shaper, u64 from_ns, u64 wait_ns, u32 bytes,
						const struct terms *terms)
{
	u64 left_ns = serialiser_take(&shaper->serialiser, from_ns, bytes);

	if (shaper->has_queue)
		shaper->last_wait_bucket = times_add(&shaper->waits, wait_ns);
	shaper->last_wait_ns = wait_ns;
	left_ns += steps_at(&shaper->delay, left_ns) + terms->jitter_ns;
	if (left_ns > shaper->last_due_ns)
		shaper->last_due_ns = left_ns;
	return (struct verdict){
		.kind = VERDICT_DUE,
		.is_held_back = terms->held_back_ns > 0,
		.begins_batch = terms->begins_batch,
		.due_ns = shaper->last_due_ns + terms->held_back_ns,
	};
}

static inline struct verdict enter_queue(struct shaper *shaper, u64 arrival_ns, u32 bytes, const struct terms *terms)
{
	u64 from_ns;

	waiting_leave(&shaper->queue, arrival_ns);
	from_ns = serialiser_begins_ns(&shaper->serialiser, arrival_ns);
	if (from_ns > arrival_ns && !queue_fits(&shaper->queue, &terms->limit, bytes)) {
		shaper->counters.overflow_pkts++;
		return (struct verdict){.kind = VERDICT_OVERFLOW};
	}
	shaper->is_marked = queue_holds(&shaper->queue, &shaper->direction.request->mark);
	if (from_ns > arrival_ns && wait_in_queue(shaper, from_ns, bytes) != VERDICT_DUE)
		return (struct verdict){.kind = VERDICT_FAILED};
	return shaper_leave_queue(shaper, from_ns, from_ns - arrival_ns, bytes, terms);
}

/* Whether a packet is within the rate and burst of the policer, which then counts it. */
static inline bool policer_passes(struct shaper *shaper, u64 arrival_ns, u32 bytes)
{
	const struct tccc_link_request *request = shaper->direction.request;
	u64 full_ns;

	if (!shaper->is_policing || !request->policer_bps)
		return true;
	full_ns = shaper->bucket_full_ns > arrival_ns ? shaper->bucket_full_ns : arrival_ns;
	full_ns += BITS_PER_BYTE * NS_PER_SEC * bytes / request->policer_bps;
	if (full_ns - arrival_ns > request->policer_burst_ns)
		return false;
	shaper->bucket_full_ns = full_ns;
	return true;
}

/* Decides whether a packet reaches the queue. VERDICT_DUE: it does, on these terms. */
static inline enum verdict_kind shaper_pass(struct shaper *shaper, u64 arrival_ns, u32 bytes, struct traits traits,
					    struct terms *terms)
{
	const struct tccc_link_request *request = shaper->direction.request;
	const struct tccc_limit *limit = limit_at(shaper, arrival_ns, traits.is_low);
	bool loses_ack;

	shaper->counters.received_pkts++;
	if (!steps_at(&shaper->is_up, arrival_ns)) {
		shaper->counters.down_pkts++;
		return VERDICT_DOWN;
	}
	/* Drawn for lost packets too, so that what happens to a packet depends only on its number. */
	steps_pass(&shaper->jitter, arrival_ns);
	*terms = draw_terms(shaper, limit);
	draw_copy(shaper, limit);
	loses_ack = request->ack_loss && draw_share(&shaper->ack_loss_draws, request->ack_loss) && traits.is_ack;
	if (steps_pass(&shaper->loss, arrival_ns))
		losses_change(&shaper->losses, shaper->loss.value);
	if (losses_take_next(&shaper->losses)) {
		shaper->counters.lost_pkts++;
		return VERDICT_LOST;
	}
	if (loses_ack) {
		shaper->counters.acks_lost_pkts++;
		return VERDICT_ACK_LOST;
	}
	if (!policer_passes(shaper, arrival_ns, bytes)) {
		shaper->counters.policed_pkts++;
		return VERDICT_POLICED;
	}
	return VERDICT_DUE;
}

/*
 * Decides what happens to an IP packet of this many bytes. Call it for packets in the order of their arrival. A packet
 * of low priority finds the queue full earlier.
 */
static inline struct verdict shaper_admit(struct shaper *shaper, u64 arrival_ns, u32 bytes, struct traits traits)
{
	struct terms terms;
	enum verdict_kind kind;

	shaper_sample(shaper, arrival_ns);
	kind = shaper_pass(shaper, arrival_ns, bytes, traits, &terms);
	if (kind != VERDICT_DUE)
		return (struct verdict){.kind = kind};
	return enter_queue(shaper, arrival_ns, bytes, &terms);
}

/* Decides what happens to the copy of the last admitted packet, of the same priority. Most packets have no copy. */
static inline struct verdict shaper_admit_copy(struct shaper *shaper, u64 arrival_ns, u32 bytes)
{
	if (!shaper->has_copy)
		return (struct verdict){.kind = VERDICT_NONE};
	shaper->has_copy = false;
	shaper->counters.duplicated_pkts++;
	return enter_queue(shaper, arrival_ns, bytes, &shaper->copy_terms);
}

#endif
