/* SPDX-License-Identifier: GPL-2.0-only */
/* What /proc/tccc/links shows of a link. */
#ifndef TCCC_COUNT_H
#define TCCC_COUNT_H

#include "depart.h"

/* Most bytes that count_put() copies. */
size_t count_length(const struct link *link);
/* Copies counters, first lost packets and waits behind each other. Returns the end of the copy. */
u8 *count_put(u8 *to, struct link *link);

#endif
