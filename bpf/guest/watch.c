// SPDX-License-Identifier: GPL-2.0-only
/*
 * The tracer inside the guest kernel. It writes OPEN, SAMPLE, STATE, LOSS and CLOSE events of every sender's socket to
 * /proc/tccc/events.
 *
 * It follows bpf/trace/tcp_trace.bpf.c and its headers with samples by packet, function by function, on the same
 * tracepoints. Only finding the socket and storing the events differ. Sockets are numbered from 1 in the order in
 * which they open.
 */
#include <linux/mm.h>
#include <linux/proc_fs.h>
#include <linux/tracepoint.h>
#include <linux/uaccess.h>
#include <net/tcp.h>

#include "sender.h"
#include "trace_event.h"
#include "watch.h"

/* As in trace_maps.bpf.h. */
#define OPENING_PKTS 8

/* Events are stored in chunks. One chunk is allocated in advance, because softirqs cannot allocate so much. */
#define CHUNK_BYTES (1 << 20)
#define CHUNK_EVENTS (CHUNK_BYTES / sizeof(struct tccc_event))
#define CHUNKS_MAX (1 << 15)

static struct tccc_watch_request asked;
static unsigned long interval_jiffies; /* whole ticks in the interval */
static u64 sockets;		       /* number of the socket numbered last */

static struct tccc_event **chunks; /* NULL: nothing is traced */
static u32 chunks_max;
static u32 chunk_count; /* allocated chunks; the last may be unused */
static u64 event_count;
static u64 dropped;

/* ---- Room for events ---- */

/* Allocates one chunk more than the events need, if there is memory. */
static void refill(struct job *job)
{
	const u32 needed = event_count / CHUNK_EVENTS + 2;

	while (chunk_count < min(needed, chunks_max)) {
		chunks[chunk_count] = kvmalloc(CHUNK_BYTES, GFP_KERNEL);
		if (!chunks[chunk_count])
			return;
		chunk_count++;
	}
}

static struct job refilling = {.act = refill};

/* Makes room for the next events. For a job that closes more sockets than a chunk has events. */
void watch_refill(void)
{
	refill(&refilling);
}

static struct tccc_event *reserve(void)
{
	const u32 chunk = event_count / CHUNK_EVENTS, place = event_count % CHUNK_EVENTS;

	if (chunk >= chunk_count) {
		dropped++;
		return NULL;
	}
	if (!place)
		job_wake(&refilling);
	event_count++;
	return &chunks[chunk][place];
}

/* ---- The contents of an event ---- */

static void fill_addresses(struct tccc_event *event, const struct sock *sk)
{
	event->family = sk->sk_family;
	event->local_port = ntohs(inet_sk(sk)->inet_sport);
	event->remote_port = ntohs(sk->sk_dport);
	memcpy(event->local_addr, &sk->sk_rcv_saddr, sizeof(sk->sk_rcv_saddr));
	memcpy(event->remote_addr, &sk->sk_daddr, sizeof(sk->sk_daddr));
}

static void fill_counts(struct tccc_event *event, const struct tcp_sock *tp)
{
	event->bytes_acked = tp->bytes_acked;
	event->bytes_received = tp->bytes_received;
	event->delivered_pkts = tp->delivered;
	event->delivered_ce_pkts = tp->delivered_ce;
	event->lost_pkts = tp->lost;
	event->retrans_pkts = tp->total_retrans;
	/* A socket that closes drops its packets, and keeps the numbers of those that were lost. */
	event->inflight_pkts = tp->packets_out ? tcp_packets_in_flight(tp) : 0;
}

/* Leaves out the private state of cdg, the only algorithm of the kernel whose state holds an address. */
static void fill_window(struct tccc_event *event, const struct tcp_sock *tp)
{
	const struct inet_connection_sock *icsk = &tp->inet_conn;

	event->pacing_rate = icsk->icsk_inet.sk.sk_pacing_rate;
	event->cwnd_pkts = tcp_snd_cwnd(tp);
	event->ssthresh_pkts = tp->snd_ssthresh;
	event->srtt_us = tp->srtt_us >> 3;
	event->min_rtt_us = tcp_min_rtt(tp);
	event->rtt_us = tp->rack.rtt_us;
	event->rto_us = jiffies_to_usecs(icsk->icsk_rto);
	event->mss_bytes = tp->mss_cache;
	event->ca_state = icsk->icsk_ca_state;
	event->prior_ca_state = event->ca_state;
	event->app_limited = tp->app_limited != 0;
	memcpy(event->algorithm, icsk->icsk_ca_ops->name, sizeof(event->algorithm));
	if (strcmp(icsk->icsk_ca_ops->name, "cdg"))
		memcpy(event->private_state, icsk->icsk_ca_priv, sizeof(event->private_state));
}

