// SPDX-License-Identifier: GPL-2.0-only
/*
 * Links of virtual time: the qdisc `tccc_link`, the file /proc/tccc/links, which configures links and shows their
 * counters, and the file /proc/tccc/queues, which shows their queues over time.
 *
 * A request names a device and makes the qdisc its root. Every packet that leaves through the device then passes one
 * direction of a link (bpf/link). What happens to a packet is decided when it enters (shaper.h). Then it waits in line
 * (line.h) until it is due. With a queue discipline, a part is decided when the packet leaves that queue (discipline.c). A
 * link outlives its device, so that its counters can be read after the device is gone.
 */
#include <linux/module.h>
#include <linux/mm.h>
#include <linux/nsproxy.h>
#include <linux/proc_fs.h>
#include <linux/rtnetlink.h>
#include <net/gso.h>
#include <net/pkt_sched.h>

#include "answer.h"
#include "cheat.h"
#include "count.h"
#include "depart.h"
#include "discipline.h"
#include "kernel.h"
#include "layout.h"
#include "link.h"

/* The sender never learns of a drop, because the link is not part of its host. */
#define TAKEN (NET_XMIT_SUCCESS | __NET_XMIT_BYPASS)

/*
 * All links, in the order of their requests. The RTNL protects the list. A link is protected by disabling softirqs,
 * because a guest has one processor. Its time passes only while that processor is idle or a process reads the clock
 * with softirqs enabled.
 */
static LIST_HEAD(links);

/* ---- The path of a packet ---- */

/* Drops acknowledgements that a newer one makes redundant. */
static void drop_thinned(struct Qdisc *sch, struct parcel *dropped)
{
	while (dropped) {
		struct sk_buff *skb = packet_of(dropped);

		dropped = dropped->next;
		sch->q.qlen--;
		qdisc_qstats_backlog_dec(sch, skb);
		kfree_skb(skb);
	}
}

void link_line_up(struct Qdisc *sch, struct sk_buff *skb, const struct verdict *verdict, const struct ack *ack)
{
	struct link *link = link_of(sch);

	drop_thinned(sch, line_up(&link->line, &link->shaper, parcel_of(skb), verdict, ack));
}

/* `ack` is NULL if the packet is not a pure acknowledgement. */
static void line_up_packet(struct Qdisc *sch, struct sk_buff *skb, const struct verdict *verdict, const struct ack *ack)
{
	sch->q.qlen++;
	qdisc_qstats_backlog_inc(sch, skb);
	link_line_up(sch, skb, verdict, ack);
}

/* Lines up the copy of a packet, if it has one. */
static void enter_copy(struct Qdisc *sch, struct sk_buff *skb, u64 arrival_ns, const struct ack *ack)
{
	struct shaper *shaper = &link_of(sch)->shaper;
	const struct verdict verdict = shaper_admit_copy(shaper, arrival_ns, skb->len - skb_network_offset(skb));
	struct sk_buff *copy;

	if (verdict.kind != VERDICT_DUE)
		return;
	copy = skb_clone(skb, GFP_ATOMIC);
	if (copy)
		line_up_packet(sch, copy, &verdict, ack);
	else
		shaper->counters.failed_pkts++;
}

static void enter(struct Qdisc *sch, struct sk_buff *skb, struct sk_buff **to_free)
{
	struct shaper *shaper = &link_of(sch)->shaper;
	const u64 arrival_ns = shaper_arrival_ns(shaper, link_now_ns());
	const u32 bytes = skb->len - skb_network_offset(skb);
	struct ack ack;
	const bool is_ack = shaper_inspects_acks(shaper) && read_ack(skb, &ack);
	struct traits traits = {.is_ack = is_ack};
	struct verdict verdict;

	if (remarks(shaper->direction.request))
		remark(skb, shaper->direction.request);
	traits.is_low = is_low(skb);
	if (link_of(sch)->disciplined) {
		discipline_enter(sch, skb, arrival_ns, traits, to_free);
		return;
	}
	verdict = shaper_admit(shaper, arrival_ns, bytes, traits);
	if (verdict.kind != VERDICT_DUE) {
		qdisc_qstats_drop(sch);
		__qdisc_drop(skb, to_free);
		return;
	}
	link_count_wait(link_of(sch), skb);
	if (shaper->is_marked)
		shaper->counters.marked_pkts += mark_congestion(skb);
	line_up_packet(sch, skb, &verdict, is_ack ? &ack : NULL);
	enter_copy(sch, skb, arrival_ns, is_ack ? &ack : NULL);
}

/* Packets of the same connection, in order. */
static void enter_all(struct Qdisc *sch, struct sk_buff_head *packets, struct sk_buff **to_free)
{
	struct sk_buff *skb;

	while ((skb = __skb_dequeue(packets)))
		enter(sch, skb, to_free);
}

