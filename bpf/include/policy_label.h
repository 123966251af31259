/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a policy leaves at a socket: which rule and arm decided, and what the guard has counted of it since.
 * src/policy/label.rs reads these bytes.
 */
#ifndef TCCC_POLICY_LABEL_H
#define TCCC_POLICY_LABEL_H

#define POLICY_NAME 16 /* TCP_CA_NAME_MAX */
#define POLICY_FOLDS 32

/* What became of a connection that a rule matched. */
enum policy_outcome {
	POLICY_KEPT = 0,    /* the arm says keep */
	POLICY_SET = 1,	    /* it has the arm's algorithm */
	POLICY_CHOSEN = 2,  /* left alone: a program chose its algorithm */
	POLICY_ROUTED = 3,  /* left alone: a route names its algorithm, and the rule yields to routes */
	POLICY_LOCKED = 4,  /* refused by the kernel: a route locks its algorithm */
	POLICY_MISSING = 5, /* refused by the kernel: no such algorithm is registered */
	POLICY_FAILED = 6,  /* refused by the kernel for another reason */
	POLICY_OUTCOMES = 7,
};

/* Where the counting of a connection is. */
enum policy_standing { POLICY_UNCOUNTED = 0, POLICY_COUNTED = 1, POLICY_ENDED = 2 };

struct policy_counted {
	__u64 bytes_acked;
	__u64 busy_ticks; /* with data to send, limited neither by the receiver nor by its own buffer */
	__u32 sent_pkts;
	__u32 retrans_pkts;
	__u32 timeouts;
	__u32 standing;
};

struct policy_label {
	__u32 slot; /* number of rule and arm in the policy's record; 0: none */
	__u8 outcome;
	__u8 fold;		  /* by hash of the peer */
	__u16 generation;	  /* of the policy that decided: the low bits of its number */
	char before[POLICY_NAME]; /* the algorithm that was replaced */
	char given[POLICY_NAME];  /* the one that replaced it */
	struct policy_counted counted;
};

#endif
