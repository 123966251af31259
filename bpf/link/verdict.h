/* SPDX-License-Identifier: GPL-2.0-only */
/* What happens to a packet that enters one direction of a link. */
#ifndef TCCC_VERDICT_H
#define TCCC_VERDICT_H

enum verdict_kind {
	VERDICT_NONE,	  /* the packet has no copy */
	VERDICT_LOST,	  /* taken by the loss model */
	VERDICT_POLICED,  /* dropped by the policer */
	VERDICT_DOWN,	  /* dropped because the link was down */
	VERDICT_OVERFLOW, /* dropped because the queue was full */
	VERDICT_FAILED,	  /* dropped because there was no memory */
	VERDICT_ACK_LOST, /* a pure acknowledgement that passed the loss model and was lost by ack_loss */
	VERDICT_DUE,	  /* leaves the link at due_ns, never before an earlier packet that is not held back */
};

#endif
