/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Pure acknowledgements: TCP segments that carry nothing but an acknowledgement.
 *
 * Plain C without kernel functions: it reads the bytes of an IP packet.
 */
#ifndef TCCC_ACK_H
#define TCCC_ACK_H

#include "request.h"

#define ACK_FLOW_BYTES 36 /* two ports and two IPv6 addresses */
#define ACK_BYTES_MAX 120 /* the longest headers: IPv4 and TCP with all options */

/* The fields of a pure acknowledgement that a link compares. */
struct ack {
	u8 flow[ACK_FLOW_BYTES];
	u32 number;
	bool is_plain;
};

/* Offsets of the TCP header, of the end of the packet and of the addresses. */
struct segment {
	u64 begin;
	u64 end;
	u64 addresses;
	u64 addresses_length;
};

#define IS_TCP 6
#define IPV4_HEADER 20
#define IPV6_HEADER 40
#define TCP_HEADER 20
/* FIN, SYN, RST and ACK. A pure acknowledgement has only ACK. */
#define ACK_KIND_FLAGS 0x17
#define ACK_FLAG 0x10
#define FRAGMENT_BITS 0x3fff

static inline u32 two_bytes(const u8 *at)
{
	return (u32)at[0] << 8 | at[1];
}

static inline bool ipv4_segment(struct segment *segment, const u8 *packet, u64 length)
{
	if (length < IPV4_HEADER || packet[9] != IS_TCP || (two_bytes(packet + 6) & FRAGMENT_BITS))
		return false;
	*segment = (struct segment){.begin = (packet[0] & 0xfull) * 4, .end = two_bytes(packet + 2)};
	segment->addresses = 12;
	segment->addresses_length = 8;
	return segment->begin >= IPV4_HEADER;
}

/* A packet with extension headers does not count as an acknowledgement. */
static inline bool ipv6_segment(struct segment *segment, const u8 *packet, u64 length)
{
	if (length < IPV6_HEADER || packet[6] != IS_TCP)
		return false;
	*segment = (struct segment){.begin = IPV6_HEADER, .end = IPV6_HEADER + two_bytes(packet + 4)};
	segment->addresses = 8;
	segment->addresses_length = 32;
	return true;
}

static inline bool read_segment(struct segment *segment, const u8 *packet, u64 length)
{
	const bool is_read = length && (packet[0] >> 4 == 4   ? ipv4_segment(segment, packet, length)
					: packet[0] >> 4 == 6 ? ipv6_segment(segment, packet, length)
							      : false);

	return is_read && segment->end <= length && segment->begin + TCP_HEADER <= segment->end;
}

/* No options, or two no-ops and a timestamp, as in nearly every segment (RFC 7323, appendix A). */
static inline bool has_plain_options(const u8 *header, u64 length)
{
	const u8 *options = header + TCP_HEADER;

	return length == TCP_HEADER ||
	       (length == TCP_HEADER + 12 && options[0] == 1 && options[1] == 1 && options[2] == 8 && options[3] == 10);
}

/* Reads a packet. False: it is not a pure acknowledgement, but for example data, SYN, FIN, RST, a fragment or UDP. */
static inline bool ack_read(struct ack *ack, const u8 *packet, u64 length)
{
	struct segment segment;
	const u8 *header;
	u64 n;

	if (!read_segment(&segment, packet, length))
		return false;
	header = packet + segment.begin;
	length = segment.end - segment.begin;
	if ((header[12] >> 4) * 4ull != length || (header[13] & ACK_KIND_FLAGS) != ACK_FLAG)
		return false;
	*ack = (struct ack){.number = two_bytes(header + 8) << 16 | two_bytes(header + 10)};
	for (n = 0; n < 4; n++)
		ack->flow[n] = header[n];
	for (n = 0; n < segment.addresses_length; n++)
		ack->flow[4 + n] = packet[segment.addresses + n];
	ack->is_plain = header[13] == ACK_FLAG && !(header[12] & 0xf) && has_plain_options(header, length);
	return true;
}

/*
 * Whether a later acknowledgement makes this one redundant. The later one belongs to the same flow and acknowledges
 * more, and this one carries neither SACK blocks nor marks.
 */
static inline bool ack_is_superseded_by(const struct ack *ack, const struct ack *later)
{
	const u32 ahead = later->number - ack->number;
	int n;

	if (!ack->is_plain || !ahead || ahead >> 31)
		return false;
	for (n = 0; n < ACK_FLOW_BYTES; n++) {
		if (ack->flow[n] != later->flow[n])
			return false;
	}
	return true;
}

#endif
