/* SPDX-License-Identifier: GPL-2.0-only */
/* Reno's four phases, for the algorithms that have no others. The state's first byte, the phase, is set here alone. */
#ifndef TCCC_PHASE_BPF_H
#define TCCC_PHASE_BPF_H

#include "tccc.bpf.h"

PHASES(PHASE_SLOW_START, PHASE_AVOIDANCE, PHASE_RECOVERY, PHASE_LOSS);

/* To be called in init and at each ACK outside of reductions. */
static __always_inline void update_phase(struct sock *sk)
{
	u8 *phase = inet_csk_ca(sk);

	*phase = in_slow_start(tcp_sk(sk)) ? PHASE_SLOW_START : PHASE_AVOIDANCE;
}

/* To be called in set_state. */
static __always_inline void update_reduction_phase(struct sock *sk, u8 new_state)
{
	u8 *phase = inet_csk_ca(sk);

	if (new_state == TCP_CA_Recovery || new_state == TCP_CA_CWR)
		*phase = PHASE_RECOVERY;
	else if (new_state == TCP_CA_Loss)
		*phase = PHASE_LOSS;
}

#endif
