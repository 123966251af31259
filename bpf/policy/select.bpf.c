// SPDX-License-Identifier: GPL-2.0-only
/*
 * Chooses the algorithm of each connection. One sock_ops program at the root cgroup decides once, when a connection is
 * established. For connections that are already open, a sweep decides (sweep.bpf.c). Nothing runs per packet.
 *
 * Each generation of a policy is a copy of this object with tables of its own. Updating the cgroup's link replaces it,
 * and no connection is left undecided. All generations share the labels of sockets.
 *
 * The decision comes at ESTABLISHED, not before. Only then does the algorithm's init run exactly once and have an RTT,
 * and the kernel has already applied the route's algorithm. ECN for an algorithm that wants it is requested before, in
 * NEEDS_ECN.
 *
 * A trial has a lease. When the lease has expired, the program calls the previous generation, or does nothing if there
 * is none. So if the guard that renews the lease dies, new connections are soon decided as before.
 */
#include "sock_ops.bpf.h"
#include "policy_socket.bpf.h"

char LICENSE[] SEC("license") = "GPL";

const volatile bool is_leased;

/* End of the trial's lease, CLOCK_BOOTTIME. */
struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} tccc_lease SEC(".maps");

/* The previous generation. */
struct {
	__uint(type, MAP_PROGRAMS);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} tccc_fallback SEC(".maps");

struct policy_counts {
	u64 outcomes[POLICY_OUTCOMES];
	u64 over_route; /* connections among POLICY_SET whose route names another algorithm */
};

/* Indexed as `arms`. The last entry counts connections that no rule matched, as kept. */
struct {
	__uint(type, MAP_PERCPU_ARRAY);
	__uint(max_entries, ARMS_MAX + 1);
	__type(key, u32);
	__type(value, struct policy_counts);
} tccc_counts SEC(".maps");

static __always_inline void count(u32 arm, u32 outcome, bool is_over_route)
{
	struct policy_counts *counted = bpf_map_lookup_elem(&tccc_counts, &arm);

	if (!counted || outcome >= POLICY_OUTCOMES)
		return;
	counted->outcomes[outcome]++;
	counted->over_route += is_over_route;
}

/* Reads two words separately. The compiler would merge the loads, which the verifier refuses for a context. */
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
	struct policy_name now, wanted;
	struct policy_label *mark;
	struct decision decision;
	u32 outcome, flags;
	struct ends ends;
	bool is_over;
	u64 matching;

	if (!sk || !tp)
		return;
	read_ends(&ends, ctx);
	mark = label_of(sk); /* of an earlier connection of the socket */
	matching = rules_of_socket(&ends, tp, is_in, mark);
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
		mark = label_for(sk);
		if (mark)
			label(mark, &decision, POLICY_KEPT, &ends);
		return;
	}
	is_over = is_routed(tp);
	read_current(&now, tp);
	read_algorithm_of(&wanted, &arms[decision.arm]);
	outcome = outcome_of(bpf_setsockopt(ctx, SOL_TCP, TCP_CONGESTION, &wanted, sizeof(wanted)));
	count(decision.arm, outcome, is_over && outcome == POLICY_SET);
	mark = label_for(sk);
	if (!mark)
		return;
	label(mark, &decision, outcome, &ends);
	if (!is_ours(mark, &now))
		__builtin_memcpy(&mark->before, &now, sizeof(mark->before));
	if (outcome == POLICY_SET)
		__builtin_memcpy(&mark->given, &wanted, sizeof(mark->given));
}

/*
 * Called before the SYN or the SYN-ACK is sent. Before a SYN-ACK there is only a request socket, whose cgroup and
 * algorithm are still unknown. ECN is not requested if the rule needs them.
 */
static __always_inline void on_needs_ecn(struct bpf_sock_ops *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	const struct tcp_sock___trace *tp = sk ? tcp_sock_of(sk) : 0;
	struct decision decision;
	struct ends ends;
	u64 matching;

	read_ends(&ends, ctx);
	if (sk && tp)
		matching = rules_of_socket(&ends, tp, false, label_of(sk));
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

/* Whether this generation decides. If its lease has expired, the previous generation decides instead, or none. */
static __always_inline bool holds_lease(struct bpf_sock_ops *ctx)
{
	const u64 *until_ns;
	u32 zero = 0;

	if (!is_leased)
		return true;
	until_ns = bpf_map_lookup_elem(&tccc_lease, &zero);
	if (until_ns && bpf_ktime_get_boot_ns() < *until_ns)
		return true;
	bpf_tail_call(ctx, &tccc_fallback, 0);
	return false;
}

SEC("sockops")
int tccc_select(struct bpf_sock_ops *ctx)
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
		if (holds_lease(ctx) && rules_ecn)
			on_needs_ecn(ctx);
		break;
	}
	return 1;
}

