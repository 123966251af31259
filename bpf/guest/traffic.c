// SPDX-License-Identifier: GPL-2.0-only
/*
 * Flows inside the guest kernel: /proc/tccc/flows, and the start, stop and end of each flow.
 *
 * The flows are those of src/lab/traffic: bulk flows as iperf3 sends them, transfers of a size, messages over one
 * connection, datagrams.
 */
#include <linux/mm.h>
#include <linux/nsproxy.h>
#include <linux/proc_fs.h>
#include <linux/uaccess.h>
#include <net/net_namespace.h>

#include "answer.h"
#include "bursts.h"
#include "cheat.h"
#include "datagram.h"
#include "receiver.h"
#include "sender.h"
#include "traffic.h"

/* Most connections of all flows. */
#define CONNECTIONS_MAX (TCCC_SENDER_PORTS * TCCC_LAPS_MAX)
/* A day and a quarter of an hour. This is longer than the longest run, and the sum of two times does not overflow. */
#define FLOW_NS_MAX (87300 * (u64)NSEC_PER_SEC)

static struct flow *flows[TCCC_FLOWS_MAX];
static u32 flow_count;

/* ---- The life of a flow ---- */

/* Starts the next transfer. It does not wait for the transfers before it. */
static void start_transfer(struct flow *flow)
{
	const u32 planned = flow->asked.count;
	const u32 index = flow->begun++;

	if (flow->begun < planned)
		job_at(&flow->start, flow->start_ns + flow->planned[flow->begun].start_ns);
	sender_open(flow, index);
}

static void start_flow(struct job *job)
{
	struct flow *flow = container_of(job, struct flow, start);

	switch (flow->asked.sends) {
	case TCCC_SENDS_DATAGRAMS:
		datagram_send(flow);
		return;
	case TCCC_SENDS_TRANSFERS:
		start_transfer(flow);
		return;
	default:
		flow->begun = 1;
		sender_open(flow, 0);
	}
}

/* Gives up transfers and messages that are not done within the flow's length. A bulk flow's sender stops by itself. */
static void stop_flow(struct job *job)
{
	senders_abort(container_of(job, struct flow, stop));
}

static void hear_flow(struct job *job)
{
	struct flow *flow = container_of(job, struct flow, hear);

	if (flow->asked.sends == TCCC_SENDS_DATAGRAMS)
		datagram_settle(flow);
	else
		receivers_release(flow);
}

static void begin_flow(struct flow *flow, u64 begin_ns)
{
	const struct tccc_flow_request *asked = &flow->asked;

	flow->start_ns = begin_ns + asked->start_ns;
	flow->open = flow->connections ?: 1;
	job_at(&flow->start, flow->start_ns + (flow->planned ? flow->planned[0].start_ns : 0));
	if (asked->sends == TCCC_SENDS_TRANSFERS || asked->sends == TCCC_SENDS_MESSAGES)
		job_at(&flow->stop, flow->start_ns + asked->length_ns);
}

/* Ends a flow that is not over at the end of the run. The tracer sees its sockets close. */
static void give_up(struct flow *flow)
{
	job_cancel(&flow->start);
	job_cancel(&flow->stop);
	job_cancel(&flow->hear);
	if (flow->report.is_done)
		return;
	if (!flow->report.error)
		flow->report.error = -ETIMEDOUT;
	senders_abort(flow);
	flow->report.is_done = 0;
}

bool traffic_is_complete(void)
{
	u32 index;

	for (index = 0; index < flow_count; index++) {
		if (!flows[index]->from)
			return false;
	}
	return true;
}

const struct flow *traffic_flow_to(const struct net *net, __be32 address, __be16 port)
{
	u32 index;

	for (index = 0; index < flow_count; index++) {
		const struct flow *flow = flows[index];
		/* A flow listens on a port in each lap. */
		const u32 beyond = ntohs(port) - flow->asked.to_port;

		if (flow->to == net && beyond < TCCC_LAPS_MAX * TCCC_LAP_SERVERS && beyond % TCCC_LAP_SERVERS == 0 &&
		    !memcmp(flow->asked.to_address, &address, sizeof(address)))
			return flow;
	}
	return NULL;
}

u32 traffic_run(u64 begin_ns, u64 end_ns)
{
	u32 index, given_up;

	flows_unfinished = flow_count;
	for (index = 0; index < flow_count; index++)
		begin_flow(flows[index], begin_ns);
	jobs_serve(end_ns, &flows_unfinished);
	given_up = flows_unfinished;
	for (index = 0; index < flow_count; index++)
		give_up(flows[index]);
	return given_up;
}

/* ---- Requests ---- */