/* A packet of a host with a receiver that cheats. */
static void enter_with_others(struct Qdisc *sch, struct sk_buff *skb, struct sk_buff **to_free)
{
	struct sk_buff_head before, after;

	__skb_queue_head_init(&before);
	__skb_queue_head_init(&after);
	cheat_leaves(skb, &before, &after);
	skb_orphan(skb);
	enter_all(sch, &before, to_free);
	enter(sch, skb, to_free);
	enter_all(sch, &after, to_free);
}

/* Splits a packet of several segments into the packets that a sender without offloads would send. */
static int link_enqueue(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	struct sk_buff *segments, *next;

	if (unlikely(receivers_cheat) && !skb_is_gso(skb)) {
		enter_with_others(sch, skb, to_free);
		return TAKEN;
	}
	/* The packet has left its host and no longer counts as the sender's memory. */
	skb_orphan(skb);
	if (!skb_is_gso(skb)) {
		enter(sch, skb, to_free);
		return TAKEN;
	}
	segments = skb_gso_segment(skb, netif_skb_features(skb) & ~NETIF_F_GSO_MASK);
	if (IS_ERR_OR_NULL(segments)) {
		link_of(sch)->shaper.counters.failed_pkts += skb_shinfo(skb)->gso_segs;
		__qdisc_drop(skb, to_free);
		return TAKEN;
	}
	skb_list_walk_safe(segments, segments, next) {
		skb_mark_not_on_list(segments);
		qdisc_skb_cb(segments)->pkt_len = segments->len;
		set_one_segment(segments);
		enter(sch, segments, to_free);
	}
	consume_skb(skb);
	return TAKEN;
}

/* ---- The qdisc ---- */

static int link_qdisc_init(struct Qdisc *sch, struct nlattr *options, struct netlink_ext_ack *ack)
{
	struct outlet *outlet = qdisc_priv(sch);

	outlet->sch = sch;
	outlet_init(outlet);
	return 0;
}

/* Called when the device goes down or is removed. Packets on their way are dropped. */
static void link_qdisc_reset(struct Qdisc *sch)
{
	outlet_close(qdisc_priv(sch));
}

static struct sk_buff *link_dequeue(struct Qdisc *sch)
{
	return outlet_first(qdisc_priv(sch));
}

/* Not registered, so that nobody can create a qdisc without a link. `owner` keeps the module while a device uses it. */
static struct Qdisc_ops link_qdisc_ops = {
	.id = "tccc_link",
	.cl_ops = &discipline_class_ops,
	.priv_size = sizeof(struct outlet),
	.enqueue = link_enqueue,
	.dequeue = link_dequeue,
	.init = link_qdisc_init,
	.reset = link_qdisc_reset,
	.destroy = discipline_destroy,
	.owner = THIS_MODULE,
};

/* Makes a new qdisc the root of a device, as `tc qdisc replace` does. */
static void graft(struct net_device *dev, struct Qdisc *sch)
{
	const bool is_up = dev->flags & IFF_UP;

	if (is_up)
		deactivate(dev);
	qdisc_put(dev_graft_qdisc(sch->dev_queue, sch));
	qdisc_put(rtnl_dereference(dev->qdisc));
	qdisc_refcount_inc(sch);
	rcu_assign_pointer(dev->qdisc, sch);
	if (is_up)
		dev_activate(dev);
}

/* Attaches a link to its device. The caller holds the RTNL. */
static int link_attach(struct link *link)
{
	struct net_device *dev;
	struct Qdisc *sch;

	dev = __dev_get_by_name(current->nsproxy->net_ns, link->shaper.direction.request->device);
	if (!dev)
		return -ENODEV;
	/* Packets go to the device without its lock, or directly to its peer. */
	if (dev->num_tx_queues != 1 || !dev->lltx || !dev->netdev_ops->ndo_get_peer_dev)
		return -EOPNOTSUPP;
	if (rtnl_dereference(dev->qdisc)->ops == &link_qdisc_ops)
		return -EBUSY;
	sch = qdisc_create_dflt(netdev_get_tx_queue(dev, 0), &link_qdisc_ops, TC_H_ROOT, NULL);
	if (!sch)
		return -ENOMEM;
	sch->flags |= TCQ_F_ONETXQUEUE;
	/* The name by which rtnetlink finds it, to give it a queue discipline. */
	sch->handle = TC_H_MAKE(1 << 16, 0);
	((struct outlet *)qdisc_priv(sch))->link = link;
	list_add_tail(&link->place, &links);
	graft(dev, sch);
	return 0;
}

/* ---- The file ---- */

static void link_free(struct link *link)
{
	waiting_free(&link->shaper.queue);
	flow_waits_free(&link->flow_waits);
	kvfree(link->shaper.samples.list);
	kfree(link->disciplined);
	kvfree(link->request);
	kvfree(link);
}

static struct link *link_new(const char __user *from, size_t length)
{
	struct link *link = kvzalloc(sizeof(*link), GFP_KERNEL);
	void *request;

	if (!link)
		return ERR_PTR(-ENOMEM);
	request = vmemdup_user(from, length);
	if (IS_ERR(request)) {
		kvfree(link);
		return request;
	}
	link->request = request;
	if (shaper_read(&link->shaper, request, length))
		return link;
	link_free(link);
	return ERR_PTR(-EINVAL);
}

