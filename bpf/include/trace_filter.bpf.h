/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The tracer's filter, which decides once per socket. It has one map per kind of value, filled by src/host/trace/program.rs.
 * A socket passes if each kind that is set has a matching value.
 */
#ifndef TCCC_TRACE_FILTER_BPF_H
#define TCCC_TRACE_FILTER_BPF_H

#include "trace_kernel.bpf.h"
#include "trace_event.h"
#include <bpf/bpf_endian.h>

/* The filters that are set. A filter that is not set passes every socket. */
#define FILTER_PORT 1u
#define FILTER_ADDRESS 2u
#define FILTER_ALGORITHM 4u
#define FILTER_CGROUP 8u
#define FILTER_NETNS 16u

#define CGROUP_DEPTH 32	 /* cgroups nested deeper than this are matched by their 32 nearest ancestors */
#define ADDRESS_BITS 128 /* IPv4 addresses are matched in their mapped form, ::ffff:a.b.c.d */
#define MAPPED_PREFIX 0xffff

const volatile u32 filters;

struct address_key {
	u32 prefix_bits;
	u32 words[4]; /* network byte order */
};

struct algorithm_key {
	char name[TCCC_ALGORITHM_NAME];
};

struct {
	__uint(type, MAP_HASH);
	__uint(max_entries, 1);
	__type(key, u16);
	__type(value, u8);
} tccc_f_ports SEC(".maps");

struct {
	__uint(type, MAP_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct address_key);
	__type(value, u8);
} tccc_f_addrs SEC(".maps");

struct {
	__uint(type, MAP_HASH);
	__uint(max_entries, 1);
	__type(key, struct algorithm_key);
	__type(value, u8);
} tccc_f_algos SEC(".maps");

struct {
	__uint(type, MAP_HASH);
	__uint(max_entries, 1);
	__type(key, u64);
	__type(value, u8);
} tccc_f_cgroups SEC(".maps");

struct {
	__uint(type, MAP_HASH);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u8);
} tccc_f_netns SEC(".maps");

static __always_inline const struct inet_connection_sock___trace *icsk_of(const struct tcp_sock___trace *tp)
{
	return &tp->inet_conn;
}

static __always_inline const struct sock___trace *sk_of(const struct tcp_sock___trace *tp)
{
	return &tp->inet_conn.icsk_inet.sk;
}

/* Pointers of a socket are read by the helper, because the verifier cannot check pointers of a copied socket. */
static __always_inline u32 netns_of(const struct sock___trace *sk)
{
	return BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum);
}

static __always_inline void read_algorithm(char *name, const struct tcp_sock___trace *tp)
{
	__builtin_memset(name, 0, TCCC_ALGORITHM_NAME);
	bpf_probe_read_kernel_str(name, TCCC_ALGORITHM_NAME, icsk_of(tp)->icsk_ca_ops->name);
}

static __always_inline bool port_passes(const struct tcp_sock___trace *tp)
{
	u16 local = bpf_ntohs(tp->inet_conn.icsk_inet.inet_sport);
	u16 remote = bpf_ntohs(sk_of(tp)->__sk_common.skc_dport);

	return bpf_map_lookup_elem(&tccc_f_ports, &local) || bpf_map_lookup_elem(&tccc_f_ports, &remote);
}

static __always_inline void set_address_v4(struct address_key *key, u32 address)
{
	key->words[0] = 0;
	key->words[1] = 0;
	key->words[2] = bpf_htonl(MAPPED_PREFIX);
	key->words[3] = address;
}

static __always_inline void set_address_v6(struct address_key *key, const struct in6_addr___trace *address)
{
	for (int i = 0; i < 4; i++)
		key->words[i] = address->in6_u.u6_addr32[i];
}

static __always_inline bool address_passes(const struct tcp_sock___trace *tp)
{
	const struct sock_common___trace *common = &sk_of(tp)->__sk_common;
	bool is_v4 = common->skc_family == AF_INET;
	struct address_key key = {.prefix_bits = ADDRESS_BITS};

	if (is_v4)
		set_address_v4(&key, common->skc_rcv_saddr);
	else
		set_address_v6(&key, &common->skc_v6_rcv_saddr);
	if (bpf_map_lookup_elem(&tccc_f_addrs, &key))
		return true;
	if (is_v4)
		set_address_v4(&key, common->skc_daddr);
	else
		set_address_v6(&key, &common->skc_v6_daddr);
	return bpf_map_lookup_elem(&tccc_f_addrs, &key);
}

static __always_inline bool algorithm_passes(const struct tcp_sock___trace *tp)
{
	struct algorithm_key key;

	read_algorithm(key.name, tp);
	return bpf_map_lookup_elem(&tccc_f_algos, &key);
}

/* True if the filter names the socket's cgroup or one of its ancestors. */
static __always_inline bool cgroup_passes(const struct tcp_sock___trace *tp)
{
	const struct cgroup___trace *cgroup = sk_of(tp)->sk_cgrp_data.cgroup;

	for (int depth = 0; depth < CGROUP_DEPTH && cgroup; depth++) {
		const struct cgroup_subsys_state___trace *parent = BPF_CORE_READ(cgroup, self.parent);
		u64 id = BPF_CORE_READ(cgroup, kn, id);

		if (bpf_map_lookup_elem(&tccc_f_cgroups, &id))
			return true;
		if (!parent)
			return false;
		cgroup = BPF_CORE_READ(parent, cgroup);
	}
	return false;
}

static __always_inline bool netns_passes(const struct tcp_sock___trace *tp)
{
	u32 inode = netns_of(sk_of(tp));

	return bpf_map_lookup_elem(&tccc_f_netns, &inode);
}

/* Checks only what never changes during a connection. A connection that fails here never passes. */
static __always_inline bool ends_pass(const struct tcp_sock___trace *tp)
{
	if ((filters & FILTER_PORT) && !port_passes(tp))
		return false;
	return !(filters & FILTER_ADDRESS) || address_passes(tp);
}

static __always_inline bool filter_passes(const struct tcp_sock___trace *tp)
{
	if ((filters & FILTER_NETNS) && !netns_passes(tp))
		return false;
	if (!ends_pass(tp))
		return false;
	if ((filters & FILTER_ALGORITHM) && !algorithm_passes(tp))
		return false;
	return !(filters & FILTER_CGROUP) || cgroup_passes(tp);
}

#endif
