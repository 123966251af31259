// SPDX-License-Identifier: GPL-2.0-only
/*
 * A queue discipline of the kernel in a link: a child of the qdisc `tccc_link`, created through rtnetlink as `tc qdisc
 * add parent 1:1` does.
 *
 * A packet that passes the losses enters the child when it reaches the link. Whenever the serialiser is free, it takes a
 * packet from the child. Only then is it known when that packet leaves. Without a child, shaper.h decides at once. At one
 * nanosecond the serialiser takes first, then packets arrive, and then the serialiser takes again. This is the order of
 * the drop-tail queue in shaper.h, so a child that is a `pfifo` makes the same run to the byte.
 *
 * Each class has a child. That of class 1 is in use from the start, and a change over time puts another one in its place.
 * What waits in the old child is dropped, as when `tc qdisc replace` gives a class a qdisc with a new handle. These packets
 * count as drops of the discipline.
 */
#include <linux/module.h>
#include <net/pkt_cls.h>

#include "discipline.h"
#include "layout.h"
#include "link.h"

/* The class whose child is in use from the start. */
#define FIRST_CLASS 1

struct disciplined {
	struct Qdisc *child;				   /* the one in use */
	struct Qdisc *children[TCCC_LINK_DISCIPLINES_MAX]; /* of the classes from FIRST_CLASS on */
	struct steps class;				   /* whose child is in use */
	struct parcels coming; /* packets that have left the host and not reached the link */
	u64 serves_ns;	       /* when the serialiser takes the next packet; NEVER_NS: not before something changes */
	bool is_last_in;       /* the child took the packet that reached it last */
	u64 entered_pkts;
	u64 left_pkts;
	u64 marked_pkts;
	u64 max_pkts;
};

static struct disciplined *disciplined_of(struct Qdisc *sch)
{
	return link_of(sch)->disciplined;
}

/* ---- What a packet carries through the child ---- */

#define KEPT_HELD_BACK 1
#define KEPT_BATCH 2
#define KEPT_MARKED 4
#define KEPT_COPY 8
#define KEPT_FLAGS_BITS 4

/* The end of the control block, which no qdisc uses: the packet's random terms. */
static u64 *kept_of(struct sk_buff *skb)
{
	static_assert(sizeof(struct qdisc_skb_cb) + sizeof(u64) <= sizeof(skb->cb));
	return (u64 *)(skb->cb + sizeof(skb->cb) - sizeof(u64));
}

static bool is_marked(const struct sk_buff *skb)
{
	switch (skb->protocol) {
	case htons(ETH_P_IP):
		return INET_ECN_is_ce(ip_hdr(skb)->tos);
	case htons(ETH_P_IPV6):
		return INET_ECN_is_ce(ipv6_get_dsfield(ipv6_hdr(skb)));
	default:
		return false;
	}
}

static u64 keep_terms(const struct sk_buff *skb, const struct terms *terms)
{
	return terms->jitter_ns << KEPT_FLAGS_BITS | (terms->held_back_ns ? KEPT_HELD_BACK : 0) |
	       (terms->begins_batch ? KEPT_BATCH : 0) | (is_marked(skb) ? KEPT_MARKED : 0);
}

static struct terms kept_terms(const struct link *link, u64 kept)
{
	return (struct terms){
		.jitter_ns = kept >> KEPT_FLAGS_BITS,
		.held_back_ns = kept & KEPT_HELD_BACK ? link->shaper.direction.request->held_back_ns : 0,
		.begins_batch = kept & KEPT_BATCH,
	};
}

/* ---- Counters and samples ---- */

void discipline_restart_counters(struct link *link)
{
	struct disciplined *disciplined = link->disciplined;

	if (!disciplined)
		return;
	disciplined->entered_pkts = disciplined->child ? disciplined->child->q.qlen : 0;
	disciplined->left_pkts = 0;
	disciplined->marked_pkts = 0;
	disciplined->max_pkts = 0;
}

