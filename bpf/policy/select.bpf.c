// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which connection gets which algorithm: one sock_ops program at the root of the cgroups decides when a connection is
 * established, and what a sweep over open sockets decides for them. Nothing runs per packet.
 *
 * One generation of a policy is one copy of this object with its tables; the next one takes its place by an update of the
 * cgroup's link, between two connections. Labels of sockets are shared by all generations.
 *
 * The decision is made at ESTABLISHED, not before: only then the algorithm's init runs once and finds an RTT, and a
 * route's algorithm has been chosen already. An algorithm that wants ECN is asked for before, in NEEDS_ECN.
 *
 * A trial is leased: past its lease the program hands over to the generation before, or does nothing where there is none.
 * So connections are decided as before within the lease after whoever renews it has died.
 */
#include "sock_ops.bpf.h"
#include "policy_rules.bpf.h"
#include "policy_cgroup.bpf.h"
#include "trace_socket.bpf.h"

char LICENSE[] SEC("license") = "GPL";

enum { TCP_CONGESTION = 13, SOL_TCP = 6 };
#define ERROR_MISSING (-2) /* ENOENT */
#define ERROR_LOCKED (-1)  /* EPERM */
#define ROUTE_ALGORITHM 15 /* RTAX_CC_ALGO - 1 */
#define ROUTE_FLAGS 3ul	   /* of the address of a route's metrics */

const volatile bool is_leased;

struct {
	__uint(type, MAP_SOCKET_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct policy_label);
} labels SEC(".maps");

/* Until when the trial may decide, CLOCK_BOOTTIME. */
struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} lease SEC(".maps");

/* The generation before. */
struct {
	__uint(type, MAP_PROGRAMS);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} fallback SEC(".maps");

struct policy_counts {
	u64 outcomes[POLICY_OUTCOMES];
	u64 over_route; /* of those set: a route named another algorithm */
};

/* By place in `arms`; the last place counts connections that no rule matched, as kept. */
struct {
	__uint(type, MAP_PERCPU_ARRAY);
	__uint(max_entries, ARMS_MAX + 1);
	__type(key, u32);
	__type(value, struct policy_counts);
} counts SEC(".maps");

static __always_inline void count(u32 arm, u32 outcome, bool is_over_route)
{
	struct policy_counts *counted = bpf_map_lookup_elem(&counts, &arm);

	if (!counted || outcome >= POLICY_OUTCOMES)
		return;
	counted->outcomes[outcome]++;
	counted->over_route += is_over_route;
}

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

static __always_inline void read_current(struct current_key *current, const struct tcp_sock___trace *tp)
{
	__builtin_memset(current, 0, sizeof(*current));
	bpf_probe_read_kernel_str(current->name, sizeof(current->name), icsk_of(tp)->icsk_ca_ops->name);
}

/* The rules that match, by all that a connection shows once it is established. */
static __always_inline u64 rules_of_socket(const struct ends *ends, const struct tcp_sock___trace *tp, bool is_in)
{
	u64 left = (is_in ? rules_in : rules_out) & rules_of_ends(ends);
	struct current_key current;

	if (any_cgroup != ALL_RULES)
		left &= any_cgroup | rules_of_cgroup(sk_of(tp)->sk_cgrp_data.cgroup->kn->id);
	if (any_netns != ALL_RULES)
		left &= rules_of_netns(netns_cookie_of(tp));
	if (any_current != ALL_RULES) {
		read_current(&current, tp);
		left &= rules_of_current(&current);
	}
	return left;
}

/* What a matching rule means for a connection. */
struct decision {
	u32 rule;
	u32 arm;
};

static __always_inline void decide(struct decision *decision, u64 matching, const struct ends *ends)
{
	const volatile struct policy_rule *rule;

	decision->rule = first_of(matching) % RULES_MAX;
	rule = &rules[decision->rule];
	decision->arm = rule->arms > 1 ? arm_of(rule, bucket_of(ends, rule->by, rule->salt))
				       : rule->first_arm % ARMS_MAX;
}

/* Whether the rule leaves the connection alone whatever its arm; POLICY_KEPT: no. */
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

static __always_inline void label(struct policy_label *label, u32 arm, u32 outcome, const struct ends *ends)
{
	label->slot = arms[arm % ARMS_MAX].slot;
	label->outcome = outcome;
	label->fold = fold_of(ends);
}

/* The compiler would read two words of the context as one, which the verifier refuses. */
static __always_inline u64 ctx_number(const volatile __u32 *words)
{
	u32 upper = words[0];
	u32 lower = words[1];

	return number_of(upper, lower);
}

