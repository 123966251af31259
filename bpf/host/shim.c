// SPDX-License-Identifier: GPL-2.0-only
/*
 * One algorithm as a native library. It consists of this file and one of bpf/cc, compiled with -DTCCC_HOST.
 *
 * It has a socket whose fields are read and written by name, the kernel functions that an algorithm may call, and one
 * function per callback. The caller is responsible for the order in which the kernel calls them.
 *
 * The two lines with `admit` are for bpf/host/prove.c. EVA takes this arithmetic of the kernel's functions for granted,
 * because it keeps no relation between two values.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "tccc.bpf.h"

struct host_socket {
	struct tcp_sock tp; /* first, because a struct sock has the address of its tcp_sock */
	struct rate_sample rate;
	struct sk_buff lost; /* the packet to which retransmit_skb_hint leads, where it leads to one */
	u8 storage[64];	     /* what a companion program shares with the algorithm */
	u8 lacks_storage;    /* there is no memory for it, or for a block */
	u8 refuses_priority; /* the kernel does not let programs read it */
	int mark;	     /* IP_TOS or IPV6_TCLASS */
	int priority;	     /* SO_PRIORITY */
	u32 acks_sent;	     /* ACKs of data that arrived, by the algorithm or the kernel */
	u32 acked_up_to;     /* rcv_nxt of the latest */
	u32 echoed;	     /* data acknowledged by ACKs with ECE, in the unit of rcv_nxt */
	/* The algorithm's own, as icsk_ca_priv: nobody else changes what follows. */
	u64 block[PRIVATE_STORAGE_BYTES_MAX / sizeof(u64)];
	u8 has_block;
};

/* The kernel's default, about a millisecond: sk_init_common. */
#define PACING_SHIFT 10

extern struct tcp_congestion_ops tccc_host_ops;

static _Thread_local u64 clock_ns;

void host_set_clock(u64 now_ns)
{
	clock_ns = now_ns;
}

u64 bpf_ktime_get_ns(void)
{
	return clock_ns;
}

static _Thread_local u64 draws;

void host_seed(u64 seed)
{
	draws = seed;
}

/* SplitMix64: Steele, Lea, Flood, 2014, figure 16. */
u32 bpf_get_prandom_u32(void)
{
	u64 z = draws += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return (u32)(z ^ (z >> 31));
}

/* The block of PRIVATE_STORAGE. */
void *host_storage_get(struct sock *sk)
{
	struct host_socket *host = (struct host_socket *)sk;

	return host->has_block ? host->block : NULL;
}

void *host_storage_create(struct sock *sk)
{
	struct host_socket *host = (struct host_socket *)sk;

	if (!host->has_block) {
		if (host->lacks_storage)
			return NULL;
		host->has_block = 1;
		memset(host->block, 0, sizeof(host->block));
	}
	return host->block;
}

void host_storage_delete(struct sock *sk)
{
	((struct host_socket *)sk)->has_block = 0;
}

/* The storage shared with a companion; there is one map at most. */
void *bpf_sk_storage_get(void *map, void *sk, void *value, u64 flags)
{
	struct host_socket *host = sk;

	return host->lacks_storage ? NULL : host->storage;
}

enum { SOL_SOCKET = 1 };

/*
 * The only options that algorithms set are the mark of a socket's packets and their priority on this host. One that
 * chooses another algorithm is called no more by the kernel, but goes on here.
 */
long bpf_setsockopt(void *sk, int level, int option, void *value, int length)
{
	struct host_socket *host = sk;

	if (level == SOL_SOCKET) {
		memcpy(&host->priority, value, sizeof(host->priority));
		return 0;
	}
	memcpy(&host->mark, value, sizeof(host->mark));
	host->priority = 0; /* that of most marks: rt_tos2priority */
	return 0;
}

long bpf_getsockopt(void *sk, int level, int option, void *value, int length)
{
	const struct host_socket *host = sk;

	if (level == SOL_SOCKET && host->refuses_priority)
		return -1;
	memcpy(value, level == SOL_SOCKET ? &host->priority : &host->mark, sizeof(host->mark));
	return 0;
}

