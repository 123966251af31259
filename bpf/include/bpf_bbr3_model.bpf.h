/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * BBRv3's model of the path: volumes in flight, their bounds, and what a loss does to them. A part of bpf_bbr3.bpf.c, which
 * includes it after the marks.
 */
#ifndef TCCC_BPF_BBR3_MODEL_BPF_H
#define TCCC_BPF_BBR3_MODEL_BPF_H

static bool is_in_probe_bw(const struct bbr3 *bbr)
{
	return bbr->phase >= PHASE_DOWN && bbr->phase <= PHASE_UP;
}

static u32 max_bw_of(const struct bbr3 *bbr)
{
	return max(bbr->max_bw[0], bbr->max_bw[1]);
}

/* gain * bw * rtt, packets, rounded up. */
__noinline u32 packets_of(u32 bw, u32 rtt_us, u32 gain)
{
	const u64 bdp = (u64)bw * rtt_us / BDP_UNIT;

	return saturated((bdp * gain + (1u << 2 * SHARE_SHIFT) - 1) >> 2 * SHARE_SHIFT);
}

static u32 bdp_multiple(const struct bbr3 *bbr, u32 bw, u32 gain)
{
	return bbr->min_rtt_us == INFINITE ? bbr->initial_cwnd : packets_of(bw, bbr->min_rtt_us, gain);
}

/* What keeps sender, path and receiver busy: the offload budget, three times C.send_quantum, packets. */
__noinline u32 offload_budget(u64 pacing_rate, u32 mss)
{
	const u32 bytes = (u32)min(pacing_rate >> MS_SHIFT, SEND_QUANTUM_BYTES_MAX);

	return 3 * max(bytes / mss, 2u);
}

static u32 quantization_budget(const struct sock *sk, const struct bbr3 *bbr, u64 inflight)
{
	const u64 budget = max(inflight, (u64)offload_budget(sk->sk_pacing_rate, tcp_sk(sk)->mss_cache));

	return saturated(bbr->phase == PHASE_UP ? budget + 2 : budget);
}

static bool is_drained(const struct sock *sk, const struct bbr3 *bbr, u32 bw)
{
	return tcp_packets_in_flight(tcp_sk(sk)) <= quantization_budget(sk, bbr, bdp_multiple(bbr, bw, SHARE_UNIT));
}

__noinline u32 inflight_with_headroom(u32 inflight_longterm)
{
	const u32 room = max(share_of(inflight_longterm, headroom), 1u);

	if (inflight_longterm == INFINITE)
		return INFINITE;
	return max(inflight_longterm, room + MIN_PIPE_CWND) - room;
}

static u32 target_inflight(const struct bbr3 *bbr, u32 cwnd)
{
	const u32 bdp = bdp_multiple(bbr, bbr->bw, SHARE_UNIT);

	return min(bdp, cwnd);
}

static u32 probe_rtt_cwnd(const struct bbr3 *bbr)
{
	const u32 half_bdp = bdp_multiple(bbr, bbr->bw, gains[PHASE_PROBE_RTT].cwnd);

	return max(half_bdp, MIN_PIPE_CWND);
}

/* Time since a stamp, us. After 71 minutes it begins again at 0. */
static u32 elapsed(const struct tcp_sock *tp, u32 stamp)
{
	return (u32)tp->tcp_mstamp - stamp;
}

static void reset_full_bw(struct bbr3 *bbr, u32 full_bw)
{
	bbr->full_bw = full_bw;
	bbr->full_bw_count = 0;
	bbr->full_bw_now = 0;
}

static void reset_short_term_model(struct bbr3 *bbr)
{
	bbr->bw_shortterm = INFINITE;
	bbr->inflight_shortterm = INFINITE;
}

static void save_cwnd(const struct sock *sk, struct bbr3 *bbr)
{
	const bool is_modulated = ca_state_of(sk) >= TCP_CA_Recovery || bbr->phase == PHASE_PROBE_RTT;
	const u32 kept = is_modulated ? bbr->prior_cwnd : 0;

	bbr->prior_cwnd = max(kept, tcp_sk(sk)->snd_cwnd);
}

static void restore_cwnd(struct tcp_sock *tp, const struct bbr3 *bbr)
{
	const u32 cwnd = min(bbr->prior_cwnd, tp->snd_cwnd_clamp);

	tp->snd_cwnd = max(tp->snd_cwnd, cwnd);
}

/* ---- ProbeBW: beginning its phases ---- */

static void start_down(const struct tcp_sock *tp, struct bbr3 *bbr)
{
	bbr->is_loss_in_round = 0;
	bbr->bw_latest = 0;
	bbr->inflight_latest = 0;
	bbr->rounds_since_probe_up = (u8)random_below(2);
	bbr->bw_probe_wait = (u8)random_below(256);
	bbr->cycle_stamp = (u32)tp->tcp_mstamp;
	bbr->ack_phase = ACKS_PROBE_STOPPING;
	bbr->next_round_delivered = tp->delivered;
	bbr->phase = PHASE_DOWN;
}