/*
 * A service gets a cgroup with a new id at each start. These programs update the ids, so rules by cgroup survive
 * restarts. The kernel reports a new cgroup before anything can enter it, and its end after its last socket is gone.
 */
#define CGROUP_NAME 128
#define ANYWHERE 0 /* the node of a name that may be anywhere: a systemd unit */
#define HIERARCHY_V2 0

/* Name of a cgroup that a rule waits for, below a node or anywhere. */
struct awaited_key {
	u32 node;
	char name[CGROUP_NAME];
};

struct {
	__uint(type, MAP_HASH);
	__uint(max_entries, 1);
	__type(key, struct awaited_key);
	__type(value, struct cgroup_place);
} tccc_awaited SEC(".maps");

/* Scratch memory, because a key does not fit on the stack. */
struct {
	__uint(type, MAP_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct awaited_key);
} tccc_await_tmp SEC(".maps");

/* Number of cgroups for which the map has no room. For connections in them, no rule by cgroup matches. */
struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} tccc_missed SEC(".maps");

static __always_inline void count_missed(void)
{
	u32 zero = 0;
	u64 *count = bpf_map_lookup_elem(&tccc_missed, &zero);

	if (count)
		__sync_fetch_and_add(count, 1);
}

static __always_inline void add_awaited(struct cgroup_place *place, struct awaited_key *key, u32 node)
{
	const struct cgroup_place *awaits;

	key->node = node;
	awaits = bpf_map_lookup_elem(&tccc_awaited, key);
	if (!awaits)
		return;
	place->rules |= awaits->rules;
	if (awaits->node)
		place->node = awaits->node;
}

/* False if the name is too long for any rule. */
static __always_inline bool read_name(struct awaited_key *key, const char *name)
{
	char end = 0;

	if (bpf_probe_read_kernel_str(key->name, CGROUP_NAME, name) < CGROUP_NAME)
		return true;
	bpf_probe_read_kernel(&end, sizeof(end), name + CGROUP_NAME - 1);
	return !end;
}

static __always_inline struct cgroup___policy *policy_cgroup(struct cgroup *cgroup)
{
	return (struct cgroup___policy *)cgroup;
}

SEC("tp_btf/cgroup_mkdir")
int BPF_PROG(tccc_cg_mkdir, struct cgroup *created)
{
	struct cgroup___policy *cgroup = policy_cgroup(created);
	const struct cgroup_place *parent;
	struct cgroup_place place = {};
	struct awaited_key *key;
	bool has_name;
	u32 zero = 0;
	u64 id;

	if (cgroup->root->hierarchy_id != HIERARCHY_V2)
		return 0;
	key = bpf_map_lookup_elem(&tccc_await_tmp, &zero);
	if (!key)
		return 0;
	__builtin_memset(key, 0, sizeof(*key));
	has_name = read_name(key, cgroup->kn->name);
	id = BPF_CORE_READ(cgroup, self.parent, cgroup, kn, id);
	parent = bpf_map_lookup_elem(&tccc_cgroups, &id);
	if (parent)
		place.rules = parent->rules;
	if (has_name)
		add_awaited(&place, key, ANYWHERE);
	if (has_name && parent && parent->node)
		add_awaited(&place, key, parent->node);
	if (!place.rules && !place.node)
		return 0;
	id = cgroup->kn->id;
	if (bpf_map_update_elem(&tccc_cgroups, &id, &place, MAP_ANY))
		count_missed();
	return 0;
}

SEC("tp_btf/cgroup_release")
int BPF_PROG(tccc_cg_release, struct cgroup *released)
{
	struct cgroup___policy *cgroup = policy_cgroup(released);
	u64 id;

	if (cgroup->root->hierarchy_id != HIERARCHY_V2)
		return 0;
	id = cgroup->kn->id;
	bpf_map_delete_elem(&tccc_cgroups, &id);
	return 0;
}
