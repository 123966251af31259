/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The third build of an algorithm's file: a module of the guest kernel of virtual time, with that kernel's own headers.
 * The compiler includes this header before the file (-include). It replaces tccc.bpf.h, kernel.bpf.h and compat.bpf.h.
 * tcp.bpf.h and math.bpf.h are used unchanged.
 *
 * Every tunable is a module parameter, which refuses values outside its range. The parameter `name=` is the name under
 * which the algorithm registers. One guest may run an algorithm with several sets of tunables, each as its own module.
 */
#ifndef TCCC_NATIVE_H
#define TCCC_NATIVE_H

#include <linux/hashtable.h>
#include <linux/kstrtox.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/version.h>
#include <net/dst.h>
#include <net/inet_ecn.h>
#include <net/route.h>
#include <net/tcp.h>

#define TCCC_BPF_H
#define TCCC_KERNEL_BPF_H
#define TCCC_COMPAT_BPF_H

/* Names that both our headers (tcp.bpf.h, math.bpf.h) and the kernel's headers define. */
#undef min
#undef max
#undef after
#undef tcp_sk
#undef inet_csk
#define before tccc_before
#define inet_csk tccc_inet_csk
#define tcp_sk tccc_tcp_sk
#define inet_csk_ca tccc_inet_csk_ca
#define tcp_packets_in_flight tccc_tcp_packets_in_flight
#define tcp_min_rtt tccc_tcp_min_rtt

/* In BPF, __noinline functions are global. In modules they are static, so that two modules may use one name. */
#define __noinline static noinline
#define __ksym
#define BPF_CORE_READ_BITFIELD(object, field) ((object)->field)
#define CA_PRIVATE_BYTES ICSK_CA_PRIV_SIZE
#define bpf_ktime_get_ns() ktime_get_ns()
/* The kernel's own functions, which the seed of the run alone decides. A port then draws what its original draws. */
#define bpf_get_prandom_u32() get_random_u32()
#define random_below(n) get_random_u32_below(n)

#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 0, 0)
/* A compiler names these where an algorithm uses a flag that this kernel does not have. */
#define TCP_CONG_NEEDS_ACCECN accurate_ecn_needs_linux_7_3
#define TCP_CONG_ECT_1_NEGOTIATION ect1_needs_linux_7_3
#define TCP_CONG_NO_FALLBACK_RFC3168 accurate_ecn_needs_linux_7_3
#endif
#define TCP_ECN_ACCECN 16 /* set by Linux 7.0 and newer */
#ifndef TCP_ECN_OK
#define TCP_ECN_OK TCP_ECN_MODE_RFC3168 /* its name in Linux 7.0 and newer */
#endif

/*
 * Sets the only socket option that modules can, IP_TOS. This is the body of the kernel's __ip_sock_set_tos, which
 * modules cannot call. The caller has locked the socket.
 */
static __maybe_unused long bpf_setsockopt(struct sock *sk, int level, int option, const void *value, int length)
{
	const int *mark = value;
	const u8 old = inet_sk(sk)->tos;
	u8 tos;

	if (level != SOL_IP || option != IP_TOS || length != sizeof(*mark))
		return -EINVAL;
	tos = (*mark & ~INET_ECN_MASK) | (old & INET_ECN_MASK);
	if (tos == old)
		return 0;
	WRITE_ONCE(inet_sk(sk)->tos, tos);
	WRITE_ONCE(sk->sk_priority, rt_tos2priority(tos));
	sk_dst_reset(sk);
	return 0;
}

static __maybe_unused long bpf_getsockopt(struct sock *sk, int level, int option, int *value, int length)
{
	if (level != SOL_IP || option != IP_TOS || length != sizeof(*value))
		return -EINVAL;
	*value = inet_sk(sk)->tos;
	return 0;
}

/* The helper's body, which acknowledges everything before rcv_nxt at once. */
static __maybe_unused long bpf_tcp_send_ack(void *tp, u32 rcv_nxt)
{
	__tcp_send_ack(tp, rcv_nxt, 0);
	return 0;
}

#include "math.bpf.h"
#include "tcp.bpf.h"

/* Callbacks are plain functions. */
#define CC_OP(ret, name, ...) static ret name(__VA_ARGS__)