/* What the child dropped is what has neither left it nor waits in it, whatever the child counts itself. */
void discipline_count(const struct link *link, struct tccc_link_counters *counters)
{
	const struct disciplined *disciplined = link->disciplined;

	if (!disciplined)
		return;
	counters->overflow_pkts = disciplined->entered_pkts - disciplined->left_pkts;
	if (disciplined->child)
		counters->overflow_pkts -= disciplined->child->q.qlen;
	counters->marked_pkts = disciplined->marked_pkts;
	counters->max_queue_pkts = disciplined->max_pkts;
}

/* A child knows no wait of a packet that arrives now: the sample has that of the packet that left last. */
void discipline_sample(struct link *link, u64 until_ns)
{
	const struct disciplined *disciplined = link->disciplined;
	struct queue_samples *samples = &link->shaper.samples;
	struct tccc_link_counters counters = {0};

	while (queue_sample_is_due(samples, until_ns)) {
		const u64 at_ns = samples->next_ns, packets = disciplined->child ? disciplined->child->q.qlen : 0;
		const u64 begins_ns = serialiser_begins_ns(&link->shaper.serialiser, at_ns);

		discipline_count(link, &counters);
		queue_sample_take(samples, packets, packets ? link->shaper.last_wait_ns : begins_ns - at_ns, &counters);
		samples->next_ns += link->shaper.direction.request->sample_ns;
	}
}

/* ---- The way through the child ---- */

/* The serialiser takes a packet. */
static void leave(struct Qdisc *sch, struct sk_buff *skb, u64 now_ns)
{
	struct link *link = link_of(sch);
	struct disciplined *disciplined = link->disciplined;
	const u64 kept = *kept_of(skb);
	const struct terms terms = kept_terms(link, kept);
	const u64 wait_ns = now_ns - ktime_to_ns(skb->tstamp);
	const u32 bytes = skb->len - skb_network_offset(skb);
	const struct verdict verdict = shaper_leave_queue(&link->shaper, now_ns, wait_ns, bytes, &terms);
	struct ack ack;
	const bool is_ack = shaper_inspects_acks(&link->shaper) && read_ack(skb, &ack);

	link_count_wait(link, skb);
	disciplined->left_pkts++;
	disciplined->marked_pkts += !(kept & KEPT_MARKED) && is_marked(skb);
	skb->tstamp = 0;
	skb->tstamp_type = 0;
	link_line_up(sch, skb, &verdict, is_ack ? &ack : NULL);
}

/* Takes packets from the child while the serialiser is free. */
static void drain(struct Qdisc *sch, u64 now_ns)
{
	struct disciplined *disciplined = disciplined_of(sch);
	struct Qdisc *child = disciplined->child;
	struct sk_buff *skb;

	disciplined->serves_ns = NEVER_NS;
	while (child->q.qlen) {
		const u64 from_ns = serialiser_begins_ns(&link_of(sch)->shaper.serialiser, now_ns);

		if (from_ns > now_ns) {
			disciplined->serves_ns = from_ns;
			return;
		}
		/* A child that holds packets back calls for the next attempt itself. */
		skb = child->dequeue(child);
		if (!skb)
			return;
		leave(sch, skb, now_ns);
	}
}

/* A packet reaches the child. */
static void arrive(struct Qdisc *sch, struct sk_buff *skb, u64 now_ns, struct sk_buff **to_free)
{
	struct disciplined *disciplined = disciplined_of(sch);
	struct Qdisc *child = disciplined->child;
	const u32 bytes = qdisc_pkt_len(skb);
	bool is_in;

	/* A packet that the full queue refuses has no copy. */
	if (*kept_of(skb) & KEPT_COPY) {
		if (!disciplined->is_last_in) {
			kfree_skb(skb);
			return;
		}
		link_of(sch)->shaper.counters.duplicated_pkts++;
	}
	skb->tstamp = ns_to_ktime(now_ns);
	skb->tstamp_type = SKB_CLOCK_MONOTONIC;
	disciplined->entered_pkts++;
	/* If a packet is dropped for this one, the child itself counts it in the link's qdisc. */
	is_in = qdisc_enqueue(skb, child, to_free) == NET_XMIT_SUCCESS;
	if (is_in) {
		sch->q.qlen++;
		sch->qstats.backlog += bytes;
	}
	disciplined->is_last_in = is_in;
}

