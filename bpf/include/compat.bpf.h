/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Differences between kernels, each dated with what to remove when. None is decided by version number: the loader reads
 * the kernel's type information and clears or moves members of the ops table (kernel.bpf.h).
 *
 * 2026-11  cong_control has four parameters from 6.10 on and two before.
 *          Provide both with CONG_CONTROL_BOTH; remove the two-parameter form when 6.6 is no longer supported.
 * 2026-11  cwnd_event_tx_start replaces CA_EVENT_TX_START from 7.1 on.
 *          Fill both callbacks; remove the event's branch when 6.18 is no longer supported.
 */
#ifndef TCCC_COMPAT_BPF_H
#define TCCC_COMPAT_BPF_H

#include "kernel.bpf.h"

/* Objects for bpftool, which does not adapt them, have the form of newer kernels only. */
#ifdef TCCC_FOR_BPFTOOL
#define CONG_CONTROL_OF_OLD_KERNELS(id, body)
#else
#define CONG_CONTROL_OF_OLD_KERNELS(id, body)                                                                          \
	CC_OP(void, id##_cong_control_2, struct sock *sk, const struct rate_sample *rs)                                \
	{                                                                                                              \
		body(sk, rs);                                                                                          \
	}
#endif

/* Both forms of cong_control around one body: static void body(struct sock *sk, const struct rate_sample *rs). */
#define CONG_CONTROL_BOTH(id, body)                                                                                    \
	CC_OP(void, id##_cong_control, struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)               \
	{                                                                                                              \
		body(sk, rs);                                                                                          \
	}                                                                                                              \
	CONG_CONTROL_OF_OLD_KERNELS(id, body)

#endif
