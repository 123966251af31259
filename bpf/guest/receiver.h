/* SPDX-License-Identifier: GPL-2.0-only */
/* The receiving end of a TCP connection. */
#ifndef TCCC_RECEIVER_H
#define TCCC_RECEIVER_H

#include "flow.h"

struct receiver {
	struct job job;
	struct socket *sock; /* once it is accepted */
};

int receiver_listen(struct flow *flow);
void receiver_init(struct receiver *receiver);
void receiver_release(struct receiver *receiver);

#endif
