/* SPDX-License-Identifier: GPL-2.0-only */
/* Flows inside the guest kernel, shared by traffic.c, sender.c, receiver.c, datagram.c and watch.c. */
#ifndef TCCC_FLOW_H
#define TCCC_FLOW_H

#include <linux/net.h>
#include <net/tcp.h>

#include "job.h"
#include "../link/times.h"
#include "layout.h"

struct flow {
	struct tccc_flow_request asked;
	struct net *from;
	struct net *to;
	struct socket *listeners[TCCC_LAPS_MAX]; /* listen; the first may receive datagrams instead */
	struct socket *source;			 /* sends datagrams */
	struct list_head senders;		 /* of open connections, in the order of their starts */
	struct list_head receivers;		 /* of connections that were accepted */
	struct tccc_transfer_request *planned;	 /* of a flow that sends transfers */
	struct tccc_transfer_report *transfers;
	struct tccc_burst *bursts; /* NULL: it never pauses */
	u64 burst;		   /* index of the one in which a bulk flow is, or after which it pauses */
	unsigned long *numbers;	   /* a bit for each datagram that arrived */
	u16 *in_time;	      /* for each frame: datagrams that arrived within the deadline; NULL: each frame has one */
	struct times *delays; /* of datagrams that arrived */
	struct job start;     /* the next transfer or datagram is due */
	struct job stop;      /* the length is over */
	struct job hear;      /* a bulk flow's receiver closes, or no datagram may be left on the path */
	struct job accept;
	struct tcp_congestion_ops ops; /* imposes the conditions; see conditions.c */
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

/* What a connection of iperf3 sends first: COOKIE_SIZE. */
#define COOKIE_BYTES 37

/* Zeroes to send. They have their own pages, so that sending copies nothing. */
#define PAYLOAD_BYTES (128 << 10)
extern struct page *payload;

int payload_send(struct socket *sock, u32 bytes);
int payload_read(struct sock *sk);

extern u32 flows_unfinished;
void flow_end_one(struct flow *flow);

static inline u32 sender_port(u32 connection)
{
	return TCCC_FIRST_SENDER_PORT + connection % TCCC_SENDER_PORTS;
}

static inline u32 server_port(const struct flow *flow, u32 connection)
{
	return flow->asked.to_port + connection / TCCC_SENDER_PORTS * TCCC_LAP_SERVERS;
}

#endif
