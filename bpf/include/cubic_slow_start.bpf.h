/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Slow start of the family of CUBIC: HyStart's detectors, HyStart++, and CCT-SS's bandwidth and limits, from the ACKs and
 * RTTs of one round trip. A part of cubic.bpf.h, which includes it after its tunables and state.
 */
#ifndef TCCC_CUBIC_SLOW_START_BPF_H
#define TCCC_CUBIC_SLOW_START_BPF_H

/* The values of hystart. */
#define HYSTART_OF_LINUX 1
#define HYSTART_OF_RFC_9406 2

/* HyStart's detectors, the kernel's numbers; hystart_detect is the sum of those in use. */
#define HYSTART_TRAIN 1u
#define HYSTART_DELAY 2u
/* css_round once slow start has been left without a loss. */
#define EXIT_FOUND 255u
/* The train may last longer by the time that four of the largest offloaded packets take, but by no more than this. */
#define HYSTART_CUSHION_PACKETS 4u
#define HYSTART_CUSHION_MAX_US 1000u

/* L = (1 - beta_ss) U: specification of CCT-SS, a reconstruction. */
static __always_inline u32 lower_limit(u32 upper)
{
	return share_of(upper, SHARE_UNIT - beta_ss);
}

static void set_slow_start_exit(struct tcp_sock *tp)
{
	tp->snd_ssthresh = ssthresh_of(tp->snd_cwnd);
}

static void set_found_exit(struct tcp_sock *tp, struct cubic *cubic)
{
	cubic->css_round = EXIT_FOUND;
	set_slow_start_exit(tp);
}

/* HyStart++ acts in the first slow start, which has no threshold yet: RFC 9406, 4.3. */
static bool has_hystart_plus(const struct tcp_sock *tp)
{
	return hystart == HYSTART_OF_RFC_9406 && tp->snd_ssthresh >= TCP_INFINITE_SSTHRESH;
}

static bool is_in_css(const struct tcp_sock *tp, const struct cubic *cubic)
{
	return cubic->css_round && has_hystart_plus(tp);
}

/* Before begin_round: nothing is known of the round before, and slow start is the standard one. */
static void forget_round(struct cubic *cubic)
{
	cubic->css_round = 0;
	cubic->round_rtt_us = U32_LARGEST;
}

static void begin_round(struct sock *sk, struct cubic *cubic)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	cubic->last_rtt_us = cubic->round_rtt_us;
	cubic->train_start_us = cubic->last_ack_us = (u32)tp->tcp_mstamp;
	cubic->round_end_seq = tp->snd_nxt;
	cubic->round_rtt_us = U32_LARGEST;
	cubic->rtt_samples = 0;
	cubic->train_pkts = 0;
	cubic->train_acks = 0;
	if (cubic->b_round) /* a round without a train gives no new estimate */
		cubic->b_hat = cubic->b_round;
	cubic->b_round = 0;
}

/* After css_rounds rounds, the one in which CSS began included, congestion avoidance begins: RFC 9406, 4.2. */
static void end_css_round(struct tcp_sock *tp, struct cubic *cubic)
{
	if (cubic->css_round >= css_rounds)
		set_found_exit(tp, cubic);
	else
		cubic->css_round++;
}

static void update_round_rtt(struct cubic *cubic, u32 rtt_us)
{
	if (rtt_us < cubic->round_rtt_us)
		cubic->round_rtt_us = rtt_us;
	if (cubic->rtt_samples < 255)
		cubic->rtt_samples++;
}

/* The highest rate at which trains of ACKs arrived: B-hat. */
static void update_bandwidth(struct cubic *cubic, u32 now_us, u32 acked)
{
	const bool is_train = now_us - cubic->last_ack_us <= hystart_ack_delta_us;
	u32 lasted_us, rate;

	cubic->last_ack_us = now_us;
	if (!is_train) {
		cubic->train_start_us = now_us;
		cubic->train_pkts = 0;
		cubic->train_acks = 0;
		return;
	}
	cubic->train_pkts += acked;
	if (cubic->train_acks < 255)
		cubic->train_acks++;
	lasted_us = now_us - cubic->train_start_us;
	if (cubic->train_acks < min_train_acks || !lasted_us)
		return;
	rate = bandwidth_of(cubic->train_pkts, lasted_us);
	cubic->b_round = max(cubic->b_round, rate);
	cubic->b_hat = max(cubic->b_hat, rate);
}

