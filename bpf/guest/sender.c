// SPDX-License-Identifier: GPL-2.0-only
/*
 * TCP senders inside the guest kernel. Each has one connection and is driven by jobs, which never sleep.
 *
 * A bulk flow sends what iperf3 sends over its data connection. This is a cookie of 37 bytes and, after its
 * acknowledgement, writes of 128 KB until the length is over. A flow that counts from its start does not wait for the
 * acknowledgement, as in src/lab/traffic/stream.rs. The receiver closes the connection at the time at which a message
 * from the sender would have passed the queue. It answers later data with resets.
 *
 * Transfers and messages write 64 KB at a time, close, and wait for the receiver to close, as in
 * src/lab/traffic/transfers.rs.
 *
 * A sender whose connection is over serves a later one. So memory is needed only for connections that are open at the
 * same time.
 */
#include <net/tcp.h>

#include "bursts.h"
#include "conditions.h"
#include "kernel.h"
#include "sender.h"
#include "watch.h"

/* iperf3: DEFAULT_TCP_BLKSIZE. */
#define BULK_WRITE_BYTES (128 << 10)
/* CHUNK_BYTES of src/lab/traffic/socket.rs. */
#define TRANSFER_WRITE_BYTES (64 << 10)

static_assert(BULK_WRITE_BYTES <= PAYLOAD_BYTES && TRANSFER_WRITE_BYTES <= PAYLOAD_BYTES);

static void (*kernel_write_space)(struct sock *sk);
static LIST_HEAD(spare_senders);

/* ---- Writing ---- */

static void send_bulk(struct socket *sock)
{
	while (payload_send(sock, BULK_WRITE_BYTES) == BULK_WRITE_BYTES)
		;
}

/* Sends if the flow does not pause. The sender's job is due when that changes, and when the length is over. */
static void send_in_bursts(struct sender *sender, u64 now_ns)
{
	struct flow *flow = sender->flow;
	u64 until_ns;
	const bool lasts = bursts_last(flow, now_ns - flow->start_ns, &until_ns);

	job_at(&sender->job, flow->start_ns + until_ns);
	if (lasts)
		send_bulk(sender->sock);
}

/* Sends the rest of the transfer or message. Returns whether the socket took all of it. */
static bool send_left(struct sender *sender)
{
	while (sender->left_bytes) {
		int sent;

		if (!sender->chunk_bytes)
			sender->chunk_bytes = min_t(u64, sender->left_bytes, TRANSFER_WRITE_BYTES);
		sent = payload_send(sender->sock, sender->chunk_bytes);
		if (sent <= 0)
			return false;
		sender->chunk_bytes -= sent;
		sender->left_bytes -= sent;
	}
	return true;
}

static void finish(struct sender *sender)
{
	sender->stage = SENDER_FINISHING;
	kernel_sock_shutdown(sender->sock, SHUT_WR);
}

/* ---- What each kind of flow does ---- */

/* Payload of a transfer or message. */
static u64 response_bytes(const struct sender *sender)
{
	const struct flow *flow = sender->flow;

	return flow->planned ? flow->planned[sender->index].bytes : flow->asked.bytes;
}

/* Sends a response for each request that has arrived. */
static void answer(struct sender *sender)
{
	const struct tccc_flow_request *asked = &sender->flow->asked;
	const u32 count = asked->sends == TCCC_SENDS_MESSAGES ? asked->count : 1;

	while (send_left(sender)) {
		if (sender->answered == count) {
			finish(sender);
			return;
		}
		if (sender->heard_bytes < (sender->answered + 1) * asked->request_bytes)
			return;
		sender->answered++;
		sender->left_bytes = response_bytes(sender);
	}
}

static void begin_message(struct sender *sender, u64 now_ns)
{
	struct flow *flow = sender->flow;

	flow->transfers[flow->begun++].begun_ns = now_ns;
	sender->left_bytes = flow->asked.bytes;
}

/* A message begins when it is due and the socket has taken all of the message before it. */
static void send_messages(struct sender *sender)
{
	const struct flow *flow = sender->flow;

	while (send_left(sender)) {
		const u64 due_ns = flow->start_ns + flow_after(flow, flow->begun * flow->asked.interval_ns);
		const u64 now_ns = ktime_get_ns();

		if (flow->begun == flow->asked.count) {
			finish(sender);
			return;
		}
		if (now_ns < due_ns) {
			sender->stage = SENDER_PAUSING;
			job_at(&sender->job, due_ns);
			return;
		}
		begin_message(sender, now_ns);
	}
	sender->stage = SENDER_SENDING;
}

/*
 * How long a packet that leaves now takes to the receiver, including its time in the queue. This is the latest RTT,
 * which includes the queue, minus half of the lowest RTT for the way back. If the delays of the two directions differ,
 * the receiver closes earlier or later by half of the difference.
 */
