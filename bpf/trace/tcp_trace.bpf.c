// SPDX-License-Identifier: GPL-2.0-only
/*
 * The only tracer. It has three parts, and each can be loaded without the others:
 *   - events of every TCP socket that passes the filter (open, sample, state change, loss, close), through one ring buffer;
 *   - one row per socket for the iterator;
 *   - sums by algorithm and cgroup (trace_totals.bpf.h).
 * It works for every algorithm, including the kernel's own.
 *
 * There are two ways to sample. The reader loads the programs of one:
 *   by clock   A kernel timer, started by tccc_begin, visits every known socket once per interval. No program runs per
 *              packet and no thread wakes up, so the cost depends on the number of sockets, not on the packet rate.
 *              tccc_meet and tccc_meet_file each run once. They register the sockets that are already open: those of the
 *              namespaces that can be entered, and those of every process.
 *   by packet  tccc_packet runs for every packet that arrives. It serves samples at every packet, and kernels that cannot
 *              sample by clock.
 *
 * Events of a socket
 *   OPEN    The connection reached ESTABLISHED.
 *   SAMPLE  The sampling interval has passed, and packets have arrived since the last sample. With very many sockets one
 *	     round takes longer than the interval, and samples come later. By packet, each of the first packets after OPEN
 *	     also gives a sample, which shows when the data began.
 *   STATE   ca_state changed. No change is left out. The other fields have their values from just before the change.
 *   LOSS    Losses or retransmissions grew since the last LOSS; at most one event per loss_gap_ns. Counts are cumulative,
 *	     so the next LOSS, SAMPLE or CLOSE includes what a gap left out.
 *   CLOSE   The connection ended; final counts.
 * Events that do not fit into the ring are counted as dropped. When sampling by packet, the kernel's tracepoint runs before
 * the packet is processed, so the next event shows its effect. After the local end closed its side (FIN_WAIT and later),
 * the kernel has no tracepoint per packet: STATE, LOSS and CLOSE continue, SAMPLE stops.
 */
#include "trace_kernel.bpf.h"
#include "trace_event.h"
#include "trace_filter.bpf.h"
#include "trace_socket.bpf.h"
#include "trace_totals.bpf.h"

char LICENSE[] SEC("license") = "GPL";

const volatile u64 interval_ns = 100000000;
const volatile u64 interval_jiffies = 25; /* whole ticks in the interval; a sample is not due before */
const volatile u64 loss_gap_ns = 10000000;
const volatile u64 wake_bytes = 1 << 20;  /* the reader is woken from this many unread bytes on */
const volatile u64 yield_bytes = 2 << 20; /* from this many unread bytes on, a tick sends no samples */
const volatile u32 jiffy_ns = 4000000;

#define OPENING_PKTS 8
/* Reasons for a dropped event: indices of tccc_dropped. src/trace/live.rs reads them. */
#define DROP_RING_FULL 0
#define DROP_NO_PLACE 1
#define DROP_REASONS 2
#define FLOWS_MAX (1 << 17) /* sockets followed at once; events of further sockets count as dropped */
#define STRAYS_MAX 2	    /* a single one may be a socket that is being registered right now */
#define LOOKS_PER_TICK 256  /* keeps the softirq short; the next tick visits the other sockets */
#define FLOWS_PER_TICK 4096
#define REST 10 /* pause after a tick, in multiples of its run time: uses at most a tenth of a processor */
#define CLOCK_MONOTONIC 1

#define TCP_SOCK_BYTES_MAX 4096

/* A followed socket. */
struct flow {
	volatile u64 sk; /* address of the socket; 0: free. Another processor may free the entry at any time */
	u64 socket;	 /* cookie */
	u64 sampled_ns;
	u64 sampled_jiffies;
	u64 lost_ns; /* time of the last LOSS */
	u64 moved;   /* moved_in() of the last event that a tick sent */
	const void *ops;
	u32 generation; /* of the filter that decided `passes`; 0: not decided yet */
	u32 lost_pkts;
	u32 retrans_pkts;
	u8 ca_state;
	u8 opening_pkts; /* packets since OPEN, at most OPENING_PKTS, which also means that OPEN was not seen */
	bool passes;
	bool is_chosen; /* tccc_places refers to this entry. Two processors may register the same socket at once */
	u8 strays;	/* consecutive ticks that found another socket at the address, or a closed one */
};

struct {
	__uint(type, MAP_RING);
	__uint(max_entries, 4 << 20);
} tccc_events SEC(".maps");

