/* SPDX-License-Identifier: GPL-2.0-only */
/* A queue discipline of the kernel between the losses and the serialiser of a link. */
#ifndef TCCC_DISCIPLINE_H
#define TCCC_DISCIPLINE_H

#include "depart.h"

/* The classes of a link's qdisc, to which rtnetlink gives the disciplines. */
extern const struct Qdisc_class_ops discipline_class_ops;

/* Takes a packet that leaves the host now, and reaches the link at arrival_ns. */
void discipline_enter(struct Qdisc *sch, struct sk_buff *skb, u64 arrival_ns, struct traits traits,
		      struct sk_buff **to_free);
/* Does everything that is due: packets reach the discipline, and leave it. */
void discipline_serve(struct Qdisc *sch, u64 now_ns);
/* When it has something to do. NEVER_NS: not before a packet enters. */
u64 discipline_due_ns(struct Qdisc *sch);
/* Takes the samples of its queue that are due. */
void discipline_sample(struct link *link, u64 until_ns);
/* Drops all packets. */
void discipline_reset(struct Qdisc *sch);
void discipline_destroy(struct Qdisc *sch);

/* Starts the changes over time. EINVAL: one names a class without a child. */
int discipline_start(struct link *link, u64 begin_ns);

void discipline_restart_counters(struct link *link);
void discipline_count(const struct link *link, struct tccc_link_counters *counters);

#endif