/* U = B-hat D + S-hat, S-hat = max(B-hat (RTT of the round - D)): specification of CCT-SS, a reconstruction. */
static void update_limits(struct cubic *cubic)
{
	u32 path, queue;

	if (!cubic->b_hat)
		return;
	if (cubic->rtt_samples >= hystart_samples && cubic->round_rtt_us > cubic->min_rtt_us) {
		queue = packets_in(cubic->b_hat, cubic->round_rtt_us - cubic->min_rtt_us);
		cubic->s_hat = max(cubic->s_hat, queue);
	}
	path = packets_in(cubic->b_hat, cubic->min_rtt_us);
	cubic->u = (u32)min((u64)path + cubic->s_hat, (u64)U32_LARGEST);
}

/*
 * Offloads merge ACKs. The allowance is the time that four of the largest packets take at the pacing rate, at most
 * 1 ms.
 */
static u32 train_cushion_us(const struct sock *sk)
{
	const u64 rate = sk->sk_pacing_rate;
	const u64 bytes = (u64)sk->sk_gso_max_size * HYSTART_CUSHION_PACKETS;

	if (!rate)
		return 0;
	return (u32)min(bytes * US_PER_SEC / rate, (u64)HYSTART_CUSHION_MAX_US);
}

/* The ACKs of a round arrive without gaps for longer than half the lowest RTT: the path is full. */
static bool is_train_long(const struct sock *sk, struct cubic *cubic, u32 now_us)
{
	u32 limit_us;

	if (now_us - cubic->last_ack_us > hystart_ack_delta_us)
		return false;
	cubic->last_ack_us = now_us;
	limit_us = cubic->min_rtt_us + train_cushion_us(sk);
	if (sk->sk_pacing_status == SK_PACING_NONE) /* pacing itself spreads a round over half an RTT */
		limit_us >>= 1;
	return now_us - cubic->train_start_us > limit_us;
}

/* The rise of an RTT that shows a queue: an eighth, between two limits. RttThresh of RFC 9406, 4.2. */
static u32 rise_of_queue(u32 rtt_us)
{
	const u32 least_us = hystart_delay_min_us, most_us = hystart_delay_max_us;
	const u32 eighth_us = rtt_us >> 3;

	return min(max(eighth_us, least_us), most_us);
}

/* The lowest RTT of the round is an eighth above the lowest ever: a queue exists. */
static bool is_round_slow(const struct cubic *cubic)
{
	return cubic->round_rtt_us > cubic->min_rtt_us + rise_of_queue(cubic->min_rtt_us);
}

/*
 * RFC 9406, 4.2. In slow start: CSS begins if the lowest RTT of this round has risen above that of the round before.
 * In CSS: slow start goes on if it has fallen below that with which CSS began.
 */
static void judge_round(struct cubic *cubic)
{
	const u32 rtt_us = cubic->round_rtt_us, last_us = cubic->last_rtt_us;

	if (cubic->rtt_samples < hystart_samples)
		return;
	if (cubic->css_round) {
		if (rtt_us < cubic->css_rtt_us)
			cubic->css_round = 0;
	} else if (last_us != U32_LARGEST && rtt_us >= last_us + rise_of_queue(last_us)) {
		cubic->css_rtt_us = rtt_us;
		cubic->css_round = 1;
	}
}

/* Records a sample. True when the round had enough samples before and is slow. */
static bool is_delay_raised(struct cubic *cubic, u32 rtt_us)
{
	const bool has_samples = cubic->rtt_samples >= hystart_samples;

	update_round_rtt(cubic, rtt_us);
	return has_samples && is_round_slow(cubic);
}

static void detect_exit(struct sock *sk, struct cubic *cubic, u32 rtt_us)
{
	struct tcp_sock *tp = tcp_sk(sk);
	const u32 detectors = hystart_detect;
	bool is_found = false;

	if (tp->snd_cwnd < hystart_low_window)
		return;
	if (detectors & HYSTART_TRAIN)
		is_found = is_train_long(sk, cubic, (u32)tp->tcp_mstamp);
	if ((detectors & HYSTART_DELAY) && is_delay_raised(cubic, rtt_us))
		is_found = true;
	if (is_found)
		set_found_exit(tp, cubic);
}

/*
 * CCT-SS: updates the estimates and their limits. With correct limits slow start reaches L before a queue exists. Where
 * the limits are missing, or too large because ACKs came in bursts, HyStart's delay detector or HyStart++ ends it.
 */
static void observe_path(struct sock *sk, struct cubic *cubic, u32 rtt_us)
{
	struct tcp_sock *tp = tcp_sk(sk);
	const bool has_samples = cubic->rtt_samples >= hystart_samples;
	const bool is_watched = has_samples && hystart == HYSTART_OF_LINUX && tp->snd_cwnd >= hystart_low_window;

	update_round_rtt(cubic, rtt_us);
	update_limits(cubic);
	if (is_watched && (hystart_detect & HYSTART_DELAY) && is_round_slow(cubic))
		set_found_exit(tp, cubic);
}

#endif
