// SPDX-License-Identifier: GPL-2.0-only
/* CUBIC's equations under names of their own, for tests/host/cubic.rs. */
#include "../../bpf/cc/bpf_cubic.bpf.c"

u32 host_time_to_origin(u32 missing, u32 scale)
{
	return time_to_origin(missing, scale);
}

u32 host_window_at(u32 t, u32 k, u32 origin, u32 scale)
{
	return window_at(t, k, origin, scale);
}

u32 host_response_scale(u32 scale, u32 give_up, u32 cut, u32 cut_in_use)
{
	return response_scale(scale, give_up, cut, cut_in_use);
}

u32 host_friendly_scale(u32 kept)
{
	return friendly_scale_of(kept);
}

u32 host_count_towards(u32 target, u32 cwnd)
{
	return count_towards(target, cwnd);
}
