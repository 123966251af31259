// SPDX-License-Identifier: GPL-2.0-only
/*
 * One direction of the emulator. The guest kernel has its own file for the same, which moves the kernel's packets
 * (guest/link.c).
 */
#include <stdlib.h>
#include <string.h>

#include "admit.h"
#include "emulator.h"
#include "remark.h"

/* A packet on its way. There is one for each slot. */
struct slot_packet {
	struct parcel parcel; /* first, because a pointer to the parcel is cast to its packet */
	u32 bytes;
	struct ack ack;
};

struct link {
	struct shaper shaper;
	struct line line;
	struct tccc_link_request *request; /* with its arrays; the shaper has pointers into it */
	struct slot_packet *packets;
	struct parcel *dropped; /* list */
	/* Calibration, which comes before the run, measures the path without the delay of hosts. */
	bool has_begun;
	/* The last packet, for its copy. */
	u64 arrival_ns;
	u32 bytes;
	struct ack ack;
	bool is_ack;
};

/* Declared in line.h. */
static bool parcel_ack(const struct parcel *parcel, struct ack *ack)
{
	*ack = ((const struct slot_packet *)parcel)->ack;
	return true;
}

static u32 slot_of(const struct link *link, const struct parcel *parcel)
{
	return (u32)((const struct slot_packet *)parcel - link->packets);
}

/* ---- Life ---- */

struct link *tunlink_new(const void *request, u64 length, u32 slots)
{
	struct link *link = calloc(1, sizeof(*link));

	if (!link)
		return NULL;
	link->request = malloc(length);
	link->packets = calloc(slots, sizeof(*link->packets));
	if (link->request && link->packets) {
		memcpy(link->request, request, length);
		if (shaper_read(&link->shaper, link->request, length))
			return link;
	}
	tunlink_free(link);
	return NULL;
}

void tunlink_free(struct link *link)
{
	waiting_free(&link->shaper.queue);
	free(link->shaper.samples.list);
	free(link->packets);
	free(link->request);
	free(link);
}

void tunlink_reseed(struct link *link, const struct tccc_generator *generators)
{
	memcpy(link->request->generators, generators, sizeof(link->request->generators));
	shaper_reseed(&link->shaper);
	link->has_begun = false;
}

void tunlink_start(struct link *link, u64 begin_ns)
{
	struct queue_samples *samples = &link->shaper.samples;

	queue_samples_begin(samples, samples->list, samples->room, begin_ns);
	shaper_start(&link->shaper, begin_ns);
	link->has_begun = true;
}

/* ---- Samples and counters ---- */

bool tunlink_sample_every(struct link *link, u64 interval_ns, u64 room)
{
	struct queue_samples *samples = &link->shaper.samples;

	free(samples->list);
	queue_samples_begin(samples, room ? calloc(room, sizeof(*samples->list)) : NULL, room, NEVER_NS);
	link->request->sample_ns = interval_ns;
	return samples->list || !room;
}

u64 tunlink_sample(struct link *link, u64 until_ns)
{
	shaper_sample(&link->shaper, until_ns);
	return link->shaper.samples.count;
}

const struct tccc_queue_sample *tunlink_samples(const struct link *link)
{
	return link->shaper.samples.list;
}

void tunlink_counters(const struct link *link, struct tccc_link_counters *counters)
{
	*counters = shaper_counters(&link->shaper);
}

const u64 *tunlink_first_lost(const struct link *link)
{
	return link->shaper.losses.first_lost;
}

const u64 *tunlink_waits(const struct link *link)
{
	return link->shaper.waits.counts;
}

void tunlink_restart_counters(struct link *link)
{
	shaper_restart_counters(&link->shaper);
}

void tunlink_count_marked(struct link *link)
{
	link->shaper.counters.marked_pkts++;
}

u8 tunlink_service_after(const struct link *link, u8 service)
{
	return service_after(link->request, service);
}

/* ---- The path of a packet ---- */

/* Puts a packet that is due into the line. */
static struct link_fate pass(struct link *link, const struct verdict *verdict, u32 slot)
{
	struct slot_packet *packet = &link->packets[slot];

	packet->bytes = link->bytes;
	if (link->is_ack)
		packet->ack = link->ack;
	link->dropped = line_up(&link->line, &link->shaper, &packet->parcel, verdict, link->is_ack ? &link->ack : NULL);
	return (struct link_fate){
		.due_ns = verdict->due_ns,
		.kind = VERDICT_DUE,
		.is_marked = link->shaper.is_marked,
		.has_copy = link->shaper.has_copy,
		.has_dropped = link->dropped != NULL,
	};
}

struct link_fate tunlink_enter(struct link *link, const struct link_packet *packet)
{
	struct shaper *shaper = &link->shaper;
	struct traits traits = {.is_low = packet->is_low};
	struct verdict verdict;

	link->bytes = packet->bytes;
	link->arrival_ns = link->has_begun ? shaper_arrival_ns(shaper, packet->sent_ns) : packet->sent_ns;
	link->is_ack = shaper_inspects_acks(shaper) && ack_read(&link->ack, packet->packet, packet->bytes);
	traits.is_ack = link->is_ack;
	verdict = shaper_admit(shaper, link->arrival_ns, link->bytes, traits);
	if (verdict.kind != VERDICT_DUE)
		return (struct link_fate){.kind = verdict.kind};
	return pass(link, &verdict, packet->slot);
}

struct link_fate tunlink_enter_copy(struct link *link, u32 slot)
{
	const struct verdict verdict = shaper_admit_copy(&link->shaper, link->arrival_ns, link->bytes);

	if (verdict.kind != VERDICT_DUE)
		return (struct link_fate){.kind = verdict.kind};
	if (slot != LINK_NO_SLOT)
		return pass(link, &verdict, slot);
	link->shaper.counters.failed_pkts++;
	return (struct link_fate){.kind = VERDICT_FAILED};
}

u32 tunlink_take_dropped(struct link *link)
{
	struct parcel *dropped = link->dropped;

	if (!dropped)
		return LINK_NO_SLOT;
	link->dropped = dropped->next;
	return slot_of(link, dropped);
}

u64 tunlink_next_due(struct link *link)
{
	const struct parcel *first = line_first(&link->line);

	return first ? first->due_ns : NEVER_NS;
}

u32 tunlink_take_due(struct link *link, u64 now_ns, struct link_departure *departures, u32 most)
{
	u32 count;

	for (count = 0; count < most; count++) {
		const struct parcel *first = line_first(&link->line);

		if (!first || first->due_ns > now_ns)
			break;
		line_take(&link->line);
		departures[count] = (struct link_departure){
			.due_ns = first->due_ns,
			.slot = slot_of(link, first),
			.bytes = ((const struct slot_packet *)first)->bytes,
		};
	}
	return count;
}