/* As the kernel's: an ACK with ECE if TCP_ECN_DEMAND_CWR is set. One of all that has arrived ends the delay. */
long bpf_tcp_send_ack(void *tp, u32 rcv_nxt)
{
	struct host_socket *host = tp;

	host->acks_sent++;
	if (host->tp.ecn_flags & TCP_ECN_DEMAND_CWR)
		host->echoed += rcv_nxt - host->acked_up_to;
	host->acked_up_to = rcv_nxt;
	if (rcv_nxt == host->tp.rcv_nxt)
		host->tp.inet_conn.icsk_ack.pending = 0;
	return 0;
}

/* As the kernel's: grows up to the threshold and the clamp. Returns the rest of acked, for congestion avoidance. */
u32 tcp_slow_start(struct tcp_sock *tp, u32 acked)
{
	const u32 grown = min(tp->snd_cwnd + acked, tp->snd_ssthresh);
	const u32 used = grown - tp->snd_cwnd;

	const u32 left = acked - used;

	/*@ admit below_the_threshold: left <= acked; */
	tp->snd_cwnd = min(grown, tp->snd_cwnd_clamp);
	return left;
}

/* As the kernel's: adds one packet for every w acknowledged. Credit collected at a larger w counts once. */
void tcp_cong_avoid_ai(struct tcp_sock *tp, u32 w, u32 acked)
{
	u32 grown;

	if (tp->snd_cwnd_cnt >= w) {
		tp->snd_cwnd_cnt = 0;
		tp->snd_cwnd++;
	}
	tp->snd_cwnd_cnt += acked;
	grown = tp->snd_cwnd_cnt / w;
	/*@ admit credit_was_below_w: grown <= 1 + acked / w; */
	tp->snd_cwnd += grown;
	tp->snd_cwnd_cnt %= w;
	tp->snd_cwnd = min(tp->snd_cwnd, tp->snd_cwnd_clamp);
}

/* A socket of zeroes. The given byte fills its private state, like memory that the kernel has not cleared. */
struct host_socket *host_new(u8 poison)
{
	struct host_socket *host = calloc(1, sizeof(*host));

	if (!host)
		return host;
	memset(inet_csk_ca((struct sock *)host), poison, CA_PRIVATE_BYTES);
	host->tp.rtt_min.s[0].v = ~0u;
	host_seed(0);
	host->tp.inet_conn.icsk_inet.sk.sk_pacing_shift = PACING_SHIFT;
	host->tp.inet_conn.icsk_inet.sk.sk_max_pacing_rate = ~0ul;
	return host;
}

void host_free(struct host_socket *host)
{
	free(host);
}

u8 *host_storage(struct host_socket *host)
{
	return host->storage;
}

const u8 *host_private(const struct host_socket *host)
{
	return inet_csk_ca((const struct sock *)host);
}

#define PLACE(name, type, place)                                                                                       \
	type host_get_##name(const struct host_socket *host)                                                           \
	{                                                                                                              \
		return host->place;                                                                                    \
	}                                                                                                              \
	void host_set_##name(struct host_socket *host, type value)                                                     \
	{                                                                                                              \
		host->place = value;                                                                                   \
	}
#define FIELD(name) PLACE(name, u32, tp.name)
#define SAMPLE(name) PLACE(rate_##name, s64, rate.name)

FIELD(rcv_nxt)
FIELD(snd_una)
FIELD(snd_nxt)
FIELD(snd_cwnd)
FIELD(snd_cwnd_cnt)
FIELD(snd_cwnd_clamp)
FIELD(snd_ssthresh)
FIELD(prior_cwnd)
FIELD(srtt_us)
FIELD(rttvar_us)
FIELD(mss_cache)
FIELD(packets_out)
FIELD(sacked_out)
FIELD(lost_out)
FIELD(retrans_out)
FIELD(max_packets_out)
FIELD(delivered)
FIELD(delivered_ce)
FIELD(lost)
FIELD(bytes_sent)
FIELD(bytes_acked)
FIELD(is_cwnd_limited)
FIELD(ecn_flags)
PLACE(ack_pending, u32, tp.inet_conn.icsk_ack.pending)
PLACE(ca_state, u32, tp.inet_conn.icsk_ca_state)

