// SPDX-License-Identifier: GPL-2.0-only
/*
 * The fuzz target: bytes become operations on one connection, in the order of the kernel's calls, and each callback is
 * checked. It is linked with one file of bpf/cc, the address sanitizer and the undefined-behaviour sanitizer.
 *
 * The first byte of an operation chooses it. The next bytes are its numbers. A missing byte is 0. tests/host/fuzz.rs
 * writes its first inputs in this form.
 */
#include <stdio.h>

#include "must.h"
#include "shim.c"
#include "tunables.h" /* made by tests/host/fuzz.rs: TUNABLES(EACH) and PHASE_COUNT */

/* These bounds are the kernel's: bpf/host/prove.c gives the reasons. */
#define LARGEST_WINDOW TCP_INFINITE_SSTHRESH
#define LEAST_MSS 8u
#define LARGEST_MSS 65535u
#define MOST_PACKETS (1u << 28)
#define RTT_US_MAX 100000000u
/* More operations find nothing new, because each depends only on the state that earlier ones left. */
#define OPERATIONS_MAX 400

enum operation {
	OPERATION_ACK,
	OPERATION_LOSE,
	OPERATION_MARK,
	OPERATION_TIMEOUT,
	OPERATION_LEAVE,
	OPERATION_UNDO,
	OPERATION_IDLE,
	OPERATION_WINDOW,
	OPERATION_LIMIT,
	OPERATION_REINIT,
	OPERATION_RECEIVE,
	OPERATIONS,
};

struct input {
	const u8 *bytes;
	size_t left;
};

/* Packets lost before the latest rate sample. */
static u32 lost_before;

#define DECLARE(type, name, low, high) extern TCCC_TUNABLE_STORAGE type name;
TUNABLES(DECLARE)

static u8 take(struct input *input)
{
	if (!input->left)
		return 0;
	input->left--;
	return *input->bytes++;
}

/* Any number up to the highest. The first byte is its length in bits, so small numbers are as common as large ones. */
static u64 take_up_to(struct input *input, u64 highest)
{
	const u32 bits = take(input) % 65;
	u64 number = 0;

	for (u32 byte = 0; byte < (bits + 7) / 8; byte++)
		number = number << 8 | take(input);
	if (bits < 64)
		number &= (1ull << bits) - 1;
	return highest == ~0ull ? number : number % (highest + 1);
}

static u32 take_window(struct input *input)
{
	return 1 + (u32)take_up_to(input, LARGEST_WINDOW - 1);
}

/* A first byte of 0 leaves all tunables at their defaults. */
static void set_tunables(struct input *input)
{
	const bool is_tuned = take(input);

	(void)is_tuned; /* an algorithm may have none */
#define SET(type, name, low, high)                                                                                     \
	{                                                                                                              \
		static bool is_known;                                                                                  \
		static type usual;                                                                                     \
		if (!is_known)                                                                                         \
			usual = name;                                                                                  \
		is_known = true;                                                                                       \
		name = is_tuned ? (type)((s64)(low) + (s64)take_up_to(input, (u64)((s64)(high) - (s64)(low))))         \
				: usual;                                                                               \
	}
	TUNABLES(SET)
}

/* Checks what holds after each callback on any connection. */
static void check(const struct host_socket *host, const struct tcp_sock *before)
{
	const u32 most = max(before->snd_cwnd, host->tp.snd_cwnd_clamp);

	MUST(host->tp.snd_cwnd >= 1);
	MUST(host->tp.snd_cwnd <= most);
	MUST(host->tp.snd_ssthresh >= 2);
	MUST(host->tp.snd_ssthresh <= LARGEST_WINDOW);
	MUST(*host_private(host) < PHASE_COUNT);
}

#define CALL(call)                                                                                                     \
	do {                                                                                                           \
		const struct tcp_sock before = host->tp;                                                               \
		call;                                                                                                  \
		check(host, &before);                                                                                  \
	} while (0)

static void set_state(struct host_socket *host, u8 state)
{
	CALL(host_set_state(host, state));
	host->tp.inet_conn.icsk_ca_state = state;
}

