// SPDX-License-Identifier: GPL-2.0-only
/*
 * The link of virtual time as a native library, without the kernel code around these headers.
 *
 * src/lab/virtual_time/link/twin.rs drives it beside the emulator, packet by packet.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef uint8_t u8;
typedef int32_t s32;
typedef uint32_t u32;
typedef uint64_t u64;

#include "../../bpf/guest/line.h"
#include "../../bpf/guest/shaper.h"

struct link {
	struct shaper shaper;
	struct line line;
	void *request;
	struct ack ack; /* of the last admitted packet */
	bool is_ack;
};

struct host_packet {
	struct parcel parcel; /* first, because a pointer to the parcel is cast to its packet */
	u64 id;
	struct ack ack;
};

static bool parcel_ack(const struct parcel *parcel, struct ack *ack)
{
	*ack = ((const struct host_packet *)parcel)->ack;
	return true;
}

/* NULL: the request is refused. */
struct link *host_link_new(const void *request, u64 length)
{
	struct link *link = calloc(1, sizeof(*link));

	link->request = malloc(length + 1);
	memcpy(link->request, request, length);
	if (shaper_read(&link->shaper, link->request, length))
		return link;
	free(link->request);
	free(link);
	return NULL;
}

void host_link_free(struct link *link)
{
	struct parcel *parcel;

	while ((parcel = line_take(&link->line)))
		free(parcel);
	waiting_free(&link->shaper.queue);
	free(link->shaper.samples.list);
	free(link->request);
	free(link);
}

void host_link_reseed(struct link *link)
{
	shaper_reseed(&link->shaper);
}

void host_link_start(struct link *link, u64 begin_ns)
{
	shaper_start(&link->shaper, begin_ns);
}

/* Begins samples of the queue, in place of earlier ones. */
void host_link_begin_samples(struct link *link, u64 begin_ns, u64 room)
{
	free(link->shaper.samples.list);
	queue_samples_begin(&link->shaper.samples, calloc(room, sizeof(struct tccc_queue_sample)), room, begin_ns);
}

/* Takes the samples that are due, and returns how many there are. */
u64 host_link_sample(struct link *link, u64 until_ns)
{
	shaper_sample(&link->shaper, until_ns);
	return link->shaper.samples.count;
}

const void *host_link_samples(struct link *link)
{
	return link->shaper.samples.list;
}

void host_link_restart_counters(struct link *link)
{
	shaper_restart_counters(&link->shaper);
}

u64 host_link_arrival(struct link *link, u64 now_ns)
{
	return shaper_arrival_ns(&link->shaper, now_ns);
}

struct host_arrival {
	u64 at_ns;
	const u8 *packet; /* its first bytes */
	u64 packet_length;
	u32 bytes;
	u32 is_low;
};

struct verdict host_link_admit(struct link *link, const struct host_arrival *arrival)
{
	struct traits traits = {.is_low = arrival->is_low};

	link->is_ack =
		shaper_minds_acks(&link->shaper) && ack_read(&link->ack, arrival->packet, arrival->packet_length);
	traits.is_ack = link->is_ack;
	return shaper_admit(&link->shaper, arrival->at_ns, arrival->bytes, traits);
}

struct verdict host_link_admit_copy(struct link *link, u64 arrival_ns, u32 bytes)
{
	return shaper_admit_copy(&link->shaper, arrival_ns, bytes);
}

u32 host_link_is_marked(struct link *link)
{
	return link->shaper.is_marked;
}

struct tccc_link_counters host_link_counters(struct link *link)
{
	return shaper_counters(&link->shaper);
}

const u64 *host_link_first_lost(struct link *link)
{
	return link->shaper.losses.first_lost;
}

/* Puts the last admitted packet, or its copy, on the line. Returns whether it was reordered. */
u64 host_link_line_add(struct link *link, const struct verdict *verdict, u64 id)
{
	const struct comer comer = {
		.ack = link->is_ack ? &link->ack : NULL,
		.begins_batch = verdict->begins_batch,
		.is_held_back = verdict->is_held_back,
	};
	struct host_packet *packet = calloc(1, sizeof(*packet));
	struct passed passed;

	packet->parcel.due_ns = verdict->due_ns;
	packet->id = id;
	packet->ack = link->ack;
	passed = line_pass(&link->line, &link->shaper.direction.request->ack_hold, &packet->parcel, &comer);
	link->shaper.counters.acks_held_pkts += passed.is_held;
	while (passed.dropped) {
		struct parcel *dropped = passed.dropped;

		passed.dropped = dropped->next;
		link->shaper.counters.acks_thinned_pkts++;
		free(dropped);
	}
	return passed.reordered;
}

/* Takes the next packet from the line if it is due, and returns its number; ~0: none is due. */
u64 host_link_line_take(struct link *link, u64 now_ns)
{
	struct parcel *parcel = line_first(&link->line);
	u64 id;

	if (!parcel || parcel->due_ns > now_ns)
		return ~0ull;
	id = ((struct host_packet *)line_take(&link->line))->id;
	free(parcel);
	return id;
}

u64 host_next_number(struct tccc_generator *generator)
{
	return next_number(generator);
}