/* Bounds the events of a flow with many connections. */
static bool is_recorded(const struct sender *sender, u8 kind)
{
	return sender->index < TCCC_TRACED_CONNECTIONS || kind == TCCC_EVENT_CLOSE;
}

/* Returns NULL if the event is not recorded or, counted as dropped, if there is no room. */
static struct tccc_event *new_event(struct sender *sender, const struct sock *sk, u8 kind)
{
	struct tccc_event *event = is_recorded(sender, kind) ? reserve() : NULL;

	if (!event)
		return NULL;
	memset(event, 0, sizeof(*event));
	if (!sender->watched.number)
		sender->watched.number = ++sockets;
	event->time_ns = ktime_get_ns();
	event->socket = sender->watched.number;
	event->netns = sender->flow->asked.netns;
	event->kind = kind;
	event->tcp_state = sk->sk_state;
	fill_addresses(event, sk);
	fill_counts(event, tcp_sk(sk));
	fill_window(event, tcp_sk(sk));
	return event;
}

/* ---- Which events are sent ---- */

static void send_state(struct sender *sender, const struct sock *sk, u8 prior, u8 state)
{
	struct tccc_event *event = new_event(sender, sk, TCCC_EVENT_STATE);

	sender->watched.ca_state = state;
	if (!event)
		return;
	event->prior_ca_state = prior;
	event->ca_state = state;
}

static void send_sample(struct sender *sender, const struct sock *sk)
{
	struct tccc_event *event = new_event(sender, sk, TCCC_EVENT_SAMPLE);

	sender->watched.sampled_ns = event ? event->time_ns : ktime_get_ns();
	sender->watched.sampled_jiffies = jiffies;
}

/* Comparing ticks is cheaper than reading the clock, and rules out most packets. */
static bool is_sample_due(const struct watched *watched)
{
	if (jiffies - watched->sampled_jiffies < interval_jiffies)
		return false;
	return ktime_get_ns() - watched->sampled_ns >= asked.interval_ns;
}

static bool is_loss_due(const struct watched *watched, const struct tcp_sock *tp)
{
	if (tp->lost == watched->lost_pkts && tp->total_retrans == watched->retrans_pkts)
		return false;
	return ktime_get_ns() - watched->lost_ns >= asked.loss_gap_ns;
}

static void send_loss(struct sender *sender, const struct sock *sk)
{
	struct watched *watched = &sender->watched;

	watched->lost_ns = ktime_get_ns();
	watched->lost_pkts = tcp_sk(sk)->lost;
	watched->retrans_pkts = tcp_sk(sk)->total_retrans;
	new_event(sender, sk, TCCC_EVENT_LOSS);
}

static void look(struct sender *sender, const struct sock *sk)
{
	struct watched *watched = &sender->watched;
	const bool opens = watched->opening_pkts < OPENING_PKTS;
	const u8 state = inet_csk(sk)->icsk_ca_state;

	watched->opening_pkts += opens;
	if (state != watched->ca_state)
		send_state(sender, sk, watched->ca_state, state);
	else if (is_loss_due(watched, tcp_sk(sk)))
		send_loss(sender, sk);
	else if (opens || is_sample_due(watched))
		send_sample(sender, sk);
}

/* ---- Tracepoints ---- */

/* A connection that was never established has no OPEN and no CLOSE. */
static bool was_connected(int state)
{
	return state != TCP_SYN_SENT && state != TCP_SYN_RECV && state != TCP_LISTEN && state != TCP_CLOSE &&
	       state != TCP_NEW_SYN_RECV;
}

static struct sender *traced_sender_of(const struct sock *sk)
{
	return chunks ? sender_of(sk) : NULL;
}

/* Called for every packet of an established connection, before the packet is processed. */
static void on_packet(void *data, struct sock *sk, struct sk_buff *skb)
{
	struct sender *sender = sender_of(sk);

	if (!sender)
		return;
	if (sender->stage == SENDER_COOKIE)
		job_wake(&sender->job);
	if (chunks)
		look(sender, sk);
}

/* Called before the state changes. */
static void on_ca_state(void *data, struct sock *sk, const u8 state)
{
	struct sender *sender = traced_sender_of(sk);
	const u8 prior = inet_csk(sk)->icsk_ca_state;

	if (sender && was_connected(sk->sk_state) && prior != state)
		send_state(sender, sk, prior, state);
}

/* Shows a timer's retransmissions while no packet arrives. */
static void on_retransmit(void *data, const struct sock *sk, const struct sk_buff *skb)
{
	struct sender *sender = traced_sender_of(sk);

	if (sender && was_connected(sk->sk_state) && is_loss_due(&sender->watched, tcp_sk(sk)))
		send_loss(sender, sk);
}

