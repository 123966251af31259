/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel types and fields that an algorithm may see, and nothing more: one line per field.
 * In the kernel build, CO-RE relocates every access. In the host build, these are the structs themselves.
 */
#ifndef TCCC_KERNEL_BPF_H
#define TCCC_KERNEL_BPF_H

struct sock;

#ifdef TCCC_HOST
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;
typedef int64_t s64;
#define KERNEL_TYPE
#define SEC(name)
#define __weak
#define __ksym
#undef __always_inline /* the C library has one too */
#define __always_inline inline
#define __noinline
#define BPF_CORE_READ_BITFIELD(object, field) ((object)->field)
enum { BPF_SK_STORAGE_GET_F_CREATE = 1 };
u64 bpf_ktime_get_ns(void);
u32 bpf_get_prandom_u32(void);
void *bpf_sk_storage_get(void *map, void *sk, void *value, u64 flags);
long bpf_setsockopt(void *sk, int level, int option, void *value, int length);
long bpf_getsockopt(void *sk, int level, int option, void *value, int length);
long bpf_tcp_send_ack(void *tp, u32 rcv_nxt);
void *host_storage_get(struct sock *sk);
void *host_storage_create(struct sock *sk);
void host_storage_delete(struct sock *sk);
#else
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;
typedef u8 __u8;
typedef u16 __u16;
typedef u32 __u32;
typedef u64 __u64;
typedef s32 __s32;
typedef s64 __s64;
typedef u16 __be16;
typedef u32 __be32;
typedef u32 __wsum;
#define bool _Bool
#define true 1
#define false 0
/* Helper declarations mention these; their values are the kernel's. */
enum bpf_map_type { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_SK_STORAGE = 24 };
enum { BPF_F_NO_PREALLOC = 1, BPF_SK_STORAGE_GET_F_CREATE = 1 };
#define KERNEL_TYPE __attribute__((preserve_access_index))
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#endif

#define TCP_CA_NAME_MAX 16
#define TCP_INFINITE_SSTHRESH 0x7fffffff
#define CA_PRIVATE_BYTES 104

enum tcp_ca_state { TCP_CA_Open = 0, TCP_CA_Disorder = 1, TCP_CA_CWR = 2, TCP_CA_Recovery = 3, TCP_CA_Loss = 4 };

enum tcp_ca_event {
	CA_EVENT_TX_START,     /* first transmit with nothing in flight */
	CA_EVENT_CWND_RESTART, /* window restart after idle */
	CA_EVENT_COMPLETE_CWR, /* end of a window reduction */
	CA_EVENT_LOSS,	       /* retransmission timeout */
	CA_EVENT_ECN_NO_CE,    /* ECT set, but not CE marked */
	CA_EVENT_ECN_IS_CE,    /* received CE marked IP packet */
};

/* Who spaces a socket's packets: nobody, TCP's own timer, the fq qdisc. */
enum sk_pacing { SK_PACING_NONE = 0, SK_PACING_NEEDED = 1, SK_PACING_FQ = 2 };

/* Flags of the ops table, such as `.flags = TCP_CONG_NEEDS_ECN`. The kernel refuses all others. */
#define TCP_CONG_NON_RESTRICTED 0x1 /* any user may choose the algorithm; the loader sets it where asked for */
/* Every packet carries ECT, and the receiver of marked data gets CA_EVENT_ECN_*. Both ends must use the algorithm. */
#define TCP_CONG_NEEDS_ECN 0x2
/* Linux 7.0 and newer; older kernels refuse these. AccECN is RFC 9768. */
#define TCP_CONG_NEEDS_ACCECN 0x4	  /* a connection requests it, whatever net.ipv4.tcp_ecn is */
#define TCP_CONG_ECT_1_NEGOTIATION 0x8	  /* ECT(1) until `init` has run; data is ECT(0) all the same */
#define TCP_CONG_NO_FALLBACK_RFC3168 0x10 /* no ECN rather than that of RFC 3168 */

