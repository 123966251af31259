/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How long the packets of each flow waited in the queue of a link: a histogram as in times.h for each flow that passes.
 *
 * The port of its server is the number of a flow, so a packet shows its flow at once, however many connections there are.
 * Only packets from sender to receiver count.
 */
#ifndef TCCC_FLOW_WAITS_H
#define TCCC_FLOW_WAITS_H

#include <linux/ip.h>
#include <linux/slab.h>

#include "../link/times.h"
#include "layout.h"

struct flow_waits {
	u32 *counts[TCCC_FLOWS_MAX]; /* TCCC_TIMES_BUCKETS each; NULL: no packet of the flow came */
};

/* The number of the flow that sends a packet. TCCC_FLOWS_MAX: the packet goes to no server. */
static inline u32 flow_of(const struct sk_buff *skb)
{
	const u32 offset = skb_network_offset(skb);
	const struct iphdr *ip = (const struct iphdr *)skb_network_header(skb);
	const __be16 *ports;
	u32 server;

	if (skb->protocol != htons(ETH_P_IP) || skb_headlen(skb) < offset + sizeof(*ip) + 2 * sizeof(*ports))
		return TCCC_FLOWS_MAX;
	if (ip->ihl != sizeof(*ip) / 4 || (ip->protocol != IPPROTO_TCP && ip->protocol != IPPROTO_UDP))
		return TCCC_FLOWS_MAX;
	ports = (const __be16 *)(ip + 1);
	server = ntohs(ports[1]) - TCCC_FIRST_SERVER_PORT;
	return server < TCCC_LAP_SERVERS * TCCC_LAPS_MAX ? server % TCCC_LAP_SERVERS : TCCC_FLOWS_MAX;
}

/* Counts the wait of a packet, which is in this bucket. One without memory for its flow is not counted. */
static inline void flow_waits_add(struct flow_waits *waits, const struct sk_buff *skb, u32 bucket)
{
	const u32 flow = flow_of(skb);

	if (flow == TCCC_FLOWS_MAX)
		return;
	if (unlikely(!waits->counts[flow])) {
		waits->counts[flow] = kcalloc(TCCC_TIMES_BUCKETS, sizeof(u32), GFP_ATOMIC);
		if (!waits->counts[flow])
			return;
	}
	waits->counts[flow][bucket]++;
}

/* Forgets all waits. */
void flow_waits_free(struct flow_waits *waits);

#endif
