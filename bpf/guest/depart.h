/* SPDX-License-Identifier: GPL-2.0-only */
/* One direction of a link in the guest kernel, and the departures of its packets. */
#ifndef TCCC_DEPART_H
#define TCCC_DEPART_H

#include <linux/list.h>
#include <linux/timerqueue.h>
#include <net/pkt_sched.h>

#include "../link/admit.h"
#include "flow_waits.h"
#include "packet.h"

struct link {
	struct list_head place;
	void *request; /* the shaper has pointers into it */
	struct shaper shaper;
	struct line line;
	struct disciplined *disciplined; /* NULL: packets wait in the shaper's own queue */
	struct flow_waits flow_waits;
};

/* Counts the wait of a packet that the shaper has just decided about. */
static inline void link_count_wait(struct link *link, const struct sk_buff *skb)
{
	if (link->shaper.has_queue)
		flow_waits_add(&link->flow_waits, skb, link->shaper.last_wait_bucket);
}

/* The private part of a qdisc. */
struct outlet {
	struct link *link;
	struct Qdisc *sch;
	struct timerqueue_node due; /* when the first packet in line is due, or the discipline has something to do */
};

static inline struct link *link_of(struct Qdisc *sch)
{
	return ((struct outlet *)qdisc_priv(sch))->link;
}

void outlet_init(struct outlet *outlet);
void outlet_close(struct outlet *outlet);
struct sk_buff *outlet_first(struct outlet *outlet);

void departures_init(void);
u64 link_now_ns(void);

#endif
