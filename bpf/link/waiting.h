/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The queue of one direction: the packets in front of the serialiser, in pages.
 *
 * Plain C, except that the kernel provides the memory. In user space the C library does.
 */
#ifndef TCCC_WAITING_H
#define TCCC_WAITING_H

#include "request.h"

#ifdef __KERNEL__
#include <linux/slab.h>
#else /* in user space */
#include <stdlib.h>
#define kmalloc(bytes, flags) malloc(bytes)
#define kfree free
#endif

/* A packet in front of the serialiser. */
struct waiting {
	u64 serialised_from_ns;
	u64 bytes;
};

/* This many packets and the header fit into a page of 4096 bytes. */
#define WAITING_IN_PAGE 255

struct waiting_page {
	struct waiting_page *next;
	u64 unused;
	struct waiting packets[WAITING_IN_PAGE];
};

/* The queue, oldest packet first. It allocates pages as it grows, because a limit in bytes does not limit packets. */
struct waiting_queue {
	struct waiting_page *first;
	struct waiting_page *last;
	struct waiting_page *spare;
	u32 first_place;
	u32 end_place;
	u64 packets;
	u64 bytes;
};

/* Appends a packet. False: there is no memory. */
static inline bool waiting_push(struct waiting_queue *queue, u64 serialised_from_ns, u32 bytes)
{
	struct waiting_page *page = queue->last;

	if (!page || queue->end_place == WAITING_IN_PAGE) {
		page = queue->spare ? queue->spare : kmalloc(sizeof(*page), GFP_ATOMIC);
		if (!page)
			return false;
		queue->spare = NULL;
		page->next = NULL;
		if (queue->last)
			queue->last->next = page;
		else
			queue->first = page;
		queue->last = page;
		queue->end_place = 0;
	}
	page->packets[queue->end_place++] = (struct waiting){serialised_from_ns, bytes};
	queue->packets++;
	queue->bytes += bytes;
	return true;
}

/* Goes to the next page, and keeps the used one for later. */
static inline void waiting_next_page(struct waiting_queue *queue)
{
	struct waiting_page *page = queue->first;

	queue->first_place = 0;
	if (!page->next) {
		queue->end_place = 0;
		return;
	}
	queue->first = page->next;
	if (queue->spare)
		kfree(page);
	else
		queue->spare = page;
}

/* Packets whose serialisation has begun are no longer in the queue. */
static inline void waiting_leave(struct waiting_queue *queue, u64 now_ns)
{
	while (queue->packets) {
		const struct waiting *packet = &queue->first->packets[queue->first_place];

		if (packet->serialised_from_ns > now_ns)
			return;
		queue->packets--;
		queue->bytes -= packet->bytes;
		queue->first_place++;
		if (!queue->packets || queue->first_place == WAITING_IN_PAGE)
			waiting_next_page(queue);
	}
}

static inline void waiting_free(struct waiting_queue *queue)
{
	while (queue->first) {
		struct waiting_page *page = queue->first;

		queue->first = page->next;
		kfree(page);
	}
	if (queue->spare)
		kfree(queue->spare);
	*queue = (struct waiting_queue){0};
}

/* Whether the queue holds at least this much. */
static inline bool queue_holds(const struct waiting_queue *queue, const struct tccc_limit *much)
{
	if (much->unit == TCCC_LIMIT_NONE)
		return false;
	return (much->unit == TCCC_LIMIT_PKTS ? queue->packets : queue->bytes) >= much->most;
}

static inline bool queue_fits(const struct waiting_queue *queue, const struct tccc_limit *limit, u32 bytes)
{
	if (limit->unit == TCCC_LIMIT_PKTS)
		return queue->packets < limit->most;
	return queue->bytes + bytes <= limit->most;
}

#endif
