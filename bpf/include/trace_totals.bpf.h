/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Sums over the connections of each algorithm, cgroup and arm of a policy. The kernel adds them up, so user space reads
 * no event per packet and no row per socket.
 *
 * A sweep adds what each open connection did since its last count. The end of a connection adds the rest, so
 * connections that live between two sweeps count too. Nothing before the first count of a connection is included. A
 * policy labels a connection just after ESTABLISHED, so the first visit after that counts it as opened. Each count of a
 * connection that delivered something since the previous count is one observation in the histograms.
 */
#ifndef TCCC_TRACE_TOTALS_BPF_H
#define TCCC_TRACE_TOTALS_BPF_H

#include "trace_socket.bpf.h"
#include "policy_label.h"

#define TOTALS_GROUPS 2048  /* combinations of algorithm, cgroup and arm; see TOTALS_UNCOUNTED for more */
#define TOTALS_STATES 5	    /* Open, Disorder, CWR, Recovery, Loss */
#define TOTALS_BINS 40	    /* powers of two up to 2^38, and one for larger values */
#define TOTALS_RTT_PARTS 8  /* equal parts of each power of two of an RTT, so percentiles are right to an eighth */
#define TOTALS_RTT_BINS 177 /* up to 2^24 us, and one for larger values */

struct totals_key {
	char algorithm[TCCC_ALGORITHM_NAME];
	u64 cgroup;
	u32 slot; /* rule and arm, as in the policy's labels; 0: none */
	u32 pad;
};

/* Bin n counts values above 2^(n-1) and up to 2^n. */
struct totals_histogram {
	u64 sum;
	u64 bins[TOTALS_BINS];
};

/* One bin for each RTT up to 8 us, then TOTALS_RTT_PARTS bins per power of two. Upper bounds are inclusive. */
struct totals_rtt {
	u64 sum;
	u64 bins[TOTALS_RTT_BINS];
};

/* src/host/trace/totals.rs reads these bytes. */
struct totals {
	u64 sweep;   /* the sweep that counted `sockets` */
	u64 sockets; /* open connections in that sweep */
	u64 opened;
	u64 closed;
	u64 bytes_acked;
	u64 bytes_received;
	u64 sent_pkts;
	u64 retrans_pkts;
	u64 delivered_pkts;
	u64 delivered_ce_pkts;
	u64 lost_pkts;
	u64 state_ns[TOTALS_STATES];
	struct totals_rtt srtt_us;
	struct totals_histogram min_rtt_us;
	struct totals_histogram cwnd_pkts;
	struct totals_histogram goodput_bytes; /* per second */
};

/* The values of a connection at its last count. */
struct counted {
	u64 time_ns;
	u64 state_ns; /* time in a congestion state is added up to here */
	u64 bytes_acked;
	u64 bytes_received;
	u32 sent_pkts;
	u32 retrans_pkts;
	u32 delivered_pkts;
	u32 delivered_ce_pkts;
	u32 lost_pkts;
	bool is_known;
	bool is_opening; /* established, but not yet counted as opened */
};

struct {
	__uint(type, MAP_HASH);
	__uint(max_entries, TOTALS_GROUPS);
	__type(key, struct totals_key);
	__type(value, struct totals);
} tccc_totals SEC(".maps");

/* An empty group, which is too large for a program's stack. */
struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct totals);
} tccc_tot_begin SEC(".maps");

struct {
	__uint(type, MAP_SOCKET_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct counted);
} tccc_tot_socks SEC(".maps");

/* Labels of the host's policy, if there is one when the program is loaded. */
struct {
	__uint(type, MAP_SOCKET_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct policy_label);
} tccc_labels SEC(".maps");

const volatile bool has_labels;

/* TOTALS_SWEEP: number of the current sweep. TOTALS_UNCOUNTED: counts for which tccc_totals had no room. */
struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, u64);
} tccc_tot_state SEC(".maps");

#define TOTALS_SWEEP 0
#define TOTALS_UNCOUNTED 1

static __always_inline u64 *totals_state_of(u32 which)
{
	return bpf_map_lookup_elem(&tccc_tot_state, &which);
}

static __always_inline u32 slot_of(const void *sk)
{
	const struct policy_label *label = has_labels ? bpf_sk_storage_get(&tccc_labels, (void *)sk, 0, 0) : 0;

	return label ? label->slot : 0;
}

