/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The packets on their way over one direction, in the order in which they leave: tunlink/lane.rs in C.
 *
 * Plain C, without the kernel. Packets that are not held back leave in the order in which they came, and so do those that
 * are, as all are held back for the same time. Two lists are therefore always sorted, and adding or taking a packet costs
 * the same however many are on their way.
 *
 * Pure acknowledgements may be held at the end: tunlink/gate.rs. Those that are held entered after every ordinary packet, and
 * what comes behind them either joins them or lets them go. Who includes this file provides parcel_ack().
 */
#ifndef TCCC_LINE_H
#define TCCC_LINE_H

#include "ack.h"
#include "lab.h"

/* A packet on its way; it lies in the packet's own memory. */
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
	/* The first one held back that no packet could overtake yet, because none came after it. */
	struct parcel *newest_held_back;
	/* Acknowledgements that are held, all due at the moment at which their batch leaves at the latest. */
	struct parcels held;
	bool is_holding;
	u64 release_ns;
	u64 came; /* acknowledgements of the batch */
};

/* A packet that comes to the end of the line. */
struct comer {
	const struct ack *ack; /* NULL: it is anything but a pure acknowledgement */
	bool begins_batch;     /* where there is none */
	bool is_held_back;
};

/* What became of a packet, and of others because of it. */
struct passed {
	u64 reordered;		/* packets that it overtakes that no other has */
	bool is_held;		/* as an acknowledgement */
	struct parcel *dropped; /* those held that it tells as well; a list */
};

/* Reads the acknowledgement that a held parcel is. */
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
 * Adds the packet that entered last. Returns how many it overtakes that no other has: only packets held back, and only those
 * that came after the last ordinary one. An earlier one was overtaken by that one, or leaves before it and all behind it.
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

/* The batch is over: all leave when they are due. */
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

/* Lets all go that are held. */
static inline void line_open(struct line *line, u64 at_ns)
{
	struct parcel *parcel;

	for (parcel = line->held.first; parcel; parcel = parcel->next)
		parcel->due_ns = at_ns;
	line_end_batch(line);
}

/* Takes those off that the newest one tells as well; returns their list. */
static inline struct parcel *line_thin(struct line *line, const struct ack *newest)
{
	struct parcels kept = {0}, dropped = {0};
	struct ack ack;

	while (line->held.first) {
		struct parcel *parcel = parcels_take(&line->held);
		const bool is_told = parcel_ack(parcel, &ack) && ack_is_told_by(&ack, newest);

		parcels_append(is_told ? &dropped : &kept, parcel);
	}
	line->held = kept;
	return dropped.first;
}

/* Holds the packet if it is an acknowledgement of a batch; lets others go if it must. */
static inline struct passed line_hold(struct line *line, const struct tccc_ack_hold *hold, struct parcel *parcel,
				      const struct comer *comer)
{
	const u64 came_ns = parcel->due_ns;
	struct passed passed = {0};

	if (line->is_holding && came_ns >= line->release_ns)
		line_end_batch(line);
	if (!comer->ack)
		line_open(line, came_ns);
	if (!comer->ack || (!line->is_holding && !comer->begins_batch))
		return passed;
	if (!line->is_holding) {
		line->is_holding = true;
		line->release_ns = came_ns + hold->time_ns;
		line->came = 0;
	}
	if (hold->newest)
		passed.dropped = line_thin(line, comer->ack);
	parcel->due_ns = line->release_ns;
	parcels_append(&line->held, parcel);
	passed.is_held = true;
	if (++line->came >= hold->pkts)
		line_open(line, came_ns);
	return passed;
}

/* Adds the packet that entered last. */
static inline struct passed line_pass(struct line *line, const struct tccc_ack_hold *hold, struct parcel *parcel,
				      const struct comer *comer)
{
	struct passed passed = {0};

	if (hold->time_ns)
		passed = line_hold(line, hold, parcel, comer);
	if (!passed.is_held)
		passed.reordered = line_add(line, parcel, comer->is_held_back);
	return passed;
}

/* The list whose first packet leaves next. Of two that are due at once, the one that was held back entered first. */
static inline struct parcels *line_next_list(struct line *line)
{
	const struct parcel *ordinary = line->ordinary.first, *held_back = line->held_back.first;

	if (!ordinary && !held_back)
		return &line->held;
	return held_back && (!ordinary || held_back->due_ns <= ordinary->due_ns) ? &line->held_back : &line->ordinary;
}

/* The packet that leaves next. NULL: there is none. */
static inline struct parcel *line_first(struct line *line)
{
	return line_next_list(line)->first;
}

/* Takes the packet off that leaves next. NULL: there is none. */
static inline struct parcel *line_take(struct line *line)
{
	struct parcels *list = line_next_list(line);

	if (!list->first)
		return NULL;
	if (list == &line->held) {
		line_end_batch(line);
		list = &line->ordinary;
	}
	if (list->first == line->newest_held_back)
		line->newest_held_back = line->newest_held_back->next;
	return parcels_take(list);
}

#endif
