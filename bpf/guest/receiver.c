// SPDX-License-Identifier: GPL-2.0-only
/*
 * TCP receivers inside the guest kernel. They discard data in the softirq in which it arrives, and wake no process.
 *
 * To the connection this looks like a process that reads at once: the window stays open, and the receive buffer grows.
 */
#include <net/tcp.h>

#include "kernel.h"
#include "receiver.h"

#define BACKLOG 4096

static struct receiver *receiver_of(struct flow *flow, const struct sock *sk)
{
	const u32 index = ntohs(inet_sk(sk)->inet_dport) - flow->asked.from_port;

	return index < flow->connections ? &flow->receivers[index] : NULL;
}

/* ---- Counting ---- */

/* The receiver counts from the arrival of the cookie, as iperf3's server does, or from the flow's start. */
static void count_bulk(struct flow *flow, u64 now_ns)
{
	if (flow->arrived_bytes < COOKIE_BYTES)
		return;
	if (!flow->counted_from_ns) {
		flow->counted_from_ns = flow->asked.from_start ? flow->start_ns : now_ns;
		flow->report.first_ns = flow->counted_from_ns;
		flow->report.counted_ns = flow->asked.length_ns;
	}
	if (now_ns - flow->counted_from_ns <= flow->asked.length_ns)
		flow->report.received_bytes = flow->arrived_bytes - COOKIE_BYTES;
}

static void count_messages(struct flow *flow, u64 now_ns)
{
	const u64 size = flow->asked.bytes;
	u64 rest;

	while (flow->complete < flow->asked.count) {
		struct tccc_transfer_report *message = &flow->transfers[flow->complete];

		rest = flow->arrived_bytes - flow->complete * size;
		if (!rest)
			return;
		message->received_bytes = min(rest, size);
		message->last_ns = now_ns;
		if (rest < size)
			return;
		flow->complete++;
	}
}

static void count(struct flow *flow, const struct receiver *receiver, u32 bytes)
{
	struct tccc_transfer_report *transfer = &flow->transfers[receiver - flow->receivers];
	const u64 now_ns = ktime_get_ns();

	flow->arrived_bytes += bytes;
	switch (flow->asked.sends) {
	case TCCC_SENDS_BULK:
		count_bulk(flow, now_ns);
		break;
	case TCCC_SENDS_MESSAGES:
		count_messages(flow, now_ns);
		break;
	default:
		transfer->received_bytes += bytes;
		transfer->last_ns = now_ns;
	}
}

/* ---- Callbacks of the socket ---- */

static int discard(read_descriptor_t *descriptor, struct sk_buff *skb, unsigned int offset, size_t length)
{
	return length;
}

/* A connection inherits this function and the flow from the listening socket, even before it is accepted. */
static void data_ready(struct sock *sk)
{
	read_descriptor_t descriptor = {.count = 1};
	struct flow *flow = sk->sk_user_data;
	struct receiver *receiver;
	int bytes;

	if (sk->sk_state == TCP_LISTEN) {
		job_wake(&flow->accept);
		return;
	}
	receiver = receiver_of(flow, sk);
	bytes = tcp_read_sock(sk, &descriptor, discard);
	if (receiver && bytes > 0)
		count(flow, receiver, bytes);
}

static void state_change(struct sock *sk)
{
	struct receiver *receiver = receiver_of(sk->sk_user_data, sk);

	if (receiver)
		job_wake(&receiver->job);
}

/* ---- Jobs ---- */

void receiver_release(struct receiver *receiver)
{
	struct socket *sock = receiver->sock;

	receiver->sock = NULL;
	if (sock)
		sock_release(sock);
}

/* Closes after the sender, and releases the socket at the end, because the kernel limits orphaned sockets. */
static void act(struct job *job)
{
	struct receiver *receiver = container_of(job, struct receiver, job);
	const struct sock *sk;

	if (!receiver->sock)
		return;
	sk = receiver->sock->sk;
	if (sk->sk_state == TCP_CLOSE)
		receiver_release(receiver);
	else if (sk->sk_shutdown & RCV_SHUTDOWN && !(sk->sk_shutdown & SEND_SHUTDOWN))
		kernel_sock_shutdown(receiver->sock, SHUT_WR);
}

static void accept_all(struct job *job)
{
	struct flow *flow = container_of(job, struct flow, accept);
	struct socket *sock;

	while (!kernel_accept(flow->listener, &sock, O_NONBLOCK)) {
		struct receiver *receiver = receiver_of(flow, sock->sk);

		if (!receiver || receiver->sock) {
			sock_release(sock);
			continue;
		}
		receiver->sock = sock;
		act(&receiver->job); /* the sender may have closed already */
	}
}

void receiver_init(struct receiver *receiver)
{
	job_init(&receiver->job, act);
}

/* Algorithms that require ECN, such as DCTCP, must run at the receiver too (RFC 8257, section 3.2). */
static int choose_algorithm(struct socket *sock, const char *name)
{
	int error = sock->ops->setsockopt(sock, SOL_TCP, TCP_CONGESTION, KERNEL_SOCKPTR((void *)name), strlen(name));

	if (error || tcp_ca_needs_ecn(sock->sk))
		return error;
	return sock->ops->setsockopt(sock, SOL_TCP, TCP_CONGESTION, KERNEL_SOCKPTR("reno"), strlen("reno"));
}

int receiver_listen(struct flow *flow)
{
	struct sockaddr_in at = address_of(flow->asked.to_address, flow->asked.to_port);
	struct sock *sk;
	int error = sock_create_kern(flow->to, AF_INET, SOCK_STREAM, IPPROTO_TCP, &flow->listener);

	if (error) {
		flow->listener = NULL;
		return error;
	}
	error = choose_algorithm(flow->listener, flow->asked.algorithm);
	if (error)
		return error;
	job_init(&flow->accept, accept_all);
	sk = flow->listener->sk;
	sk->sk_user_data = flow;
	sk->sk_data_ready = data_ready;
	sk->sk_state_change = state_change;
	error = kernel_bind(flow->listener, (struct any_sockaddr *)&at, sizeof(at));
	return error ?: kernel_listen(flow->listener, BACKLOG);
}
