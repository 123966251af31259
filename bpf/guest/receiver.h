/* SPDX-License-Identifier: GPL-2.0-only */
/* The receiving end of a TCP connection. */
#ifndef TCCC_RECEIVER_H
#define TCCC_RECEIVER_H

#include "flow.h"

struct receiver {
	struct job job;
	struct list_head place; /* among the flow's receivers, or among the spare ones */
	struct flow *flow;
	struct socket *sock; /* NULL once the connection is over */
	u64 left_bytes;	     /* of the request, that the socket has not taken yet */
	u32 index;	     /* of its connection in the flow */
	u32 asked;	     /* requests that have begun */
	u32 acked;	     /* number of the last pure acknowledgement; see cheat.c */
	bool has_acked;
};

int receiver_listen(struct flow *flow);
void receivers_release(struct flow *flow);
/* The receiver that sends a packet. NULL: another socket sends it, or it is not accepted yet. */
struct receiver *receiver_that_sends(const struct sk_buff *skb);

#endif