FIELD(app_limited)
PLACE(wstamp_ns, u64, tp.tcp_wstamp_ns)
PLACE(has_block, u32, has_block)
PLACE(lacks_storage, u32, lacks_storage)
PLACE(acks_sent, u32, acks_sent)
PLACE(echoed, u32, echoed)
PLACE(mark, int, mark)
PLACE(priority, int, priority)
PLACE(max_pacing_rate, u64, tp.inet_conn.icsk_inet.sk.sk_max_pacing_rate)
PLACE(pacing_status, u32, tp.inet_conn.icsk_inet.sk.sk_pacing_status)
PLACE(pacing_rate, u64, tp.inet_conn.icsk_inet.sk.sk_pacing_rate)

SAMPLE(prior_mstamp)
SAMPLE(prior_delivered)
SAMPLE(prior_delivered_ce)
SAMPLE(delivered)
SAMPLE(delivered_ce)
SAMPLE(interval_us)
SAMPLE(snd_interval_us)
SAMPLE(rcv_interval_us)
SAMPLE(rtt_us)
SAMPLE(losses)
SAMPLE(acked_sacked)
SAMPLE(prior_in_flight)
SAMPLE(last_end_seq)
SAMPLE(is_app_limited)
SAMPLE(is_retrans)
SAMPLE(is_ack_delayed)

/* Called before every callback. Sets the clock that the kernel refreshes for each ACK and timer. */
static struct sock *sock_of(struct host_socket *host)
{
	host->tp.tcp_clock_cache = clock_ns;
	host->tp.tcp_mstamp = clock_ns / 1000;
	return (struct sock *)host;
}

/* Callbacks that an algorithm need not have are skipped, as in the kernel. */
void host_init(struct host_socket *host)
{
	if (tccc_host_ops.init)
		tccc_host_ops.init(sock_of(host));
}

void host_in_ack_event(struct host_socket *host, u32 flags)
{
	if (tccc_host_ops.in_ack_event)
		tccc_host_ops.in_ack_event(sock_of(host), flags);
}

void host_pkts_acked(struct host_socket *host, u32 pkts_acked, s32 rtt_us, u32 in_flight)
{
	const struct ack_sample sample = {.pkts_acked = pkts_acked, .rtt_us = rtt_us, .in_flight = in_flight};
	struct sock *sk = sock_of(host);

	if (rtt_us >= 0) {
		host->tp.first_tx_mstamp = host->tp.tcp_mstamp - min((u64)rtt_us, host->tp.tcp_mstamp);
		host->tp.rtt_min.s[0].v = min(host->tp.rtt_min.s[0].v, max((u32)rtt_us, 1u));
	}
	if (tccc_host_ops.pkts_acked)
		tccc_host_ops.pkts_acked(sk, &sample);
}

/* Returns 0 if the algorithm leaves the window to cong_avoid and the kernel's reduction. */
u32 host_cong_control(struct host_socket *host, u32 ack, u32 flag)
{
	struct sock *sk = sock_of(host);

	if (host->rate.acked_sacked)
		host->tp.delivered_mstamp = host->tp.tcp_mstamp;
	if (!tccc_host_ops.cong_control)
		return 0;
	tccc_host_ops.cong_control(sk, ack, (int)flag, &host->rate);
	return 1;
}

/* Whether the algorithm sets window and pacing rate itself, at each ACK. */
u32 host_controls_rate(void)
{
	return tccc_host_ops.cong_control != NULL;
}

void host_cong_avoid(struct host_socket *host, u32 ack, u32 acked)
{
	tccc_host_ops.cong_avoid(sock_of(host), ack, acked);
}

