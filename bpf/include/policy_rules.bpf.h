/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Rules as bits: each kind of condition yields the set of rules that it allows, as a 64-bit word. A rule matches if its
 * bit is in every set, and the lowest bit wins. src/host/policy/table.rs fills the tables. src/host/policy/decide.rs does the
 * same in Rust.
 */
#ifndef TCCC_POLICY_RULES_BPF_H
#define TCCC_POLICY_RULES_BPF_H

#include "policy_kernel.bpf.h"
#include "policy_label.h"
#include <bpf/bpf_endian.h>

#define RULES_MAX 64
#define ARMS_MAX 256
#define RULE_ARMS_MAX 16
#define BUCKETS 10000 /* the resolution of a split is 0.01 % */
#define ALL_RULES (~0ull)

#define MAPPED_WORD 0xffffull /* third word of an IPv4 address mapped to IPv6 */

/* What a split hashes: SplitBy of src/host/policy/rule.rs. */
enum { BY_CONNECTION, BY_PEER, BY_PREFIX };

#define PREFIX4_SHIFT 8	 /* a /24 */
#define PREFIX6_SHIFT 16 /* a /48: bits of the upper half */

/* Flags of a rule. */
#define RULE_OVERRIDES 1u	/* replaces the application's own choice */
#define RULE_OVERRIDES_ROUTE 2u /* replaces the algorithm of the route */
#define RULE_LABELS_KEPT                                                                                               \
	4u /* also labels connections that keep their algorithm, because they are compared with the others */

/* Flags of an arm. */
#define ARM_WANTS_ECN 1u

struct policy_rule {
	u64 salt; /* hash of the rule's name, which makes the splits of different rules independent */
	u32 first_arm;
	u32 arms;
	u32 by;
	u32 flags;
};

struct policy_arm {
	char algorithm[POLICY_NAME]; /* empty: keep */
	u32 below;		     /* exclusive end of its buckets; they begin at the end of the arm before */
	u32 slot;
	u32 flags;
	u32 pad;
};

const volatile struct policy_rule rules[RULES_MAX];
const volatile struct policy_arm arms[ARMS_MAX];

/* For each kind of condition, the rules that have none of that kind. */
const volatile u64 any_cgroup;
const volatile u64 any_netns;
const volatile u64 any_remote;
const volatile u64 any_local_port;
const volatile u64 any_remote_port;
const volatile u64 any_current;
/* Rules for incoming connections, and for outgoing ones. */
const volatile u64 rules_in;
const volatile u64 rules_out;
/* Rules with an arm whose algorithm wants ECN. */
const volatile u64 rules_ecn;
/* The highest power of two below the number of entries of `remotes`; 0 for one entry. */
const volatile u32 remotes_top;
const volatile u32 remotes_count;

/* First address of a range, and the rules that allow the range. It ends where the next range begins. */
struct remote_range {
	u64 hi;
	u64 lo;
	u64 rules;
};

struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct remote_range);
} tccc_remotes SEC(".maps");

struct {
	__uint(type, MAP_HASH);
	__uint(max_entries, 1);
	__type(key, u16);
	__type(value, u64);
} tccc_loc_ports SEC(".maps");

struct {
	__uint(type, MAP_HASH);
	__uint(max_entries, 1);
	__type(key, u16);
	__type(value, u64);
} tccc_rem_ports SEC(".maps");

/* Keyed by the kernel's cookie, because inode numbers of namespaces are reused. */
struct {
	__uint(type, MAP_HASH);
	__uint(max_entries, 1);
	__type(key, u64);
	__type(value, u64);
} tccc_netns SEC(".maps");

struct {
	__uint(type, MAP_HASH);
	__uint(max_entries, 1);
	__type(key, struct policy_name);
	__type(value, u64);
} tccc_currents SEC(".maps");

/* Addresses are numbers in IPv6 form, ports are in host byte order. */
struct ends {
	u64 remote_hi;
	u64 remote_lo;
	u64 local_hi;
	u64 local_lo;
	u16 remote_port;
	u16 local_port;
};

static __always_inline u64 number_of(u32 upper, u32 lower)
{
	return (u64)bpf_ntohl(upper) << 32 | bpf_ntohl(lower);
}

static __always_inline u64 mapped(u32 address)
{
	return MAPPED_WORD << 32 | bpf_ntohl(address);
}

static __always_inline bool is_v4(const struct ends *ends)
{
	return !ends->remote_hi && ends->remote_lo >> 32 == MAPPED_WORD;
}

/* Always 0, but unknown to the verifier. With a constant it would follow every path of the search below. */
volatile u32 unknown_zero;