/* EINVAL: the request is wrong. ENODEV: there is no such device. EBUSY: the device already has a link. */
static ssize_t links_write(struct file *file, const char __user *from, size_t length, loff_t *place)
{
	struct link *link;
	int error;

	if (length > TCCC_LINK_REQUEST_MAX)
		return -EINVAL;
	link = link_new(from, length);
	if (IS_ERR(link))
		return PTR_ERR(link);
	rtnl_lock();
	error = link_attach(link);
	rtnl_unlock();
	if (!error)
		return length;
	link_free(link);
	return error;
}

static int links_open(struct inode *inode, struct file *file)
{
	struct answer *answer;
	struct link *link;
	size_t most = 0;
	u8 *end;

	rtnl_lock();
	local_bh_disable();
	list_for_each_entry(link, &links, place)
		most += count_length(link);
	answer = answer_new(most);
	if (answer) {
		end = answer->bytes;
		list_for_each_entry(link, &links, place)
			end = count_put(end, link);
		answer->length = end - answer->bytes;
	}
	local_bh_enable();
	rtnl_unlock();
	file->private_data = answer;
	return answer ? 0 : -ENOMEM;
}

static const struct proc_ops links_file = {
	.proc_open = links_open,
	.proc_read = answer_read,
	.proc_write = links_write,
	.proc_release = answer_release,
	.proc_lseek = default_llseek,
};

/* Copies the samples of a queue behind their number. Returns the end of the copy. */
static u8 *put_samples(u8 *to, const struct link *link)
{
	const struct queue_samples *samples = &link->shaper.samples;
	const size_t bytes = samples->count * sizeof(*samples->list);

	return answer_put(answer_put(to, &samples->count, sizeof(samples->count)), samples->list, bytes);
}

/* Opened after the run, when the samples no longer change. */
static int queues_open(struct inode *inode, struct file *file)
{
	struct answer *answer;
	struct link *link;
	size_t length = 0;
	u8 *end;

	rtnl_lock();
	list_for_each_entry(link, &links, place)
		length += sizeof(u64) + link->shaper.samples.count * sizeof(struct tccc_queue_sample);
	answer = answer_new(length);
	if (answer) {
		end = answer->bytes;
		list_for_each_entry(link, &links, place)
			end = put_samples(end, link);
	}
	rtnl_unlock();
	file->private_data = answer;
	return answer ? 0 : -ENOMEM;
}

static const struct proc_ops queues_file = {
	.proc_open = queues_open,
	.proc_read = answer_read,
	.proc_release = answer_release,
	.proc_lseek = default_llseek,
};

/* ---- What lab.c calls ---- */

int link_init(struct proc_dir_entry *folder)
{
	departures_init();
	if (!proc_create("links", 0600, folder, &links_file) || !proc_create("queues", 0400, folder, &queues_file))
		return -ENOMEM;
	return 0;
}

/* Makes room for the samples of a link in a run of this length, and begins them. */
static int begin_samples(struct link *link, u64 begin_ns, u64 length_ns)
{
	const u64 sample_ns = link->shaper.direction.request->sample_ns;
	struct tccc_queue_sample *list;
	u64 room;

	if (!sample_ns)
		return 0;
	room = div64_u64(length_ns, sample_ns) + 1;
	list = kvcalloc(room, sizeof(*list), GFP_KERNEL);
	if (!list)
		return -ENOMEM;
	queue_samples_begin(&link->shaper.samples, list, room, begin_ns);
	return 0;
}

/* Restarts the random numbers and counters of each link, and starts its samples and changes over time. */
int link_start(u64 begin_ns, u64 length_ns)
{
	struct link *link;
	int error = 0;

	rtnl_lock();
	list_for_each_entry(link, &links, place) {
		error = begin_samples(link, begin_ns, length_ns);
		if (!error)
			error = discipline_start(link, begin_ns);
		if (error)
			break;
		local_bh_disable();
		shaper_reseed(&link->shaper);
		shaper_restart_counters(&link->shaper);
		flow_waits_free(&link->flow_waits);
		discipline_restart_counters(link);
		shaper_start(&link->shaper, begin_ns);
		local_bh_enable();
	}
	rtnl_unlock();
	return error;
}

/* Takes the last samples. */
void link_stop(u64 end_ns)
{
	struct link *link;

	rtnl_lock();
	list_for_each_entry(link, &links, place) {
		local_bh_disable();
		if (link->disciplined)
			discipline_sample(link, end_ns);
		else
			shaper_sample(&link->shaper, end_ns);
		local_bh_enable();
	}
	rtnl_unlock();
}

/* Called when no device has a link, because each of these devices keeps the module loaded. */
void link_exit(void)
{
	struct link *link, *next;

	list_for_each_entry_safe(link, next, &links, place)
		link_free(link);
	INIT_LIST_HEAD(&links);
}
