/* SPDX-License-Identifier: GPL-2.0-only */
/* When a flow sends, and when it pauses. Times count from its start. */
#ifndef TCCC_BURSTS_H
#define TCCC_BURSTS_H

#include "flow.h"

/* Most bursts of a flow: drawn ones may be more than the scenario expects. */
#define BURSTS_MAX (1u << 20)

bool bursts_are_valid(const struct tccc_flow_request *asked, const struct tccc_burst *bursts);
u64 bursts_after(const struct flow *flow, u64 sent_ns);
bool bursts_last(struct flow *flow, u64 now_ns, u64 *until_ns);

/* When the flow has sent for this long. At the end of a burst it is the start of the next. */
static inline u64 flow_after(const struct flow *flow, u64 sent_ns)
{
	return flow->bursts ? bursts_after(flow, sent_ns) : sent_ns;
}

#endif
