/* SPDX-License-Identifier: GPL-2.0-only */
/* Flows inside the guest kernel, shared by traffic.c, sender.c, receiver.c, datagram.c and watch.c. */
#ifndef TCCC_TRAFFIC_H
#define TCCC_TRAFFIC_H

#include <linux/net.h>
#include <net/sock.h>
#include <net/tcp.h>

#include "job.h"
#include "layout.h"

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
	struct flow *flow;
	struct socket *sock;
	struct watched watched;
	u64 left_bytes;	 /* bytes of the transfer or message that the socket has not taken yet */
	u32 chunk_bytes; /* the same for one write */
	u8 stage;
};

/* The receiving end of the same connection. */
struct receiver {
	struct job job;
	struct socket *sock; /* once it is accepted */
};

struct flow {
	struct tccc_flow_request asked;
	struct net *from;
	struct net *to;
	struct socket *listener; /* listens, or receives datagrams */
	struct socket *source;	 /* sends datagrams */
	struct sender *senders;
	struct receiver *receivers;
	struct tccc_transfer_report *transfers;
	unsigned long *numbers; /* a bit for each datagram that arrived */
	struct job start;	/* the next transfer or datagram is due */
	struct job stop;	/* the length is over */
	struct job hear;	/* a bulk flow's receiver closes, or no datagram may be left on the path */
	struct job accept;
	struct tcp_congestion_ops ops; /* imposes the conditions; see sender.c */
	const struct tcp_congestion_ops *own_ops;
	u64 start_ns; /* of a bulk flow without asked.from_start: when its first data left */
	u32 connections;
	u64 arrived_bytes;
	u64 counted_from_ns; /* when a bulk flow's receiver began to count */
	u64 heard_ns;	     /* when the last datagram arrived */
	u32 begun;	     /* transfers or messages */
	u32 complete;	     /* messages that arrived */
	u32 open;	     /* connections that are not over; 1 for datagrams */
	struct tccc_flow_report report;
};

static inline struct sockaddr_in address_of(const u8 *address, u32 port)
{
	struct sockaddr_in socket_address = {.sin_family = AF_INET, .sin_port = htons(port)};

	memcpy(&socket_address.sin_addr, address, sizeof(socket_address.sin_addr));
	return socket_address;
}

/* Zeroes to send. They have their own pages, so that sending copies nothing. */
#define PAYLOAD_BYTES (128 << 10)
extern struct page *payload;

void flow_end_one(struct flow *flow);

void sender_write_space(struct sock *sk);
void sender_init(struct sender *sender, struct flow *flow);
void sender_open(struct sender *sender);
void sender_abort(struct sender *sender);

/* Returns the sender that owns a socket, or NULL for a socket of a receiver or of other traffic. */
static inline struct sender *sender_of(const struct sock *sk)
{
	return sk->sk_write_space == sender_write_space ? sk->sk_user_data : NULL;
}

int traffic_init(struct proc_dir_entry *folder);
bool traffic_is_complete(void); /* whether every flow has both ends */
u32 traffic_run(u64 begin_ns, u64 end_ns);
void traffic_exit(void);

int receiver_listen(struct flow *flow);
void receiver_init(struct receiver *receiver);
void receiver_release(struct receiver *receiver);

int datagram_listen(struct flow *flow);
int datagram_open(struct flow *flow);
void datagram_send(struct flow *flow);
void datagram_settle(struct flow *flow);

#endif
