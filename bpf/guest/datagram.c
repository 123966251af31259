// SPDX-License-Identifier: GPL-2.0-only
/*
 * Datagrams at a constant rate inside the guest kernel. Each carries its number, so that copies do not count. The
 * receiver counts from its first datagram, for the flow's length.
 */
#include <linux/bitops.h>
#include <linux/uio.h>
#include <net/udp.h>

#include "datagram.h"
#include "kernel.h"

/* ---- Sending ---- */

/* A datagram for which the device has no room counts as sent, and therefore as lost on the path. */
static int send_one(struct flow *flow)
{
	const u32 bytes = flow->asked.bytes;
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
		const u64 after_ns = report->sent_pkts * flow->asked.interval_ns;

		if (after_ns >= flow->asked.length_ns)
			break;
		if (flow->start_ns + after_ns > now_ns) {
			job_at(&flow->start, flow->start_ns + after_ns);
			return;
		}
		report->latest_ns = max(report->latest_ns, now_ns - flow->start_ns - after_ns);
		report->error = send_one(flow);
		report->sent_pkts += !report->error;
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

static void count(struct flow *flow, u64 number, u32 bytes)
{
	struct tccc_flow_report *report = &flow->report;
	const u64 now_ns = ktime_get_ns();

	flow->heard_ns = now_ns;
	if (number > flow->asked.length_ns / flow->asked.interval_ns || __test_and_set_bit(number, flow->numbers))
		return;
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
	const u64 most = flow->asked.length_ns / flow->asked.interval_ns + 1;
	int error;

	flow->numbers = kvcalloc(BITS_TO_LONGS(most), sizeof(long), GFP_KERNEL);
	if (!flow->numbers)
		return -ENOMEM;
	error = open(flow->to, &at, &flow->listener);
	if (error)
		return error;
	flow->listener->sk->sk_user_data = flow;
	flow->listener->sk->sk_data_ready = data_ready;
	return 0;
}

int datagram_open(struct flow *flow)
{
	const struct sockaddr_in from = address_of(flow->asked.from_address, flow->asked.from_port);
	struct sockaddr_in to = address_of(flow->asked.to_address, flow->asked.to_port);
	int error = open(flow->from, &from, &flow->source);

	return error ?: kernel_connect(flow->source, (struct any_sockaddr *)&to, sizeof(to), 0);
}
