// SPDX-License-Identifier: GPL-2.0-only
/*
 * Departures: packets leave the links of virtual time when they are due.
 *
 * One queue sorts the links by the time at which their first packet is due, or their queue discipline. A timer fires at the earliest time. While
 * only packets of links are due, the guest advances its clock itself instead of sleeping until the timer fires. A sleep
 * ends with an interrupt, which costs as much as a packet's whole way through TCP.
 */
#include <linux/hrtimer.h>
#include <linux/prefetch.h>
#include <linux/sched.h>
#include <linux/time-internal.h>

#include "cheat.h"
#include "depart.h"
#include "discipline.h"
#include "kernel.h"

static struct timerqueue_head outlets = {.rb_root = RB_ROOT_CACHED};
static struct hrtimer timer;
static bool is_passing; /* packets depart now, and the timer is off */
static u64 passed_ns;	/* the time while they depart */

/* No time passes while packets depart and arrive. */
u64 link_now_ns(void)
{
	return is_passing ? passed_ns : ktime_get_ns();
}

static struct sk_buff *take_first(struct Qdisc *sch)
{
	struct link *link = link_of(sch);
	struct sk_buff *skb = packet_of(line_take(&link->line));

	sch->q.qlen--;
	qdisc_qstats_backlog_dec(sch, skb);
	return skb;
}

/*
 * Brings the next two packets into the processor's cache, because thousands of others were touched since they entered.
 * Of the second packet only the sk_buff is fetched, because it holds the address of the data.
 */
static void fetch_ahead(const struct parcel *next)
{
	const struct sk_buff *skb;
	const char *after;

	if (!next)
		return;
	skb = packet_of((struct parcel *)next);
	prefetch(skb->data);
	prefetch(skb->data + L1_CACHE_BYTES);
	prefetch(skb_shinfo(skb));
	if (!next->next)
		return;
	after = (const char *)packet_of(next->next);
	prefetch(after);
	prefetch(after + L1_CACHE_BYTES);
	prefetch(after + 2 * L1_CACHE_BYTES);
	prefetch(after + 3 * L1_CACHE_BYTES);
}

/* Takes the first packet if it is due. NULL: none is due. */
static struct sk_buff *take_due(struct Qdisc *sch, u64 now_ns)
{
	struct link *link = link_of(sch);
	struct tccc_link_counters *counters = &link->shaper.counters;
	const struct parcel *first = line_first(&link->line);
	struct sk_buff *skb;

	if (!first || first->due_ns > now_ns)
		return NULL;
	counters->late_ns = max(counters->late_ns, now_ns - first->due_ns);
	skb = take_first(sch);
	if (unlikely(receivers_cheat))
		cheat_arrives(skb);
	counters->sent_pkts++;
	counters->sent_bytes += skb->len - skb_network_offset(skb);
	fetch_ahead(line_first(&link_of(sch)->line));
	return skb;
}

/* ---- The queue of outlets ---- */

static bool is_waiting(const struct outlet *outlet)
{
	return !RB_EMPTY_NODE(&outlet->due.node);
}

static void set_timer(void)
{
	const struct timerqueue_node *first = timerqueue_getnext(&outlets);

	if (first)
		hrtimer_start(&timer, first->expires, HRTIMER_MODE_ABS_PINNED);
}

/* Outlets that are due at the same time send in the order of these calls. */
static void wait_until(struct outlet *outlet, u64 due_ns)
{
	if (is_waiting(outlet))
		timerqueue_del(&outlets, &outlet->due);
	outlet->due.expires = ns_to_ktime(due_ns);
	if (timerqueue_add(&outlets, &outlet->due) && !is_passing)
		set_timer();
}

/* When the outlet has something to do. NEVER_NS: not before a packet enters. */
static u64 outlet_due_ns(const struct outlet *outlet)
{
	const struct parcel *first = line_first(&outlet->link->line);
	const u64 due_ns = first ? first->due_ns : NEVER_NS;

	return outlet->link->disciplined ? min(due_ns, discipline_due_ns(outlet->sch)) : due_ns;
}

/* Appends the outlet's packets that are due to the list. */
static void depart_by(struct outlet *outlet, struct sk_buff_head *departed)
{
	struct sk_buff *skb;
	u64 due_ns;

	if (outlet->link->disciplined)
		discipline_serve(outlet->sch, passed_ns);
	while ((skb = take_due(outlet->sch, passed_ns)))
		__skb_queue_tail(departed, skb);
	due_ns = outlet_due_ns(outlet);
	if (due_ns != NEVER_NS)
		wait_until(outlet, due_ns);
}

