// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sums over the connections of each arm of a policy, by fold (a hash of the peer). The guard judges by these sums.
 *
 * A sweep over the labelled sockets adds what each connection did since its last count. The end of a connection adds
 * the rest. Long flows therefore count before they end. Nothing runs per packet. Only connections that the generation
 * on trial decided are counted, so both arms begin at the same moment.
 */
#include "policy_count.bpf.h"
#include "policy_labels.bpf.h"

char LICENSE[] SEC("license") = "GPL";

const volatile u32 judged_generation;

struct guard_key {
	u32 slot;
	u32 fold;
};

/* src/host/trial/arms.rs reads these fields. */
struct guard_cell {
	u64 connections;
	u64 bytes_acked;
	u64 busy_ticks;
	u64 sent_pkts;
	u64 retrans_pkts;
	u64 timeouts;
	u64 inflation; /* sum of log2(srtt / min_rtt), in 1/65536 */
	u64 looks;     /* number of terms in `inflation`: counts of connections with an RTT and new deliveries */
	u64 ended;
	u64 abnormal;
	u64 units; /* distinct units of the split: what the rule splits by */
	u64 active; /* counts, other than a connection's first, of connections that had sent data since their previous count */
};

/* User space creates the cells. A connection without a cell is not judged. */
struct {
	__uint(type, MAP_HASH);
	__uint(max_entries, 1);
	__type(key, struct guard_key);
	__type(value, struct guard_cell);
} tccc_cells SEC(".maps");

/*
 * The units that were counted, one bit each: many connections may be of one unit, because a peer has few ports or comes
 * back. Units that share a bit count once. How often they do depends on how full the map is, not on the arm, so every
 * arm loses the same share of its units.
 */
#define UNIT_BITS 22
#define UNIT_WORD_BITS 6 /* of a 64-bit word */

struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, 1u << (UNIT_BITS - UNIT_WORD_BITS));
	__type(key, u32);
	__type(value, u64);
} tccc_units SEC(".maps");

static __always_inline bool is_new_unit(u32 unit)
{
	u32 place = unit << (32 - UNIT_BITS) >> (32 - UNIT_BITS + UNIT_WORD_BITS);
	u64 bit = 1ull << (unit & ((1u << UNIT_WORD_BITS) - 1));
	u64 *word = bpf_map_lookup_elem(&tccc_units, &place);

	return word && !(*word & bit) && !(__sync_fetch_and_or(word, bit) & bit);
}

#define LOG_BITS 16
#define LOG_WIDTH 31 /* fraction bits of the mantissa */

/* log2 of a number above 0, in 1/65536, rounded down. Each squaring of the mantissa gives one bit. */
static __always_inline u64 log2_fixed(u32 number)
{
	u64 result, mantissa;
	u32 whole = 0;

	for (u32 bits = 16; bits; bits >>= 1) {
		if (number >> bits >> whole)
			whole += bits;
	}
	result = (u64)whole << LOG_BITS;
	mantissa = (u64)number << (LOG_WIDTH - whole);
	for (u32 bit = 1u << (LOG_BITS - 1); bit; bit >>= 1) {
		mantissa = mantissa * mantissa >> LOG_WIDTH;
		if (mantissa >> (LOG_WIDTH + 1)) {
			mantissa >>= 1;
			result |= bit;
		}
	}
	return result;
}

/* The kernel's counts wrap at 32 bits or fewer. A connection counts less than half of that between two sweeps. */
static __always_inline u64 grown(u32 later, u32 earlier)
{
	u32 growth = later - earlier;

	return growth < 1u << 31 ? growth : 0;
}

/* The values of an open connection. */
struct reading {
	struct policy_counted counts; /* `standing` is not used */
	u32 srtt_us;
	u32 min_rtt_us;
	bool failed;
};

static __always_inline void read_connection(struct reading *reading, const struct tcp_sock___trace *tp)
{
	note_counts(&reading->counts, tp);
	reading->srtt_us = tp->srtt_us >> 3;
	reading->min_rtt_us = tp->rtt_min.s[0].v;
	reading->failed = ((const struct sock___policy *)sk_of(tp))->sk_err != 0;
}

