// SPDX-License-Identifier: GPL-2.0-only
/* CUBIC's equations under names of their own, for tests/host/algorithms/cubic.rs. */
#include "../../bpf/cc/bpf_cubic.bpf.c"

u32 host_time_to_origin(const u32 *of)
{
	return time_to_origin(of[0], of[1]);
}

u32 host_window_at(const u32 *of)
{
	return window_at(of[0], of[1], of[2], of[3]);
}

u32 host_response_scale(const u32 *of)
{
	return response_scale(of[0], of[1], of[2], of[3]);
}

u32 host_friendly_scale(const u32 *of)
{
	return friendly_scale_of(of[0]);
}

u32 host_count_towards(const u32 *of)
{
	return count_towards(of[0], of[1]);
}