static void depart(struct sk_buff_head *departed)
{
	struct timerqueue_node *first;

	__skb_queue_head_init(departed);
	while ((first = timerqueue_getnext(&outlets)) && ktime_to_ns(first->expires) <= passed_ns) {
		timerqueue_del(&outlets, first);
		depart_by(container_of(first, struct outlet, due), departed);
	}
}

/* ---- The passing of time ---- */

/* The timer's function. The packets arrive in the softirq that follows the interrupt. */
static enum hrtimer_restart fire(struct hrtimer *fired)
{
	struct sk_buff_head departed;
	struct sk_buff *skb;

	passed_ns = ktime_get_ns();
	is_passing = true;
	depart(&departed);
	is_passing = false;
	while ((skb = __skb_dequeue(&departed)))
		skb->dev->netdev_ops->ndo_start_xmit(skb, skb->dev);
	if (!timerqueue_getnext(&outlets))
		return HRTIMER_NORESTART;
	hrtimer_set_expires(fired, timerqueue_getnext(&outlets)->expires);
	return HRTIMER_RESTART;
}

/* Advances the clock to the next packet. False: the packet is due after the limit, or something else is due first. */
static bool skip_to_packet(u64 limit_ns)
{
	const struct timerqueue_node *first = timerqueue_getnext(&outlets);
	const u64 due_ns = first ? ktime_to_ns(first->expires) : limit_ns;

	if (due_ns >= limit_ns || need_resched() || local_softirq_pending())
		return false;
	if (!time_travel_skip(due_ns - min(due_ns, passed_ns)))
		return false;
	passed_ns = max(due_ns, passed_ns);
	return true;
}

/* Does the work of the device and of the receive softirq, without their queue. */
static void arrive(struct sk_buff *skb)
{
	struct net_device *dev = skb->dev, *peer = dev->netdev_ops->ndo_get_peer_dev(dev);

	if (!peer)
		kfree_skb(skb);
	else if (!__dev_forward_skb(peer, skb))
		netif_receive_skb(skb);
}

/* Advances the clock from packet to packet. Returns whether packets left. */
static bool pass_until(u64 limit_ns)
{
	struct sk_buff_head departed;
	struct sk_buff *skb;
	bool has_passed = false;

	local_bh_disable();
	while (skip_to_packet(limit_ns)) {
		has_passed = true;
		depart(&departed);
		while ((skb = __skb_dequeue(&departed)))
			arrive(skb);
		if (local_softirq_pending()) {
			local_bh_enable();
			local_bh_disable();
		}
	}
	local_bh_enable();
	return has_passed;
}

/*
 * The kernel calls this when it has nothing to do. A packet that is due after the next tick has to wait, because the
 * kernel counts ticks and programs the next one only when it goes to sleep. Returns whether packets left.
 */
static bool pass_time(void)
{
	const u64 now_ns = ktime_get_ns(), tick_ns = roundup_u64(now_ns + 1, TICK_NSEC);
	const struct timerqueue_node *first = timerqueue_getnext(&outlets);
	bool has_passed;

	if (!first || ktime_to_ns(first->expires) >= tick_ns)
		return false;
	hrtimer_cancel(&timer);
	passed_ns = now_ns;
	is_passing = true;
	local_irq_enable();
	has_passed = pass_until(tick_ns);
	local_irq_disable();
	is_passing = false;
	set_timer();
	return has_passed;
}

/* ---- What link.c calls ---- */

void outlet_init(struct outlet *outlet)
{
	timerqueue_init(&outlet->due);
}

/* Drops the packets that are on their way. */
void outlet_close(struct outlet *outlet)
{
	if (is_waiting(outlet))
		timerqueue_del(&outlets, &outlet->due);
	if (outlet->link->disciplined)
		discipline_reset(outlet->sch);
	while (line_first(&outlet->link->line)) {
		outlet->link->shaper.counters.failed_pkts++;
		kfree_skb(take_first(outlet->sch));
	}
}

/* Called when packets have entered. Returns a packet that is due; otherwise the outlet waits for the first one. */
struct sk_buff *outlet_first(struct outlet *outlet)
{
	struct sk_buff *skb;
	u64 due_ns;

	if (outlet->link->disciplined)
		discipline_serve(outlet->sch, link_now_ns());
	skb = take_due(outlet->sch, link_now_ns());
	due_ns = outlet_due_ns(outlet);
	if (skb || due_ns == NEVER_NS)
		return skb;
	if (!is_waiting(outlet) || ktime_to_ns(outlet->due.expires) > due_ns)
		wait_until(outlet, due_ns);
	return NULL;
}

void departures_init(void)
{
	timer_setup_at(&timer, fire);
	time_travel_idle = pass_time;
}