static bool is_valid(const struct tccc_flow_request *asked)
{
	const bool is_several = asked->sends == TCCC_SENDS_TRANSFERS || asked->sends == TCCC_SENDS_MESSAGES;
	const u32 connections = asked->sends == TCCC_SENDS_TRANSFERS ? asked->count : 1;

	if (asked->sends < TCCC_SENDS_BULK || asked->sends > TCCC_SENDS_DATAGRAMS)
		return false;
	if (asked->receiver > TCCC_RECEIVER_ACKS_EARLY)
		return false;
	if (asked->bursts > BURSTS_MAX || (asked->bursts && asked->sends == TCCC_SENDS_TRANSFERS))
		return false;
	if (asked->bursts && asked->sends == TCCC_SENDS_BULK && !asked->from_start)
		return false;
	if (asked->start_ns > FLOW_NS_MAX || asked->settle_ns > FLOW_NS_MAX || asked->deadline_ns > FLOW_NS_MAX)
		return false;
	if (!asked->length_ns || asked->length_ns > FLOW_NS_MAX || asked->interval_ns > FLOW_NS_MAX)
		return false;
	if (!asked->count || asked->count > CONNECTIONS_MAX || (asked->count > 1 && !is_several))
		return false;
	if (asked->sends == TCCC_SENDS_MESSAGES && !asked->bytes)
		return false;
	if (asked->request_bytes && !is_several)
		return false;
	if (asked->sends == TCCC_SENDS_DATAGRAMS && !datagrams_are_valid(asked))
		return false;
	if (strnlen(asked->algorithm, TCCC_FLOW_ALGORITHM) == TCCC_FLOW_ALGORITHM)
		return false;
	return asked->first <= CONNECTIONS_MAX - connections && asked->to_port &&
	       asked->to_port + (TCCC_LAPS_MAX - 1) * TCCC_LAP_SERVERS < TCCC_FIRST_SENDER_PORT;
}

static bool is_planned_well(const struct tccc_flow_request *asked, const struct tccc_transfer_request *planned)
{
	u64 before_ns = 0;
	u32 index;

	for (index = 0; index < asked->count; index++) {
		if (!planned[index].bytes || planned[index].start_ns < before_ns)
			return false;
		before_ns = planned[index].start_ns;
	}
	return before_ns < asked->length_ns;
}

/* What follows the request of a receiving end. A flow has only one of the two. */
struct follows {
	struct tccc_transfer_request *planned;
	struct tccc_burst *bursts;
};

static void free_follows(const struct follows *follows)
{
	kvfree(follows->planned);
	kvfree(follows->bursts);
}

static int read_array(void **array, const char __user *from, size_t length, size_t bytes)
{
	if (length != bytes)
		return -EINVAL;
	*array = kvmalloc(bytes, GFP_KERNEL);
	if (!*array)
		return -ENOMEM;
	return copy_from_user(*array, from, bytes) ? -EFAULT : 0;
}

static int read_follows(const struct tccc_flow_request *asked, const char __user *from, size_t length,
			struct follows *follows)
{
	int error;

	if (asked->end == TCCC_END_RECEIVES && asked->sends == TCCC_SENDS_TRANSFERS) {
		error = read_array((void **)&follows->planned, from, length,
				   array_size(asked->count, sizeof(*follows->planned)));
		return error ?: is_planned_well(asked, follows->planned) ? 0 : -EINVAL;
	}
	if (asked->end == TCCC_END_RECEIVES && asked->bursts) {
		error = read_array((void **)&follows->bursts, from, length,
				   array_size(asked->bursts, sizeof(*follows->bursts)));
		return error ?: bursts_are_valid(asked, follows->bursts) ? 0 : -EINVAL;
	}
	return length ? -EINVAL : 0;
}

static void free_flow(struct flow *flow)
{
	u32 lap;

	for (lap = 0; lap < TCCC_LAPS_MAX; lap++) {
		if (flow->listeners[lap])
			sock_release(flow->listeners[lap]);
	}
	if (flow->source)
		sock_release(flow->source);
	if (flow->to)
		put_net(flow->to);
	if (flow->from)
		put_net(flow->from);
	kvfree(flow->planned);
	kvfree(flow->bursts);
	kvfree(flow->transfers);
	kvfree(flow->numbers);
	kvfree(flow->in_time);
	kvfree(flow->delays);
	kvfree(flow);
}

static int allocate_connections(struct flow *flow)
{
	const struct tccc_flow_request *asked = &flow->asked;
	u32 index;

	flow->connections = asked->sends == TCCC_SENDS_TRANSFERS ? asked->count : 1;
	flow->transfers = kvcalloc(asked->count, sizeof(*flow->transfers), GFP_KERNEL);
	if (!flow->transfers)
		return -ENOMEM;
	for (index = 0; index < asked->count; index++)
		flow->transfers[index].connection = asked->first + min(index, flow->connections - 1);
	return 0;
}

