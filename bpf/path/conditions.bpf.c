// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sets the conditions of a scenario's senders: window cap, initial ssthresh, initial cwnd. Gives receivers the sender's
 * algorithm, if that needs ECN.
 *
 * They are set once, when the connection is established, after the kernel chose its initial window and before the
 * algorithm's init. So every algorithm starts from the same values, including the kernel's own.
 */
#include "sock_ops.bpf.h"

/* From the user-space interface: linux/bpf.h, linux/tcp.h. */
enum { TCP_CONGESTION = 13, TCP_BPF_IW = 1001, TCP_BPF_SNDCWND_CLAMP = 1002, SOL_TCP = 6 };

/* An end of a flow, by its namespace and the local port that the traffic generator binds. */
struct flow_end {
	__u64 netns_cookie;
	__u64 local_port;
};

/* Requested values, 0 for none, and the result. */
struct conditions {
	__u32 window_cap;	/* packets; also the initial ssthresh */
	__u32 initial_ssthresh; /* packets, without a cap */
	__u32 initial_cwnd;	/* packets */
	__u32 applied;		/* connections that got all requested values */
	__s32 error;		/* error of the first request that the kernel refused */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536); /* all connections of all runs in progress */
	__type(key, struct flow_end);
	__type(value, struct conditions);
} tccc_senders SEC(".maps");

/* A receiver whose algorithm needs ECN at both ends: RFC 8257, 3.2. */
struct receiver {
	char algorithm[TCP_CA_NAME_MAX];
	__u32 applied; /* connections that got it */
	__s32 error;   /* of the first one that the kernel refused */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct flow_end);
	__type(value, struct receiver);
} tccc_receivers SEC(".maps");

/* Name of the algorithm below. Set before loading, because names are global and two instances may run at once. */
char setter_name[TCP_CA_NAME_MAX];

static int set_number(struct bpf_sock_ops *ctx, int option, __u32 value)
{
	return bpf_setsockopt(ctx, SOL_TCP, option, &value, sizeof(value));
}

/*
 * Sets the initial ssthresh without a cap. The kernel's only option for ssthresh also sets the cap, and neither can be
 * reset alone. But an algorithm may write ssthresh. So cwnd is set to the value, the socket gets for a moment an
 * algorithm whose init copies cwnd to ssthresh, and then its own algorithm again.
 */
static int set_ssthresh(struct bpf_sock_ops *ctx, __u32 ssthresh, __u32 cwnd)
{
	char own[TCP_CA_NAME_MAX] = {};
	char setter[TCP_CA_NAME_MAX];
	int error;

	__builtin_memcpy(setter, setter_name, sizeof(setter));
	error = bpf_getsockopt(ctx, SOL_TCP, TCP_CONGESTION, own, sizeof(own));
	error = error ?: set_number(ctx, TCP_BPF_IW, ssthresh);
	error = error ?: bpf_setsockopt(ctx, SOL_TCP, TCP_CONGESTION, setter, sizeof(setter));
	error = error ?: bpf_setsockopt(ctx, SOL_TCP, TCP_CONGESTION, own, sizeof(own));
	return error ?: set_number(ctx, TCP_BPF_IW, cwnd);
}

static int impose(struct bpf_sock_ops *ctx, const struct conditions *asked)
{
	__u32 cwnd = asked->initial_cwnd ?: ctx->snd_cwnd;
	int error = 0;

	if (asked->window_cap)
		error = set_number(ctx, TCP_BPF_SNDCWND_CLAMP, asked->window_cap);
	if (!error && asked->initial_ssthresh)
		error = set_ssthresh(ctx, asked->initial_ssthresh, cwnd);
	if (!error && asked->initial_cwnd)
		error = set_number(ctx, TCP_BPF_IW, cwnd);
	return error;
}

static void on_connected(struct bpf_sock_ops *ctx, const struct flow_end *own)
{
	struct conditions *asked = bpf_map_lookup_elem(&tccc_senders, own);
	int error;

	if (!asked)
		return;
	error = impose(ctx, asked);
	if (error && !asked->error)
		asked->error = error;
	if (!error)
		__sync_fetch_and_add(&asked->applied, 1);
}

static void on_accepted(struct bpf_sock_ops *ctx, const struct flow_end *own)
{
	struct receiver *receiver = bpf_map_lookup_elem(&tccc_receivers, own);
	char algorithm[TCP_CA_NAME_MAX];
	int error;

	if (!receiver)
		return;
	__builtin_memcpy(algorithm, receiver->algorithm, sizeof(algorithm));
	error = bpf_setsockopt(ctx, SOL_TCP, TCP_CONGESTION, algorithm, sizeof(algorithm));
	if (error && !receiver->error)
		receiver->error = error;
	if (!error)
		__sync_fetch_and_add(&receiver->applied, 1);
}

SEC("sockops")
int tccc_conditions(struct bpf_sock_ops *ctx)
{
	struct flow_end own = {
		.netns_cookie = bpf_get_netns_cookie(ctx),
		.local_port = ctx->local_port,
	};

	switch (ctx->op) {
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
		on_connected(ctx, &own);
		break;
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		on_accepted(ctx, &own);
		break;
	case BPF_SOCK_OPS_NEEDS_ECN: /* the listener has another algorithm, and refuses a SYN that carries ECT */
		if (bpf_map_lookup_elem(&tccc_receivers, &own))
			ctx->args[0] = 1; /* the reply */
		break;
	}
	return 1;
}

/* The algorithm that sets ssthresh. A socket has it only during set_ssthresh(). */
SEC("struct_ops")
void BPF_PROG(setter_init, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	tp->snd_ssthresh = tp->snd_cwnd;
}

SEC("struct_ops")
__u32 BPF_PROG(setter_ssthresh, struct sock *sk)
{
	return ((struct tcp_sock *)sk)->snd_ssthresh;
}

SEC("struct_ops")
__u32 BPF_PROG(setter_undo_cwnd, struct sock *sk)
{
	return ((struct tcp_sock *)sk)->snd_cwnd;
}

SEC("struct_ops")
void BPF_PROG(setter_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
}

SEC(".struct_ops.link")
struct tcp_congestion_ops ssthresh_setter = {
	.init = (void *)setter_init,
	.ssthresh = (void *)setter_ssthresh,
	.undo_cwnd = (void *)setter_undo_cwnd,
	.cong_avoid = (void *)setter_cong_avoid,
	.name = "tccc_ssthresh",
};

char _license[] SEC("license") = "GPL";
