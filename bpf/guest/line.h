/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The packets on their way over one direction, in the order in which they leave: tunlink/lane.rs in C.
 *
 * Plain C, without the kernel. Packets that are not held back leave in the order in which they came, and so do those that
 * are, as all are held back for the same time. Two lists are therefore always sorted, and adding or taking a packet costs
 * the same however many are on their way.
 */
#ifndef TCCC_LINE_H
#define TCCC_LINE_H

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
};

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

/* The list whose first packet leaves next. Of two that are due at once, the one that was held back entered first. */
static inline struct parcels *line_next_list(struct line *line)
{
	const struct parcel *ordinary = line->ordinary.first, *held_back = line->held_back.first;

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
	if (list->first == line->newest_held_back)
		line->newest_held_back = line->newest_held_back->next;
	return parcels_take(list);
}

#endif