static bool is_reducing(const struct host_socket *host)
{
	return host->tp.inet_conn.icsk_ca_state == TCP_CA_CWR || host->tp.inet_conn.icsk_ca_state == TCP_CA_Recovery;
}

static void reduce(struct host_socket *host)
{
	u32 window;

	host->tp.snd_cwnd_cnt = 0;
	host->tp.prior_cwnd = host->tp.snd_cwnd;
	CALL(window = host_ssthresh(host));
	MUST(window >= 2);
	MUST(window <= LARGEST_WINDOW);
	host->tp.snd_ssthresh = window;
}

/* Sends whatever the window allows, retransmissions first. */
static void send_packets(struct host_socket *host)
{
	struct tcp_sock *tp = &host->tp;
	const u32 in_flight = tcp_packets_in_flight(tp);
	u32 packets, again, segments;

	if (!tp->packets_out)
		CALL(host_cwnd_event(host, CA_EVENT_TX_START));
	CALL(segments = host_min_tso_segs(host));
	MUST(segments >= 1);
	packets = tp->snd_cwnd > in_flight ? tp->snd_cwnd - in_flight : 0;
	again = min(packets, tp->lost_out - tp->retrans_out);
	packets = min(packets - again, MOST_PACKETS - tp->packets_out);
	tp->retrans_out += again;
	tp->packets_out += packets;
	tp->snd_nxt += packets * tp->mss_cache;
	tp->bytes_sent += (u64)(packets + again) * tp->mss_cache;
	tp->max_packets_out = max(tp->max_packets_out, tp->packets_out);
}

/* Acknowledges packets in sequence, and forgets their reports and retransmissions. */
static void advance(struct tcp_sock *tp, u32 packets)
{
	tp->packets_out -= packets;
	tp->sacked_out = min(tp->sacked_out, tp->packets_out);
	tp->lost_out = min(tp->lost_out, tp->packets_out - tp->sacked_out);
	tp->retrans_out = min(tp->retrans_out, tp->lost_out);
	tp->snd_una += packets * tp->mss_cache;
	tp->bytes_acked += (u64)packets * tp->mss_cache;
	tp->delivered += packets;
}

/* Bits of a byte that chooses the rate sample of an ACK. */
enum rate_kind {
	RATE_NONE = 1,	   /* no packet with a time was delivered */
	RATE_FREE = 2,	   /* any rate, instead of the packets of this ACK in its RTT */
	RATE_RETRANS = 4,  /* of a retransmission */
	RATE_DELAYED = 8,  /* by a delayed ACK */
	RATE_LIMITED = 16, /* the application limited it */
};

/* As the kernel's tcp_rate_gen. */
static void set_rate(struct host_socket *host, struct input *input, u32 packets, s64 rtt_us)
{
	const u8 kind = take(input);
	struct tcp_sock *tp = &host->tp;
	u32 delivered = packets;
	s64 interval_us = rtt_us;

	if (kind & RATE_FREE) {
		delivered = (u32)take_up_to(input, MOST_PACKETS);
		interval_us = 1 + (s64)take_up_to(input, RTT_US_MAX);
	}
	host->rate = (struct rate_sample){
		.rtt_us = rtt_us,
		.losses = (s32)(tp->lost - lost_before),
		.acked_sacked = packets,
		.prior_in_flight = min(tcp_packets_in_flight(tp) + packets, MOST_PACKETS),
		.delivered = -1,
		.interval_us = -1,
	};
	lost_before = tp->lost;
	if (tp->app_limited && after(tp->delivered, tp->app_limited))
		tp->app_limited = 0;
	if (kind & RATE_NONE || interval_us < 0)
		return;
	host->rate.prior_mstamp = clock_ns / 1000 - min((u64)interval_us, clock_ns / 1000);
	host->rate.prior_delivered = tp->delivered - delivered;
	host->rate.delivered = (s32)delivered;
	host->rate.interval_us = interval_us;
	host->rate.snd_interval_us = host->rate.rcv_interval_us = (u32)interval_us;
	host->rate.last_end_seq = tp->snd_una;
	host->rate.is_app_limited = kind & RATE_LIMITED || !tp->is_cwnd_limited;
	host->rate.is_retrans = kind & RATE_RETRANS;
	host->rate.is_ack_delayed = kind & RATE_DELAYED;
}

