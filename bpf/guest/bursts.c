// SPDX-License-Identifier: GPL-2.0-only
/* When a flow sends, and when it pauses, as src/lab/load/bursts.rs has drawn it. */
#include "bursts.h"

bool bursts_are_valid(const struct tccc_flow_request *asked, const struct tccc_burst *bursts)
{
	u64 index;

	if (bursts[0].start_ns || bursts[0].before_ns)
		return false;
	for (index = 1; index < asked->bursts; index++) {
		const struct tccc_burst *before = &bursts[index - 1], *burst = &bursts[index];

		if (burst->before_ns < before->before_ns || burst->start_ns < before->start_ns ||
		    burst->start_ns - before->start_ns < burst->before_ns - before->before_ns)
			return false;
	}
	return bursts[asked->bursts - 1].start_ns >= asked->length_ns;
}

u64 bursts_after(const struct flow *flow, u64 sent_ns)
{
	u64 low = 0, high = flow->asked.bursts;
	const struct tccc_burst *burst;

	/* The last burst before which the flow has sent for at most this long. */
	while (high - low > 1) {
		const u64 middle = (low + high) / 2;

		if (flow->bursts[middle].before_ns <= sent_ns)
			low = middle;
		else
			high = middle;
	}
	burst = &flow->bursts[low];
	return burst->start_ns + sent_ns - burst->before_ns;
}

/* Whether the flow sends now, before its end, and until when it does so or pauses. Times do not go back from call to call. */
bool bursts_last(struct flow *flow, u64 now_ns, u64 *until_ns)
{
	const struct tccc_burst *burst, *next;
	u64 off_ns;

	while (now_ns >= flow->bursts[flow->burst + 1].start_ns)
		flow->burst++;
	burst = &flow->bursts[flow->burst];
	next = burst + 1;
	off_ns = burst->start_ns + next->before_ns - burst->before_ns;
	*until_ns = min(now_ns < off_ns ? off_ns : next->start_ns, flow->asked.length_ns);
	return now_ns < off_ns;
}
