// SPDX-License-Identifier: GPL-2.0-only
/*
 * TCP receivers inside the guest kernel. They discard data in the softirq in which it arrives, and wake no process.
 *
 * To the connection this looks like a process that reads at once: the window stays open, and the receive buffer grows.
 */
#include <net/tcp.h>

#include "ask.h"
#include "kernel.h"
#include "receiver.h"

#define BACKLOG 4096

static LIST_HEAD(spare_receivers);

/* The index of a connection in its flow. */
static u32 index_of(const struct flow *flow, const struct sock *sk)
{
	const u32 lap = (inet_sk(sk)->inet_num - flow->asked.to_port) / TCCC_LAP_SERVERS;
	const u32 place = ntohs(inet_sk(sk)->inet_dport) - TCCC_FIRST_SENDER_PORT;

	return lap * TCCC_SENDER_PORTS + place - flow->asked.first;
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

static void count(struct flow *flow, u32 index, u32 bytes)
{
	struct tccc_transfer_report *transfer = &flow->transfers[index];
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

static void read_all(struct flow *flow, struct sock *sk)
{
	const int bytes = payload_read(sk);
	const u32 index = index_of(flow, sk);

	if (index < flow->connections && bytes > 0)
		count(flow, index, bytes);
}

/* A connection inherits this function and the flow from the listening socket. They apply until it is accepted. */
static void data_ready(struct sock *sk)
{
	struct flow *flow = sk->sk_user_data;

	if (sk->sk_state == TCP_LISTEN)
		job_wake(&flow->accept);
	else
		read_all(flow, sk);
}

static void accepted_data_ready(struct sock *sk)
{
	struct receiver *receiver = sk->sk_user_data;

	read_all(receiver->flow, sk);
	if (receiver->flow->asked.request_bytes)
		job_wake(&receiver->job);
}

static void accepted_state_change(struct sock *sk)
{
	struct receiver *receiver = sk->sk_user_data;

	job_wake(&receiver->job);
}

/* What happened to the connection before is looked at when it is accepted. */
static void state_change(struct sock *sk)
{
}

/* ---- Jobs ---- */

/* Keeps a receiver without a connection for a later one, unless its job is ready. */
static void retire(struct receiver *receiver)
{
	if (list_empty(&receiver->job.ready))
		list_move(&receiver->place, &spare_receivers);
}

static void release(struct receiver *receiver)
{
	struct socket *sock = receiver->sock;

	job_cancel(&receiver->job);
	receiver->sock = NULL;
	sock_release(sock);
	retire(receiver);
}

void receivers_release(struct flow *flow)
{
	struct receiver *receiver, *next;

	list_for_each_entry_safe(receiver, next, &flow->receivers, place) {
		if (receiver->sock)
			release(receiver);
	}
}

/* Asks for responses, closes after the sender, and releases the socket at the end, because the kernel limits orphaned sockets. */
static void act(struct job *job)
{
	struct receiver *receiver = container_of(job, struct receiver, job);
	const struct sock *sk;

	if (!receiver->sock) {
		retire(receiver);
		return;
	}
	sk = receiver->sock->sk;
	if (sk->sk_state == TCP_CLOSE)
		release(receiver);
	else if (sk->sk_shutdown & RCV_SHUTDOWN && !(sk->sk_shutdown & SEND_SHUTDOWN))
		kernel_sock_shutdown(receiver->sock, SHUT_WR);
	else if (receiver->flow->asked.request_bytes)
		ask(receiver);
}

static struct receiver *take(struct flow *flow)
{
	struct receiver *receiver = list_first_entry_or_null(&spare_receivers, struct receiver, place);

	if (receiver)
		list_del(&receiver->place);
	else
		receiver = kmalloc(sizeof(*receiver), GFP_KERNEL);
	if (!receiver)
		return NULL;
	memset(receiver, 0, sizeof(*receiver));
	job_init(&receiver->job, act);
	list_add_tail(&receiver->place, &flow->receivers);
	receiver->flow = flow;
	return receiver;
}

static void receive(struct flow *flow, struct socket *sock)
{
	struct receiver *receiver = index_of(flow, sock->sk) < flow->connections ? take(flow) : NULL;

	if (!receiver) {
		sock_release(sock);
		return;
	}
	receiver->sock = sock;
	receiver->index = index_of(flow, sock->sk);
	local_bh_disable();
	sock->sk->sk_user_data = receiver;
	sock->sk->sk_data_ready = accepted_data_ready;
	sock->sk->sk_state_change = accepted_state_change;
	if (flow->asked.request_bytes)
		ask_prepare(sock->sk);
	local_bh_enable();
	act(&receiver->job); /* the sender may have closed already */
}

static void accept_all(struct job *job)
{
	struct flow *flow = container_of(job, struct flow, accept);
	struct socket *sock;
	u32 lap;

	for (lap = 0; lap < TCCC_LAPS_MAX; lap++) {
		while (flow->listeners[lap] && !kernel_accept(flow->listeners[lap], &sock, O_NONBLOCK))
			receive(flow, sock);
	}
}

struct receiver *receiver_that_sends(const struct sk_buff *skb)
{
	const struct sock *sk = skb->sk;
	struct receiver *receiver;

	if (!sk || !sk_fullsock(sk) || sk->sk_data_ready != accepted_data_ready)
		return NULL;
	receiver = sk->sk_user_data;
	/* It serves another connection once this one is over. */
	return receiver->sock && receiver->sock->sk == sk ? receiver : NULL;
}

/* Algorithms that require ECN, such as DCTCP, must run at the receiver too (RFC 8257, section 3.2). */
static int choose_algorithm(struct socket *sock, const char *name)
{
	int error = sock->ops->setsockopt(sock, SOL_TCP, TCP_CONGESTION, KERNEL_SOCKPTR((void *)name), strlen(name));

	if (error || tcp_ca_needs_ecn(sock->sk))
		return error;
	return sock->ops->setsockopt(sock, SOL_TCP, TCP_CONGESTION, KERNEL_SOCKPTR("reno"), strlen("reno"));
}

static int listen(struct flow *flow, struct socket **listener, u32 port)
{
	struct sockaddr_in at = address_of(flow->asked.to_address, port);
	struct sock *sk;
	int error = sock_create_kern(flow->to, AF_INET, SOCK_STREAM, IPPROTO_TCP, listener);

	if (error) {
		*listener = NULL;
		return error;
	}
	error = choose_algorithm(*listener, flow->asked.algorithm);
	if (error)
		return error;
	sk = (*listener)->sk;
	sk->sk_user_data = flow;
	sk->sk_data_ready = data_ready;
	sk->sk_state_change = state_change;
	error = kernel_bind(*listener, (struct any_sockaddr *)&at, sizeof(at));
	return error ?: kernel_listen(*listener, BACKLOG);
}

/* Listens for the connections of each lap. */
int receiver_listen(struct flow *flow)
{
	const u32 first = flow->asked.first, last = first + flow->connections - 1;
	u32 lap;
	int error = 0;

	job_init(&flow->accept, accept_all);
	for (lap = first / TCCC_SENDER_PORTS; !error && lap <= last / TCCC_SENDER_PORTS; lap++)
		error = listen(flow, &flow->listeners[lap], flow->asked.to_port + lap * TCCC_LAP_SERVERS);
	return error;
}
