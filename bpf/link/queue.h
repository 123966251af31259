/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The queue of one direction over time: samples at fixed moments of the run.
 *
 * Nothing waits for these moments. The next packet that arrives, or the end of the run, takes the samples before it:
 * the queue knows when each of its packets leaves, so its state at an earlier moment is exact. Plain C without kernel
 * functions.
 */
#ifndef TCCC_QUEUE_H
#define TCCC_QUEUE_H

#include "pace.h"

struct queue_samples {
	struct tccc_queue_sample *list; /* the caller's memory; NULL: nothing is sampled */
	u64 room;
	u64 count;
	u64 next_ns;
};

/* Starts the samples. The first is at begin_ns. */
static inline void queue_samples_begin(struct queue_samples *samples, struct tccc_queue_sample *list, u64 room,
				       u64 begin_ns)
{
	*samples = (struct queue_samples){.list = list, .room = list ? room : 0, .next_ns = begin_ns};
}

/* Whether a sample is due before a packet that arrives at this time. */
static inline bool queue_sample_is_due(const struct queue_samples *samples, u64 arrival_ns)
{
	return samples->count < samples->room && samples->next_ns <= arrival_ns;
}

/* Takes the next sample. `wait_ns` is how long a packet that arrives then would wait. */
static inline void queue_sample_take(struct queue_samples *samples, u64 packets, u64 wait_ns,
				     const struct tccc_link_counters *counters)
{
	samples->list[samples->count++] = (struct tccc_queue_sample){
		.at_ns = samples->next_ns,
		.queue_pkts = packets,
		.wait_ns = wait_ns,
		.overflow_pkts = counters->overflow_pkts,
		.marked_pkts = counters->marked_pkts,
	};
}

#endif
