/* SPDX-License-Identifier: GPL-2.0-only */
/* Reno's four phases, for algorithms without phases of their own. The first byte of the state is the phase. */
#ifndef TCCC_PHASE_BPF_H
#define TCCC_PHASE_BPF_H

#include "tccc.bpf.h"

PHASES(PHASE_SLOW_START, PHASE_AVOIDANCE, PHASE_RECOVERY, PHASE_LOSS);

#include "reduction.bpf.h"

/* Call in init and at each ACK outside reductions. */
static __always_inline void update_phase(struct sock *sk)
{
	u8 *phase = inet_csk_ca(sk);

	*phase = in_slow_start(tcp_sk(sk)) ? PHASE_SLOW_START : PHASE_AVOIDANCE;
}

#endif