static void start_refill(const struct tcp_sock *tp, struct bbr3 *bbr)
{
	reset_short_term_model(bbr);
	bbr->probe_up_rounds = 0;
	bbr->probe_up_acked = 0;
	bbr->prev_probe_precautionary = 0;
	bbr->ack_phase = ACKS_REFILLING;
	bbr->next_round_delivered = tp->delivered;
	bbr->phase = PHASE_REFILL;
}

/* ---- Loss ---- */

static void save_state_upon_loss(struct sock *sk, struct bbr3 *bbr)
{
	struct marks *marks = bbr->full_bw_reached ? bbr3_marks_create(sk) : NULL;

	save_cwnd(sk, bbr);
	bbr->undo_startup = 0;
	bbr->undo_up = 0;
	if (!marks)
		return;
	marks->undo_bw_shortterm = bbr->bw_shortterm;
	marks->undo_inflight_shortterm = bbr->inflight_shortterm;
	marks->undo_inflight_longterm = bbr->inflight_longterm;
}

/* Counts what was lost since the latest look, in this ACK or by a timer. True if anything was. */
static bool count_losses(const struct tcp_sock *tp, struct bbr3 *bbr)
{
	const u16 newly_lost = (u16)(tp->lost - bbr->lost);

	bbr->lost = (u16)tp->lost;
	bbr->lost_in_round = (u16)min((u32)bbr->lost_in_round + newly_lost, 0xffffu);
	bbr->loss_acks_in_round = (u8)min(bbr->loss_acks_in_round + (newly_lost ? 1u : 0), 0xffu);
	return newly_lost;
}

static void note_loss(const struct tcp_sock *tp, struct bbr3 *bbr)
{
	if (!bbr->is_loss_in_round)
		bbr->loss_round_delivered = tp->delivered;
	bbr->is_loss_in_round = 1;
}

static bool is_inflight_too_high(const struct sample *rs)
{
	return (u64)rs->lost * 1000 > (u64)rs->tx_in_flight * loss_thresh;
}

static void handle_inflight_too_high(const struct tcp_sock *tp, struct bbr3 *bbr, const struct sample *rs, u32 cwnd)
{
	const u32 kept = share_of(target_inflight(bbr, cwnd), beta);

	bbr->prev_probe_too_high = 1;
	bbr->is_bw_probe_sample = 0;
	if (!rs->is_app_limited)
		bbr->inflight_longterm = max(rs->tx_in_flight, kept);
	if (bbr->phase == PHASE_UP) {
		bbr->undo_up = 1;
		start_down(tp, bbr);
	}
}

/* inflight_prev + (LossThresh inflight_prev - lost_prev) / (1 - LossThresh): up to where in the packet it was safe. */
__noinline u32 inflight_at_loss(u32 tx_in_flight, u32 lost, u32 size)
{
	const u32 inflight_prev = tx_in_flight - min(tx_in_flight, size);
	const u64 lost_prev = (lost - min(lost, size)) * 1000ull;
	const u64 tolerated = (u64)inflight_prev * loss_thresh;

	return saturated(inflight_prev + (max(tolerated, lost_prev) - lost_prev) / (1000 - loss_thresh));
}

/*
 * The kernel's hint leads to where retransmissions go on. If that is not the lost packet, RS must do: the packet of RS
 * was sent a few packets later.
 */
static void handle_lost_packet(struct sock *sk, struct bbr3 *bbr, const struct sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	const struct sk_buff *skb = tp->retransmit_skb_hint;
	const struct tcp_skb_cb *cb = skb ? (const void *)skb->cb : NULL;
	struct sample lost = *rs;
	u32 size = 1;

	if (!bbr->is_bw_probe_sample)
		return;
	if (cb && (cb->sacked & (TCPCB_LOST | TCPCB_SACKED_RETRANS)) == TCPCB_LOST) {
		size = max((u32)cb->tcp_gso_segs, 1u);
		lost.end_seq = cb->end_seq;
		lost.prior_delivered = cb->tx.delivered;
		lost.is_retrans = cb->sacked & TCPCB_EVER_RETRANS;
		lost.is_app_limited = BPF_CORE_READ_BITFIELD(cb, tx.is_app_limited);
	} else if (!rs->is_valid) {
		return;
	}
	recall(sk, bbr, &lost);
	if (!is_inflight_too_high(&lost))
		return;
	lost.tx_in_flight = inflight_at_loss(lost.tx_in_flight, lost.lost, size);
	handle_inflight_too_high(tp, bbr, &lost, tp->snd_cwnd);
}

#endif
