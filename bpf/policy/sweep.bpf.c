// SPDX-License-Identifier: GPL-2.0-only
/*
 * Iterators over open sockets under a policy. tccc_sight shows what the rules decide for each socket now. tccc_label
 * shows the rule and arm in its label. tccc_older counts the sockets that tccc_move would change. tccc_move gives each
 * socket the algorithm of its rule.
 */
#include "policy_open.bpf.h"
#include "policy_count.bpf.h"

char LICENSE[] SEC("license") = "GPL";

#define NO_RULE 0xffu

/* A socket, as src/host/policy/migrate.rs reads it. */
struct policy_sight {
	u64 cookie;
	u64 cgroup;
	u64 netns_cookie;
	u64 remote_hi;
	u64 remote_lo;
	u64 local_hi;
	u64 local_lo;
	u64 matching; /* set of rules that match */
	u32 netns;
	u32 slot;
	u16 remote_port;
	u16 local_port;
	u8 is_in;
	u8 is_chosen;
	u8 is_routed;
	u8 outcome;
	u8 is_labelled;
	u8 arm; /* index in `arms` of what the rules decide now */
	u8 is_ours;
	u8 pad;
	u32 code; /* id of the struct_ops map of its algorithm; 0 for the kernel's own */
	char algorithm[POLICY_NAME];
	char before[POLICY_NAME];
};

/* A labelled socket, as src/host/policy/label.rs reads it. */
struct policy_mark {
	u64 cookie;
	u32 slot;
	u32 is_ours; /* open, and tccc set an algorithm */
};

/* Unused: variables put the types of rows into the skeleton. */
struct policy_sight *sight_type;
struct policy_mark *mark_type;

/* Results of tccc_move. */
struct policy_moves {
	u64 seen;
	u64 moved;
	u64 already;
	u64 chosen;
	u64 failed;
};

struct policy_moves moves;

/* Name of the algorithm below. Set before loading, because names are global and two instances may run at once. */
char reset_name[POLICY_NAME];

/* CO-RE matches an enumeration only with one of the same name, not with an integer. */
enum bpf_map_type___policy { ANY_MAP_TYPE___policy };

struct bpf_map___policy {
	enum bpf_map_type___policy map_type;
	u32 id;
} KERNEL_TYPE;

struct bpf_struct_ops_value___policy {
	char data[0];
} KERNEL_TYPE;

struct bpf_struct_ops_map___policy {
	struct bpf_map___policy map;
	struct bpf_struct_ops_value___policy kvalue;
} KERNEL_TYPE;

/*
 * Sockets with the same algorithm name may run code of different generations. The struct_ops map that contains the ops
 * table tells them apart. Linux 6.1 does not show the type of that map, but it cannot replace code under a name either.
 */
static __always_inline u32 code_of(const struct tcp_sock___trace *tp)
{
	const struct bpf_struct_ops_map___policy *map;
	u64 before;

	if (!bpf_core_field_exists(struct bpf_struct_ops_map___policy, kvalue))
		return 0;
	before = bpf_core_field_offset(struct bpf_struct_ops_map___policy, kvalue) +
		 bpf_core_field_offset(struct bpf_struct_ops_value___policy, data);
	map = (void *)((u64)icsk_of(tp)->icsk_ca_ops - before);
	return BPF_CORE_READ(map, map.map_type) == MAP_STRUCT_OPS ? BPF_CORE_READ(map, map.id) : 0;
}

static __always_inline void fill_sight(struct policy_sight *sight, const struct ends *ends,
				       const struct tcp_sock___trace *tp)
{
	sight->cgroup = sk_of(tp)->sk_cgrp_data.cgroup->kn->id;
	sight->netns_cookie = netns_cookie_of(tp);
	sight->netns = netns_of(sk_of(tp));
	sight->remote_hi = ends->remote_hi;
	sight->remote_lo = ends->remote_lo;
	sight->local_hi = ends->local_hi;
	sight->local_lo = ends->local_lo;
	sight->remote_port = ends->remote_port;
	sight->local_port = ends->local_port;
	sight->is_chosen = is_chosen(tp);
	sight->is_routed = is_routed(tp);
	sight->code = code_of(tp);
	read_algorithm(sight->algorithm, tp);
}

SEC("iter/tcp")
int tccc_sight(struct bpf_iter__tcp___trace *ctx)
{
	struct sock_common *common = ctx->sk_common;
	const struct tcp_sock___trace *tp = open_socket(common);
	struct policy_sight sight = {};
	struct policy_label *mark;
	struct decision decision;
	struct policy_name now;
	struct ends ends;

	if (!tp)
		return 0;
	ends_of_socket(&ends, tp);
	fill_sight(&sight, &ends, tp);
	sight.cookie = bpf_get_socket_cookie(common);
	sight.is_in = has_listener(tp, ends.local_port);
	mark = label_of(common);
	sight.matching = rules_of_socket(&ends, tp, sight.is_in, mark);
	if (sight.matching) {
		decide(&decision, sight.matching, &ends);
		sight.arm = decision.arm;
	}
	if (mark) {
		read_current(&now, tp);
		sight.is_labelled = 1;
		sight.is_ours = is_ours(mark, &now);
		sight.slot = mark->slot;
		sight.outcome = mark->outcome;
		__builtin_memcpy(sight.before, &mark->before, sizeof(sight.before));
	}
	bpf_seq_write(ctx->meta->seq, &sight, sizeof(sight));
	return 0;
}