/* Bits of tcp_sock.ecn_flags. */
#define TCP_ECN_OK 1	     /* both ends agreed on ECN in the handshake */
#define TCP_ECN_QUEUE_CWR 2  /* the next packet of data says that the window was reduced */
#define TCP_ECN_DEMAND_CWR 4 /* each ACK carries ECE, the echo of a mark, until the sender has answered */
#define TCP_ECN_SEEN 8	     /* a packet with ECT or CE has arrived */
#define TCP_ECN_ACCECN 16    /* both ends agreed on AccECN (RFC 9768) instead; 7.0 and newer */

/* Bits of icsk_ack.pending: what the receiver owes the sender. */
enum inet_csk_ack_state_t {
	ICSK_ACK_SCHED = 1,   /* an ACK */
	ICSK_ACK_TIMER = 2,   /* an ACK that is delayed: its timer runs */
	ICSK_ACK_PUSHED = 4,  /* an ACK as soon as the application has read */
	ICSK_ACK_PUSHED2 = 8, /* two of those */
	ICSK_ACK_NOW = 16,    /* an ACK at once */
	ICSK_ACK_NOMEM = 32,  /* an ACK with a window of 0: there was no memory for the packet */
};

/* Flags passed to in_ack_event. */
enum tcp_ca_ack_event_flags {
	CA_ACK_ECE = 1 << 2, /* the ACK echoes a congestion mark */
};

/*
 * An algorithm may read every field below. The verifier lets it write these only (net/ipv4/bpf_tcp_ca.c):
 * sk_pacing_rate, sk_pacing_status, icsk_ca_priv, icsk_ack.pending, snd_cwnd, snd_cwnd_cnt, snd_ssthresh, ecn_flags.
 * Newer kernels also allow app_limited: 6.1 refuses it, 6.12 and newer do not.
 */
struct sock_common {
	u16 skc_family;
	volatile unsigned char skc_state;
} KERNEL_TYPE;

struct sock {
	struct sock_common __sk_common;
	unsigned long sk_pacing_rate;	  /* bytes per second */
	unsigned long sk_max_pacing_rate; /* bytes per second, ~0: the application set none */
	u32 sk_pacing_status;
	u8 sk_pacing_shift;	      /* TCP sends at once what the pacing rate allows in 1 s / 2^shift */
	unsigned int sk_gso_max_size; /* bytes, largest packet given to the device to segment */
} KERNEL_TYPE;

struct inet_sock {
	struct sock sk;
} KERNEL_TYPE;

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	u8 icsk_ca_state : 5;
	struct {
		u8 pending; /* ICSK_ACK_ bits */
	} icsk_ack;
	u64 icsk_ca_priv[CA_PRIVATE_BYTES / sizeof(u64)];
} KERNEL_TYPE;

/* A packet in the retransmit queue. Its control block is a struct tcp_skb_cb. */
struct sk_buff {
	char cb[48] __attribute__((aligned(8)));
} KERNEL_TYPE;

struct tcp_skb_cb {
	u32 seq;
	u32 end_seq;
	u16 tcp_gso_segs; /* packets in it */
	u8 sacked;	  /* TCPCB_ bits */
	struct {
		u32 is_app_limited : 1;
		u32 delivered; /* the socket's count when it was sent last */
	} tx;
} KERNEL_TYPE;

#define TCPCB_SACKED_RETRANS 0x02 /* its retransmission is in flight */
#define TCPCB_LOST 0x04		  /* it counts as lost */
#define TCPCB_EVER_RETRANS 0x80	  /* it was retransmitted */

/* The lowest value of a window of time, and its next candidates: s[0].v is the value. */
struct minmax_sample {
	u32 t;
	u32 v;
} KERNEL_TYPE;

