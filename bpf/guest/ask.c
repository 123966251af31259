// SPDX-License-Identifier: GPL-2.0-only
/*
 * Requests of a receiver, each before its response, as a browser sends them. A connection of transfers has one request.
 * One of messages has a request for each, which waits for the response to the one before.
 */
#include "ask.h"

static void (*kernel_write_space)(struct sock *sk);

/* Sends the rest of a request. Returns whether the socket took all of it. */
static bool send_left(struct receiver *receiver)
{
	while (receiver->left_bytes) {
		const int sent = payload_send(receiver->sock, min_t(u64, receiver->left_bytes, PAYLOAD_BYTES));

		if (sent <= 0)
			return false;
		receiver->left_bytes -= sent;
	}
	return true;
}

static void begin_request(struct receiver *receiver, u64 now_ns)
{
	struct flow *flow = receiver->flow;
	const u32 number = receiver->index + receiver->asked++;

	flow->transfers[number].requested_ns = now_ns;
	/* A transfer begins with its connection, as the first message does. */
	if (number >= flow->begun) {
		flow->transfers[number].begun_ns = now_ns;
		flow->begun = number + 1;
	}
	receiver->left_bytes = flow->asked.request_bytes;
}

/* Requests after the first count from it. */
static u64 due_ns(const struct receiver *receiver)
{
	const struct flow *flow = receiver->flow;

	return receiver->asked ? flow->transfers[0].requested_ns + receiver->asked * flow->asked.interval_ns : 0;
}

/* Sends the requests that are due and whose predecessors have been answered. */
void ask(struct receiver *receiver)
{
	const struct flow *flow = receiver->flow;
	const u32 count = flow->asked.sends == TCCC_SENDS_MESSAGES ? flow->asked.count : 1;

	while (send_left(receiver) && receiver->asked < count && receiver->asked <= flow->complete) {
		const u64 now_ns = ktime_get_ns();

		if (now_ns < due_ns(receiver)) {
			job_at(&receiver->job, due_ns(receiver));
			return;
		}
		begin_request(receiver, now_ns);
	}
}

static void write_space(struct sock *sk)
{
	struct receiver *receiver = sk->sk_user_data;

	kernel_write_space(sk);
	if (sk_stream_is_writeable(sk))
		job_wake(&receiver->job);
}

/* Called before anything is written to the socket, with softirqs off. */
void ask_prepare(struct sock *sk)
{
	kernel_write_space = sk->sk_write_space;
	sk->sk_write_space = write_space;
}
