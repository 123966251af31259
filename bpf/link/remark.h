/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a router writes into the second byte of the IP header, which holds DSCP and ECN.
 *
 * Plain C without kernel functions.
 */
#ifndef TCCC_REMARK_H
#define TCCC_REMARK_H

#include "request.h"

#define ECN_BITS 3 /* ECT(1) is 1 and ECT(0) is 2: each is the other with both bits changed */

static inline bool remarks(const struct tccc_link_request *request)
{
	return request->service_cleared || request->ect_replaced;
}

/* The byte of a packet after it has entered. */
static inline u8 service_after(const struct tccc_link_request *request, u8 service)
{
	if (request->ect_replaced && (service & ECN_BITS) == request->ect_replaced)
		service ^= ECN_BITS;
	return service & ~(u8)request->service_cleared;
}

#endif