/* The guest's cong_control has four parameters. The other form is compiled but not used. */
#define CONG_CONTROL_BOTH(id, body)                                                                                    \
	CC_OP(void, id##_cong_control, struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)               \
	{                                                                                                              \
		body(sk, rs);                                                                                          \
	}                                                                                                              \
	CC_OP(void, __maybe_unused id##_cong_control_2, struct sock *sk, const struct rate_sample *rs)                 \
	{                                                                                                              \
		body(sk, rs);                                                                                          \
	}

/* A tunable as a module parameter. Ranges are s64 for a signed type, otherwise u64. */
struct tccc_tunable {
	void *place;
	u8 bytes;
	bool is_signed;
	u64 low;
	u64 high;
};

static bool tccc_is_in_range(const struct tccc_tunable *tunable, u64 value)
{
	if (tunable->is_signed)
		return (s64)value >= (s64)tunable->low && (s64)value <= (s64)tunable->high;
	return value >= tunable->low && value <= tunable->high;
}

/* Sets a tunable. If it refuses the value, the kernel refuses the module. */
static int tccc_set_tunable(const char *text, const struct kernel_param *parameter)
{
	const struct tccc_tunable *tunable = parameter->arg;
	u64 value;
	int error = tunable->is_signed ? kstrtos64(text, 0, (s64 *)&value) : kstrtou64(text, 0, &value);

	if (error)
		return error;
	if (!tccc_is_in_range(tunable, value))
		return -EINVAL;
	memcpy(tunable->place, &value, tunable->bytes); /* little endian: the low bytes come first */
	return 0;
}

static __maybe_unused const struct kernel_param_ops tccc_tunable_ops = {.set = tccc_set_tunable};

/* tccc refuses former names before the guest starts. */
#define TUNABLE_WAS(type, former, name) static_assert(true)
#define TUNABLE(type, name, default_, low_, high_, unit, why)                                                          \
	static type name = default_;                                                                                   \
	static const struct tccc_tunable tccc_tunable_##name = {                                                       \
		.place = &name,                                                                                        \
		.bytes = sizeof(type),                                                                                 \
		.is_signed = (type)-1 < (type)1,                                                                       \
		.low = (u64)(low_),                                                                                    \
		.high = (u64)(high_),                                                                                  \
	};                                                                                                             \
	static_assert((default_) >= (low_) && (default_) <= (high_));                                                  \
	module_param_cb(name, &tccc_tunable_ops, (void *)&tccc_tunable_##name, 0)

/* A block of PRIVATE_STORAGE. A module is one algorithm with one kind of block. */
struct tccc_block {
	struct hlist_node node;
	const struct sock *sk;
	u64 bytes[];
};

#define TCCC_BLOCK_BITS 8
static __maybe_unused DEFINE_HASHTABLE(tccc_blocks, TCCC_BLOCK_BITS);
static __maybe_unused DEFINE_SPINLOCK(tccc_blocks_lock);

/* The block stays where it is after the lock is released, because only its socket's owner frees it. */
static struct tccc_block *tccc_block_of(const struct sock *sk)
{
	struct tccc_block *block, *found = NULL;

	spin_lock_bh(&tccc_blocks_lock);
	hash_for_each_possible(tccc_blocks, block, node, (unsigned long)sk)
	{
		if (block->sk == sk)
			found = block;
	}
	spin_unlock_bh(&tccc_blocks_lock);
	return found;
}

static __maybe_unused void *tccc_storage_get(const struct sock *sk)
{
	struct tccc_block *block = tccc_block_of(sk);

	return block ? block->bytes : NULL;
}

static __maybe_unused void *tccc_storage_create(const struct sock *sk, size_t bytes)
{
	struct tccc_block *block = tccc_block_of(sk);

	if (!block) {
		block = kzalloc(sizeof(*block) + bytes, GFP_ATOMIC);
		if (!block)
			return NULL;
		block->sk = sk;
		spin_lock_bh(&tccc_blocks_lock);
		hash_add(tccc_blocks, &block->node, (unsigned long)sk);
		spin_unlock_bh(&tccc_blocks_lock);
	}
	return block->bytes;
}

static __maybe_unused void tccc_storage_delete(const struct sock *sk)
{
	struct tccc_block *block = tccc_block_of(sk);

	if (!block)
		return;
	spin_lock_bh(&tccc_blocks_lock);
	hash_del(&block->node);
	spin_unlock_bh(&tccc_blocks_lock);
	kfree(block);
}

#define PRIVATE_STORAGE(name, kind)                                                                                    \
	static __always_inline kind *name##_get(struct sock *sk)                                                       \
	{                                                                                                              \
		return tccc_storage_get(sk);                                                                           \
	}                                                                                                              \
	static __always_inline kind *name##_create(struct sock *sk)                                                    \
	{                                                                                                              \
		return tccc_storage_create(sk, sizeof(kind));                                                          \
	}                                                                                                              \
	static __always_inline void name##_delete(struct sock *sk)                                                     \
	{                                                                                                              \
		tccc_storage_delete(sk);                                                                               \
	}                                                                                                              \
	static_assert(sizeof(kind) <= PAGE_SIZE)

/* An algorithm with a companion does not compile for the guest. The compiler's first error gives the reason. */
#define SHARED_STORAGE(program, name, kind)                                                                            \
	static_assert(false, "it needs the companion program " #program ", which is BPF: the guest has none")
#define TIMES_SINGLE_PACKETS

#define PHASES(...) enum tccc_phase { __VA_ARGS__ }
#define STATE_FITS(type)                                                                                               \
	static_assert(sizeof(type) <= CA_PRIVATE_BYTES);                                                               \
	static_assert(offsetof(type, phase) == 0 && sizeof(((type *)0)->phase) == 1)

/* The ops table that the algorithms' files fill. It has the members of every kernel, in the forms of kernel.bpf.h. */
struct tccc_ops {
	void *ssthresh;
	void *cong_avoid;
	void *set_state;
	void *cwnd_event;
	void *cwnd_event_tx_start;
	void *in_ack_event;
	void *pkts_acked;
	void *min_tso_segs;
	void *cong_control;
	void *cong_control___2;
	void *undo_cwnd;
	void *sndbuf_expand;
	void *init;
	void *release;
	char name[TCP_CA_NAME_MAX];
	u32 flags;
};

static struct tcp_congestion_ops tccc_kernel_ops;

static char tccc_name[TCP_CA_NAME_MAX];
module_param_string(name, tccc_name, sizeof(tccc_name), 0);

/* What host/loader/adapt.rs does for BPF: members that this kernel lacks, and other forms of those it has, are left out. */
static int __init tccc_register(const struct tccc_ops *ops)
{
	struct tcp_congestion_ops *to = &tccc_kernel_ops;

	to->ssthresh = ops->ssthresh;
	to->cong_avoid = ops->cong_avoid;
	to->set_state = ops->set_state;
	to->cwnd_event = ops->cwnd_event;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 0, 0)
	to->cwnd_event_tx_start = ops->cwnd_event_tx_start;
#endif
	to->in_ack_event = ops->in_ack_event;
	to->pkts_acked = ops->pkts_acked;
	to->min_tso_segs = ops->min_tso_segs;
	to->cong_control = ops->cong_control;
	to->undo_cwnd = ops->undo_cwnd;
	to->sndbuf_expand = ops->sndbuf_expand;
	to->init = ops->init;
	to->release = ops->release;
	to->flags = ops->flags;
	to->owner = THIS_MODULE;
	strscpy(to->name, *tccc_name ? tccc_name : ops->name);
	return tcp_register_congestion_control(to);
}

#define ALGORITHM(id, title, source)                                                                                   \
	MODULE_LICENSE("GPL");                                                                                         \
	MODULE_DESCRIPTION(title);                                                                                     \
	static const struct tccc_ops tccc_ops_##id;                                                                    \
	static int __init tccc_begin(void)                                                                             \
	{                                                                                                              \
		return tccc_register(&tccc_ops_##id);                                                                  \
	}                                                                                                              \
	static void __exit tccc_end(void)                                                                              \
	{                                                                                                              \
		tcp_unregister_congestion_control(&tccc_kernel_ops);                                                   \
	}                                                                                                              \
	module_init(tccc_begin);                                                                                       \
	module_exit(tccc_end);                                                                                         \
	static const struct tccc_ops tccc_ops_##id

#endif