/* Takes over what follows the request if there is no error. */
static int add_receiver(const struct tccc_flow_request *asked, const struct follows *follows)
{
	struct flow *flow;
	int error;

	if (asked->flow != flow_count || asked->flow >= TCCC_FLOWS_MAX)
		return -EINVAL;
	flow = kvzalloc(sizeof(*flow), GFP_KERNEL);
	if (!flow)
		return -ENOMEM;
	flow->asked = *asked;
	flow->to = get_net(current->nsproxy->net_ns);
	INIT_LIST_HEAD(&flow->senders);
	INIT_LIST_HEAD(&flow->receivers);
	job_init(&flow->start, start_flow);
	job_init(&flow->stop, stop_flow);
	job_init(&flow->hear, hear_flow);
	if (asked->sends == TCCC_SENDS_DATAGRAMS)
		error = datagram_listen(flow);
	else
		error = allocate_connections(flow) ?: receiver_listen(flow);
	if (error) {
		free_flow(flow);
		return error;
	}
	flow->planned = follows->planned;
	flow->bursts = follows->bursts;
	flows[flow_count++] = flow;
	cheat_begin(flow);
	return 0;
}

/* Adds the sender's namespace to a flow. The request of the receiving end has set everything else. */
static int add_sender(struct tccc_flow_request *asked)
{
	struct flow *flow = asked->flow < flow_count ? flows[asked->flow] : NULL;
	int error = 0;

	asked->end = TCCC_END_RECEIVES;
	if (!flow || flow->from || memcmp(asked, &flow->asked, sizeof(*asked)))
		return -EINVAL;
	flow->from = get_net(current->nsproxy->net_ns);
	if (asked->sends == TCCC_SENDS_DATAGRAMS)
		error = datagram_open(flow);
	if (error) {
		put_net(flow->from);
		flow->from = NULL;
	}
	return error;
}

static ssize_t flows_write(struct file *file, const char __user *from, size_t length, loff_t *place)
{
	struct tccc_flow_request asked;
	struct follows follows = {};
	int error;

	if (length < sizeof(asked))
		return -EINVAL;
	if (copy_from_user(&asked, from, sizeof(asked)))
		return -EFAULT;
	if (!is_valid(&asked))
		return -EINVAL;
	if (jobs_are_served())
		return -EBUSY;
	error = read_follows(&asked, from + sizeof(asked), length - sizeof(asked), &follows);
	if (error)
		goto out;
	switch (asked.end) {
	case TCCC_END_RECEIVES:
		error = add_receiver(&asked, &follows);
		break;
	case TCCC_END_SENDS:
		error = add_sender(&asked);
		break;
	default:
		error = -EINVAL;
	}
out:
	if (error)
		free_follows(&follows);
	return error ?: length;
}

/* ---- Reports ---- */

static size_t report_bytes(const struct flow *flow)
{
	const size_t more = flow->delays ? sizeof(*flow->delays) : flow->begun * sizeof(*flow->transfers);

	return sizeof(struct tccc_flow_report) + more;
}

/* Returns the end of the report. */
static u8 *put_report(u8 *to, const struct flow *flow)
{
	struct tccc_flow_report report = flow->report;

	report.flow = flow->asked.flow;
	report.transfers = flow->begun; /* 0 of datagrams */
	to = answer_put(to, &report, sizeof(report));
	if (flow->delays)
		return answer_put(to, flow->delays, sizeof(*flow->delays));
	return answer_put(to, flow->transfers, flow->begun * sizeof(*flow->transfers));
}

static int flows_open(struct inode *inode, struct file *file)
{
	struct answer *answer;
	size_t length = 0;
	u32 index;
	u8 *end;

	if (jobs_are_served())
		return -EBUSY;
	for (index = 0; index < flow_count; index++)
		length += report_bytes(flows[index]);
	answer = answer_new(length);
	if (!answer)
		return -ENOMEM;
	for (index = 0, end = answer->bytes; index < flow_count; index++)
		end = put_report(end, flows[index]);
	file->private_data = answer;
	return 0;
}

static const struct proc_ops flows_file = {
	.proc_open = flows_open,
	.proc_read = answer_read,
	.proc_write = flows_write,
	.proc_release = answer_release,
	.proc_lseek = default_llseek,
};

int traffic_init(struct proc_dir_entry *folder)
{
	payload = alloc_pages(GFP_KERNEL | __GFP_ZERO | __GFP_COMP, get_order(PAYLOAD_BYTES));
	if (!payload)
		return -ENOMEM;
	if (!proc_create("flows", 0600, folder, &flows_file)) {
		__free_pages(payload, get_order(PAYLOAD_BYTES));
		return -ENOMEM;
	}
	return 0;
}

/* Called only while no flow exists. */
void traffic_exit(void)
{
	__free_pages(payload, get_order(PAYLOAD_BYTES));
}