/* Binary search for the last range that begins at or before the address. */
static __always_inline u64 rules_of_remote(const struct ends *ends)
{
	const struct remote_range *range;
	u32 at = unknown_zero;

	for (u32 bit = remotes_top; bit; bit >>= 1) {
		u32 next = at + bit;

		range = next < remotes_count ? bpf_map_lookup_elem(&tccc_remotes, &next) : 0;
		if (range &&
		    (range->hi < ends->remote_hi || (range->hi == ends->remote_hi && range->lo <= ends->remote_lo)))
			at = next;
	}
	range = bpf_map_lookup_elem(&tccc_remotes, &at);
	return range ? range->rules : 0;
}

static __always_inline u64 found(const u64 *mask)
{
	return mask ? *mask : 0;
}

static __always_inline u64 rules_of_ends(const struct ends *ends)
{
	u64 left = ALL_RULES;
	u16 port;

	if (any_remote != ALL_RULES)
		left &= any_remote | rules_of_remote(ends);
	if (any_local_port != ALL_RULES) {
		port = ends->local_port;
		left &= any_local_port | found(bpf_map_lookup_elem(&tccc_loc_ports, &port));
	}
	if (any_remote_port != ALL_RULES) {
		port = ends->remote_port;
		left &= any_remote_port | found(bpf_map_lookup_elem(&tccc_rem_ports, &port));
	}
	return left;
}

static __always_inline u64 rules_of_netns(u64 cookie)
{
	return any_netns == ALL_RULES ? ALL_RULES : any_netns | found(bpf_map_lookup_elem(&tccc_netns, &cookie));
}

static __always_inline u64 rules_of_current(const struct policy_name *current)
{
	return any_current == ALL_RULES ? ALL_RULES : any_current | found(bpf_map_lookup_elem(&tccc_currents, current));
}

/* The lowest rule of a non-empty set. */
static __always_inline u32 first_of(u64 set)
{
	u32 index = 0;

	for (u32 bits = 32; bits; bits >>= 1) {
		if (!(set & ((1ull << bits) - 1))) {
			set >>= bits;
			index += bits;
		}
	}
	return index;
}

/* Adds a word to a hash, by the finalizer of MurmurHash3 (A. Appleby, public domain): every bit affects every bit. */
static __always_inline u64 mixed(u64 hash, u64 word)
{
	hash ^= word;
	hash ^= hash >> 33;
	hash *= 0xff51afd7ed558ccdull;
	hash ^= hash >> 33;
	hash *= 0xc4ceb9fe1a85ec53ull;
	return hash ^ hash >> 33;
}

/* A connection, peer or prefix has the same hash in every generation of a policy and on every kernel. */
static __always_inline u64 split_hash_of(const struct ends *ends, u32 by, u64 salt)
{
	u64 hash;

	if (by == BY_PREFIX) {
		u64 prefix = is_v4(ends) ? ends->remote_lo >> PREFIX4_SHIFT : ends->remote_hi >> PREFIX6_SHIFT;

		hash = mixed(salt, prefix);
	} else {
		hash = mixed(mixed(salt, ends->remote_hi), ends->remote_lo);
	}
	if (by == BY_CONNECTION) {
		hash = mixed(mixed(hash, ends->local_hi), ends->local_lo);
		hash = mixed(hash, (u64)ends->remote_port << 16 | ends->local_port);
	}
	return hash;
}

static __always_inline u32 bucket_of(u64 split_hash)
{
	return (split_hash >> 32) * BUCKETS >> 32;
}

/* Names what was split. These bits do not depend on the bucket, so units of all arms are alike. */
static __always_inline u32 unit_of(u64 split_hash)
{
	return split_hash;
}

#define FOLD_SALT 0x666f6c64ull

static __always_inline u8 fold_of(const struct ends *ends)
{
	return mixed(mixed(FOLD_SALT, ends->remote_hi), ends->remote_lo) >> 59;
}

/* Copies word by word. The compiler would replace a plain copy by the zeros that the constant has at build time. */
static __always_inline void read_algorithm_of(struct policy_name *name, const volatile struct policy_arm *arm)
{
	const volatile u32 *from = (const volatile u32 *)arm->algorithm;
	u32 *to = (u32 *)name;

	for (u32 i = 0; i < POLICY_NAME / sizeof(u32); i++)
		to[i] = from[i];
}

/* Index in `arms` of the arm that a bucket of a rule belongs to. */
static __always_inline u32 arm_of(const volatile struct policy_rule *rule, u32 bucket)
{
	u32 first = rule->first_arm;
	u32 count = rule->arms;
	u32 chosen = 0;

	for (u32 i = 1; i < RULE_ARMS_MAX; i++) {
		if (i >= count)
			break;
		if (bucket >= arms[(first + i - 1) % ARMS_MAX].below)
			chosen = i;
	}
	return (first + chosen) % ARMS_MAX;
}

#endif
