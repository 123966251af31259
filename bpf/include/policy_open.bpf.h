/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Open sockets as an iterator over them sees them.
 *
 * The kernel does not record which end opened a connection. A connection counts as incoming if a socket of its
 * namespace listens on its local port. The iterator visits listening sockets first.
 */
#ifndef TCCC_POLICY_OPEN_BPF_H
#define TCCC_POLICY_OPEN_BPF_H

#include "policy_socket.bpf.h"

#define LISTENERS_MAX 65536
#define STATE_CLOSE_WAIT 8

struct listener {
	u64 netns_cookie;
	u64 port;
};

struct {
	__uint(type, MAP_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, LISTENERS_MAX);
	__type(key, struct listener);
	__type(value, u8);
} tccc_listeners SEC(".maps");

static __always_inline void ends_of_socket(struct ends *ends, const struct tcp_sock___trace *tp)
{
	const struct sock_common___trace *common = &sk_of(tp)->__sk_common;

	if (common->skc_family == AF_INET) {
		ends->remote_hi = 0;
		ends->remote_lo = mapped(common->skc_daddr);
		ends->local_hi = 0;
		ends->local_lo = mapped(common->skc_rcv_saddr);
	} else {
		const u32 *remote = common->skc_v6_daddr.in6_u.u6_addr32;
		const u32 *local = common->skc_v6_rcv_saddr.in6_u.u6_addr32;

		ends->remote_hi = number_of(remote[0], remote[1]);
		ends->remote_lo = number_of(remote[2], remote[3]);
		ends->local_hi = number_of(local[0], local[1]);
		ends->local_lo = number_of(local[2], local[3]);
	}
	ends->remote_port = bpf_ntohs(common->skc_dport);
	ends->local_port = policy_sk(tp)->__sk_common.skc_num;
}

static __always_inline void note_listener(const struct tcp_sock___trace *tp)
{
	struct listener key = {.netns_cookie = netns_cookie_of(tp), .port = policy_sk(tp)->__sk_common.skc_num};
	u8 yes = 1;

	bpf_map_update_elem(&tccc_listeners, &key, &yes, MAP_ANY);
}

static __always_inline bool has_listener(const struct tcp_sock___trace *tp, u16 port)
{
	struct listener key = {.netns_cookie = netns_cookie_of(tp), .port = port};

	return bpf_map_lookup_elem(&tccc_listeners, &key);
}

static __always_inline bool may_send(u8 state)
{
	return state == STATE_ESTABLISHED || state == STATE_CLOSE_WAIT;
}

/* Returns a connection that may still send, else null. Records a listening socket. */
static __always_inline const struct tcp_sock___trace *open_socket(struct sock_common *common)
{
	const struct tcp_sock___trace *tp = common ? tcp_sock_of(common) : 0;
	u8 state;

	if (!tp)
		return 0;
	state = sk_of(tp)->__sk_common.skc_state;
	if (state == STATE_LISTEN)
		note_listener(tp);
	return may_send(state) ? tp : 0;
}

#endif