static void on_tcp_state(void *data, const struct sock *sk, const int old_state, const int new_state)
{
	const bool opens = new_state == TCP_ESTABLISHED;
	const bool closes = new_state == TCP_CLOSE && was_connected(old_state);
	struct sender *sender = opens || closes ? traced_sender_of(sk) : NULL;
	struct tccc_event *event;

	if (!sender)
		return;
	if (opens) {
		sender->watched.opening_pkts = 0;
		sender->watched.lost_pkts = tcp_sk(sk)->lost;
		sender->watched.retrans_pkts = tcp_sk(sk)->total_retrans;
	}
	sender->watched.ca_state = inet_csk(sk)->icsk_ca_state;
	event = new_event(sender, sk, opens ? TCCC_EVENT_OPEN : TCCC_EVENT_CLOSE);
	if (event)
		event->tcp_state = new_state;
}

static struct {
	const char *name;
	void *probe;
	struct tracepoint *point;
} probes[] = {
	{.name = "tcp_probe", .probe = on_packet},
	{.name = "tcp_cong_state_set", .probe = on_ca_state},
	{.name = "tcp_retransmit_skb", .probe = on_retransmit},
	{.name = "inet_sock_set_state", .probe = on_tcp_state},
};

static void note_tracepoint(struct tracepoint *point, void *data)
{
	u32 index;

	for (index = 0; index < ARRAY_SIZE(probes); index++) {
		if (!strcmp(point->name, probes[index].name))
			probes[index].point = point;
	}
}

static void remove_probes(u32 count)
{
	while (count--)
		tracepoint_probe_unregister(probes[count].point, probes[count].probe, NULL);
	tracepoint_synchronize_unregister();
}

static int add_probes(void)
{
	u32 index;
	int error;

	for_each_kernel_tracepoint(note_tracepoint, NULL);
	for (index = 0; index < ARRAY_SIZE(probes); index++) {
		error = -ENOENT;
		if (probes[index].point)
			error = tracepoint_probe_register(probes[index].point, probes[index].probe, NULL);
		if (error) {
			remove_probes(index);
			return error;
		}
	}
	return 0;
}

/* ---- /proc/tccc/events ---- */

static ssize_t events_write(struct file *file, const char __user *from, size_t length, loff_t *place)
{
	struct tccc_watch_request request;

	if (length != sizeof(request))
		return -EINVAL;
	if (copy_from_user(&request, from, sizeof(request)))
		return -EFAULT;
	if (request.bytes_max < CHUNK_BYTES || request.bytes_max / CHUNK_BYTES > CHUNKS_MAX)
		return -EINVAL;
	if (chunks)
		return -EBUSY;
	asked = request;
	interval_jiffies = div_u64(asked.interval_ns, TICK_NSEC);
	chunks_max = request.bytes_max / CHUNK_BYTES;
	chunks = kvcalloc(chunks_max, sizeof(*chunks), GFP_KERNEL);
	if (!chunks)
		return -ENOMEM;
	refill(&refilling);
	return length;
}

/* Copies events up to the end of their chunk. */
static ssize_t copy_events(char __user *to, size_t length, u64 from)
{
	const u32 bytes = sizeof(struct tccc_event), chunk_bytes = CHUNK_EVENTS * bytes;
	const u32 chunk = from / chunk_bytes, offset = from % chunk_bytes;
	const u64 left = event_count * bytes - from;

	length = min3((u64)length, left, (u64)chunk_bytes - offset);
	return copy_to_user(to, (u8 *)chunks[chunk] + offset, length) ? -EFAULT : length;
}

static ssize_t events_read(struct file *file, char __user *to, size_t length, loff_t *place)
{
	const struct tccc_watch_report report = {
		.dropped = dropped,
		.version = TCCC_EVENT_VERSION,
		.event_bytes = sizeof(struct tccc_event),
	};
	const u64 end = sizeof(report) + event_count * sizeof(struct tccc_event);
	ssize_t copied;

	if (*place < sizeof(report))
		return simple_read_from_buffer(to, length, place, &report, sizeof(report));
	if (*place >= end)
		return 0;
	copied = copy_events(to, length, *place - sizeof(report));
	if (copied > 0)
		*place += copied;
	return copied;
}

static const struct proc_ops events_file = {
	.proc_read = events_read,
	.proc_write = events_write,
	.proc_lseek = default_llseek,
};

int watch_init(struct proc_dir_entry *folder)
{
	job_init(&refilling, refill);
	if (!proc_create("events", 0600, folder, &events_file))
		return -ENOMEM;
	return add_probes();
}