/* An array, because a timer can neither read socket storage nor iterate over it. */
struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, FLOWS_MAX);
	__type(key, u32);
	__type(value, struct flow);
} tccc_flows SEC(".maps");

/* Number of entries ever used. A round visits all of them; a free one costs some nanoseconds. */
u32 flows_taken;

/* Entries that are free again. */
struct {
	__uint(type, MAP_STACK);
	__uint(max_entries, FLOWS_MAX);
	__uint(value_size, sizeof(u32));
} tccc_free_flows SEC(".maps");

/* Index of a socket's entry in tccc_flows, plus one; 0: none. */
struct {
	__uint(type, MAP_SOCKET_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u32);
} tccc_places SEC(".maps");

/* src/trace/tick.rs reads the fields after the timer. */
struct ticking {
	struct bpf_timer timer;
	u64 ticks;
	u64 looks; /* sockets visited */
	u64 spent_ns;
	u64 is_begun;
	u64 due_ns; /* when the current round was due */
	u32 next;   /* index of the entry it visits next */
};

struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct ticking);
} tccc_ticking SEC(".maps");

struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} tccc_generation SEC(".maps");

struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, DROP_REASONS);
	__type(key, u32);
	__type(value, u64);
} tccc_dropped SEC(".maps");

struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(u32));
	__uint(value_size, TCP_SOCK_BYTES_MAX);
} tccc_sock_copy SEC(".maps");

/* 0 if no program has asked for the cookie yet. */
static __always_inline u64 cookie_of(const struct tcp_sock___trace *tp)
{
	return sk_of(tp)->__sk_common.skc_cookie.counter;
}

/* The filter decides once per socket. It decides again only after the filter or the socket's algorithm changed. */
static __always_inline bool flow_passes(struct flow *flow, const struct tcp_sock___trace *tp)
{
	const void *ops;
	u32 zero = 0;
	u32 *now;

	if (!filters)
		return true;
	ops = icsk_of(tp)->icsk_ca_ops;
	now = bpf_map_lookup_elem(&tccc_generation, &zero);
	if (!now)
		return true;
	if (flow->generation != *now || flow->ops != ops) {
		flow->generation = *now;
		flow->ops = ops;
		flow->passes = filter_passes(tp);
	}
	return flow->passes;
}

/* Grows with every packet that acknowledges data or carries data. */
static __always_inline u64 moved_of(const struct tcp_sock___trace *tp)
{
	return tp->bytes_acked + tp->bytes_received + tp->delivered;
}

/* The same sum, from the fields of an event. */
static __always_inline u64 moved_in(const struct tccc_event *event)
{
	return event->bytes_acked + event->bytes_received + event->delivered_pkts;
}

static __always_inline void count_dropped(u32 reason)
{
	u64 *count = bpf_map_lookup_elem(&tccc_dropped, &reason);

	if (count)
		__sync_fetch_and_add(count, 1);
}

/* The entry at this place, if it still belongs to the socket. */
static __always_inline struct flow *flow_at(const u32 *place, const struct sock *sk)
{
	u32 index = place ? *place - 1 : FLOWS_MAX;
	struct flow *flow = bpf_map_lookup_elem(&tccc_flows, &index);

	return flow && flow->sk == (u64)sk ? flow : 0;
}

/* Does nothing if the entry belongs to another socket by now. */
static __always_inline void free_place(struct flow *flow, u32 index, u64 sk)
{
	if (__sync_val_compare_and_swap(&flow->sk, sk, 0) == sk)
		bpf_map_push_elem(&tccc_free_flows, &index, 0);
}

/* Registers a socket. Null if there is no free entry. */
static __noinline struct flow *take_place(struct sock *sk, u32 *place)
{
	const struct tcp_sock___trace *tp = tcp_sock_of(sk);
	u32 before = *place, index;
	struct flow *flow;

	if (!tp)
		return 0;
	if (bpf_map_pop_elem(&tccc_free_flows, &index))
		index = flows_taken < FLOWS_MAX ? __sync_fetch_and_add(&flows_taken, 1) : FLOWS_MAX;
	flow = bpf_map_lookup_elem(&tccc_flows, &index);
	if (!flow)
		return 0;
	__builtin_memset(flow, 0, sizeof(*flow));
	flow->socket = bpf_get_socket_cookie(sk);
	flow->opening_pkts = OPENING_PKTS;
	flow->ca_state = ca_state_of(tp);
	flow->lost_pkts = tp->lost;
	flow->retrans_pkts = tp->total_retrans;
	flow->sampled_jiffies = bpf_jiffies64() - interval_jiffies;
	flow->moved = moved_of(tp);
	__sync_lock_test_and_set(&flow->sk, (u64)sk);
	if (__sync_val_compare_and_swap(place, before, index + 1) == before) {
		/* Must come last: from now on the timer visits the entry. */
		flow->is_chosen = true;
		return flow;
	}
	/* Another processor registered the socket at the same moment. */
	free_place(flow, index, (u64)sk);
	return flow_at(place, sk);
}