static u64 heard_after_ns(const struct tcp_sock *tp)
{
	const u32 least_us = tcp_min_rtt(tp) == ~0U ? 0 : tcp_min_rtt(tp);
	const u32 last_us = max(tp->rack.rtt_us, least_us);

	return (last_us - least_us / 2) * (u64)NSEC_PER_USEC;
}

static void stop_bulk(struct sender *sender, u64 now_ns)
{
	sender->stage = SENDER_FINISHING;
	job_at(&sender->flow->hear, now_ns + heard_after_ns(tcp_sk(sender->sock->sk)));
}

/* The sender's job is due when the length is over. It is woken when the socket has room. */
static void serve_bulk(struct sender *sender)
{
	const struct tcp_sock *tp = tcp_sk(sender->sock->sk);
	struct flow *flow = sender->flow;
	const u64 now_ns = ktime_get_ns();

	if (sender->stage == SENDER_COOKIE) {
		if (tp->snd_una != tp->write_seq)
			return;
		sender->stage = SENDER_SENDING;
		flow->start_ns = now_ns;
		job_at(&sender->job, now_ns + flow->asked.length_ns);
	}
	if (now_ns >= flow->start_ns + flow->asked.length_ns)
		stop_bulk(sender, now_ns);
	else if (flow->bursts)
		send_in_bursts(sender, now_ns);
	else
		send_bulk(sender->sock);
}

static void begin_sending(struct sender *sender)
{
	const struct flow *flow = sender->flow;

	sender->stage = SENDER_SENDING;
	if (flow->asked.sends != TCCC_SENDS_BULK)
		return;
	payload_send(sender->sock, COOKIE_BYTES);
	if (flow->asked.from_start)
		job_at(&sender->job, flow->start_ns + flow->asked.length_ns);
	else
		sender->stage = SENDER_COOKIE;
}

static void send(struct sender *sender)
{
	if (sender->stage == SENDER_FINISHING)
		return;
	if (sender->flow->asked.request_bytes) {
		answer(sender);
		return;
	}
	switch (sender->flow->asked.sends) {
	case TCCC_SENDS_BULK:
		serve_bulk(sender);
		break;
	case TCCC_SENDS_MESSAGES:
		send_messages(sender);
		break;
	default:
		if (send_left(sender))
			finish(sender);
	}
}

/* ---- The end ---- */

static void note_error(struct sender *sender, int error)
{
	struct flow *flow = sender->flow;

	if (flow->asked.sends == TCCC_SENDS_BULK)
		flow->report.error = flow->report.error ?: error;
	else if (flow->asked.sends == TCCC_SENDS_TRANSFERS)
		flow->transfers[sender->index].error = error;
	else
		flow->transfers[0].error = error;
}

/* How long one thing limited a socket that had data. tcp_get_info() computes the same, but may sleep. */
static u64 limited_us(const struct tcp_sock *tp, enum tcp_chrono limit)
{
	u64 ticks = tp->chrono_stat[limit - 1];

	if (tp->chrono_type == limit)
		ticks += tcp_jiffies32 - tp->chrono_start;
	return ticks * (USEC_PER_SEC / HZ);
}

static void note_counts(struct sender *sender)
{
	const struct tcp_sock *tp = tcp_sk(sender->sock->sk);
	const u64 rwnd_us = limited_us(tp, TCP_CHRONO_RWND_LIMITED),
		  sndbuf_us = limited_us(tp, TCP_CHRONO_SNDBUF_LIMITED);
	struct tccc_flow_report *report = &sender->flow->report;

	report->busy_us += limited_us(tp, TCP_CHRONO_BUSY) + rwnd_us + sndbuf_us;
	report->rwnd_limited_us += rwnd_us;
	report->sndbuf_limited_us += sndbuf_us;
	report->retrans_pkts += tp->total_retrans;
	report->delivered_ce_pkts += tp->delivered_ce;
	report->ecn = max_t(u32, report->ecn, negotiated_ecn(tp));
	report->mss_bytes = tp->mss_cache;
	memcpy(report->algorithm, inet_csk(sender->sock->sk)->icsk_ca_ops->name, sizeof(report->algorithm));
}

/*
 * Keeps a sender without a connection for a later one. It must not be ready, because its job would then be run for the
 * wrong connection.
 */
static void retire(struct sender *sender)
{
	if (list_empty(&sender->job.ready))
		list_move(&sender->place, &spare_senders);
}

static void close(struct sender *sender)
{
	struct socket *sock = sender->sock;

	job_cancel(&sender->job);
	sender->stage = SENDER_CLOSED;
	sender->sock = NULL;
	sock_release(sock);
	retire(sender);
	flow_end_one(sender->flow);
}

