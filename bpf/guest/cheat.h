/* SPDX-License-Identifier: GPL-2.0-only */
/* Receivers that cheat, as link.c and depart.c see their packets. */
#ifndef TCCC_CHEAT_H
#define TCCC_CHEAT_H

#include <linux/skbuff.h>

#include "flow.h"

/* Whether the run has such a receiver. Packets of other runs are not looked at. */
extern bool receivers_cheat;

/* Called when a flow gets its receiver. */
void cheat_begin(const struct flow *flow);

/*
 * A packet leaves its host. Adds the acknowledgements that its sender makes up, those that leave before the packet and
 * those that leave after it.
 */
void cheat_leaves(struct sk_buff *skb, struct sk_buff_head *before, struct sk_buff_head *after);

/* A packet leaves the last link to a host, or another one. */
void cheat_arrives(struct sk_buff *skb);

#endif
