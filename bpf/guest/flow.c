// SPDX-License-Identifier: GPL-2.0-only
/* What all flows share: the payload, and the number of flows that are not over. */
#include <linux/bvec.h>
#include <net/tcp.h>

#include "flow.h"

struct page *payload;
u32 flows_unfinished;

/* Returns how many bytes the socket took. Negative: it took none. */
int payload_send(struct socket *sock, u32 bytes)
{
	struct msghdr message = {.msg_flags = MSG_SPLICE_PAGES | MSG_DONTWAIT | MSG_NOSIGNAL};
	struct bio_vec vector;

	bvec_set_page(&vector, payload, bytes, 0);
	iov_iter_bvec(&message.msg_iter, ITER_SOURCE, &vector, 1, bytes);
	return sock_sendmsg(sock, &message);
}

static int discard(read_descriptor_t *descriptor, struct sk_buff *skb, unsigned int offset, size_t length)
{
	return length;
}

/* Discards all that has arrived. Returns how many bytes these were. Negative: an error. */
int payload_read(struct sock *sk)
{
	read_descriptor_t descriptor = {.count = 1};

	return tcp_read_sock(sk, &descriptor, discard);
}

/* Called when a connection has closed, or when no datagram is left on the path. The last call ends the flow. */
void flow_end_one(struct flow *flow)
{
	if (--flow->open)
		return;
	flow->report.is_done = 1;
	flows_unfinished--;
}
