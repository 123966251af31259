// SPDX-License-Identifier: GPL-2.0-only
/*
 * Datagrams inside the guest kernel: frames at equal intervals, whose datagrams leave at once. At a constant rate each
 * frame is one datagram. Each datagram carries its number, so that copies do not count. The receiver counts from its
 * first datagram, for the flow's length.
 */
#include <linux/bitops.h>
#include <linux/uio.h>
#include <net/udp.h>

#include "bursts.h"
#include "datagram.h"
#include "kernel.h"

/* Most datagrams of one flow: one bit for each takes 32 MB. */
#define DATAGRAMS_MAX (1u << 28)

/* ---- Frames ---- */

/* The place of a datagram among the frames, as in src/lab/scenario/pattern.rs. */
struct place {
	u64 frame;
	const struct tccc_frame *shape;
	u32 bytes; /* payload of the datagram */
};

static struct place place_of(const struct tccc_flow_request *asked, u64 number)
{
	const struct tccc_frame *key = &asked->frames[0], *other = &asked->frames[1];
	const u64 in_cycle = key->pkts + (asked->every - 1) * other->pkts;
	struct place place = {.frame = number / in_cycle * asked->every, .shape = key};
	u64 index = number % in_cycle;

	if (index >= key->pkts) {
		index -= key->pkts;
		place.shape = other;
		place.frame += 1 + index / other->pkts;
		index %= other->pkts;
	}
	place.bytes = index + 1 == place.shape->pkts ? place.shape->last_bytes : place.shape->bytes;
	return place;
}

static bool is_frame(const struct tccc_frame *frame)
{
	return frame->pkts && frame->pkts <= U16_MAX && frame->bytes >= sizeof(u64) && frame->bytes <= PAYLOAD_BYTES &&
	       frame->last_bytes >= sizeof(u64) && frame->last_bytes <= PAYLOAD_BYTES;
}

/* Datagrams of a flow, at most. The request is valid. */
static u64 most_datagrams(const struct tccc_flow_request *asked)
{
	const u64 frames = asked->length_ns / asked->interval_ns + 1;

	return frames * max(asked->frames[0].pkts, asked->frames[1].pkts);
}

bool datagrams_are_valid(const struct tccc_flow_request *asked)
{
	return asked->interval_ns && asked->length_ns / asked->interval_ns < DATAGRAMS_MAX && asked->every &&
	       asked->every <= U32_MAX && is_frame(&asked->frames[0]) && is_frame(&asked->frames[1]) &&
	       most_datagrams(asked) < DATAGRAMS_MAX;
}

/* ---- Sending ---- */

/* A datagram for which the device has no room counts as sent, and therefore as lost on the path. */
static int send_one(struct flow *flow, u32 bytes)
{
	struct kvec parts[] = {
		{.iov_base = &flow->report.sent_pkts, .iov_len = sizeof(flow->report.sent_pkts)},
		{.iov_base = page_address(payload), .iov_len = bytes - sizeof(flow->report.sent_pkts)},
	};
	struct msghdr message = {.msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL};
	int sent = kernel_sendmsg(flow->source, &message, parts, ARRAY_SIZE(parts), bytes);

	return sent < 0 && sent != -ENOBUFS ? sent : 0;
}

/* Called when the last datagram has left. The path counts as empty after the settle time without an arrival. */
static void await_quiet(struct flow *flow, u64 now_ns)
{
	flow->heard_ns = max(flow->heard_ns, now_ns);
	job_at(&flow->hear, flow->heard_ns + flow->asked.settle_ns);
}

void datagram_send(struct flow *flow)
{
	struct tccc_flow_report *report = &flow->report;
	const u64 now_ns = ktime_get_ns();

	while (!report->error) {
		const struct place place = place_of(&flow->asked, report->sent_pkts);
		const u64 after_ns = flow_after(flow, place.frame * flow->asked.interval_ns);

		if (after_ns >= flow->asked.length_ns)
			break;
		if (flow->start_ns + after_ns > now_ns) {
			job_at(&flow->start, flow->start_ns + after_ns);
			return;
		}
		report->latest_ns = max(report->latest_ns, now_ns - flow->start_ns - after_ns);
		report->error = send_one(flow, place.bytes);
		report->sent_pkts += !report->error;
		report->frames = place.frame + 1;
	}
	await_quiet(flow, now_ns);
}