/* The socket's entry, made if it has none. Counts a dropped event if there is no room. */
static __always_inline struct flow *flow_of(const struct sock *sk)
{
	u32 *place = bpf_sk_storage_get(&tccc_places, (void *)sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	struct flow *flow = flow_at(place, sk);

	if (place && !flow)
		flow = take_place((struct sock *)sk, place);
	if (!flow)
		count_dropped(DROP_NO_PLACE);
	return flow;
}

/* The same, but only for a socket that may pass the filter, because the timer visits every entry. */
static __always_inline struct flow *asked_flow_of(const struct sock *sk, const struct tcp_sock___trace *tp)
{
	return ends_pass(tp) ? flow_of(sk) : 0;
}

static __always_inline void fill_addresses(struct tccc_event *event, const struct tcp_sock___trace *tp)
{
	const struct sock_common___trace *common = &sk_of(tp)->__sk_common;
	u32 *local = (u32 *)event->local_addr;
	u32 *remote = (u32 *)event->remote_addr;
	bool is_v4 = common->skc_family == AF_INET;

	event->family = common->skc_family;
	event->local_port = bpf_ntohs(tp->inet_conn.icsk_inet.inet_sport);
	event->remote_port = bpf_ntohs(common->skc_dport);
	for (int i = 0; i < 4; i++) {
		local[i] = is_v4 ? 0 : common->skc_v6_rcv_saddr.in6_u.u6_addr32[i];
		remote[i] = is_v4 ? 0 : common->skc_v6_daddr.in6_u.u6_addr32[i];
	}
	if (is_v4) {
		local[0] = common->skc_rcv_saddr;
		remote[0] = common->skc_daddr;
	}
}

static __always_inline void fill_counts(struct tccc_event *event, const struct tcp_sock___trace *tp)
{
	event->bytes_acked = tp->bytes_acked;
	event->bytes_received = tp->bytes_received;
	event->delivered_pkts = tp->delivered;
	event->delivered_ce_pkts = tp->delivered_ce;
	event->lost_pkts = tp->lost;
	event->retrans_pkts = tp->total_retrans;
	event->inflight_pkts = tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
}

static __always_inline void fill_window(struct tccc_event *event, const struct tcp_sock___trace *tp)
{
	event->pacing_rate = sk_of(tp)->sk_pacing_rate;
	event->cwnd_pkts = tp->snd_cwnd;
	event->ssthresh_pkts = tp->snd_ssthresh;
	event->srtt_us = tp->srtt_us >> 3;
	event->min_rtt_us = tp->rtt_min.s[0].v;
	event->rtt_us = tp->rack.rtt_us;
	event->rto_us = (u64)icsk_of(tp)->icsk_rto * jiffy_ns / 1000;
	event->mss_bytes = tp->mss_cache;
	event->ca_state = ca_state_of(tp);
	event->prior_ca_state = event->ca_state;
	event->app_limited = tp->app_limited != 0;
	bpf_probe_read_kernel(event->private_state, TCCC_PRIVATE_BYTES, icsk_of(tp)->icsk_ca_priv);
}

/* Fills an event with the socket's present values. A program must have asked for its cookie before. */
static __always_inline void fill(struct tccc_event *event, const struct tcp_sock___trace *tp, u8 kind)
{
	event->time_ns = bpf_ktime_get_ns();
	event->socket = cookie_of(tp);
	event->cgroup = BPF_CORE_READ(sk_of(tp), sk_cgrp_data.cgroup, kn, id);
	event->netns = netns_of(sk_of(tp));
	event->uid = sk_of(tp)->sk_uid.val;
	event->kind = kind;
	event->tcp_state = sk_of(tp)->__sk_common.skc_state;
	__builtin_memset(event->pad, 0, sizeof(event->pad));
	fill_addresses(event, tp);
	fill_counts(event, tp);
	fill_window(event, tp);
	read_algorithm(event->algorithm, tp);
}

/* Reserves and fills an event in the ring. If the ring is full, counts a dropped event and returns null. */
static __always_inline struct tccc_event *reserve(const struct tcp_sock___trace *tp, u8 kind)
{
	struct tccc_event *event = bpf_ringbuf_reserve(&tccc_events, sizeof(*event), 0);

	if (event)
		fill(event, tp, kind);
	else
		count_dropped(DROP_RING_FULL);
	return event;
}

/* The reader polls by itself. Waking it costs more than an event, so only a ring that fills up wakes it. */
static __always_inline void submit(struct tccc_event *event)
{
	bool is_filling = bpf_ringbuf_query(&tccc_events, RING_UNREAD_BYTES) >= wake_bytes;

	bpf_ringbuf_submit(event, is_filling ? RING_FORCE_WAKEUP : RING_NO_WAKEUP);
}

/* Also updates the flow's state. */
static __always_inline void send_state(struct flow *flow, const struct tcp_sock___trace *tp, u8 prior, u8 state)
{
	struct tccc_event *event;

	flow->ca_state = state;
	event = reserve(tp, TCCC_EVENT_STATE);
	if (!event)
		return;
	event->prior_ca_state = prior;
	event->ca_state = state;
	submit(event);
}

static __always_inline void send_sample(struct flow *flow, const struct tcp_sock___trace *tp)
{
	struct tccc_event *event = reserve(tp, TCCC_EVENT_SAMPLE);

	/* Uses the event's own time. A time read earlier would make the next sample come too early on a slow machine. */
	flow->sampled_ns = event ? event->time_ns : bpf_ktime_get_ns();
	flow->sampled_jiffies = bpf_jiffies64();
	if (event)
		submit(event);
}

/* Reading jiffies costs a load, reading the clock tens of nanoseconds. Most packets fail the first check. */
static __always_inline bool is_sample_due(const struct flow *flow)
{
	if (bpf_jiffies64() - flow->sampled_jiffies < interval_jiffies)
		return false;
	return bpf_ktime_get_ns() - flow->sampled_ns >= interval_ns;
}

static __always_inline bool is_loss_due(const struct flow *flow, const struct tcp_sock___trace *tp)
{
	if (tp->lost == flow->lost_pkts && tp->total_retrans == flow->retrans_pkts)
		return false;
	return bpf_ktime_get_ns() - flow->lost_ns >= loss_gap_ns;
}

/* Copies the counts from the event, because another processor may change the socket's counts meanwhile. */
static __always_inline struct tccc_event *reserve_loss(struct flow *flow, const struct tcp_sock___trace *tp)
{
	struct tccc_event *event = reserve(tp, TCCC_EVENT_LOSS);

	flow->lost_ns = event ? event->time_ns : bpf_ktime_get_ns();
	flow->lost_pkts = event ? event->lost_pkts : tp->lost;
	flow->retrans_pkts = event ? event->retrans_pkts : tp->total_retrans;
	return event;
}

static __always_inline void send_loss(struct flow *flow, const struct tcp_sock___trace *tp)
{
	struct tccc_event *event = reserve_loss(flow, tp);

	if (event)
		submit(event);
}

/* A cheap check that nearly every packet fails. True if an event may be due. */
static __always_inline bool is_worth_a_look(const struct flow *flow, const struct tcp_sock___trace *tp)
{
	return !tp || ca_state_of(tp) != flow->ca_state || tp->lost != flow->lost_pkts ||
	       tp->total_retrans != flow->retrans_pkts || flow->opening_pkts < OPENING_PKTS ||
	       bpf_jiffies64() - flow->sampled_jiffies >= interval_jiffies;
}

static __noinline int look(struct sock *sk)
{
	const struct tcp_sock___trace *tp = tcp_sock_of(sk);
	struct flow *flow = tp ? flow_of(sk) : 0;
	bool opens;
	u8 state;

	if (!flow || !flow_passes(flow, tp))
		return 0;
	opens = flow->opening_pkts < OPENING_PKTS;
	flow->opening_pkts += opens;
	state = ca_state_of(tp);
	if (state != flow->ca_state)
		send_state(flow, tp, flow->ca_state, state);
	else if (is_loss_due(flow, tp))
		send_loss(flow, tp);
	else if (opens || is_sample_due(flow))
		send_sample(flow, tp);
	return 0;
}

/* Runs for every packet of an established connection, before the packet is processed. */
SEC("tp_btf/tcp_probe")
int BPF_PROG(tccc_packet, struct sock *sk)
{
	const struct flow *flow = flow_at(bpf_sk_storage_get(&tccc_places, sk, 0, 0), sk);

	if (flow && !is_worth_a_look(flow, established_tcp_sock(sk)))
		return 0;
	return look(sk);
}

/* The socket at an address that the verifier cannot check. On kernels before 6.2 it is a copy. */
static __always_inline const struct tcp_sock___trace *tcp_sock_at(u64 sk)
{
	u32 zero = 0;
	void *copy;

	if (bpf_ksym_exists(bpf_rdonly_cast))
		return bpf_rdonly_cast((const void *)sk, bpf_core_type_id_kernel(struct tcp_sock___trace));
	copy = bpf_map_lookup_elem(&tccc_sock_copy, &zero);
	if (!copy || bpf_probe_read_kernel(copy, bpf_core_type_size(struct tcp_sock___trace), (const void *)sk))
		return 0;
	return copy;
}

/* Sends an event if the socket moved since the previous tick. */
static __always_inline void look_by_clock(struct flow *flow, u32 index, u64 sk)
{
	const struct tcp_sock___trace *tp = tcp_sock_at(sk);
	struct tccc_event *event;
	u64 moved;

	/* The socket ended unseen, or another socket uses its memory by now. */
	if (!tp || cookie_of(tp) != flow->socket || sk_of(tp)->__sk_common.skc_state == STATE_CLOSE) {
		if (++flow->strays >= STRAYS_MAX)
			free_place(flow, index, sk);
		return;
	}
	flow->strays = 0;
	moved = moved_of(tp);
	if (moved == flow->moved || !was_connected(sk_of(tp)->__sk_common.skc_state) || !flow_passes(flow, tp))
		return;
	/* The sample waits for the next tick. The rest of the ring is reserved for other events. */
	if (bpf_ringbuf_query(&tccc_events, RING_UNREAD_BYTES) >= yield_bytes)
		return;
	event = is_loss_due(flow, tp) ? reserve_loss(flow, tp) : reserve(tp, TCCC_EVENT_SAMPLE);
	flow->moved = event ? moved_in(event) : moved;
	if (event)
		submit(event);
}

struct round {
	u32 next;
	u32 looks;
};

static long visit(u64 count, struct round *round)
{
	u32 index = round->next;
	struct flow *flow = index < flows_taken ? bpf_map_lookup_elem(&tccc_flows, &index) : 0;
	u64 sk;

	round->next++;
	if (!flow)
		return 1;
	sk = flow->sk;
	if (!sk || !flow->is_chosen)
		return 0;
	look_by_clock(flow, index, sk);
	return ++round->looks >= LOOKS_PER_TICK;
}

/* A round visits every known socket once, in as many ticks as it needs. */
static int on_tick(void *map, u32 *key, struct ticking *ticking)
{
	u64 begin_ns = bpf_ktime_get_ns(), now_ns, due_ns;
	struct round round = {.next = ticking->next};

	bpf_loop(FLOWS_PER_TICK, visit, &round, 0);
	now_ns = bpf_ktime_get_ns();
	due_ns = now_ns + (now_ns - begin_ns) * REST;
	if (round.next >= flows_taken || round.next >= FLOWS_MAX) {
		round.next = 0;
		ticking->due_ns += interval_ns;
		if (ticking->due_ns < due_ns)
			ticking->due_ns = due_ns;
		due_ns = ticking->due_ns;
	}
	ticking->next = round.next;
	ticking->ticks++;
	ticking->looks += round.looks;
	ticking->spent_ns += now_ns - begin_ns;
	bpf_timer_start(&ticking->timer, due_ns - now_ns, 0);
	return 0;
}

/* Starts the timer. Runs as an iterator over tccc_ticking. The timer stops when nobody holds that map any more. */
SEC("iter/bpf_map_elem")
int tccc_begin(void *ctx)
{
	struct ticking *begun;
	u32 zero = 0;

	begun = bpf_map_lookup_elem(&tccc_ticking, &zero);
	if (!begun || bpf_timer_init(&begun->timer, &tccc_ticking, CLOCK_MONOTONIC))
		return 0;
	begun->due_ns = bpf_ktime_get_ns() + interval_ns;
	if (!bpf_timer_set_callback(&begun->timer, on_tick) && !bpf_timer_start(&begun->timer, interval_ns, 0))
		begun->is_begun = 1;
	return 0;
}

static __always_inline void meet(const struct tcp_sock___trace *tp)
{
	if (tp && was_connected(sk_of(tp)->__sk_common.skc_state))
		asked_flow_of((const struct sock *)tp, tp);
}

/* Runs once per network namespace, for the sockets that are already open. */
SEC("iter/tcp")
int tccc_meet(struct bpf_iter__tcp___trace *ctx)
{
	struct sock_common *common = ctx->sk_common;

	meet(common ? tcp_sock_of(common) : 0);
	return 0;
}

/* Runs once, for the sockets of every process. It finds sockets of namespaces that cannot be entered. */
SEC("iter/task_file")
int tccc_meet_file(struct bpf_iter__task_file___trace *ctx)
{
	struct file *file = ctx->file; /* read once, because the verifier trusts only this value */
	const struct socket___trace *socket = file ? (const struct socket___trace *)bpf_sock_from_file(file) : 0;
	const struct sock *sk = socket ? socket->sk : 0;

	meet(sk ? tcp_sock_of(sk) : 0);
	return 0;
}

/* Runs before the change. Some kernels lack this tracepoint; there tccc_packet sees the change at the next packet. */
SEC("tp_btf/tcp_cong_state_set")
int BPF_PROG(tccc_ca_state, struct sock *sk, u8 state)
{
	const struct tcp_sock___trace *tp = tcp_sock_of(sk);
	struct flow *flow;
	u8 prior;

	if (!tp || !was_connected(sk_of(tp)->__sk_common.skc_state))
		return 0;
	prior = ca_state_of(tp);
	if (prior == state)
		return 0;
	flow = asked_flow_of(sk, tp);
	if (flow && flow_passes(flow, tp))
		send_state(flow, tp, prior, state);
	return 0;
}

/* Reports retransmissions by a timer while no packet arrives. */
SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(tccc_retransmit, const struct sock *sk)
{
	const struct tcp_sock___trace *tp = tcp_sock_of(sk);
	struct flow *flow;

	if (!tp || !was_connected(sk_of(tp)->__sk_common.skc_state))
		return 0;
	flow = asked_flow_of(sk, tp);
	if (flow && flow_passes(flow, tp) && is_loss_due(flow, tp))
		send_loss(flow, tp);
	return 0;
}

static __always_inline void send_end(struct flow *flow, const struct tcp_sock___trace *tp, u8 kind, u8 tcp_state)
{
	struct tccc_event *event;

	if (!flow_passes(flow, tp))
		return;
	flow->ca_state = ca_state_of(tp);
	event = reserve(tp, kind);
	if (!event)
		return;
	event->tcp_state = tcp_state;
	submit(event);
}

/* Frees the socket's entry, even if the socket no longer passes the filter. */
static __always_inline void forget(const struct sock *sk)
{
	u32 *place = bpf_sk_storage_get(&tccc_places, (void *)sk, 0, 0);
	struct flow *flow = flow_at(place, sk);

	if (!place || !flow)
		return;
	free_place(flow, *place - 1, (u64)sk);
	*place = 0;
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(tccc_tcp_state, const struct sock *sk, int old_state, int new_state)
{
	bool opens = new_state == STATE_ESTABLISHED;
	bool closes = new_state == STATE_CLOSE && was_connected(old_state);
	const struct tcp_sock___trace *tp;
	struct flow *flow;

	if (!opens && !closes)
		return 0;
	tp = tcp_sock_of(sk);
	flow = tp ? asked_flow_of(sk, tp) : 0;
	if (flow && opens)
		flow->opening_pkts = 0;
	if (flow)
		send_end(flow, tp, opens ? TCCC_EVENT_OPEN : TCCC_EVENT_CLOSE, new_state);
	if (closes)
		forget(sk);
	return 0;
}

/* Shows the sockets that have or had a connection. Others have no window yet. */
SEC("iter/tcp")
int tccc_sweep(struct bpf_iter__tcp___trace *ctx)
{
	struct sock_common *common = ctx->sk_common;
	const struct tcp_sock___trace *tp = common ? tcp_sock_of(common) : 0;
	struct tccc_event event;

	if (!tp || !was_connected(sk_of(tp)->__sk_common.skc_state) || !filter_passes(tp))
		return 0;
	bpf_get_socket_cookie(common);
	fill(&event, tp, TCCC_EVENT_SNAPSHOT);
	bpf_seq_write(ctx->meta->seq, &event, sizeof(event));
	return 0;
}