static __always_inline void read_ends(struct ends *ends, struct bpf_sock_ops *ctx)
{
	if (ctx->family == AF_INET) {
		ends->remote_hi = 0;
		ends->remote_lo = mapped(ctx->remote_ip4);
		ends->local_hi = 0;
		ends->local_lo = mapped(ctx->local_ip4);
	} else {
		ends->remote_hi = ctx_number(&ctx->remote_ip6[0]);
		ends->remote_lo = ctx_number(&ctx->remote_ip6[2]);
		ends->local_hi = ctx_number(&ctx->local_ip6[0]);
		ends->local_lo = ctx_number(&ctx->local_ip6[2]);
	}
	ends->remote_port = bpf_ntohl(ctx->remote_port);
	ends->local_port = ctx->local_port;
}

static __always_inline void on_established(struct bpf_sock_ops *ctx, bool is_in)
{
	struct bpf_sock *sk = ctx->sk;
	const struct tcp_sock___trace *tp = sk ? tcp_sock_of(sk) : 0;
	struct current_key before, wanted;
	struct policy_label *mark;
	struct decision decision;
	u32 outcome, flags;
	struct ends ends;
	bool is_over;
	u64 matching;

	if (!sk || !tp)
		return;
	read_ends(&ends, ctx);
	matching = rules_of_socket(&ends, tp, is_in);
	if (!matching) {
		count(ARMS_MAX, POLICY_KEPT, false);
		return;
	}
	decide(&decision, matching, &ends);
	flags = rules[decision.rule].flags;
	outcome = exempt(tp, flags);
	if (outcome != POLICY_KEPT) {
		count(decision.arm, outcome, false);
		return;
	}
	if (!arms[decision.arm].algorithm[0]) {
		count(decision.arm, POLICY_KEPT, false);
		if (!(flags & RULE_LABELS_KEPT))
			return;
		mark = bpf_sk_storage_get(&labels, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
		if (mark)
			label(mark, decision.arm, POLICY_KEPT, &ends);
		return;
	}
	is_over = is_routed(tp);
	read_current(&before, tp);
	__builtin_memcpy(&wanted, (const void *)arms[decision.arm].algorithm, sizeof(wanted));
	outcome = outcome_of(bpf_setsockopt(ctx, SOL_TCP, TCP_CONGESTION, &wanted, sizeof(wanted)));
	count(decision.arm, outcome, is_over && outcome == POLICY_SET);
	mark = bpf_sk_storage_get(&labels, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!mark)
		return;
	label(mark, decision.arm, outcome, &ends);
	__builtin_memcpy(mark->before, before.name, sizeof(mark->before));
}

/*
 * Before the SYN or the SYN-ACK is sent. For the latter there is only a request: its cgroup and algorithm are not known
 * yet, so that where a rule needs them nothing is asked for.
 */
static __always_inline void on_needs_ecn(struct bpf_sock_ops *ctx)
{
	const struct tcp_sock___trace *tp = ctx->sk ? tcp_sock_of(ctx->sk) : 0;
	struct decision decision;
	struct ends ends;
	u64 matching;

	read_ends(&ends, ctx);
	if (tp)
		matching = rules_of_socket(&ends, tp, false);
	else
		matching = rules_in & rules_of_ends(&ends) & rules_of_netns(bpf_get_netns_cookie(ctx));
	if (!matching)
		return;
	decide(&decision, matching, &ends);
	if (!(arms[decision.arm].flags & ARM_WANTS_ECN))
		return;
	if (tp ? exempt(tp, rules[decision.rule].flags) != POLICY_KEPT
	       : !(1ull << decision.rule & any_cgroup & any_current))
		return;
	ctx->args[0] = 1; /* the reply */
}

/* False: another generation decided, or nobody. */
static __always_inline bool holds_lease(struct bpf_sock_ops *ctx)
{
	const u64 *until_ns;
	u32 zero = 0;

	if (!is_leased)
		return true;
	until_ns = bpf_map_lookup_elem(&lease, &zero);
	if (until_ns && bpf_ktime_get_boot_ns() < *until_ns)
		return true;
	bpf_tail_call(ctx, &fallback, 0);
	return false;
}

SEC("sockops")
int select_algorithm(struct bpf_sock_ops *ctx)
{
	switch (ctx->op) {
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
		if (holds_lease(ctx))
			on_established(ctx, false);
		break;
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		if (holds_lease(ctx))
			on_established(ctx, true);
		break;
	case BPF_SOCK_OPS_NEEDS_ECN:
		if (rules_ecn && holds_lease(ctx))
			on_needs_ecn(ctx);
		break;
	}
	return 1;
}
