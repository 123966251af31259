/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The packet-pair option of Modified Swift Start: its wire format and the state of its two ends.
 * bpf/option/pair_delta.bpf.c writes and reads it, bpf/cc/mswift.bpf.c uses the intervals.
 *
 *   mark   kind 254, length 6, ExID, flags (bit 0: Second), number of the pair     sender to receiver
 *   reply  kind 254, length 8, ExID, interval in microseconds (32 bits)            receiver to sender
 *
 * All numbers in network byte order. Experimental kind and ExID: RFC 6994.
 */
#ifndef TCCC_PAIR_BPF_H
#define TCCC_PAIR_BPF_H

#include "tccc.bpf.h"

#define PAIR_KIND 254
#define PAIR_EXID 0x5353 /* not assigned by IANA */
#define MARK_BYTES 6
#define REPLY_BYTES 8
/* Both need this much room, because options are padded to four bytes. */
#define PAIR_ROOM 8
#define MARK_SECOND 1
/* The initial window of four packets has two pairs. */
#define PAIRS 2
#define NS_PER_US 1000ull

/*
 * The sender's end. The program records its marks and the replies. The algorithm decides how long to mark.
 */
struct pair_exchange {
	u32 second_end[PAIRS]; /* sequence number after the Second of each pair sent */
	u32 second_seq;	       /* sequence number at which the Second of the pending First begins */
	u32 bytes;	       /* length of that First */
	u32 dt_us;	       /* latest interval in a reply; 0: none since the algorithm read it */
	u8 is_marking;
	u8 has_first;  /* a First was sent, but not its Second */
	u8 firsts;     /* Firsts sent */
	u8 pairs_sent; /* Seconds sent */
};

/* The receiver's end. */
struct pair_arrival {
	u64 first_ns;	/* when the First arrived */
	u32 first_end;	/* sequence number after the First, at which its Second begins */
	u32 marked_end; /* sequence number after the latest segment with a mark */
	u32 dt_us;	/* interval of the latest pair; 0: none to return */
	u8 pair;	/* pair number of the First */
	u8 has_first;
};

/* An option of either form; a mark is its first six bytes. */
struct pair_option {
	u8 kind;
	u8 length;
	u16 exid;
	union {
		struct {
			u8 flags;
			u8 pair;
		} mark;
		u32 dt_us;
	};
};
_Static_assert(sizeof(struct pair_option) == REPLY_BYTES, "the option has no holes");

SHARED_STORAGE(pair_delta, pair_exchanges, struct pair_exchange) TIMES_SINGLE_PACKETS;

/* Whether more segments must be marked. */
static __always_inline bool wants_mark(const struct pair_exchange *exchange)
{
	return exchange->is_marking && (exchange->has_first || exchange->firsts < PAIRS);
}

/*
 * The flags of the mark for a full segment of new data. A Second directly follows its First and has the same length.
 * If another segment follows, that pair is given up, and the segment is the First of the next pair. Negative: no
 * mark.
 */
static __always_inline int next_mark(struct pair_exchange *exchange, u32 seq, u32 bytes)
{
	const bool is_second = exchange->has_first && seq == exchange->second_seq && bytes == exchange->bytes;

	exchange->has_first = 0;
	if (is_second) {
		if (exchange->pairs_sent < PAIRS)
			exchange->second_end[exchange->pairs_sent++] = seq + bytes;
		return MARK_SECOND;
	}
	if (exchange->firsts >= PAIRS)
		return -1;
	exchange->firsts++;
	exchange->has_first = 1;
	exchange->second_seq = seq + bytes;
	exchange->bytes = bytes;
	return 0;
}

/* Pairs whose Second is acknowledged. Only these can have given an interval. */
static __always_inline u32 pairs_acknowledged(const struct pair_exchange *exchange, u32 una)
{
	u32 pairs = 0;

	for (u32 i = 0; i < PAIRS; i++)
		if (i < exchange->pairs_sent && !before(una, exchange->second_end[i]))
			pairs++;
	return pairs;
}

/* A marked segment that arrived. */
struct pair_segment {
	u32 seq;
	u32 end; /* sequence number after the segment */
	u8 flags;
	u8 pair;
};

/*
 * Records a marked segment. dt = t_second - t_first (Khalil's eq. (1) with its operands corrected), rounded to 1 us.
 * True when there is a new interval to return. A Second without its First, or not directly after it, gives no
 * interval.
 */
static __always_inline bool update_arrival(struct pair_arrival *arrival, const struct pair_segment *segment, u64 now_ns)
{
	const bool is_second = segment->flags & MARK_SECOND;
	const bool has_first = arrival->has_first && arrival->pair == segment->pair;
	const bool is_pair = is_second && has_first && arrival->first_end == segment->seq;
	u64 dt_us;

	arrival->marked_end = segment->end;
	arrival->has_first = !is_second;
	if (!is_second) {
		arrival->first_ns = now_ns;
		arrival->first_end = segment->end;
		arrival->pair = segment->pair;
		return false;
	}
	dt_us = (now_ns - arrival->first_ns + NS_PER_US / 2) / NS_PER_US;
	if (!is_pair || !dt_us || dt_us > 0xffffffffu)
		return false;
	arrival->dt_us = (u32)dt_us;
	return true;
}

#endif