struct bpf_iter__bpf_sk_storage_map___policy {
	struct bpf_iter_meta___trace *meta;
	struct sock *sk;
	struct policy_label *value;
} KERNEL_TYPE;

SEC("iter/bpf_sk_storage_map")
int tccc_label(struct bpf_iter__bpf_sk_storage_map___policy *ctx)
{
	const struct policy_label *value = ctx->value;
	struct sock *sk = ctx->sk;
	struct policy_mark mark;

	if (!sk || !value || value->version != POLICY_LABEL_VERSION)
		return 0;
	mark.cookie = bpf_get_socket_cookie(sk);
	mark.slot = value->slot;
	mark.is_ours = value->given.text[0] && may_send(sk->__sk_common.skc_state);
	bpf_seq_write(ctx->meta->seq, &mark, sizeof(mark));
	return 0;
}

/* True if the algorithm leaves its pacing rate and request behind. A limit that the application set stays. */
static __always_inline bool leaves_pacing(const struct tcp_sock___trace *tp)
{
	return policy_sk(tp)->sk_pacing_status == SK_PACING_NEEDED && policy_sk(tp)->sk_max_pacing_rate == ~0ul;
}

static __always_inline long move(const struct tcp_sock___trace *tp, struct policy_name *wanted)
{
	struct policy_name reset;

	if (leaves_pacing(tp)) {
		__builtin_memcpy(&reset, reset_name, sizeof(reset));
		bpf_setsockopt((void *)tp, SOL_TCP, TCP_CONGESTION, &reset, sizeof(reset));
	}
	return bpf_setsockopt((void *)tp, SOL_TCP, TCP_CONGESTION, wanted, sizeof(*wanted));
}

/* True if a rule decides, and its arm names an algorithm. */
static __always_inline bool gives(const struct decision *decision)
{
	return decision->rule != NO_RULE && arms[decision->arm % ARMS_MAX].algorithm[0];
}

/* Connections that have another algorithm than their rule gives, because they are older than its generation. By rule. */
u64 older[RULES_MAX];

SEC("iter/tcp")
int tccc_older(struct bpf_iter__tcp___trace *ctx)
{
	struct sock_common *common = ctx->sk_common;
	const struct tcp_sock___trace *tp = open_socket(common);
	struct policy_name now, wanted;
	struct policy_label *mark;
	struct decision decision;
	struct ends ends;
	u64 matching;

	if (!tp)
		return 0;
	ends_of_socket(&ends, tp);
	mark = label_of(common);
	matching = rules_of_socket(&ends, tp, has_listener(tp, ends.local_port), mark);
	if (!matching || (mark && mark->generation == generation))
		return 0;
	decide(&decision, matching, &ends);
	read_current(&now, tp);
	if (!gives(&decision) ||
	    (!is_ours(mark, &now) && exempt(tp, rules[decision.rule % RULES_MAX].flags) != POLICY_KEPT))
		return 0;
	read_algorithm_of(&wanted, &arms[decision.arm % ARMS_MAX]);
	if (!is_same(&wanted, &now))
		older[decision.rule % RULES_MAX]++;
	return 0;
}

/* Sets `wanted` to the algorithm of the rule's arm, else to the one before the policy. False if neither applies. */
static __always_inline bool want(struct policy_name *wanted, const struct decision *decision,
				 const struct policy_label *mark, const struct policy_name *now)
{
	if (gives(decision))
		read_algorithm_of(wanted, &arms[decision->arm % ARMS_MAX]);
	else if (is_ours(mark, now))
		__builtin_memcpy(wanted, &mark->before, sizeof(*wanted));
	else
		return false;
	return true;
}

/*
 * Labels a connection that keeps its algorithm, if its rule compares such connections with those that move. So counting
 * begins at the same moment in both arms.
 */
static __always_inline void label_unmoved(struct sock_common *common, const struct decision *decision,
					  const struct ends *ends, u32 outcome)
{
	const struct tcp_sock___trace *tp = tcp_sock_of(common);
	struct policy_label *mark;

	if (!tp || decision->rule == NO_RULE || !(rules[decision->rule % RULES_MAX].flags & RULE_LABELS_KEPT))
		return;
	mark = label_for(common);
	if (!mark || mark->generation == generation) /* this generation already decided at ESTABLISHED */
		return;
	label(mark, decision, outcome, ends);
	note_counts(&mark->counted, tp);
}

