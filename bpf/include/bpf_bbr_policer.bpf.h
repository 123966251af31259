/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Policers: F. Li et al., "An Internet-wide analysis of traffic policing", ACM SIGCOMM 2016. Two intervals with many losses
 * and equal bandwidths show one, and their mean is the bandwidth for a while. A part of bpf_bbr.bpf.c, which includes it
 * after its rates and phases.
 */
#ifndef TCCC_BPF_BBR_POLICER_BPF_H
#define TCCC_BPF_BBR_POLICER_BPF_H

/* A policer: intervals of 4 rounds or more, 50/256 of them lost, bandwidths within 1/8 or 4 kbit/s. */
#define POLICED_ROUNDS_MIN 4
#define POLICED_ROUNDS_MAX (4 * POLICED_ROUNDS_MIN)
#define POLICED_LOSS 50
#define POLICED_RATIO (GAIN_UNIT / 8)
#define POLICED_BYTES 500
#define POLICED_ROUNDS_USED 48

static void begin_policer_interval(struct sock *sk)
{
	struct bpf_bbr *bbr = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	bbr->policed_ms = (u32)(tp->delivered_mstamp / 1000);
	bbr->policed_delivered = tp->delivered;
	bbr->policed_lost = tp->lost;
	bbr->policed_rounds = 0;
}

static void forget_policer(struct sock *sk)
{
	struct bpf_bbr *bbr = inet_csk_ca(sk);

	bbr->policed_bw = 0;
	bbr->is_policed = 0;
	bbr->is_policer_sampling = 0;
	begin_policer_interval(sk);
}

static void end_policer_interval(struct sock *sk, u32 bw)
{
	struct bpf_bbr *bbr = inet_csk_ca(sk);
	const u32 apart = max(bw, bbr->policed_bw) - min(bw, bbr->policed_bw);

	if (bbr->policed_bw && (apart * GAIN_UNIT <= POLICED_RATIO * bbr->policed_bw ||
				rate_of(tcp_sk(sk), apart, GAIN_UNIT) <= POLICED_BYTES)) {
		bbr->policed_bw = (bw + bbr->policed_bw) >> 1;
		bbr->is_policed = 1;
		bbr->pacing_gain = GAIN_UNIT;
		bbr->policed_rounds = 0;
		return;
	}
	bbr->policed_bw = bw;
	begin_policer_interval(sk);
}

/* Whether enough of the interval was lost. */
static bool is_interval_lossy(const struct tcp_sock *tp, const struct bpf_bbr *bbr)
{
	const u32 delivered = tp->delivered - bbr->policed_delivered, lost = tp->lost - bbr->policed_lost;

	return delivered && lost << GAIN_SHIFT >= POLICED_LOSS * delivered;
}

/* An interval begins and ends with a loss, when the policer has no tokens left. */
static void update_policer_interval(struct sock *sk, bool has_loss)
{
	const struct bpf_bbr *bbr = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);
	const u32 lasted_ms = (u32)(tp->delivered_mstamp / 1000) - bbr->policed_ms;
	u64 bw;

	if (bbr->policed_rounds < POLICED_ROUNDS_MIN)
		return;
	if (bbr->policed_rounds > POLICED_ROUNDS_MAX) {
		forget_policer(sk);
		return;
	}
	if (!has_loss || !is_interval_lossy(tp, bbr) || (s32)lasted_ms < 1)
		return;
	if (lasted_ms >= U32_LARGEST / 1000) {
		forget_policer(sk);
		return;
	}
	bw = (u64)(tp->delivered - bbr->policed_delivered) * BW_UNIT / (lasted_ms * 1000);
	end_policer_interval(sk, saturated(bw));
}

static void update_policer(struct sock *sk, bool has_loss, bool is_limited)
{
	struct bpf_bbr *bbr = inet_csk_ca(sk);

	if (bbr->is_policed) {
		if (bbr->phase == PHASE_PROBE_BW && bbr->is_round_start &&
		    ++bbr->policed_rounds >= POLICED_ROUNDS_USED) {
			forget_policer(sk);
			probe_bandwidth(sk);
		}
		return;
	}
	if (!bbr->is_policer_sampling) {
		if (!has_loss)
			return;
		begin_policer_interval(sk);
		bbr->is_policer_sampling = 1;
	}
	if (is_limited) {
		forget_policer(sk);
		return;
	}
	if (bbr->is_round_start)
		bbr->policed_rounds++;
	update_policer_interval(sk, has_loss);
}

#endif
