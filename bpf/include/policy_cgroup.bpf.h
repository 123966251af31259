/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Rules by cgroup that survive restarts: a service gets a cgroup with a new id at each start, so the ids are kept up to
 * date here. The kernel tells of a cgroup before anything can enter it, and of its end when no socket is left in it.
 */
#ifndef TCCC_POLICY_CGROUP_BPF_H
#define TCCC_POLICY_CGROUP_BPF_H

#include "policy_rules.bpf.h"

#define CGROUP_NAME 128
#define CGROUPS_MAX 32768 /* in rules, or on the way to them; what finds no room is counted */
#define ANYWHERE 0	  /* instead of a node: the name of a systemd unit */
#define HIERARCHY_V2 0

/* A cgroup that matters: rules that are for it, and its place on the way to cgroups that rules name by path. */
struct cgroup_place {
	u64 rules;
	u32 node;
	u32 pad;
};

/* A name that rules wait for: below a node, or anywhere. */
struct awaited_key {
	u32 node;
	char name[CGROUP_NAME];
};

struct {
	__uint(type, MAP_HASH);
	__uint(max_entries, CGROUPS_MAX);
	__type(key, u64);
	__type(value, struct cgroup_place);
} cgroups SEC(".maps");

struct {
	__uint(type, MAP_HASH);
	__uint(max_entries, 1);
	__type(key, struct awaited_key);
	__type(value, struct cgroup_place);
} awaited SEC(".maps");

/* Keys are too large for the stack beside what else is on it. */
struct {
	__uint(type, MAP_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct awaited_key);
} awaited_scratch SEC(".maps");

/* cgroups that found no room: connections in them are decided as if no rule were for them. */
u64 cgroups_missed;

static __always_inline u64 rules_of_cgroup(u64 id)
{
	const struct cgroup_place *place = bpf_map_lookup_elem(&cgroups, &id);

	return place ? place->rules : 0;
}

static __always_inline void add_awaited(struct cgroup_place *place, struct awaited_key *key, u32 node)
{
	const struct cgroup_place *awaits;

	key->node = node;
	awaits = bpf_map_lookup_elem(&awaited, key);
	if (!awaits)
		return;
	place->rules |= awaits->rules;
	if (awaits->node)
		place->node = awaits->node;
}

static __always_inline struct cgroup___policy *policy_cgroup(struct cgroup *cgroup)
{
	return (struct cgroup___policy *)cgroup;
}

SEC("tp_btf/cgroup_mkdir")
int BPF_PROG(on_cgroup_mkdir, struct cgroup *created)
{
	struct cgroup___policy *cgroup = policy_cgroup(created);
	const struct cgroup_place *parent;
	struct cgroup_place place = {};
	struct awaited_key *key;
	u32 zero = 0;
	u64 id;

	if (cgroup->root->hierarchy_id != HIERARCHY_V2)
		return 0;
	key = bpf_map_lookup_elem(&awaited_scratch, &zero);
	if (!key)
		return 0;
	__builtin_memset(key, 0, sizeof(*key));
	bpf_probe_read_kernel_str(key->name, CGROUP_NAME, cgroup->kn->name);
	id = BPF_CORE_READ(cgroup, self.parent, cgroup, kn, id);
	parent = bpf_map_lookup_elem(&cgroups, &id);
	if (parent)
		place.rules = parent->rules;
	add_awaited(&place, key, ANYWHERE);
	if (parent && parent->node)
		add_awaited(&place, key, parent->node);
	if (!place.rules && !place.node)
		return 0;
	id = cgroup->kn->id;
	if (bpf_map_update_elem(&cgroups, &id, &place, MAP_ANY))
		__sync_fetch_and_add(&cgroups_missed, 1);
	return 0;
}

SEC("tp_btf/cgroup_release")
int BPF_PROG(on_cgroup_release, struct cgroup *released)
{
	struct cgroup___policy *cgroup = policy_cgroup(released);
	u64 id;

	if (cgroup->root->hierarchy_id != HIERARCHY_V2)
		return 0;
	id = cgroup->kn->id;
	bpf_map_delete_elem(&cgroups, &id);
	return 0;
}

#endif
