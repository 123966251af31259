/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The largest bandwidth of the last BW_ROUNDS rounds: Kathleen Nichols' three best samples, as lib/win_minmax.c. A part of
 * bpf_bbr.bpf.c, which includes it after its state.
 */
#ifndef TCCC_BPF_BBR_MAX_BW_BPF_H
#define TCCC_BPF_BBR_MAX_BW_BPF_H

static void reset_bw(struct bpf_bbr *bbr, struct bw_sample sample)
{
	bbr->best[0] = bbr->best[1] = bbr->best[2] = sample;
}

static void drop_oldest(struct bpf_bbr *bbr, struct bw_sample sample)
{
	bbr->best[0] = bbr->best[1];
	bbr->best[1] = bbr->best[2];
	bbr->best[2] = sample;
}

/* A best sample leaves with its window; the next ones come from the second quarter and second half of it. */
static void age_bw(struct bpf_bbr *bbr, struct bw_sample sample)
{
	const u32 age = sample.round - bbr->best[0].round;

	if (age > BW_ROUNDS) {
		drop_oldest(bbr, sample);
		if (sample.round - bbr->best[0].round > BW_ROUNDS)
			drop_oldest(bbr, sample);
	} else if (bbr->best[1].round == bbr->best[0].round && age > BW_ROUNDS / 4) {
		bbr->best[2] = bbr->best[1] = sample;
	} else if (bbr->best[2].round == bbr->best[1].round && age > BW_ROUNDS / 2) {
		bbr->best[2] = sample;
	}
}

static void add_bw(struct bpf_bbr *bbr, u32 bw)
{
	const struct bw_sample sample = {.round = bbr->rounds, .bw = bw};

	if (bw >= bbr->best[0].bw || sample.round - bbr->best[2].round > BW_ROUNDS) {
		reset_bw(bbr, sample);
		return;
	}
	if (bw >= bbr->best[1].bw)
		bbr->best[2] = bbr->best[1] = sample;
	else if (bw >= bbr->best[2].bw)
		bbr->best[2] = sample;
	age_bw(bbr, sample);
}

#endif
