// SPDX-License-Identifier: GPL-2.0-only
/*
 * ECT(1) for algorithms that ask for it: changes ECT(0) in the packets of their sockets, at the egress of a device.
 *
 * Linux 7 has a flag of the ops table for ECT(1), TCP_CONG_ECT_1_NEGOTIATION. It reaches the handshake, but data carries
 * ECT(0). This program reads the flag of the algorithm that the packet's socket has now. So no mark in the socket is
 * needed, and a socket that goes to another algorithm loses ECT(1) with its next packet. The socket must have negotiated
 * AccECN (RFC 9768). Not-ECT and CE stay as they are.
 *
 * Other packets cost one call, which reads the socket, its protocol and two fields. A packet that segmentation offload will
 * divide has one header, which each of its segments gets.
 *
 * Limits: packets without a socket, such as forwarded ones, stay as they are. So do those of a container whose device
 * leads out of its network namespace: the companion is attached to the devices of one namespace.
 */
#include "kernel.bpf.h"

/* The kernel's TCX_NEXT: the next program decides. */
#define TCX_NEXT -1

/* ECN, the low bits of IPv4's type of service and of IPv6's traffic class: RFC 3168, 5; RFC 9331, 4.1. */
#define ECN_MASK 3
#define ECT_1 1
#define ECT_0 2
/* Of IPv4's checksum, bytes. */
#define CHECKSUM_AT 10

/* The context of a tc program, from the user-space interface linux/bpf.h. */
struct __sk_buff {
	__u32 len;
	__u32 others[41];
	__u64 sk; /* struct bpf_sock */
};

/* Fields that no algorithm needs. */
struct inet_connection_sock___ops {
	const struct tcp_congestion_ops *icsk_ca_ops;
} KERNEL_TYPE;

struct tcp_congestion_ops___flags {
	u32 flags;
} KERNEL_TYPE;

struct sk_buff___place {
	unsigned char *head;
	unsigned char *data;
	u16 network_header; /* from head */
} KERNEL_TYPE;

extern void *bpf_cast_to_kern_ctx(void *ctx) __ksym;

static __always_inline bool wants_ect_1(const struct tcp_sock *tp)
{
	const struct inet_connection_sock___ops *icsk = (const void *)tp;
	const struct tcp_congestion_ops___flags *ops = (const void *)icsk->icsk_ca_ops;

	return ops->flags & TCP_CONG_ECT_1_NEGOTIATION && tp->ecn_flags & TCP_ECN_ACCECN;
}

/*
 * Where the network header begins in the packet, which may have a link-layer header before it. The verifier takes no sum of
 * pointers that it has loaded itself, so a helper reads them.
 */
static __always_inline u32 network_offset(struct __sk_buff *skb)
{
	const struct sk_buff___place *place = bpf_cast_to_kern_ctx(skb);
	const u64 head = (u64)BPF_CORE_READ(place, head), data = (u64)BPF_CORE_READ(place, data);

	return (u32)(head + BPF_CORE_READ(place, network_header) - data);
}

/* The first two bytes of both versions are version, and then ECN. IPv4 has a checksum. */
static __always_inline void change(struct __sk_buff *skb, u32 at)
{
	u8 was[2] __attribute__((aligned(2))), now[2] __attribute__((aligned(2)));
	u32 shift;

	if (bpf_skb_load_bytes(skb, at, was, sizeof(was)))
		return;
	shift = was[0] >> 4 == 6 ? 4 : 0;
	if ((was[1] >> shift & ECN_MASK) != ECT_0)
		return;
	now[0] = was[0];
	now[1] = was[1] ^ (u8)((ECT_0 ^ ECT_1) << shift);
	if (!shift)
		bpf_l3_csum_replace(skb, at + CHECKSUM_AT, *(u16 *)was, *(u16 *)now, sizeof(u16));
	bpf_skb_store_bytes(skb, at, now, sizeof(now), 0);
}

SEC("tcx/egress")
int ect1(struct __sk_buff *skb)
{
	struct bpf_sock *sk = (struct bpf_sock *)skb->sk;
	const struct tcp_sock *tp;

	if (!sk)
		return TCX_NEXT;
	tp = (const struct tcp_sock *)bpf_skc_to_tcp_sock(sk);
	if (tp && wants_ect_1(tp))
		change(skb, network_offset(skb));
	return TCX_NEXT;
}

char _license[] SEC("license") = "GPL";