static __always_inline struct totals *totals_of(const void *sk, const struct tcp_sock___trace *tp)
{
	struct totals_key key = {.cgroup = sk_of(tp)->sk_cgrp_data.cgroup->kn->id, .slot = slot_of(sk)};
	struct totals *group, *begin;
	u64 *uncounted;
	u32 zero = 0;

	read_algorithm(key.algorithm, tp);
	group = bpf_map_lookup_elem(&tccc_totals, &key);
	if (group)
		return group;
	begin = bpf_map_lookup_elem(&tccc_tot_begin, &zero);
	if (begin)
		bpf_map_update_elem(&tccc_totals, &key, begin, MAP_ONLY_NEW);
	group = bpf_map_lookup_elem(&tccc_totals, &key);
	uncounted = totals_state_of(TOTALS_UNCOUNTED);
	if (!group && uncounted)
		__sync_fetch_and_add(uncounted, 1);
	return group;
}

/* The least n for which the value is at most 2^n. */
static __always_inline u32 bin_of(u64 value)
{
	u32 bin = 0;

	if (value <= 1)
		return 0;
	value--;
	for (u32 bits = 32; bits; bits >>= 1) {
		if (value >> bits) {
			value >>= bits;
			bin += bits;
		}
	}
	return bin + 1 < TOTALS_BINS ? bin + 1 : TOTALS_BINS - 1;
}

static __always_inline void observe(struct totals_histogram *histogram, u64 value)
{
	u32 bin = bin_of(value);

	if (bin >= TOTALS_BINS)
		return;
	__sync_fetch_and_add(&histogram->bins[bin], 1);
	__sync_fetch_and_add(&histogram->sum, value);
}

static __always_inline void observe_rtt(struct totals_rtt *rtt, u32 us)
{
	u32 below = us ? us - 1 : 0;
	u32 shift = 0;
	u32 bin;

	for (u32 bits = 16; bits; bits >>= 1) {
		if (below >> (shift + bits) >= TOTALS_RTT_PARTS)
			shift += bits;
	}
	bin = shift * TOTALS_RTT_PARTS + (below >> shift);
	if (bin >= TOTALS_RTT_BINS)
		bin = TOTALS_RTT_BINS - 1;
	__sync_fetch_and_add(&rtt->bins[bin], 1);
	__sync_fetch_and_add(&rtt->sum, us);
}

static __always_inline void note_counted(struct counted *counted, const struct tcp_sock___trace *tp)
{
	counted->bytes_acked = tp->bytes_acked;
	counted->bytes_received = tp->bytes_received;
	counted->sent_pkts = tp->data_segs_out;
	counted->retrans_pkts = tp->total_retrans;
	counted->delivered_pkts = tp->delivered;
	counted->delivered_ce_pkts = tp->delivered_ce;
	counted->lost_pkts = tp->lost;
}

/* Stores the values from which the next count of a connection starts. */
static __always_inline void begin_counting(struct counted *counted, const struct tcp_sock___trace *tp)
{
	counted->is_known = true;
	counted->time_ns = bpf_ktime_get_ns();
	counted->state_ns = counted->time_ns;
	note_counted(counted, tp);
}

