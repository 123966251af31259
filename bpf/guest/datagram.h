/* SPDX-License-Identifier: GPL-2.0-only */
/* Both ends of a flow of datagrams. */
#ifndef TCCC_DATAGRAM_H
#define TCCC_DATAGRAM_H

#include "flow.h"

bool datagrams_are_valid(const struct tccc_flow_request *asked);
int datagram_listen(struct flow *flow);
int datagram_open(struct flow *flow);
void datagram_send(struct flow *flow);
void datagram_settle(struct flow *flow);

#endif
