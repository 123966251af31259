/* SPDX-License-Identifier: GPL-2.0-only */
/* How a policy reads a socket, decides about it and labels it. Shared by the deciding program and the sweeps. */
#ifndef TCCC_POLICY_SOCKET_BPF_H
#define TCCC_POLICY_SOCKET_BPF_H

#include "policy_rules.bpf.h"
#include "policy_cgroup.bpf.h"
#include "policy_labels.bpf.h"
#include "trace_socket.bpf.h"

enum { TCP_CONGESTION = 13, SOL_TCP = 6 };
#define ERROR_MISSING (-2) /* ENOENT */
#define ERROR_LOCKED (-1)  /* EPERM */
#define ROUTE_ALGORITHM 15 /* RTAX_CC_ALGO - 1 */
#define ROUTE_FLAGS 3ul	   /* the low bits of the pointer to a route's metrics are flags */

static __always_inline const struct sock___policy *policy_sk(const struct tcp_sock___trace *tp)
{
	return (const struct sock___policy *)tp;
}

static __always_inline bool is_chosen(const struct tcp_sock___trace *tp)
{
	const struct inet_connection_sock___policy *icsk = (const void *)icsk_of(tp);

	return BPF_CORE_READ_BITFIELD(icsk, icsk_ca_setsockopt);
}

/* Whether the connection's route names an algorithm (ip route ... congctl). */
static __always_inline bool is_routed(const struct tcp_sock___trace *tp)
{
	const struct dst_entry___policy *dst = policy_sk(tp)->sk_dst_cache;
	unsigned long metrics = dst ? dst->_metrics & ~ROUTE_FLAGS : 0;
	u32 key = 0;

	if (metrics)
		bpf_probe_read_kernel(&key, sizeof(key), (const u32 *)metrics + ROUTE_ALGORITHM);
	return key;
}

static __always_inline u64 netns_cookie_of(const struct tcp_sock___trace *tp)
{
	return BPF_CORE_READ(policy_sk(tp), __sk_common.skc_net.net, net_cookie);
}

static __always_inline void read_current(struct policy_name *current, const struct tcp_sock___trace *tp)
{
	__builtin_memset(current, 0, sizeof(*current));
	bpf_probe_read_kernel_str(current->text, sizeof(current->text), icsk_of(tp)->icsk_ca_ops->name);
}

static __always_inline bool is_same(const struct policy_name *one, const struct policy_name *other)
{
	typedef u64 __attribute__((may_alias)) word;
	const word *left = (const word *)one, *right = (const word *)other;

	return left[0] == right[0] && left[1] == right[1];
}

/* True if tccc set the connection's present algorithm, for a rule or to give back the one before. */
static __always_inline bool is_ours(const struct policy_label *mark, const struct policy_name *now)
{
	return mark && mark->given.text[0] && is_same(&mark->given, now);
}

/*
 * The rules that match an established connection. A rule's `current` is about the algorithm that the connection would
 * have without a policy. Otherwise a rule would no longer match the connections that it has moved.
 */
static __always_inline u64 rules_of_socket(const struct ends *ends, const struct tcp_sock___trace *tp, bool is_in,
					   const struct policy_label *mark)
{
	u64 left = (is_in ? rules_in : rules_out) & rules_of_ends(ends);
	struct policy_name current;

	if (any_cgroup != ALL_RULES)
		left &= any_cgroup | rules_of_cgroup(sk_of(tp)->sk_cgrp_data.cgroup->kn->id);
	if (any_netns != ALL_RULES)
		left &= rules_of_netns(netns_cookie_of(tp));
	if (any_current != ALL_RULES) {
		read_current(&current, tp);
		if (is_ours(mark, &current))
			__builtin_memcpy(&current, &mark->before, sizeof(current));
		left &= rules_of_current(&current);
	}
	return left;
}

/* A rule that matches a connection, and the arm it gives. */
struct decision {
	u32 rule;
	u32 arm;
	u32 unit;
};

static __always_inline void decide(struct decision *decision, u64 matching, const struct ends *ends)
{
	const volatile struct policy_rule *rule;
	u64 hash;

	decision->rule = first_of(matching) % RULES_MAX;
	rule = &rules[decision->rule];
	hash = split_hash_of(ends, rule->by, rule->salt);
	decision->arm = arm_of(rule, bucket_of(hash));
	decision->unit = unit_of(hash);
}

/* Why the rule leaves the connection alone in every arm. POLICY_KEPT if it does not. */
static __always_inline u32 exempt(const struct tcp_sock___trace *tp, u32 flags)
{
	if (!(flags & RULE_OVERRIDES) && is_chosen(tp))
		return POLICY_CHOSEN;
	if (!(flags & RULE_OVERRIDES_ROUTE) && is_routed(tp))
		return POLICY_ROUTED;
	return POLICY_KEPT;
}

static __always_inline u32 outcome_of(long error)
{
	switch (error) {
	case 0:
		return POLICY_SET;
	case ERROR_LOCKED:
		return POLICY_LOCKED;
	case ERROR_MISSING:
		return POLICY_MISSING;
	default:
		return POLICY_FAILED;
	}
}

const volatile u32 generation;

static __always_inline void label(struct policy_label *label, const struct decision *decision, u32 outcome,
				  const struct ends *ends)
{
	label->slot = arms[decision->arm % ARMS_MAX].slot;
	label->unit = decision->unit;
	label->outcome = outcome;
	label->fold = fold_of(ends);
	label->generation = generation;
	/* A socket that connects again starts at 0, and so must the counts in its label. */
	__builtin_memset(&label->counted, 0, sizeof(label->counted));
}

#endif