/* The last count of a connection. A new connection starts to count here. */
static __always_inline struct counted *counted_of(const void *sk, const struct tcp_sock___trace *tp)
{
	struct counted *counted = bpf_sk_storage_get(&tccc_tot_socks, (void *)sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	u64 *uncounted = totals_state_of(TOTALS_UNCOUNTED);

	if (!counted) {
		if (uncounted)
			__sync_fetch_and_add(uncounted, 1);
	} else if (!counted->is_known) {
		begin_counting(counted, tp);
	}
	return counted;
}

/* Adds the time since state_ns to this congestion state. */
static __always_inline void add_state_time(struct totals *group, struct counted *counted, u8 state, u64 now_ns)
{
	if (state < TOTALS_STATES && now_ns > counted->state_ns)
		__sync_fetch_and_add(&group->state_ns[state], now_ns - counted->state_ns);
	counted->state_ns = now_ns;
}

/* The kernel's 32-bit counts wrap. A connection sends less than half of that range between two counts. */
static __always_inline u64 grown(u32 later, u32 earlier)
{
	u32 growth = later - earlier;

	return growth < 1u << 31 ? growth : 0;
}

static __always_inline void observe_connection(struct totals *group, const struct counted *counted,
					       const struct tcp_sock___trace *tp, u64 now_ns)
{
	u64 elapsed_us = (now_ns - counted->time_ns) / 1000;
	u64 acked = tp->bytes_acked - counted->bytes_acked;

	if (tp->delivered == counted->delivered_pkts)
		return;
	observe(&group->cwnd_pkts, tp->snd_cwnd);
	if (tp->srtt_us)
		observe_rtt(&group->srtt_us, tp->srtt_us >> 3);
	if (tp->rtt_min.s[0].v != ~0u)
		observe(&group->min_rtt_us, tp->rtt_min.s[0].v);
	/* The answer to a SYN acknowledges less than a byte. The limit of 2^40 bytes keeps the product below 2^60. */
	if (acked && acked < 1ull << 40 && elapsed_us)
		observe(&group->goodput_bytes, acked * 1000000 / elapsed_us);
}

static __always_inline void add_growth(struct totals *group, const struct counted *counted,
				       const struct tcp_sock___trace *tp)
{
	__sync_fetch_and_add(&group->bytes_acked, tp->bytes_acked - counted->bytes_acked);
	__sync_fetch_and_add(&group->bytes_received, tp->bytes_received - counted->bytes_received);
	__sync_fetch_and_add(&group->sent_pkts, grown(tp->data_segs_out, counted->sent_pkts));
	__sync_fetch_and_add(&group->retrans_pkts, grown(tp->total_retrans, counted->retrans_pkts));
	__sync_fetch_and_add(&group->delivered_pkts, grown(tp->delivered, counted->delivered_pkts));
	__sync_fetch_and_add(&group->delivered_ce_pkts, grown(tp->delivered_ce, counted->delivered_ce_pkts));
	__sync_fetch_and_add(&group->lost_pkts, grown(tp->lost, counted->lost_pkts));
}

/* Adds what a connection did since its last count. */
static __always_inline void count(struct totals *group, struct counted *counted, const struct tcp_sock___trace *tp)
{
	u64 now_ns = bpf_ktime_get_ns();

	if (counted->is_opening)
		__sync_fetch_and_add(&group->opened, 1);
	counted->is_opening = false;
	add_state_time(group, counted, ca_state_of(tp), now_ns);
	observe_connection(group, counted, tp, now_ns);
	add_growth(group, counted, tp);
	note_counted(counted, tp);
	counted->time_ns = now_ns;
}

/* Runs before the change, so the time up to now belongs to the old state. */
SEC("tp_btf/tcp_cong_state_set")
int BPF_PROG(tccc_tot_ca, struct sock *sk, u8 state)
{
	const struct tcp_sock___trace *tp = tcp_sock_of(sk);
	struct counted *counted;
	struct totals *group;

	if (!tp || !was_connected(sk_of(tp)->__sk_common.skc_state) || ca_state_of(tp) == state)
		return 0;
	counted = bpf_sk_storage_get(&tccc_tot_socks, sk, 0, 0);
	group = counted ? totals_of(sk, tp) : 0;
	if (group)
		add_state_time(group, counted, ca_state_of(tp), bpf_ktime_get_ns());
	return 0;
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(tccc_tot_tcp, const struct sock *sk, int old_state, int new_state)
{
	bool opens = new_state == STATE_ESTABLISHED;
	bool closes = new_state == STATE_CLOSE && was_connected(old_state);
	const struct tcp_sock___trace *tp = opens || closes ? tcp_sock_of(sk) : 0;
	struct counted *counted;
	struct totals *group;

	if (!tp || !filter_passes(tp))
		return 0;
	counted = counted_of(sk, tp);
	if (!counted)
		return 0;
	if (opens) {
		/* A socket that connects again: the kernel has reset its counts. */
		begin_counting(counted, tp);
		counted->is_opening = true;
		return 0;
	}
	group = totals_of(sk, tp);
	if (group) {
		count(group, counted, tp);
		__sync_fetch_and_add(&group->closed, 1);
	}
	return 0;
}

/* The sweep. It writes nothing to its reader. Only one sweep runs at a time, so `sockets` needs no atomic. */
SEC("iter/tcp")
int tccc_tot_sweep(struct bpf_iter__tcp___trace *ctx)
{
	struct sock_common *common = ctx->sk_common;
	const struct tcp_sock___trace *tp = common ? tcp_sock_of(common) : 0;
	u64 *sweep = totals_state_of(TOTALS_SWEEP);
	struct counted *counted;
	struct totals *group;

	if (!tp || !sweep || !was_connected(sk_of(tp)->__sk_common.skc_state) || !filter_passes(tp))
		return 0;
	counted = counted_of(common, tp);
	group = counted ? totals_of(common, tp) : 0;
	if (!group)
		return 0;
	if (group->sweep != *sweep) {
		group->sweep = *sweep;
		group->sockets = 0;
	}
	group->sockets++;
	count(group, counted, tp);
	return 0;
}

#endif