static __always_inline void look_at_rtt(struct guard_cell *cell, const struct reading *now)
{
	if (!now->srtt_us || !now->min_rtt_us || now->min_rtt_us == ~0u)
		return;
	if (now->srtt_us > now->min_rtt_us)
		__sync_fetch_and_add(&cell->inflation, log2_fixed(now->srtt_us) - log2_fixed(now->min_rtt_us));
	__sync_fetch_and_add(&cell->looks, 1);
}

/* Adds what the connection did since its last count. Null if it is not judged. The socket is locked. */
static __always_inline struct guard_cell *count(struct policy_label *mark, const struct reading *reading)
{
	const struct policy_counted *now = &reading->counts;
	struct policy_counted *before = &mark->counted;
	struct guard_key key = {.slot = mark->slot, .fold = mark->fold};
	struct guard_cell *cell = bpf_map_lookup_elem(&tccc_cells, &key);
	u64 acked = 0, sent;

	if (!cell)
		return 0;
	sent = grown(now->sent_pkts, before->sent_pkts);
	if (mark->counted.standing == POLICY_UNCOUNTED) {
		__sync_fetch_and_add(&cell->connections, 1);
		if (is_new_unit(mark->unit))
			__sync_fetch_and_add(&cell->units, 1);
	} else if (sent) {
		__sync_fetch_and_add(&cell->active, 1);
	}
	if (now->bytes_acked > before->bytes_acked) /* false if the socket connected again, which resets its counts */
		acked = now->bytes_acked - before->bytes_acked;
	__sync_fetch_and_add(&cell->bytes_acked, acked);
	__sync_fetch_and_add(&cell->busy_ticks, grown(now->busy_ticks, before->busy_ticks));
	__sync_fetch_and_add(&cell->sent_pkts, sent);
	__sync_fetch_and_add(&cell->retrans_pkts, grown(now->retrans_pkts, before->retrans_pkts));
	__sync_fetch_and_add(&cell->timeouts, (u16)(now->timeouts - before->timeouts));
	if (acked)
		look_at_rtt(cell, reading);
	keep_counts(before, now);
	before->standing = POLICY_COUNTED;
	return cell;
}

/*
 * Runs once per network namespace. The kernel holds the socket's lock, under which it also closes connections and the
 * program below counts their ends. So each growth is counted once, and no connection ends while it is read.
 *
 * A kernel before 6.17 may pass a socket twice or not at all while others come and go. The second time, nothing has
 * grown. A connection that was passed over is caught up with by the next sweep or at its end. The same is true of
 * namespaces that user space cannot enter: the program below counts their connections as a whole.
 */
SEC("iter/tcp")
int tccc_guard_sum(struct bpf_iter__tcp___trace *ctx)
{
	struct sock_common *common = ctx->sk_common;
	const struct tcp_sock___trace *tp = common ? tcp_sock_of(common) : 0;
	struct policy_label *mark;
	struct reading now;

	if (!tp || !was_connected(sk_of(tp)->__sk_common.skc_state))
		return 0;
	mark = label_of(common);
	if (!mark || mark->generation != judged_generation || mark->counted.standing == POLICY_ENDED)
		return 0;
	read_connection(&now, tp);
	count(mark, &now);
	return 0;
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(tccc_guard_end, const struct sock *sk, int old_state, int new_state)
{
	const struct tcp_sock___trace *tp;
	struct policy_label *mark;
	struct guard_cell *cell;
	struct reading now;

	if (new_state != STATE_CLOSE || !was_connected(old_state))
		return 0;
	mark = label_of((void *)sk);
	if (!mark || mark->generation != judged_generation || mark->counted.standing == POLICY_ENDED)
		return 0;
	tp = tcp_sock_of(sk);
	if (!tp)
		return 0;
	read_connection(&now, tp);
	cell = count(mark, &now);
	mark->counted.standing = POLICY_ENDED;
	if (!cell)
		return 0;
	__sync_fetch_and_add(&cell->ended, 1);
	if (now.failed)
		__sync_fetch_and_add(&cell->abnormal, 1);
	return 0;
}
