/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One direction as a whole: a packet that the shaper admitted enters the line, and the counters note what that does.
 *
 * Plain C without kernel functions.
 */
#ifndef TCCC_ADMIT_H
#define TCCC_ADMIT_H

#include "line.h"
#include "shaper.h"

/*
 * Puts a packet that is due into the line. `ack` is NULL if it is not a pure acknowledgement. Returns the list of
 * acknowledgements that it makes redundant, which the caller drops.
 */
static inline struct parcel *line_up(struct line *line, struct shaper *shaper, struct parcel *parcel,
				     const struct verdict *verdict, const struct ack *ack)
{
	const struct line_arrival arrival = {
		.ack = ack,
		.begins_batch = verdict->begins_batch,
		.is_held_back = verdict->is_held_back,
	};
	struct tccc_link_counters *counters = &shaper->counters;
	const struct parcel *dropped;
	struct line_effect effect;

	parcel->due_ns = verdict->due_ns;
	effect = line_pass(line, &shaper->direction.request->hold, parcel, &arrival);
	counters->reordered_pkts += effect.reordered;
	*(shaper->direction.request->hold.every ? &counters->held_pkts : &counters->acks_held_pkts) += effect.is_held;
	for (dropped = effect.dropped; dropped; dropped = dropped->next)
		counters->acks_thinned_pkts++;
	return effect.dropped;
}

#endif