void datagram_settle(struct flow *flow)
{
	const u64 quiet_ns = flow->heard_ns + flow->asked.settle_ns;

	if (ktime_get_ns() < quiet_ns)
		job_at(&flow->hear, quiet_ns);
	else
		flow_end_one(flow);
}

/* ---- Receiving ---- */

/* How long it took counts from the moment at which its frame was due. */
static void count_delay(struct flow *flow, u64 number, u64 now_ns)
{
	const struct place place = place_of(&flow->asked, number);
	const u64 due_ns = flow->start_ns + flow_after(flow, place.frame * flow->asked.interval_ns);
	const u64 delay_ns = now_ns - due_ns;
	u16 in_time = 1;

	times_add(flow->delays, delay_ns);
	if (delay_ns > flow->asked.deadline_ns)
		return;
	if (flow->in_time)
		in_time = ++flow->in_time[place.frame];
	flow->report.frames_in_time += in_time == place.shape->pkts;
}

static void count(struct flow *flow, u64 number, u32 bytes)
{
	struct tccc_flow_report *report = &flow->report;
	const u64 now_ns = ktime_get_ns();

	flow->heard_ns = now_ns;
	/* On a path without delay, it arrives before it counts as sent. */
	if (number > report->sent_pkts || __test_and_set_bit(number, flow->numbers))
		return;
	count_delay(flow, number, now_ns);
	if (!report->arrived_pkts++)
		report->first_ns = now_ns;
	if (now_ns - report->first_ns > flow->asked.length_ns)
		return;
	report->received_pkts++;
	report->received_bytes += bytes;
	report->last_ns = now_ns;
}

static void data_ready(struct sock *sk)
{
	struct flow *flow = sk->sk_user_data;
	struct sk_buff *skb;
	u64 number;
	int none = 0, error;

	while ((skb = __skb_recv_udp(sk, MSG_DONTWAIT, &none, &error))) {
		if (!skb_copy_bits(skb, 0, &number, sizeof(number)))
			count(flow, number, skb->len);
		consume_datagram(sk, skb);
	}
}

static int open(struct net *net, const struct sockaddr_in *at, struct socket **sock)
{
	int error = sock_create_kern(net, AF_INET, SOCK_DGRAM, IPPROTO_UDP, sock);

	if (error) {
		*sock = NULL;
		return error;
	}
	return kernel_bind(*sock, (struct any_sockaddr *)at, sizeof(*at));
}

int datagram_listen(struct flow *flow)
{
	const struct sockaddr_in at = address_of(flow->asked.to_address, flow->asked.to_port);
	const struct tccc_flow_request *asked = &flow->asked;
	int error;

	flow->numbers = kvcalloc(BITS_TO_LONGS(most_datagrams(asked)), sizeof(long), GFP_KERNEL);
	flow->delays = kvzalloc(sizeof(*flow->delays), GFP_KERNEL);
	if (!flow->numbers || !flow->delays)
		return -ENOMEM;
	if (asked->frames[0].pkts > 1 || asked->frames[1].pkts > 1) {
		flow->in_time = kvcalloc(asked->length_ns / asked->interval_ns + 1, sizeof(u16), GFP_KERNEL);
		if (!flow->in_time)
			return -ENOMEM;
	}
	error = open(flow->to, &at, &flow->listeners[0]);
	if (error)
		return error;
	flow->listeners[0]->sk->sk_user_data = flow;
	flow->listeners[0]->sk->sk_data_ready = data_ready;
	return 0;
}

/* In a later lap, a port of another datagram flow may come again. So the port is then above those of all connections. */
static u32 source_port(const struct flow *flow)
{
	if (flow->asked.first < TCCC_SENDER_PORTS)
		return sender_port(flow->asked.first);
	return TCCC_FIRST_SENDER_PORT + TCCC_SENDER_PORTS + flow->asked.flow;
}

int datagram_open(struct flow *flow)
{
	const struct sockaddr_in from = address_of(flow->asked.from_address, source_port(flow));
	struct sockaddr_in to = address_of(flow->asked.to_address, flow->asked.to_port);
	int error = open(flow->from, &from, &flow->source);

	return error ?: kernel_connect(flow->source, (struct any_sockaddr *)&to, sizeof(to), 0);
}
