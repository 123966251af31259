// SPDX-License-Identifier: GPL-2.0-only
/*
 * The proof of every algorithm. Frama-C's EVA runs this file, which includes shim.c, together with one file of bpf/cc.
 * It computes with sets of values, until the set of private states that any sequence of calls can reach stops growing.
 *
 * Before each call, every field of the socket that the algorithm does not own may have any value. Exceptions are the
 * few fields that the kernel keeps within bounds. Their bounds are below, each with its reason. This file never sets
 * the private state: init has to, and PRIVATE_STORAGE begins as zeroes. Reading a byte before it was written is an alarm, and so is a division by zero.
 *
 * A wrap of an unsigned number is not an alarm. C defines it, and sequence numbers, clocks and cumulative counts have
 * to wrap. In windows and thresholds a wrap would do harm, and the asserts here check the result.
 */
#include <__fc_builtin.h>

#include "shim.c"
#include "tunables.h" /* made by tests/host/prove.rs: TUNABLES(EACH) is EACH(type, name, low, high) for each */

#define ALL_U32 0xffffffffu
#define ALL_U64 0xffffffffffffffffull
/* The largest positive int. The kernel warns of larger windows (tcp_snd_cwnd_set). It also means "no threshold yet". */
#define LARGEST_WINDOW TCP_INFINITE_SSTHRESH
/* tcp_min_snd_mss is at least 48, and the options may take 40 of these bytes. */
#define LEAST_MSS 8u
#define LARGEST_MSS 65535u
/*
 * Most packets in flight, and therefore in one ACK. A TCP window is at most a GiB (RFC 7323), which is 2^27 packets of
 * LEAST_MSS. A smaller packet has its own buffer of some 2^9 bytes, so 2 GiB hold 2^22 more.
 */
#define MOST_PACKETS (1u << 28)

#define DECLARE(type, name, low, high) extern TCCC_TUNABLE_STORAGE type name;
TUNABLES(DECLARE)

static u32 prove_u32(u32 low, u32 high)
{
	return Frama_C_unsigned_int_interval(low, high);
}

static s64 prove_s64(s64 low, s64 high)
{
	return Frama_C_long_long_interval(low, high);
}

static bool prove_maybe(void)
{
	return prove_u32(0, 1);
}

static void prove_set_tunables(void)
{
#define SET(type, name, low, high) name = (type)prove_s64(low, high);
	TUNABLES(SET)
}

/* Makes everything but the private state and storage unknown, including fields that will be added to kernel.bpf.h. */
static void prove_forget(struct host_socket *host)
{
	const size_t before = offsetof(struct tcp_sock, inet_conn.icsk_ca_priv);
	const size_t after = before + CA_PRIVATE_BYTES;

	Frama_C_make_unknown((char *)host, before);
	Frama_C_make_unknown((char *)host + after, offsetof(struct host_socket, block) - after);
	host->rate.is_app_limited = prove_maybe();
	host->rate.is_retrans = prove_maybe();
	host->rate.is_ack_delayed = prove_maybe();
	host->tp.inet_conn.icsk_ca_state = prove_u32(TCP_CA_Open, TCP_CA_Loss);
	host->tp.mss_cache = prove_u32(LEAST_MSS, LARGEST_MSS);
	host->tp.packets_out = prove_u32(0, MOST_PACKETS);
	host->tp.snd_cwnd_clamp = prove_u32(1, ALL_U32);
	host->tp.retransmit_skb_hint = prove_maybe() ? &host->lost : NULL;
	host_set_clock(Frama_C_unsigned_long_long_interval(0, ALL_U64));
	host_seed(Frama_C_unsigned_long_long_interval(0, ALL_U64));
}

static void prove_acknowledged(struct host_socket *host)
{
	const u32 packets = prove_u32(0, MOST_PACKETS);

	switch (prove_u32(0, 3)) {
	case 0:
		host_in_ack_event(host, prove_u32(0, ALL_U32));
		break;
	case 1: /* -1 means no sample */
		host_pkts_acked(host, packets, (s32)prove_s64(-1, 0x7fffffff), prove_u32(0, MOST_PACKETS));
		break;
	case 2:
		host_cong_control(host, prove_u32(0, ALL_U32), prove_u32(0, ALL_U32));
		break;
	default:
		host_cong_avoid_if_any(host, prove_u32(0, ALL_U32), packets);
	}
}

static void prove_state_changed(struct host_socket *host)
{
	u32 window;

	switch (prove_u32(0, 4)) {
	case 0:
		window = host_ssthresh(host);
		/*@ assert returned_ssthresh: 2 <= window <= LARGEST_WINDOW; */
		break;
	case 1:
		window = host_undo_cwnd(host);
		/*@ assert returned_cwnd: 1 <= window; */
		break;
	case 2:
		host_set_state(host, prove_u32(TCP_CA_Open, TCP_CA_Loss));
		break;
	case 3:
		host_cwnd_event(host, prove_u32(CA_EVENT_TX_START, CA_EVENT_ECN_IS_CE));
		break;
	default:
		host_cwnd_event_tx_start(host);
	}
}

/* One call of one callback. */
static void prove_call(struct host_socket *host, u32 cwnd, u32 ssthresh)
{
	prove_forget(host);
	host->tp.snd_cwnd = cwnd;
	host->tp.snd_ssthresh = ssthresh;
	switch (prove_u32(0, 3)) {
	case 0:
		prove_acknowledged(host);
		break;
	case 1:
		prove_state_changed(host);
		break;
	case 2:
		host_other_callbacks(host);
		break;
	default:
		if (prove_maybe()) /* switched away and back by setsockopt */
			host_release(host);
		host_init(host);
	}
	/*@ assert cwnd: host->tp.snd_cwnd >= 1; */
}

int main(void)
{
	struct host_socket host;

	memset(host.block, 0, sizeof(host.block));
	host.has_block = 0;
	prove_set_tunables();
	prove_forget(&host);
	host.tp.snd_cwnd = prove_u32(1, LARGEST_WINDOW);
	host.tp.snd_ssthresh = prove_u32(0, LARGEST_WINDOW);
	host_init(&host);
	while (prove_maybe()) {
		/* A threshold below 2 comes from a route's metric. It may stay, but no algorithm may set one. */
		if (prove_maybe()) {
			prove_call(&host, prove_u32(1, LARGEST_WINDOW), prove_u32(0, 1));
		} else {
			prove_call(&host, prove_u32(1, LARGEST_WINDOW), prove_u32(2, LARGEST_WINDOW));
			/*@ assert ssthresh: host.tp.snd_ssthresh >= 2; */
		}
	}
	return 0;
}