/* Puts the child of another class in place of this one. A packet that would be served now is dropped as well. */
static void change_child(struct disciplined *disciplined)
{
	struct Qdisc *next = disciplined->children[disciplined->class.value - FIRST_CLASS];

	qdisc_purge_queue(disciplined->child);
	disciplined->child = next;
}

static void serve(struct Qdisc *sch, u64 now_ns, struct sk_buff **to_free)
{
	struct disciplined *disciplined = disciplined_of(sch);

	discipline_sample(link_of(sch), now_ns - 1);
	if (steps_pass(&disciplined->class, now_ns))
		change_child(disciplined);
	drain(sch, now_ns);
	discipline_sample(link_of(sch), now_ns);
	/* After each packet: one that finds the serialiser idle does not wait. */
	while (disciplined->coming.first && disciplined->coming.first->due_ns <= now_ns) {
		arrive(sch, packet_of(parcels_take(&disciplined->coming)), now_ns, to_free);
		drain(sch, now_ns);
		disciplined->max_pkts = max(disciplined->max_pkts, (u64)disciplined->child->q.qlen);
	}
}

void discipline_serve(struct Qdisc *sch, u64 now_ns)
{
	struct sk_buff *to_free = NULL;

	serve(sch, now_ns, &to_free);
	kfree_skb_list(to_free);
}

u64 discipline_due_ns(struct Qdisc *sch)
{
	const struct disciplined *disciplined = disciplined_of(sch);
	const struct parcel *first = disciplined->coming.first;
	const u64 due_ns = min(disciplined->serves_ns, disciplined->class.next_at_ns);

	return first ? min(first->due_ns, due_ns) : due_ns;
}

static void come(struct Qdisc *sch, struct sk_buff *skb, u64 arrival_ns, u64 kept)
{
	struct parcel *parcel = parcel_of(skb);

	qdisc_skb_cb(skb)->pkt_len = skb->len - skb_network_offset(skb);
	*kept_of(skb) = kept;
	/* The sender's own hash changes after a timeout. A router has only the header to tell flows apart. */
	skb_clear_hash(skb);
	parcel->due_ns = arrival_ns;
	parcels_append(&disciplined_of(sch)->coming, parcel);
}

void discipline_enter(struct Qdisc *sch, struct sk_buff *skb, u64 arrival_ns, struct traits traits,
		      struct sk_buff **to_free)
{
	struct shaper *shaper = &link_of(sch)->shaper;
	const u32 bytes = skb->len - skb_network_offset(skb);
	struct terms terms;
	struct sk_buff *copy;

	if (shaper_pass(shaper, arrival_ns, bytes, traits, &terms) != VERDICT_DUE) {
		qdisc_qstats_drop(sch);
		__qdisc_drop(skb, to_free);
		return;
	}
	/* Not a clone: a mark must not change both. */
	copy = shaper->has_copy ? skb_copy(skb, GFP_ATOMIC) : NULL;
	come(sch, skb, arrival_ns, keep_terms(skb, &terms));
	if (copy)
		come(sch, copy, arrival_ns, keep_terms(copy, &shaper->copy_terms) | KEPT_COPY);
	else if (shaper->has_copy)
		shaper->counters.failed_pkts++;
	shaper->has_copy = false;
	serve(sch, link_now_ns(), to_free);
}

