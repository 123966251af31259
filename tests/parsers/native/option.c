// SPDX-License-Identifier: GPL-2.0-only
/*
 * The fuzz target of the packet-pair option. Bytes become packets with options and calls by TCP, in any order. The
 * program of bpf/option takes them, built natively with the sanitizers of addresses and undefined behaviour.
 *
 * The helpers do what the kernel's do (net/core/filter.c). A header's memory ends with the header, so that the
 * sanitizer sees every read beyond it.
 */
#include <linux/types.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../bpf/host/must.h"

/* Declares a map. Here only its name is needed. */
enum { BPF_MAP_TYPE_SK_STORAGE = 24, BPF_F_NO_PREALLOC = 1 };
#define __uint(name, number) int(*name)[number]
#define __type(name, kind) typeof(kind) *name

struct bpf_sock_ops;
static long bpf_sock_ops_cb_flags_set(struct bpf_sock_ops *ctx, int flags);
static long bpf_reserve_hdr_opt(struct bpf_sock_ops *ctx, __u32 length, __u64 flags);
static long bpf_store_hdr_opt(struct bpf_sock_ops *ctx, const void *option, __u32 length, __u64 flags);
static long bpf_load_hdr_opt(struct bpf_sock_ops *ctx, void *option, __u32 length, __u64 flags);

#include "../../../bpf/option/pair_delta.bpf.c"

#define HEADER_BYTES_MAX 60
#define TCP_NO_OPERATION 1
#define TCP_END 0

static struct pair_exchange *exchange;
static struct pair_arrival *arrival;
static u64 now_ns;
static u32 reserved;

u64 bpf_ktime_get_ns(void)
{
	return now_ns;
}

void *bpf_sk_storage_get(void *map, void *sk, void *value, u64 flags)
{
	if (map == &pair_exchanges)
		return exchange;
	if (!arrival && flags & BPF_SK_STORAGE_GET_F_CREATE)
		arrival = calloc(1, sizeof(*arrival));
	return arrival;
}

static long bpf_sock_ops_cb_flags_set(struct bpf_sock_ops *ctx, int flags)
{
	ctx->bpf_sock_ops_cb_flags = (u32)flags;
	return 0;
}

static long bpf_reserve_hdr_opt(struct bpf_sock_ops *ctx, __u32 length, __u64 flags)
{
	MUST(ctx->op == BPF_SOCK_OPS_HDR_OPT_LEN_CB);
	MUST(length <= 40);
	reserved = length;
	return 0;
}

static long bpf_store_hdr_opt(struct bpf_sock_ops *ctx, const void *option, __u32 length, __u64 flags)
{
	const u8 *bytes = option;

	MUST(ctx->op == BPF_SOCK_OPS_WRITE_HDR_OPT_CB);
	MUST(bytes[0] == PAIR_KIND && bytes[1] == length);
	MUST(length == MARK_BYTES || length == REPLY_BYTES);
	if (length > reserved)
		return -1;
	reserved = 0;
	return 0;
}

/* The kernel's search: by kind and the two bytes after the length. */
static const u8 *found_option(const u8 *at, const u8 *end, const u8 *wanted)
{
	while (at < end && *at != TCP_END) {
		if (*at == TCP_NO_OPERATION) {
			at++;
			continue;
		}
		if (end - at < 2 || end - at < at[1] || at[1] < 2)
			return NULL;
		if (*at == *wanted && at[1] >= 4 && !memcmp(at + 2, wanted + 2, 2))
			return at;
		at += at[1];
	}
	return NULL;
}

static long bpf_load_hdr_opt(struct bpf_sock_ops *ctx, void *option, __u32 length, __u64 flags)
{
	const u8 *found = found_option((const u8 *)ctx->skb_data + HEADER_BYTES, ctx->skb_data_end, option);

	if (!found)
		return -1;
	memcpy(option, found, found[1] < length ? found[1] : length);
	return found[1] > length ? -1 : found[1];
}

struct input {
	const u8 *bytes;
	size_t left;
};

static u8 take(struct input *input)
{
	if (!input->left)
		return 0;
	input->left--;
	return *input->bytes++;
}

static u32 take_number(struct input *input)
{
	const u32 first = take(input), second = take(input), third = take(input);

	return first << 24 | second << 16 | third << 8 | take(input);
}

/* A header as TCP passes it on. Its length field is valid, because TCP has checked it. */
static u8 *take_header(struct input *input, u32 *length)
{
	const u32 words = HEADER_BYTES / 4 + take(input) % 11;
	u8 *header;

	*length = 4 * words;
	header = malloc(*length);
	for (u32 i = 0; i < *length; i++)
		header[i] = take(input);
	header[LENGTH_AT] = (u8)(words << 4) | (header[LENGTH_AT] & 0xf);
	return header;
}

/* Checks what must hold after each call. */
static void check(const struct pair_exchange *before)
{
	MUST(exchange->firsts <= PAIRS && exchange->pairs_sent <= PAIRS);
	MUST(exchange->is_marking == before->is_marking);
	if (arrival)
		MUST(arrival->has_first <= 1);
}

static void call(struct bpf_sock_ops *ctx, struct input *input)
{
	static const u8 events[] = {BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB, BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB,
				    BPF_SOCK_OPS_PARSE_HDR_OPT_CB, BPF_SOCK_OPS_HDR_OPT_LEN_CB,
				    BPF_SOCK_OPS_WRITE_HDR_OPT_CB};
	const struct pair_exchange before = *exchange;
	const u8 chosen = take(input);
	u32 length;
	u8 *header = take_header(input, &length);

	ctx->op = events[chosen % 5];
	ctx->args[0] = chosen & 0x80 ? BPF_WRITE_HDR_TCP_CURRENT_MSS : 0;
	now_ns += take_number(input);
	ctx->skb_len = length + (chosen & 0x40 ? ctx->mss_cache - PAIR_ROOM : take(input));
	if (ctx->op == BPF_SOCK_OPS_HDR_OPT_LEN_CB)
		ctx->skb_len -= length;
	ctx->skb_data = header;
	ctx->skb_data_end = header + length;
	pair_delta(ctx);
	check(&before);
	free(header);
}

int LLVMFuzzerTestOneInput(const u8 *bytes, size_t size)
{
	struct input input = {.bytes = bytes, .left = size};
	struct bpf_sock_ops ctx = {.sk = (struct bpf_sock *)&ctx};
	const u8 first = take(&input);

	exchange = calloc(1, sizeof(*exchange));
	arrival = NULL;
	reserved = 0;
	exchange->is_marking = first & 1;
	ctx.mss_cache = first & 2 ? 48 + take_number(&input) % 65000 : 1448;
	while (input.left) {
		ctx.snd_nxt = take_number(&input);
		ctx.rcv_nxt = take_number(&input);
		ctx.segs_out = take(&input);
		call(&ctx, &input);
	}
	free(exchange);
	free(arrival);
	return 0;
}
