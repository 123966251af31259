/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The label of a socket under a policy: the rule and arm that decided, and the guard's counts since then.
 * src/host/policy/label.rs reads these bytes.
 */
#ifndef TCCC_POLICY_LABEL_H
#define TCCC_POLICY_LABEL_H

#define POLICY_NAME 16 /* TCP_CA_NAME_MAX */
#define POLICY_FOLDS 32

/* The outcome for a connection that a rule matched. */
enum policy_outcome {
	POLICY_KEPT = 0,    /* the arm says keep */
	POLICY_SET = 1,	    /* the connection has the arm's algorithm */
	POLICY_CHOSEN = 2,  /* left alone: the application chose its algorithm */
	POLICY_ROUTED = 3,  /* left alone: the route names an algorithm, and the rule respects routes */
	POLICY_LOCKED = 4,  /* refused by the kernel: the route locks the algorithm */
	POLICY_MISSING = 5, /* refused by the kernel: no such algorithm is registered */
	POLICY_FAILED = 6,  /* refused by the kernel for another reason */
	POLICY_OUTCOMES = 7,
};

/* Whether the guard has counted a connection. */
enum policy_standing { POLICY_UNCOUNTED = 0, POLICY_COUNTED = 1, POLICY_ENDED = 2 };

struct policy_counted {
	__u64 bytes_acked;
	__u64 busy_ticks; /* jiffies with data to send, limited neither by the receiver nor by the send buffer */
	__u32 sent_pkts;
	__u32 retrans_pkts;
	__u32 timeouts;
	__u32 standing;
};

struct policy_label {
	__u32 slot; /* rule and arm, as numbered in the policy's record; 0: none */
	__u8 outcome;
	__u8 fold;		  /* hash of the peer */
	__u16 generation;	  /* low bits of the number of the policy that decided */
	char before[POLICY_NAME]; /* algorithm before the policy */
	char given[POLICY_NAME];  /* algorithm that the policy set */
	__u32 unit;		  /* hash of what the rule splits by: the connection, its peer or the peer's prefix */
	__u32 pad;
	struct policy_counted counted;
};

#endif