void discipline_reset(struct Qdisc *sch)
{
	struct disciplined *disciplined = disciplined_of(sch);
	u64 *failed_pkts = &link_of(sch)->shaper.counters.failed_pkts;

	for (; disciplined->coming.first; (*failed_pkts)++)
		kfree_skb(packet_of(parcels_take(&disciplined->coming)));
	if (disciplined->child) {
		*failed_pkts += disciplined->child->q.qlen;
		disciplined->entered_pkts -= disciplined->child->q.qlen;
		qdisc_reset(disciplined->child);
	}
	disciplined->serves_ns = NEVER_NS;
}

void discipline_destroy(struct Qdisc *sch)
{
	struct disciplined *disciplined = disciplined_of(sch);
	int n;

	if (!disciplined)
		return;
	disciplined->child = NULL;
	for (n = 0; n < TCCC_LINK_DISCIPLINES_MAX; n++) {
		qdisc_put(disciplined->children[n]);
		disciplined->children[n] = NULL;
	}
}

/* ---- The changes over time ---- */

int discipline_start(struct link *link, u64 begin_ns)
{
	struct disciplined *disciplined = link->disciplined;
	const struct direction *direction = &link->shaper.direction;
	const u64 count = direction->request->step_counts[TCCC_CHANGE_DISCIPLINE];
	u64 n, class;

	if (!disciplined)
		return count ? -EINVAL : 0;
	for (n = 0; n < count; n++) {
		class = direction->steps[TCCC_CHANGE_DISCIPLINE][n].value;
		if (class > TCCC_LINK_DISCIPLINES_MAX || !disciplined->children[class - FIRST_CLASS])
			return -EINVAL;
	}
	steps_begin(&disciplined->class, direction, TCCC_CHANGE_DISCIPLINE, begin_ns);
	return 0;
}

/* ---- The classes, through which rtnetlink gives the link its children ---- */

static unsigned long class_find(struct Qdisc *sch, u32 classid)
{
	const u32 class = TC_H_MIN(classid);

	return class <= TCCC_LINK_DISCIPLINES_MAX ? class : 0;
}

static struct Qdisc *class_leaf(struct Qdisc *sch, unsigned long class)
{
	return disciplined_of(sch) ? disciplined_of(sch)->children[class - FIRST_CLASS] : NULL;
}

static struct disciplined *disciplined_new(struct Qdisc *first)
{
	struct disciplined *disciplined = kzalloc(sizeof(*disciplined), GFP_KERNEL);

	if (!disciplined)
		return NULL;
	disciplined->serves_ns = NEVER_NS;
	disciplined->class.next_at_ns = NEVER_NS;
	disciplined->child = first;
	return disciplined;
}

/* Each class is given its child once, before the first packet, and the first class before the others. */
static int class_graft(struct Qdisc *sch, unsigned long class, struct Qdisc *child, struct Qdisc **old,
		       struct netlink_ext_ack *ack)
{
	struct link *link = link_of(sch);

	*old = NULL;
	if (!child || line_first(&link->line) || class_leaf(sch, class))
		return -EBUSY;
	if (class == FIRST_CLASS)
		link->disciplined = disciplined_new(child);
	else if (!link->disciplined)
		return -EINVAL;
	if (!link->disciplined)
		return -ENOMEM;
	link->disciplined->children[class - FIRST_CLASS] = child;
	return 0;
}

static void class_walk(struct Qdisc *sch, struct qdisc_walker *walker)
{
	unsigned long class;

	for (class = FIRST_CLASS; !walker->stop && class_leaf(sch, class); class ++) {
		if (class == TCCC_LINK_DISCIPLINES_MAX || !tc_qdisc_stats_dump(sch, class, walker))
			break;
	}
}

const struct Qdisc_class_ops discipline_class_ops = {
	.graft = class_graft,
	.leaf = class_leaf,
	.find = class_find,
	.walk = class_walk,
};
