/* SPDX-License-Identifier: GPL-2.0-only */
/* Access to TCP sockets for the tracer. */
#ifndef TCCC_TRACE_SOCKET_BPF_H
#define TCCC_TRACE_SOCKET_BPF_H

#include "trace_kernel.bpf.h"
#include "trace_filter.bpf.h"

/* A full TCP socket. Null for a request socket, a time-wait socket and other protocols. */
static __always_inline const struct tcp_sock___trace *tcp_sock_of(const void *sk)
{
	return (const struct tcp_sock___trace *)bpf_skc_to_tcp_sock((void *)sk);
}

/* The same for tracepoints that pass only full TCP sockets. From kernel 6.2 on it needs no call. */
static __always_inline const struct tcp_sock___trace *established_tcp_sock(const struct sock *sk)
{
	if (bpf_ksym_exists(bpf_rdonly_cast))
		return bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct tcp_sock___trace));
	return tcp_sock_of(sk);
}

static __always_inline u8 ca_state_of(const struct tcp_sock___trace *tp)
{
	return BPF_CORE_READ_BITFIELD(icsk_of(tp), icsk_ca_state);
}

/* True unless the connection was never established, in which case it has no OPEN and no CLOSE. */
static __always_inline bool was_connected(int state)
{
	return state != STATE_SYN_SENT && state != STATE_SYN_RECV && state != STATE_LISTEN && state != STATE_CLOSE &&
	       state != STATE_NEW_SYN_RECV;
}

#endif
