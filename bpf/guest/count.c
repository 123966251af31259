// SPDX-License-Identifier: GPL-2.0-only
/*
 * What /proc/tccc/links shows of a link: its counters, the positions of the first lost packets, and the waits of all packets
 * and of each flow.
 */
#include "answer.h"
#include "count.h"
#include "discipline.h"

void flow_waits_free(struct flow_waits *waits)
{
	u32 flow;

	for (flow = 0; flow < TCCC_FLOWS_MAX; flow++) {
		kfree(waits->counts[flow]);
		waits->counts[flow] = NULL;
	}
}

static u64 flows_in(const struct flow_waits *waits)
{
	u64 flows = 0;
	u32 flow;

	for (flow = 0; flow < TCCC_FLOWS_MAX; flow++)
		flows += waits->counts[flow] != NULL;
	return flows;
}

size_t count_length(const struct link *link)
{
	const size_t of_flow = sizeof(u64) + TCCC_TIMES_BUCKETS * sizeof(u32);

	return sizeof(struct tccc_link_counters) + FIRST_LOST_KEPT * sizeof(u64) + sizeof(struct times) + sizeof(u64) +
	       flows_in(&link->flow_waits) * of_flow;
}

static u8 *put_flow_waits(u8 *to, const struct flow_waits *waits)
{
	const u64 flows = flows_in(waits);
	u64 flow;

	to = answer_put(to, &flows, sizeof(flows));
	for (flow = 0; flow < TCCC_FLOWS_MAX; flow++) {
		if (!waits->counts[flow])
			continue;
		to = answer_put(to, &flow, sizeof(flow));
		to = answer_put(to, waits->counts[flow], TCCC_TIMES_BUCKETS * sizeof(u32));
	}
	return to;
}

u8 *count_put(u8 *to, struct link *link)
{
	struct tccc_link_counters counters = shaper_counters(&link->shaper);

	discipline_count(link, &counters);
	to = answer_put(to, &counters, sizeof(counters));
	to = answer_put(to, link->shaper.losses.first_lost, counters.first_lost_count * sizeof(u64));
	to = answer_put(to, &link->shaper.waits, sizeof(link->shaper.waits));
	return put_flow_waits(to, &link->flow_waits);
}