struct minmax {
	struct minmax_sample s[3];
} KERNEL_TYPE;

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u32 rcv_nxt;	     /* next byte expected from the other end */
	u32 snd_una;	     /* first byte not yet acknowledged */
	u32 snd_nxt;	     /* next byte to send */
	u32 snd_cwnd;	     /* packets */
	u32 snd_cwnd_cnt;    /* packets acknowledged towards the next increase */
	u32 snd_cwnd_clamp;  /* packets */
	u32 snd_ssthresh;    /* packets */
	u32 prior_cwnd;	     /* packets, before the reduction in progress */
	u32 srtt_us;	     /* times 8 */
	u32 rttvar_us;	     /* what the RTO adds to the smoothed RTT */
	u32 mss_cache;	     /* bytes */
	u32 packets_out;     /* packets sent and not yet acknowledged cumulatively */
	u32 sacked_out;	     /* packets of these that SACK reports as arrived */
	u32 lost_out;	     /* packets of these believed lost */
	u32 retrans_out;     /* packets of these retransmitted and in flight */
	u32 max_packets_out; /* packets, most in flight in the last round */
	u32 delivered;	     /* packets, cumulative */
	u32 delivered_ce;    /* packets of these whose ACK echoed a mark (ECE), cumulative */
	u32 lost;	     /* packets, cumulative */
	u64 tcp_mstamp;	     /* us, the time of the ACK or timer being handled */
	u64 first_tx_mstamp; /* us, when the packet delivered last was sent */
	u8 is_cwnd_limited : 1;
	u8 ecn_flags; /* TCP_ECN_ bits */

	u64 delivered_mstamp;  /* us, when the packet delivered last arrived */
	u64 tcp_wstamp_ns;     /* ns, when the next packet may leave: pacing */
	u64 tcp_clock_cache;   /* ns, the time of tcp_mstamp */
	u32 app_limited;       /* the count `delivered` from which samples show the path again; 0: they do */
	struct minmax rtt_min; /* us, lowest RTT of the last five minutes; ~0: no sample yet */
	struct sk_buff *retransmit_skb_hint; /* where retransmissions go on, not always at a lost packet; NULL: none */
	u64 bytes_sent;			     /* bytes of data, retransmissions included, cumulative */
	u64 bytes_acked;		     /* bytes acknowledged in sequence, cumulative */
} KERNEL_TYPE;

struct ack_sample {
	u32 pkts_acked;
	s32 rtt_us; /* negative: no sample */
	u32 in_flight;
} KERNEL_TYPE;

/* What one ACK shows. `prior_` is the state of the socket when the packet delivered last was sent. */
struct rate_sample {
	u64 prior_mstamp;	/* us, when the interval began; 0: no sample */
	u32 prior_delivered;	/* packets, cumulative */
	u32 prior_delivered_ce; /* packets, cumulative */
	s32 delivered;		/* packets in the interval; negative: no sample */
	s32 delivered_ce;	/* packets of these with a mark */
	long interval_us;	/* the longer of the next two; negative: no sample, or shorter than the lowest RTT */
	u32 snd_interval_us;	/* in which they were sent */
	u32 rcv_interval_us;	/* in which they were acknowledged */
	long rtt_us;		/* of the packet acknowledged last; negative: no sample */
	int losses;		/* packets that this ACK marks as lost */
	u32 acked_sacked;	/* packets that this ACK delivers */
	u32 prior_in_flight;	/* packets in flight before this ACK */
	u32 last_end_seq;	/* end of the packet sent last among those delivered */
	bool is_app_limited;	/* the application limited the rate when it was sent */
	bool is_retrans;	/* it was retransmitted */
	bool is_ack_delayed;	/* the receiver probably delayed this ACK */
} KERNEL_TYPE;

/*
 * The ops table. A member NAME___N is the form of NAME with N parameters: the loader moves it to NAME where the
 * kernel's own type information shows N parameters there. Members that a kernel lacks are cleared at load.
 */
struct tcp_congestion_ops {
	u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
	void (*set_state)(struct sock *sk, u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event ev);
#ifndef TCCC_FOR_BPFTOOL /* bpftool does not clear members that a kernel lacks */
	void (*cwnd_event_tx_start)(struct sock *sk);
#endif
	void (*in_ack_event)(struct sock *sk, u32 flags);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	u32 (*min_tso_segs)(struct sock *sk);
	void (*cong_control)(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs);
#ifndef TCCC_FOR_BPFTOOL
	void (*cong_control___2)(struct sock *sk, const struct rate_sample *rs);
#endif
	u32 (*undo_cwnd)(struct sock *sk);
	u32 (*sndbuf_expand)(struct sock *sk);
	char name[TCP_CA_NAME_MAX];
	u32 flags;
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
};

#endif
