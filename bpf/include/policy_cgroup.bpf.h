/* SPDX-License-Identifier: GPL-2.0-only */
/* Rules by cgroup: every cgroup that a rule concerns, by id. select.bpf.c keeps the map up to date. */
#ifndef TCCC_POLICY_CGROUP_BPF_H
#define TCCC_POLICY_CGROUP_BPF_H

#include "policy_rules.bpf.h"

#define CGROUPS_MAX 32768 /* cgroups in rules and their ancestors; further ones are counted */

/* A cgroup that a rule concerns: the rules that name it, and its node on the path to cgroups named by path. */
struct cgroup_place {
	u64 rules;
	u32 node;
	u32 pad;
};

struct {
	__uint(type, MAP_HASH);
	__uint(max_entries, CGROUPS_MAX);
	__type(key, u64);
	__type(value, struct cgroup_place);
} tccc_cgroups SEC(".maps");

static __always_inline u64 rules_of_cgroup(u64 id)
{
	const struct cgroup_place *place = bpf_map_lookup_elem(&tccc_cgroups, &id);

	return place ? place->rules : 0;
}

#endif
