// SPDX-License-Identifier: GPL-2.0-only
/* What all flows share: the payload, and the number of flows that are not over. */
#include "flow.h"

struct page *payload;
u32 flows_unfinished;

/* Called when a connection has closed, or when no datagram is left on the path. The last call ends the flow. */
void flow_end_one(struct flow *flow)
{
	if (--flow->open)
		return;
	flow->report.is_done = 1;
	flows_unfinished--;
}
