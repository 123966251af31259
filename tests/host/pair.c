// SPDX-License-Identifier: GPL-2.0-only
/* The two ends of the packet-pair option under names of their own, for tests/host/algorithms/pair.rs. */
#include "pair.bpf.h"

/* Sender: a segment of so many bytes at a place; the flags of its mark, negative for none. */
int host_next_mark(struct pair_exchange *exchange, u32 seq, u32 bytes)
{
	return next_mark(exchange, seq, bytes);
}

u32 host_pairs_acknowledged(const struct pair_exchange *exchange, u32 una)
{
	return pairs_acknowledged(exchange, una);
}

u32 host_wants_mark(const struct pair_exchange *exchange)
{
	return wants_mark(exchange);
}

/* Receiver: a marked segment arrived; the new interval, 0 for none. */
u32 host_arrive(struct pair_arrival *arrival, const struct pair_segment *segment, u64 now_ns)
{
	return update_arrival(arrival, segment, now_ns) ? arrival->dt_us : 0;
}
