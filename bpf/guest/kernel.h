/* SPDX-License-Identifier: GPL-2.0-only */
/* What differs between the kernels that a guest may have: Linux 6.12 and 7.3. */
#ifndef TCCC_GUEST_KERNEL_H
#define TCCC_GUEST_KERNEL_H

#include <linux/hrtimer.h>
#include <linux/version.h>
#include <net/pkt_sched.h>
#include <net/tcp.h>
#include <net/udp.h>

#include "layout.h"

#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 0, 0)

#define any_sockaddr sockaddr

static inline void timer_setup_at(struct hrtimer *timer, enum hrtimer_restart (*fire)(struct hrtimer *))
{
	hrtimer_init(timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_PINNED);
	timer->function = fire;
}

static inline void deactivate(struct net_device *dev)
{
	dev_deactivate(dev);
}

/* Says that a packet has one segment. */
static inline void set_one_segment(struct sk_buff *skb)
{
}

static inline void consume_datagram(struct sock *sk, struct sk_buff *skb)
{
	skb_consume_udp(sk, skb, skb->len);
}

static inline enum tccc_ecn negotiated_ecn(const struct tcp_sock *tp)
{
	return tp->ecn_flags & TCP_ECN_OK ? TCCC_ECN_CLASSIC : TCCC_ECN_NONE;
}

/* The socket that sends a segment, with a reference to it. */
static inline struct sock *established_sender(struct net *net, const struct iphdr *ip, const struct tcphdr *tcp)
{
	return __inet_lookup_established(net, net->ipv4.tcp_death_row.hashinfo, ip->daddr, tcp->dest, ip->saddr,
					 ntohs(tcp->source), 0, 0);
}

#else

#define any_sockaddr sockaddr_unsized

static inline void timer_setup_at(struct hrtimer *timer, enum hrtimer_restart (*fire)(struct hrtimer *))
{
	hrtimer_setup(timer, fire, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_PINNED);
}

static inline void deactivate(struct net_device *dev)
{
	dev_deactivate(dev, true);
}

static inline void set_one_segment(struct sk_buff *skb)
{
	qdisc_skb_cb(skb)->pkt_segs = 1;
}

/* The kernel's own skb_consume_udp() is not exported. */
static inline void consume_datagram(struct sock *sk, struct sk_buff *skb)
{
	consume_skb(skb);
}

static inline enum tccc_ecn negotiated_ecn(const struct tcp_sock *tp)
{
	if (tcp_ecn_mode_accecn(tp))
		return TCCC_ECN_ACCURATE;
	return tcp_ecn_mode_rfc3168(tp) ? TCCC_ECN_CLASSIC : TCCC_ECN_NONE;
}

/* The socket that sends a segment, with a reference to it. */
static inline struct sock *established_sender(struct net *net, const struct iphdr *ip, const struct tcphdr *tcp)
{
	return __inet_lookup_established(net, ip->daddr, tcp->dest, ip->saddr, ntohs(tcp->source), 0, 0);
}

#endif

/* Begins the kernel's random numbers again: patches/03-random.patch. */
void os_restart_draws(void);

#endif
