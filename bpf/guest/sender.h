/* SPDX-License-Identifier: GPL-2.0-only */
/* The sending end of a TCP connection. */
#ifndef TCCC_SENDER_H
#define TCCC_SENDER_H

#include "flow.h"

/* What the tracer remembers of a socket. */
struct watched {
	u64 number; /* the socket's number in events; 0: none yet */
	u64 sampled_ns;
	unsigned long sampled_jiffies;
	u64 lost_ns; /* time of the last LOSS */
	u32 lost_pkts;
	u32 retrans_pkts;
	u8 ca_state;
	u8 opening_pkts; /* packets since OPEN, up to OPENING_PKTS */
};

/* What the sender of a connection waits for. */
enum sender_stage {
	SENDER_CONNECTING,
	SENDER_COOKIE,	  /* the acknowledgement of iperf3's cookie */
	SENDER_SENDING,	  /* room in the socket */
	SENDER_PAUSING,	  /* the time of the next message */
	SENDER_FINISHING, /* the receiver's close */
	SENDER_CLOSED,
};

struct sender {
	struct job job;
	struct list_head place; /* among the flow's senders, or among the spare ones */
	struct flow *flow;
	u32 index; /* of its connection in the flow */
	struct socket *sock;
	struct watched watched;
	u64 left_bytes;	 /* bytes of the transfer or message that the socket has not taken yet */
	u64 heard_bytes; /* of requests that arrived */
	u32 chunk_bytes; /* the same for one write */
	u32 answered;	 /* requests whose responses have begun */
	u8 stage;
};

void sender_write_space(struct sock *sk);
void sender_open(struct flow *flow, u32 index);
void senders_abort(struct flow *flow);

/* Returns the sender that owns a socket, or NULL for a socket of a receiver or of other traffic. */
static inline struct sender *sender_of(const struct sock *sk)
{
	return sk->sk_write_space == sender_write_space ? sk->sk_user_data : NULL;
}

#endif