/* The lowest packet that waits for its retransmission, if one does. */
static void set_lost(struct host_socket *host)
{
	struct tcp_skb_cb *lost = (struct tcp_skb_cb *)host->lost.cb;
	struct tcp_sock *tp = &host->tp;

	tp->retransmit_skb_hint = tp->lost_out > tp->retrans_out ? &host->lost : NULL;
	lost->seq = tp->snd_una;
	lost->end_seq = tp->snd_una + tp->mss_cache;
	lost->tcp_gso_segs = 1;
	lost->sacked = TCPCB_LOST;
	lost->tx.delivered = tp->delivered - tcp_packets_in_flight(tp);
}

/* The end of an ACK: cong_control alone, else the kernel's reduction or cong_avoid sets the window. */
static void control(struct host_socket *host, u32 packets)
{
	bool is_alone;

	CALL(is_alone = host_cong_control(host, host->tp.snd_una, 0));
	if (is_alone)
		return;
	if (is_reducing(host))
		host->tp.snd_cwnd = tcp_packets_in_flight(&host->tp) + 1;
	else if (packets)
		CALL(host_cong_avoid(host, host->tp.snd_una, packets));
}

static void acknowledge(struct host_socket *host, struct input *input)
{
	struct tcp_sock *tp = &host->tp;
	const u32 wanted = (u32)take_up_to(input, MOST_PACKETS), packets = min(wanted, tp->packets_out);
	const s32 rtt_us = (s32)take_up_to(input, RTT_US_MAX + 1) - 1;
	const u32 reported = take(input), flags = take(input);
	const u32 sacked = min(reported, tp->packets_out - tp->sacked_out - tp->lost_out);

	tp->sacked_out += sacked;
	tp->delivered += sacked;
	advance(tp, packets);
	if (flags & CA_ACK_ECE)
		tp->delivered_ce += packets + sacked;
	if (rtt_us >= 0)
		tp->srtt_us = 8 * (u32)rtt_us;
	CALL(host_pkts_acked(host, packets, rtt_us, tcp_packets_in_flight(tp)));
	CALL(host_in_ack_event(host, flags));
	set_rate(host, input, packets + sacked, rtt_us);
	set_lost(host);
	control(host, packets);
}

/* A loss that SACK reports, or a congestion mark. */
static void shrink(struct host_socket *host, u8 state)
{
	struct tcp_sock *tp = &host->tp;

	if (state == TCP_CA_Recovery && tp->sacked_out + tp->lost_out < tp->packets_out) {
		tp->lost_out++;
		tp->lost++;
	}
	if (tp->inet_conn.icsk_ca_state >= state)
		return;
	if (!is_reducing(host))
		reduce(host);
	set_state(host, state);
}

static void time_out(struct host_socket *host)
{
	struct tcp_sock *tp = &host->tp;

	tp->lost_out = tp->packets_out - tp->sacked_out;
	tp->retrans_out = 0;
	if (!is_reducing(host)) {
		reduce(host);
		CALL(host_cwnd_event(host, CA_EVENT_LOSS));
	}
	tp->snd_cwnd = tcp_packets_in_flight(tp) + 1;
	tp->snd_cwnd_cnt = 0;
	set_state(host, TCP_CA_Loss);
}

/* Everything sent before the reduction has arrived. */
static void leave(struct host_socket *host)
{
	struct tcp_sock *tp = &host->tp;

	if (is_reducing(host)) {
		tp->snd_cwnd = min(tp->snd_ssthresh, LARGEST_WINDOW);
		CALL(host_cwnd_event(host, CA_EVENT_COMPLETE_CWR));
	}
	set_state(host, TCP_CA_Open);
}