SEC("iter/tcp")
int tccc_move(struct bpf_iter__tcp___trace *ctx)
{
	struct sock_common *common = ctx->sk_common;
	const struct tcp_sock___trace *tp = open_socket(common);
	struct decision decision = {.rule = NO_RULE};
	struct policy_name now, wanted;
	struct policy_label *mark;
	struct ends ends;
	u64 matching;
	u32 outcome;

	if (!tp)
		return 0;
	moves.seen++;
	ends_of_socket(&ends, tp);
	read_current(&now, tp);
	mark = label_of(common);
	matching = rules_of_socket(&ends, tp, has_listener(tp, ends.local_port), mark);
	if (matching) {
		decide(&decision, matching, &ends);
		if (!is_ours(mark, &now) && exempt(tp, rules[decision.rule % RULES_MAX].flags) != POLICY_KEPT) {
			moves.chosen++;
			return 0;
		}
	}
	if (!want(&wanted, &decision, mark, &now)) {
		label_unmoved(common, &decision, &ends, POLICY_KEPT);
		return 0;
	}
	if (is_same(&wanted, &now)) {
		moves.already++;
		label_unmoved(common, &decision, &ends,
			      gives(&decision) && is_ours(mark, &now) ? POLICY_SET : POLICY_KEPT);
		return 0;
	}
	outcome = outcome_of(move(tp, &wanted));
	if (outcome != POLICY_SET) {
		moves.failed++;
		return 0;
	}
	moves.moved++;
	mark = label_for(common);
	if (!mark)
		return 0;
	if (!is_ours(mark, &now))
		__builtin_memcpy(&mark->before, &now, sizeof(mark->before));
	if (decision.rule == NO_RULE) {
		mark->slot = 0;
		mark->outcome = POLICY_KEPT;
	} else {
		label(mark, &decision, gives(&decision) ? POLICY_SET : POLICY_KEPT, &ends);
		note_counts(&mark->counted, tp);
	}
	__builtin_memcpy(&mark->given, &wanted, sizeof(mark->given));
	return 0;
}

/* Name for tccc_refresh. Not const, because the compiler would copy the zeros that it sees at build time. */
struct policy_name refreshed;
/* Also refreshes connections, not only listening sockets. */
const volatile bool refreshes_open;

struct policy_refreshes {
	u64 listening;
	u64 open;
	u64 failed;
};

struct policy_refreshes refreshes;

/*
 * After an upgrade, a socket that chose the name earlier runs the old code until the name is set again. A listening
 * socket would pass the old code on to every connection that it accepts. A socket that chose nothing uses the default,
 * which needs no refresh. Setting the name there would count as a choice and outlast a change of the default.
 */
SEC("iter/tcp")
int tccc_refresh(struct bpf_iter__tcp___trace *ctx)
{
	struct sock_common *common = ctx->sk_common;
	const struct tcp_sock___trace *tp = common ? tcp_sock_of(common) : 0;
	struct policy_name now, wanted;
	bool is_listening;

	if (!tp)
		return 0;
	is_listening = sk_of(tp)->__sk_common.skc_state == STATE_LISTEN;
	if (!is_listening && !(refreshes_open && open_socket(common)))
		return 0;
	read_current(&now, tp);
	__builtin_memcpy(&wanted, &refreshed, sizeof(wanted));
	if (!is_same(&now, &wanted) || (is_listening && !is_chosen(tp)))
		return 0;
	if (bpf_setsockopt((void *)tp, SOL_TCP, TCP_CONGESTION, &wanted, sizeof(wanted)))
		refreshes.failed++;
	else if (is_listening)
		refreshes.listening++;
	else
		refreshes.open++;
	return 0;
}

/* An algorithm that is set for a moment between two others, to clear the pacing of the previous one. */
SEC("struct_ops")
void BPF_PROG(reset_init, struct sock *sk)
{
	sk->sk_pacing_status = SK_PACING_NONE;
	sk->sk_pacing_rate = ~0ul;
}

SEC("struct_ops")
__u32 BPF_PROG(reset_ssthresh, struct sock *sk)
{
	return ((struct tcp_sock *)sk)->snd_ssthresh;
}

SEC("struct_ops")
__u32 BPF_PROG(reset_undo_cwnd, struct sock *sk)
{
	return ((struct tcp_sock *)sk)->snd_cwnd;
}

SEC("struct_ops")
void BPF_PROG(reset_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
}

SEC(".struct_ops")
struct tcp_congestion_ops pacing_reset = {
	.init = (void *)reset_init,
	.ssthresh = (void *)reset_ssthresh,
	.undo_cwnd = (void *)reset_undo_cwnd,
	.cong_avoid = (void *)reset_cong_avoid,
	.name = "tccc_reset",
};
