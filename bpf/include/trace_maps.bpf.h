/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the tracer's programs share with each other and with their reader: settings, which src/trace sets before it
 * loads the programs, and maps with their entries.
 */
#ifndef TCCC_TRACE_MAPS_BPF_H
#define TCCC_TRACE_MAPS_BPF_H

#include "trace_kernel.bpf.h"

const volatile u64 interval_ns = 100000000;
const volatile u64 interval_jiffies = 25; /* whole ticks in the interval; a sample is not due before */
const volatile u64 loss_gap_ns = 10000000;
const volatile u64 wake_bytes = 1 << 20;  /* the reader is woken from this many unread bytes on */
const volatile u64 yield_bytes = 2 << 20; /* from this many unread bytes on, a tick sends no samples */
const volatile u32 jiffy_ns = 4000000;
const volatile bool sends_limited; /* tccc_limited before each CLOSE */

#define OPENING_PKTS 8
/* Reasons for a dropped event: indices of tccc_dropped. src/host/trace/live.rs reads them. */
#define DROP_RING_FULL 0
#define DROP_NO_PLACE 1
#define DROP_REASONS 2
#define FLOWS_MAX (1 << 17) /* sockets followed at once; events of further sockets count as dropped */
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

/* src/host/trace/tick.rs reads the fields after the timer. */
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

#endif