/* The kernel has closed the connection. At the end of a bulk flow, the receiver's reset is expected. */
static void end(struct sender *sender)
{
	const bool is_expected = sender->flow->asked.sends == TCCC_SENDS_BULK && sender->stage == SENDER_FINISHING;

	if (!is_expected)
		note_error(sender, sock_error(sender->sock->sk));
	note_counts(sender);
	close(sender);
}

/* Closes all connections of a flow with a reset, at once. */
void senders_abort(struct flow *flow)
{
	struct sender *sender, *next;

	list_for_each_entry_safe(sender, next, &flow->senders, place) {
		if (!sender->sock)
			continue;
		watch_refill();
		note_error(sender, -ETIMEDOUT);
		note_counts(sender);
		sock_no_linger(sender->sock->sk);
		close(sender);
	}
}

static void act(struct job *job)
{
	struct sender *sender = container_of(job, struct sender, job);
	struct sock *sk;

	if (!sender->sock) {
		retire(sender);
		return;
	}
	sk = sender->sock->sk;
	if (sk->sk_state == TCP_CLOSE) {
		end(sender);
		return;
	}
	if (sk->sk_state == TCP_SYN_SENT)
		return;
	if (sender->stage == SENDER_CONNECTING)
		begin_sending(sender);
	send(sender);
	/* The receiver of a bulk flow closes first. */
	if (sk->sk_shutdown & RCV_SHUTDOWN && !(sk->sk_shutdown & SEND_SHUTDOWN))
		finish(sender);
}

/* ---- Callbacks of the socket ---- */

void sender_write_space(struct sock *sk)
{
	struct sender *sender = sk->sk_user_data;

	kernel_write_space(sk);
	if (sk_stream_is_writeable(sk))
		job_wake(&sender->job);
}

static void state_change(struct sock *sk)
{
	struct sender *sender = sk->sk_user_data;

	job_wake(&sender->job);
}

/* Requests arrive. */
static void data_ready(struct sock *sk)
{
	struct sender *sender = sk->sk_user_data;
	const int bytes = payload_read(sk);

	if (bytes <= 0)
		return;
	sender->heard_bytes += bytes;
	job_wake(&sender->job);
}

/* ---- The beginning ---- */

static void take_over(struct sender *sender)
{
	struct sock *sk = sender->sock->sk;

	kernel_write_space = sk->sk_write_space;
	sk->sk_user_data = sender;
	sk->sk_write_space = sender_write_space;
	sk->sk_state_change = state_change;
	if (sender->flow->asked.request_bytes)
		sk->sk_data_ready = data_ready;
}

static int connect(struct sender *sender)
{
	const struct tccc_flow_request *asked = &sender->flow->asked;
	const u32 connection = asked->first + sender->index;
	struct sockaddr_in from = address_of(asked->from_address, sender_port(connection));
	struct sockaddr_in to = address_of(asked->to_address, server_port(sender->flow, connection));
	struct socket *sock;
	int error = sock_create_kern(sender->flow->from, AF_INET, SOCK_STREAM, IPPROTO_TCP, &sock);

	if (error)
		return error;
	sender->sock = sock;
	error = sock->ops->setsockopt(sock, SOL_TCP, TCP_CONGESTION, KERNEL_SOCKPTR((void *)asked->algorithm),
				      strlen(asked->algorithm));
	if (error)
		return error;
	sock_set_reuseaddr(sock->sk);
	error = kernel_bind(sock, (struct any_sockaddr *)&from, sizeof(from));
	if (error)
		return error;
	take_over(sender);
	conditions_prepare(sender);
	error = kernel_connect(sock, (struct any_sockaddr *)&to, sizeof(to), O_NONBLOCK);
	return error == -EINPROGRESS ? 0 : error;
}

/* Takes a sender for a connection of a flow. Returns NULL if there is no memory. */
static struct sender *take(struct flow *flow, u32 index)
{
	struct sender *sender = list_first_entry_or_null(&spare_senders, struct sender, place);

	if (sender)
		list_del(&sender->place);
	else
		sender = kmalloc(sizeof(*sender), GFP_KERNEL);
	if (!sender)
		return NULL;
	memset(sender, 0, sizeof(*sender));
	job_init(&sender->job, act);
	list_add_tail(&sender->place, &flow->senders);
	sender->flow = flow;
	sender->index = index;
	return sender;
}

void sender_open(struct flow *flow, u32 index)
{
	struct tccc_transfer_report *transfer = &flow->transfers[index];
	struct sender *sender = take(flow, index);
	int error;

	transfer->begun_ns = ktime_get_ns();
	if (!sender) {
		transfer->error = -ENOMEM;
		flow_end_one(flow);
		return;
	}
	if (!flow->asked.request_bytes)
		sender->left_bytes = response_bytes(sender);
	error = connect(sender);
	if (!error)
		return;
	note_error(sender, error);
	if (sender->sock) {
		close(sender);
	} else {
		retire(sender);
		flow_end_one(flow);
	}
}
