/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The one header that an algorithm includes. It declares the kernel's names and defines nine macros: CC_OP, TUNABLE,
 * TUNABLE_WAS, PHASES, STATE_FITS, PRIVATE_STORAGE, SHARED_STORAGE, TIMES_SINGLE_PACKETS and ALGORITHM. The same file
 * compiles for the kernel and, with -DTCCC_HOST, natively for the host tests.
 *
 * The command line learns everything about an algorithm from the type information (BTF) of its object. Tags carry
 * the tunables, the title, the source and the header text. Two read-only variables point at the phases and the
 * state.
 */
#ifndef TCCC_BPF_H
#define TCCC_BPF_H

#include "kernel.bpf.h"
#include "tcp.bpf.h"
#include "math.bpf.h"
#include "compat.bpf.h"

#ifndef TCCC_CARD
#define TCCC_CARD "" /* the header of the algorithm's file, given by the build */
#endif

#ifdef TCCC_HOST
#define TCCC_TAG(text)
#define TUNABLE_WAS(type, former, name) _Static_assert(1, "")
#ifndef TCCC_TUNABLE_STORAGE
#define TCCC_TUNABLE_STORAGE volatile
#endif
#define CC_OP(ret, name, ...) static ret name(__VA_ARGS__)
#else
#define TCCC_TAG(text) __attribute__((btf_decl_tag(text)))
#define TCCC_TUNABLE_STORAGE const volatile
#define TUNABLE_WAS(type, former, name) extern TCCC_TUNABLE_STORAGE type name TCCC_TAG("tccc.former=" #former)
#define CC_OP(ret, name, ...)                                                                                          \
	SEC("struct_ops")                                                                                              \
	ret BPF_PROG(name, ##__VA_ARGS__)
#endif

/*
 * A parameter that a user may set at load: TUNABLE(u32, name, default, lowest, highest, "unit", "why this default").
 * Numbers are literals, so the tag shows them as written. A tunable that had another name before has
 * TUNABLE_WAS(u32, former, name); above it. The former name is refused, and the message names the new one.
 */
#define TUNABLE(type, name, default_, low, high, unit, why)                                                            \
	TCCC_TUNABLE_STORAGE type name TCCC_TAG("tccc.tunable=" #default_ "|" #low "|" #high "|" unit "|" why) =       \
		default_

/* The algorithm's own phases, each named PHASE_ and the paper's word. The first byte of the state holds one of them. */
#define PHASES(...)                                                                                                    \
	enum tccc_phase { __VA_ARGS__ };                                                                               \
	const volatile enum tccc_phase tccc_phases = 0

/* A random number from 0 to n - 1, n a constant. In the native build and in virtual time it depends on the seed alone. */
#define random_below(n) ((u32)((u64)bpf_get_prandom_u32() * (n) >> 32))

/* The state fits the socket's private area and begins with the phase. */
#define STATE_FITS(type)                                                                                               \
	_Static_assert(sizeof(type) <= CA_PRIVATE_BYTES, "private state is larger than the socket's 104 bytes");       \
	_Static_assert(__builtin_offsetof(type, phase) == 0 && sizeof(((type *)0)->phase) == 1,                        \
		       "the first byte of the state is the phase");                                                    \
	const type *const volatile tccc_state = 0

/*
 * Private state that does not fit the 104 bytes: PRIVATE_STORAGE(name, struct), one per algorithm. It defines
 * name_get(sk), name_create(sk) and name_delete(sk). A block exists from its creation on, all zeroes at first. The first
 * two return NULL if there is none, or no memory for one, and the algorithm must work without it. `release` must call
 * name_delete, because a socket may come back to the algorithm.
 */
#define PRIVATE_STORAGE_BYTES_MAX 4096
#define TCCC_UNUSED __attribute__((unused))
#ifdef TCCC_HOST
#define TCCC_STORAGE_OF(name) host_storage_get(sk)
#define TCCC_STORAGE_NEW(name) host_storage_create(sk)
#define TCCC_STORAGE_END(name) host_storage_delete(sk)
#define TCCC_STORAGE_MAP(name, kind)
#else
#define TCCC_STORAGE_OF(name) bpf_sk_storage_get(&name, sk, NULL, 0)
#define TCCC_STORAGE_NEW(name) bpf_sk_storage_get(&name, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE)
#define TCCC_STORAGE_END(name) bpf_sk_storage_delete(&name, sk)
#define TCCC_STORAGE_MAP(name, kind)                                                                                   \
	struct {                                                                                                       \
		__uint(type, BPF_MAP_TYPE_SK_STORAGE);                                                                 \
		__uint(map_flags, BPF_F_NO_PREALLOC);                                                                  \
		__type(key, int);                                                                                      \
		__type(value, kind);                                                                                   \
	} name SEC(".maps");
#endif
#define PRIVATE_STORAGE(name, kind)                                                                                    \
	TCCC_STORAGE_MAP(name, kind)                                                                                   \
	static __always_inline TCCC_UNUSED kind *name##_get(struct sock *sk)                                           \
	{                                                                                                              \
		return TCCC_STORAGE_OF(name);                                                                          \
	}                                                                                                              \
	static __always_inline TCCC_UNUSED kind *name##_create(struct sock *sk)                                        \
	{                                                                                                              \
		return TCCC_STORAGE_NEW(name);                                                                         \
	}                                                                                                              \
	static __always_inline TCCC_UNUSED void name##_delete(struct sock *sk)                                         \
	{                                                                                                              \
		TCCC_STORAGE_END(name);                                                                                \
	}                                                                                                              \
	_Static_assert(sizeof(kind) <= PRIVATE_STORAGE_BYTES_MAX, "private storage is larger than 4096 bytes")

/*
 * Storage in each socket that the algorithm shares with the program bpf/option/PROGRAM.bpf.c:
 * SHARED_STORAGE(program, name, struct). It is for work that an algorithm cannot do itself and a sock_ops program
 * can. The loader attaches that program to a cgroup when it registers the algorithm, and both use one map.
 */
#ifdef TCCC_HOST
#define SHARED_STORAGE(program, name, kind) char name
#else
#define SHARED_STORAGE(program, name, kind)                                                                            \
	struct {                                                                                                       \
		__uint(type, BPF_MAP_TYPE_SK_STORAGE);                                                                 \
		__uint(map_flags, BPF_F_NO_PREALLOC);                                                                  \
		__type(key, int);                                                                                      \
		__type(value, kind);                                                                                   \
	} name SEC(".maps") TCCC_TAG("tccc.companion=" #program)
#endif

/*
 * Follows SHARED_STORAGE if the measurement needs packets that arrive one by one. The loader reports where packets
 * are merged.
 */
#define TIMES_SINGLE_PACKETS TCCC_TAG("tccc.times_single_packets")

/*
 * The ops table of the algorithm, under its name: ALGORITHM(id, "title", "source") = {.ssthresh = (void *)..., ...};
 * The id is the file stem and the name on the command line; .name repeats it for the kernel, and a test compares them.
 */
#ifdef TCCC_FOR_BPFTOOL
#define TCCC_REGISTRATION ".struct_ops" /* bpftool of Debian 12 does not support links */
#else
#define TCCC_REGISTRATION ".struct_ops.link"
#endif
#ifdef TCCC_HOST
#define ALGORITHM(id, title, source)                                                                                   \
	const char *const tccc_host_title = title;                                                                     \
	struct tcp_congestion_ops tccc_host_ops
#else
#define ALGORITHM(id, title, source)                                                                                   \
	char LICENSE[] SEC("license") = "GPL";                                                                         \
	SEC(TCCC_REGISTRATION)                                                                                         \
	struct tcp_congestion_ops id TCCC_TAG("tccc.title=" title) TCCC_TAG("tccc.source=" source)                     \
		TCCC_TAG("tccc.card=" TCCC_CARD)
#endif

#endif
