/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One direction of the emulator: what src/lab/emulate/tunlink/link.rs calls, whose build script makes types of Rust from it.
 *
 * A packet is known by its slot: the index of its memory, which the caller owns. A slot may enter again after it has left
 * the link, which tunlink_take_due() or tunlink_take_dropped() says.
 */
#ifndef TCCC_EMULATOR_H
#define TCCC_EMULATOR_H

#include "request.h"
#include "verdict.h"

enum link_slot {
	LINK_NO_SLOT = ~(u32)0, /* instead of a slot: there is none */
};

/* A packet that enters, in its slot. */
struct link_packet {
	u64 sent_ns;	  /* when the host sent it */
	const u8 *packet; /* the IP packet; it is only read within the call */
	u32 bytes;
	u32 slot;
	bool is_low; /* its header asks for low priority */
};

/* What becomes of a packet that enters. */
struct link_fate {
	u64 due_ns; /* if the kind is VERDICT_DUE: when it leaves the link, without the time that it is held as a batch */
	u32 kind;   /* enum verdict_kind */
	u8 is_marked;
	u8 has_copy;	/* the caller calls tunlink_enter_copy() next */
	u8 has_dropped; /* the caller calls tunlink_take_dropped() next */
	u8 unused;
};

/* A packet that leaves. */
struct link_departure {
	u64 due_ns;
	u32 slot;
	u32 bytes; /* of the IP packet */
};

struct link;

/* Reads a request, which it copies. Slots are below `slots`. NULL: the request is wrong, or there is no memory. */
struct link *tunlink_new(const void *request, u64 length, u32 slots);
void tunlink_free(struct link *link);

/* Restarts the random numbers from these states of all streams. Changes and the policer are off until tunlink_start(). */
void tunlink_reseed(struct link *link, const struct tccc_generator *generators);
/* Starts the rate trace, the changes over time, the policer, the samples and the delay of the host. */
void tunlink_start(struct link *link, u64 begin_ns);

/* Samples the queue from the next start on. False: there is no memory. */
bool tunlink_sample_every(struct link *link, u64 interval_ns, u64 room);
/* Takes the samples that are due, and returns how many there are. */
u64 tunlink_sample(struct link *link, u64 until_ns);
const struct tccc_queue_sample *tunlink_samples(const struct link *link);

void tunlink_counters(const struct link *link, struct tccc_link_counters *counters);
const u64 *tunlink_first_lost(const struct link *link);
/* How long packets waited in the queue: TCCC_TIMES_BUCKETS counts. */
const u64 *tunlink_waits(const struct link *link);
void tunlink_restart_counters(struct link *link);
void tunlink_count_marked(struct link *link);

/* The byte of DSCP and ECN of a packet that enters, after the link's router has written it. */
u8 tunlink_service_after(const struct link *link, u8 service);

struct link_fate tunlink_enter(struct link *link, const struct link_packet *packet);
/* Decides about the copy of the last packet. LINK_NO_SLOT: there is no memory for it, so it fails unless it is refused. */
struct link_fate tunlink_enter_copy(struct link *link, u32 slot);
/* The next slot that the last packet made redundant, or LINK_NO_SLOT. */
u32 tunlink_take_dropped(struct link *link);

/* When the first packet on its way is due. NEVER_NS: there is none. */
u64 tunlink_next_due(struct link *link);
/* Takes up to `most` packets that are due. Returns their number. */
u32 tunlink_take_due(struct link *link, u64 now_ns, struct link_departure *departures, u32 most);

#endif