static void undo(struct host_socket *host)
{
	u32 window;

	if (host->tp.inet_conn.icsk_ca_state < TCP_CA_CWR)
		return;
	CALL(window = host_undo_cwnd(host));
	MUST(window >= host->tp.snd_cwnd);
	MUST(window <= LARGEST_WINDOW);
	host->tp.snd_cwnd = window;
	host->tp.snd_ssthresh = max(host->tp.snd_ssthresh, window);
}

/* Everything was acknowledged, and later sending begins again. */
static void pause_sending(struct host_socket *host)
{
	advance(&host->tp, host->tp.packets_out);
	CALL(host_cwnd_event(host, CA_EVENT_CWND_RESTART));
	host->tp.snd_cwnd = min(host->tp.snd_cwnd, 10u);
}

/* What users, routes and the kernel itself may do to a connection. */
static void set_windows(struct host_socket *host, struct input *input)
{
	const u32 clamp = take_window(input), cwnd = take_window(input), ssthresh = take_window(input);

	host->tp.snd_cwnd_clamp = clamp;
	host->tp.snd_cwnd = min(cwnd, clamp);
	host->tp.snd_ssthresh = max(ssthresh, 2u);
	host->tp.mss_cache = LEAST_MSS + (u32)take_up_to(input, LARGEST_MSS - LEAST_MSS);
}

static void set_limits(struct host_socket *host, struct input *input)
{
	struct sock *sk = (struct sock *)host;
	const u8 limits = take(input);

	host->tp.is_cwnd_limited = limits & 1;
	host->tp.app_limited = limits & 2 ? max(host->tp.delivered + tcp_packets_in_flight(&host->tp), 1u) : 0;
	sk->sk_pacing_status = take(input) % (SK_PACING_FQ + 1);
	sk->sk_pacing_rate = take_up_to(input, ~0ull);
	sk->sk_max_pacing_rate = take(input) & 1 ? ~0ul : sk->sk_pacing_rate;
	sk->sk_gso_max_size = (u32)take_up_to(input, 0xffffffff);
}

/* Data of the other end arrives. */
static void receive(struct host_socket *host, struct input *input)
{
	const u32 packets = take(input), is_marked = take(input) & 1;

	CALL(host_data_arrives(host, packets, is_marked));
}

static void operate(struct host_socket *host, struct input *input)
{
	switch (take(input) % OPERATIONS) {
	case OPERATION_ACK:
		acknowledge(host, input);
		break;
	case OPERATION_LOSE:
		shrink(host, TCP_CA_Recovery);
		break;
	case OPERATION_MARK:
		shrink(host, TCP_CA_CWR);
		break;
	case OPERATION_TIMEOUT:
		time_out(host);
		break;
	case OPERATION_LEAVE:
		leave(host);
		break;
	case OPERATION_UNDO:
		undo(host);
		break;
	case OPERATION_IDLE:
		pause_sending(host);
		break;
	case OPERATION_WINDOW:
		set_windows(host, input);
		break;
	case OPERATION_LIMIT:
		set_limits(host, input);
		break;
	case OPERATION_RECEIVE:
		receive(host, input);
		break;
	default:
		host_seed(take(input));
		CALL(host_release(host));
		MUST(!host->has_block);
		host->lacks_storage = take(input) & 1;
		CALL(host_init(host));
	}
}

int LLVMFuzzerTestOneInput(const u8 *bytes, size_t size)
{
	struct input input = {.bytes = bytes, .left = size};
	struct host_socket *host = host_new(0xaa);
	u64 now_ns = 0;

	lost_before = 0;
	set_tunables(&input);
	host->tp.is_cwnd_limited = 1;
	host->tp.srtt_us = 8000;
	set_windows(host, &input);
	host_set_clock(now_ns);
	CALL(host_init(host));
	for (u32 operations = 0; input.left && operations < OPERATIONS_MAX; operations++) {
		now_ns += 1000 * take_up_to(&input, RTT_US_MAX);
		host_set_clock(now_ns);
		operate(host, &input);
		send_packets(host);
	}
	host_release(host);
	MUST(!host->has_block);
	host_free(host);
	return 0;
}