/* An algorithm with cong_control need not have cong_avoid. */
void host_cong_avoid_if_any(struct host_socket *host, u32 ack, u32 acked)
{
	if (tccc_host_ops.cong_avoid)
		host_cong_avoid(host, ack, acked);
}

/* The callbacks that the simulated kernel never calls. The proof calls them too. */
void host_other_callbacks(struct host_socket *host)
{
	if (tccc_host_ops.cong_control___2)
		tccc_host_ops.cong_control___2(sock_of(host), &host->rate);
	if (tccc_host_ops.min_tso_segs)
		tccc_host_ops.min_tso_segs(sock_of(host));
	if (tccc_host_ops.sndbuf_expand)
		tccc_host_ops.sndbuf_expand(sock_of(host));
}

u32 host_ssthresh(struct host_socket *host)
{
	return tccc_host_ops.ssthresh(sock_of(host));
}

void host_set_state(struct host_socket *host, u32 new_state)
{
	if (tccc_host_ops.set_state)
		tccc_host_ops.set_state(sock_of(host), (u8)new_state);
}

void host_cwnd_event(struct host_socket *host, u32 event)
{
	const bool is_arrival = event == CA_EVENT_ECN_NO_CE || event == CA_EVENT_ECN_IS_CE;

	if (is_arrival && !(tccc_host_ops.flags & TCP_CONG_NEEDS_ECN))
		return;
	if (tccc_host_ops.cwnd_event)
		tccc_host_ops.cwnd_event(sock_of(host), (enum tcp_ca_event)event);
	else if (event == CA_EVENT_TX_START && tccc_host_ops.cwnd_event_tx_start)
		tccc_host_ops.cwnd_event_tx_start(sock_of(host));
}

/* Replaces CA_EVENT_TX_START from Linux 7.1 on. */
void host_cwnd_event_tx_start(struct host_socket *host)
{
	if (tccc_host_ops.cwnd_event_tx_start)
		tccc_host_ops.cwnd_event_tx_start(sock_of(host));
}

/* Data with ECT arrives at the socket, marked or not. The receiver delays its ACK until the second arrival. */
void host_data_arrives(struct host_socket *host, u32 packets, u32 is_marked)
{
	u8 *pending = &host->tp.inet_conn.icsk_ack.pending;
	const bool is_second = *pending & ICSK_ACK_TIMER;

	host->tp.rcv_nxt += packets;
	host_cwnd_event(host, is_marked ? CA_EVENT_ECN_IS_CE : CA_EVENT_ECN_NO_CE);
	if (is_marked)
		host->tp.ecn_flags |= TCP_ECN_DEMAND_CWR;
	host->tp.ecn_flags |= TCP_ECN_SEEN;
	if (is_second || *pending & ICSK_ACK_NOW)
		bpf_tcp_send_ack(host, host->tp.rcv_nxt);
	else
		*pending |= ICSK_ACK_SCHED | ICSK_ACK_TIMER;
}

/*
 * Called before a transmission. Unless the algorithm has cong_control, the kernel has set the pacing rate at the end of
 * the previous ACK: twice the window per RTT, or 1.2 times once half of the threshold is reached.
 */
u32 host_min_tso_segs(struct host_socket *host)
{
	const struct tcp_sock *tp = &host->tp;
	const u64 percent = tp->snd_cwnd < tp->snd_ssthresh / 2 ? 200 : 120;
	const double bytes = (double)max(tp->snd_cwnd, tp->packets_out) * tp->mss_cache;
	struct sock *sk = sock_of(host);

	if (tp->srtt_us && !tccc_host_ops.cong_control)
		sk->sk_pacing_rate = (unsigned long)min(bytes * percent * 80000 / tp->srtt_us, 1e18);
	return tccc_host_ops.min_tso_segs ? tccc_host_ops.min_tso_segs(sk) : 2;
}

u32 host_undo_cwnd(struct host_socket *host)
{
	return tccc_host_ops.undo_cwnd(sock_of(host));
}

void host_release(struct host_socket *host)
{
	if (tccc_host_ops.release)
		tccc_host_ops.release(sock_of(host));
}
