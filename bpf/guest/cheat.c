// SPDX-License-Identifier: GPL-2.0-only
/*
 * Receivers that cheat. Their connections are Linux' own. Acknowledgements are changed where they leave the host, before
 * its first link. Marks are hidden where packets reach the host, behind the last link.
 *
 * Source: S. Savage, N. Cardwell, D. Wetherall, T. Anderson, "TCP congestion control with a misbehaving receiver", ACM
 * CCR 29(5), 1999: "ACK division" and "optimistic ACKing".
 */
#include <net/checksum.h>
#include <net/dsfield.h>
#include <net/inet_ecn.h>
#include <net/tcp.h>

#include "cheat.h"
#include "kernel.h"
#include "packet.h"
#include "receiver.h"
#include "traffic.h"

/* Acknowledgements instead of one. The paper's figure 4 has as many. */
#define PARTS 10
/* How far ahead of what has arrived an early acknowledgement is: the initial window of RFC 6928. */
#define EARLY_SEGMENTS 10

bool receivers_cheat;

void cheat_begin(const struct flow *flow)
{
	receivers_cheat |= flow->asked.receiver != TCCC_RECEIVER_HONEST;
}

/* Adds a copy of an acknowledgement with another number to a list. */
static void make_up(struct sk_buff_head *list, const struct sk_buff *skb, u32 number)
{
	struct sk_buff *copy = skb_copy(skb, GFP_ATOMIC);
	struct tcphdr *header;

	if (!copy)
		return;
	header = tcp_hdr(copy);
	if (copy->ip_summed != CHECKSUM_PARTIAL)
		csum_replace4(&header->check, header->ack_seq, htonl(number));
	header->ack_seq = htonl(number);
	__skb_queue_tail(list, copy);
}

/* Acknowledges in parts what the packet acknowledges at once. The packet itself is the last part. */
static void divide(struct sk_buff_head *before, const struct sk_buff *skb, u32 from, u32 bytes)
{
	u32 part, last = 0;

	for (part = 1; part < PARTS; part++) {
		const u32 ahead = (u64)bytes * part / PARTS;

		if (ahead != last)
			make_up(before, skb, from + ahead);
		last = ahead;
	}
}

void cheat_leaves(struct sk_buff *skb, struct sk_buff_head *before, struct sk_buff_head *after)
{
	struct receiver *receiver = receiver_that_sends(skb);
	const struct flow *flow;
	struct ack ack;
	u32 bytes;

	if (!receiver || !read_ack(skb, &ack))
		return;
	bytes = ack.number - receiver->acked;
	if (receiver->has_acked && (s32)bytes > 0) {
		flow = receiver->flow;
		if (flow->asked.receiver == TCCC_RECEIVER_DIVIDES_ACKS)
			divide(before, skb, receiver->acked, bytes);
		else if (flow->asked.receiver == TCCC_RECEIVER_ACKS_EARLY)
			make_up(after, skb, ack.number + EARLY_SEGMENTS * inet_csk(skb->sk)->icsk_ack.rcv_mss);
	}
	receiver->acked = ack.number;
	receiver->has_acked = true;
}

/* What the sender of a packet says in place of a mark: ECT(1) if its algorithm is one of L4S, else ECT(0). */
static u8 sender_ect(const struct flow *flow, const struct iphdr *ip)
{
	struct sock *sk = established_sender(flow->from, ip, (const struct tcphdr *)(ip + 1));
	u8 ect = INET_ECN_ECT_0;

	if (!sk)
		return ect;
	if (sk_fullsock(sk) && (inet_sk(sk)->tos & INET_ECN_MASK) == INET_ECN_ECT_1)
		ect = INET_ECN_ECT_1;
	sock_gen_put(sk);
	return ect;
}

void cheat_arrives(struct sk_buff *skb)
{
	const int offset = skb_network_offset(skb);
	const struct net_device *peer = skb->dev->netdev_ops->ndo_get_peer_dev(skb->dev);
	const struct flow *flow;
	const struct iphdr *ip;

	if (!peer || skb->protocol != htons(ETH_P_IP))
		return;
	if (skb_ensure_writable(skb, min_t(u32, skb->len, offset + sizeof(struct iphdr) + sizeof(struct tcphdr))))
		return;
	ip = ip_hdr(skb);
	if (ip->protocol != IPPROTO_TCP || ip->ihl * 4 != sizeof(*ip) || !INET_ECN_is_ce(ip->tos))
		return;
	flow = traffic_flow_to(dev_net(peer), ip->daddr, ((const struct tcphdr *)(ip + 1))->dest);
	if (flow && flow->asked.receiver == TCCC_RECEIVER_HIDES_MARKS)
		ipv4_change_dsfield(ip_hdr(skb), (u8)~INET_ECN_MASK, sender_ect(flow, ip));
}
