/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The packets on their way over one direction, in the order in which they leave.
 *
 * Plain C without kernel functions. Ordinary packets leave in the order in which they came. So do packets that are
 * held back, because all of them are held back for the same time. Two lists are therefore always sorted, and adding or
 * taking a packet takes constant time.
 *
 * Packets may be held at the end of the line: all of them, or pure acknowledgements alone. Held packets entered after
 * every ordinary packet. A packet behind them either joins them or releases them. A file that includes this one provides
 * parcel_ack().
 *
 * Held-back packets are reordered ones. Held ones wait for a batch.
 */
#ifndef TCCC_LINE_H
#define TCCC_LINE_H

#include "ack.h"
#include "request.h"

/* A packet on its way, stored in the packet's own memory. */
struct parcel {
	struct parcel *next;
	u64 due_ns;
};

struct parcels {
	struct parcel *first;
	struct parcel *last;
};

struct line {
	struct parcels ordinary;
	struct parcels held_back;
	/* The first packet held back that no packet could overtake yet, because no ordinary packet came after it. */
	struct parcel *newest_held_back;
	/* Held packets. `due_ns` of each is the latest time at which the batch leaves. */
	struct parcels held;
	bool is_holding;
	u64 release_ns;
	u64 came; /* packets that joined the batch, including dropped ones */
};

/* A packet that arrives at the end of the line. */
struct line_arrival {
	const struct ack *ack; /* NULL: the packet is not a pure acknowledgement */
	bool begins_batch;     /* begins a batch if none is held */
	bool is_held_back;
};

/* The effects of one packet at the end of the line. */
struct line_effect {
	u64 reordered;		/* packets that it overtakes and that no other packet has overtaken */
	bool is_held;		/* in a batch */
	struct parcel *dropped; /* list of held acknowledgements that it makes redundant */
};

/* Reads the acknowledgement of a held packet. */
static bool parcel_ack(const struct parcel *parcel, struct ack *ack);

static inline void parcels_append(struct parcels *parcels, struct parcel *parcel)
{
	parcel->next = NULL;
	if (parcels->last)
		parcels->last->next = parcel;
	else
		parcels->first = parcel;
	parcels->last = parcel;
}

static inline struct parcel *parcels_take(struct parcels *parcels)
{
	struct parcel *parcel = parcels->first;

	parcels->first = parcel->next;
	if (!parcels->first)
		parcels->last = NULL;
	return parcel;
}

/*
 * Adds the packet that entered last. Returns how many packets it overtakes that no other packet has overtaken. They
 * were held back and came after the last ordinary packet. Packets held back earlier do not count: the last ordinary
 * packet has overtaken them, or they leave before it.
 */
static inline u64 line_add(struct line *line, struct parcel *parcel, bool is_held_back)
{
	u64 overtaken = 0;

	if (is_held_back) {
		parcels_append(&line->held_back, parcel);
		if (!line->newest_held_back)
			line->newest_held_back = parcel;
		return 0;
	}
	parcels_append(&line->ordinary, parcel);
	while (line->newest_held_back) {
		overtaken += line->newest_held_back->due_ns > parcel->due_ns;
		line->newest_held_back = line->newest_held_back->next;
	}
	return overtaken;
}

/* Ends the batch: each of its packets leaves when it is due. */
static inline void line_end_batch(struct line *line)
{
	line->is_holding = false;
	if (!line->held.first)
		return;
	if (line->ordinary.last)
		line->ordinary.last->next = line->held.first;
	else
		line->ordinary.first = line->held.first;
	line->ordinary.last = line->held.last;
	line->held = (struct parcels){0};
}

/* Releases all held packets. */
static inline void line_open(struct line *line, u64 at_ns)
{
	struct parcel *parcel;

	for (parcel = line->held.first; parcel; parcel = parcel->next)
		parcel->due_ns = at_ns;
	line_end_batch(line);
}

/* Removes the held acknowledgements that the newest one makes redundant; returns them as a list. */
static inline struct parcel *line_thin(struct line *line, const struct ack *newest)
{
	struct parcels kept = {0}, dropped = {0};
	struct ack ack;

	while (line->held.first) {
		struct parcel *parcel = parcels_take(&line->held);
		const bool is_redundant = parcel_ack(parcel, &ack) && ack_is_superseded_by(&ack, newest);

		parcels_append(is_redundant ? &dropped : &kept, parcel);
	}
	line->held = kept;
	return dropped.first;
}

/* Holds the packet if it belongs to a batch. Releases the batch if the packet ends it. */
static inline struct line_effect line_hold(struct line *line, const struct tccc_hold *hold, struct parcel *parcel,
					   const struct line_arrival *arrival)
{
	const bool is_held = hold->every || arrival->ack;
	const u64 came_ns = parcel->due_ns;
	struct line_effect effect = {0};

	if (line->is_holding && came_ns >= line->release_ns)
		line_end_batch(line);
	if (!is_held)
		line_open(line, came_ns);
	if (!is_held || (!line->is_holding && !arrival->begins_batch))
		return effect;
	if (!line->is_holding) {
		line->is_holding = true;
		line->release_ns = came_ns + hold->time_ns;
		line->came = 0;
	}
	if (hold->newest)
		effect.dropped = line_thin(line, arrival->ack);
	parcel->due_ns = line->release_ns;
	parcels_append(&line->held, parcel);
	effect.is_held = true;
	if (++line->came >= hold->pkts)
		line_open(line, came_ns);
	return effect;
}

/* Adds the packet that entered last. */
static inline struct line_effect line_pass(struct line *line, const struct tccc_hold *hold, struct parcel *parcel,
					   const struct line_arrival *arrival)
{
	struct line_effect effect = {0};

	if (hold->time_ns)
		effect = line_hold(line, hold, parcel, arrival);
	if (!effect.is_held)
		effect.reordered = line_add(line, parcel, arrival->is_held_back);
	return effect;
}

/* The list whose first packet leaves next. Of two that are due at the same time, the held-back packet entered first. */
static inline struct parcels *line_next_list(struct line *line)
{
	const struct parcel *ordinary = line->ordinary.first, *held_back = line->held_back.first;

	if (!ordinary && !held_back)
		return &line->held;
	return held_back && (!ordinary || held_back->due_ns <= ordinary->due_ns) ? &line->held_back : &line->ordinary;
}

/* The packet that leaves next. NULL: no packet is on its way. */
static inline struct parcel *line_first(struct line *line)
{
	return line_next_list(line)->first;
}

/*
 * Removes the packet that leaves next. NULL: no packet is on its way.
 *
 * A batch goes on after its first packets have left, because the emulator may look late: a packet that arrived before the
 * batch's time was over then joins what is left.
 */
static inline struct parcel *line_take(struct line *line)
{
	struct parcels *list = line_next_list(line);

	if (!list->first)
		return NULL;
	if (list->first == line->newest_held_back)
		line->newest_held_back = line->newest_held_back->next;
	return parcels_take(list);
}

#endif
