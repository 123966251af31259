// SPDX-License-Identifier: GPL-2.0-only
/*
 * The packet-pair option of Modified Swift Start, both ends. The sending end marks the pairs of sockets whose algorithm
 * asks for it, and passes returned intervals to the algorithm. The receiving end measures the interval of marked pairs
 * and returns it on ACKs.
 *
 * Other sockets cost one call when they are established and one for each of the first packets that they send.
 * Packets without unknown options are not looked at.
 *
 * Limits: segments that TCP sends as one packet (large pacing rates, RTT below 3 ms) carry no mark. A receiver that
 * merges packets (GRO, LRO), or is delayed, measures a smaller interval or none.
 */
#include "sock_ops.bpf.h"
#include "pair.bpf.h"
#include <bpf/bpf_endian.h>

/* The TCP header: sequence number, and its own length in words of four bytes. */
#define SEQUENCE_AT 4
#define LENGTH_AT 12
#define HEADER_BYTES 20
/*
 * After this many packets, a socket without option to write no longer calls the program. It is not switched off at the
 * first packet, because all programs of a socket share the flag, and a second instance may still have pairs to mark.
 */
#define SETTLED_PACKETS 64

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct pair_arrival);
} pair_arrivals SEC(".maps");

/* The range of a segment in the stream. */
struct place {
	u32 seq;
	u32 bytes;
};

static __always_inline void want(struct bpf_sock_ops *ctx, int flags)
{
	bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags | flags);
}

/* Data of a full segment with the option in its header. */
static __always_inline u32 full_bytes(const struct bpf_sock_ops *ctx)
{
	return ctx->mss_cache - PAIR_ROOM;
}

/* False if the header cannot be read, or if the packet has no data. */
static __always_inline bool read_place(const struct bpf_sock_ops *ctx, struct place *place)
{
	const u8 *header = ctx->skb_data;
	const u8 *end = ctx->skb_data_end;
	u32 header_bytes;

	if (header + HEADER_BYTES > end)
		return false;
	header_bytes = (header[LENGTH_AT] >> 4) * 4;
	if (ctx->skb_len <= header_bytes)
		return false;
	place->seq = bpf_ntohl(*(const u32 *)(header + SEQUENCE_AT));
	place->bytes = ctx->skb_len - header_bytes;
	return true;
}

static __always_inline struct pair_exchange *exchange_of(struct bpf_sock_ops *ctx)
{
	return ctx->sk ? bpf_sk_storage_get(&pair_exchanges, ctx->sk, 0, 0) : 0;
}

static __always_inline struct pair_arrival *arrival_of(struct bpf_sock_ops *ctx, u64 flags)
{
	return ctx->sk ? bpf_sk_storage_get(&pair_arrivals, ctx->sk, 0, flags) : 0;
}

/* An interval is sent on every ACK until data without a mark arrives. By then the sender has it, or never will. */
static __always_inline bool has_reply(struct bpf_sock_ops *ctx)
{
	struct pair_arrival *arrival = arrival_of(ctx, 0);

	return arrival && arrival->dt_us && !after(ctx->rcv_nxt, arrival->marked_end);
}

/* Without a packet TCP asks how much data a segment may carry. The room is then reserved for every packet. */
static void reserve(struct bpf_sock_ops *ctx)
{
	const struct pair_exchange *exchange = exchange_of(ctx);
	const bool marks = exchange && wants_mark(exchange);
	const bool is_mss = ctx->args[0] == BPF_WRITE_HDR_TCP_CURRENT_MSS;
	const bool replies = has_reply(ctx);

	if (!marks && !replies) {
		if (ctx->segs_out >= SETTLED_PACKETS)
			bpf_sock_ops_cb_flags_set(ctx,
						  ctx->bpf_sock_ops_cb_flags & ~BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
		return;
	}
	if (is_mss || (marks && ctx->skb_len == full_bytes(ctx)) || (replies && ctx->skb_len <= full_bytes(ctx)))
		bpf_reserve_hdr_opt(ctx, PAIR_ROOM, 0);
}

static void store(struct bpf_sock_ops *ctx, struct pair_option *option, u8 length)
{
	option->kind = PAIR_KIND;
	option->length = length;
	option->exid = bpf_htons(PAIR_EXID);
	bpf_store_hdr_opt(ctx, option, length, 0);
}

/* Only new data is marked, because a retransmission does not show the spacing of the path. */
static bool write_mark(struct bpf_sock_ops *ctx)
{
	struct pair_exchange *exchange = exchange_of(ctx);
	struct pair_option option = {};
	struct place place;
	int flags;

	if (!exchange || !wants_mark(exchange) || !read_place(ctx, &place))
		return false;
	if (place.seq != ctx->snd_nxt || place.bytes != full_bytes(ctx))
		return false;
	flags = next_mark(exchange, place.seq, place.bytes);
	if (flags < 0)
		return false;
	option.mark.flags = flags;
	option.mark.pair = exchange->firsts;
	store(ctx, &option, MARK_BYTES);
	return true;
}

static void write_reply(struct bpf_sock_ops *ctx)
{
	const struct pair_arrival *arrival = arrival_of(ctx, 0);
	struct pair_option option = {};

	if (!arrival || !arrival->dt_us)
		return;
	option.dt_us = bpf_htonl(arrival->dt_us);
	store(ctx, &option, REPLY_BYTES);
}

static void read_mark(struct bpf_sock_ops *ctx, const struct pair_option *option)
{
	const u64 now_ns = bpf_ktime_get_ns();
	struct pair_segment segment = {.flags = option->mark.flags, .pair = option->mark.pair};
	struct pair_arrival *arrival;
	struct place place;

	if (!read_place(ctx, &place))
		return;
	arrival = arrival_of(ctx, BPF_SK_STORAGE_GET_F_CREATE);
	if (!arrival)
		return;
	segment.seq = place.seq;
	segment.end = place.seq + place.bytes;
	if (update_arrival(arrival, &segment, now_ns))
		want(ctx, BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
}

static void read_reply(struct bpf_sock_ops *ctx, const struct pair_option *option)
{
	struct pair_exchange *exchange = exchange_of(ctx);

	if (exchange)
		exchange->dt_us = bpf_ntohl(option->dt_us);
}

/* The kernel finds the option by kind and ExID. Its length distinguishes mark and reply. Other lengths are ignored. */
static void read(struct bpf_sock_ops *ctx)
{
	struct pair_option option = {.kind = PAIR_KIND, .length = 4, .exid = bpf_htons(PAIR_EXID)};
	const long found = bpf_load_hdr_opt(ctx, &option, sizeof(option), 0);

	if (found == MARK_BYTES)
		read_mark(ctx, &option);
	else if (found == REPLY_BYTES)
		read_reply(ctx, &option);
}

SEC("sockops")
int pair_delta(struct bpf_sock_ops *ctx)
{
	switch (ctx->op) {
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		want(ctx, BPF_SOCK_OPS_PARSE_UNKNOWN_HDR_OPT_CB_FLAG | BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
		break;
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
		reserve(ctx);
		break;
	case BPF_SOCK_OPS_WRITE_HDR_OPT_CB:
		if (!write_mark(ctx))
			write_reply(ctx);
		break;
	case BPF_SOCK_OPS_PARSE_HDR_OPT_CB:
		read(ctx);
		break;
	}
	return 1;
}

char _license[] SEC("license") = "GPL";
