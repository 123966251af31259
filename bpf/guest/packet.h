/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A packet of the guest kernel as a link sees it: its place in the line, and the fields of its header that matter.
 */
#ifndef TCCC_PACKET_H
#define TCCC_PACKET_H

#include <net/dsfield.h>
#include <net/inet_ecn.h>
#include <net/pkt_sched.h>

#include "../link/line.h"
#include "../link/remark.h"

/* Class selector 1: packets that may be dropped first (RFC 3662). The two bits below it hold the congestion mark. */
#define DSCP_LOW 8
#define DSCP_SHIFT 2

static inline struct parcel *parcel_of(struct sk_buff *skb)
{
	qdisc_cb_private_validate(skb, sizeof(struct parcel));
	return (struct parcel *)qdisc_skb_cb(skb)->data;
}

static inline struct sk_buff *packet_of(struct parcel *parcel)
{
	return (struct sk_buff *)((char *)parcel - offsetof(struct sk_buff, cb) - offsetof(struct qdisc_skb_cb, data));
}

/* Whether the packet is a pure acknowledgement. If it is, `ack` is filled. */
static inline bool read_ack(struct sk_buff *skb, struct ack *ack)
{
	const int offset = skb_network_offset(skb);

	return skb->len - offset <= ACK_BYTES_MAX && pskb_may_pull(skb, skb->len) &&
	       ack_read(ack, skb->data + offset, skb->len - offset);
}

/* Declared in line.h. */
static inline bool parcel_ack(const struct parcel *parcel, struct ack *ack)
{
	return read_ack(packet_of((struct parcel *)parcel), ack);
}

static inline bool is_low(struct sk_buff *skb)
{
	switch (skb->protocol) {
	case htons(ETH_P_IP):
		return pskb_network_may_pull(skb, sizeof(struct iphdr)) &&
		       ipv4_get_dsfield(ip_hdr(skb)) >> DSCP_SHIFT == DSCP_LOW;
	case htons(ETH_P_IPV6):
		return pskb_network_may_pull(skb, sizeof(struct ipv6hdr)) &&
		       ipv6_get_dsfield(ipv6_hdr(skb)) >> DSCP_SHIFT == DSCP_LOW;
	default:
		return false;
	}
}

/* Writes the byte of DSCP and ECN as a router on the way does. */
static inline void remark(struct sk_buff *skb, const struct tccc_link_request *request)
{
	const int header = skb->protocol == htons(ETH_P_IPV6) ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);

	if (skb_ensure_writable(skb, skb_network_offset(skb) + header))
		return;
	if (skb->protocol == htons(ETH_P_IP))
		ipv4_change_dsfield(ip_hdr(skb), 0, service_after(request, ipv4_get_dsfield(ip_hdr(skb))));
	else if (skb->protocol == htons(ETH_P_IPV6))
		ipv6_change_dsfield(ipv6_hdr(skb), 0, service_after(request, ipv6_get_dsfield(ipv6_hdr(skb))));
}

/* Marks a packet whose ends support ECN; returns whether it is marked. A copy of the packet keeps its own header. */
static inline bool mark_congestion(struct sk_buff *skb)
{
	const int header = skb->protocol == htons(ETH_P_IPV6) ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);

	return !skb_ensure_writable(skb, skb_network_offset(skb) + header) && INET_ECN_set_ce(skb);
}

#endif
