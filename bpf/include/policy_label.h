/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The label of a socket under a policy: the rule and arm that decided, and the guard's counts since then.
 * src/host/policy/label.rs reads these bytes.
 */
#ifndef TCCC_POLICY_LABEL_H
#define TCCC_POLICY_LABEL_H

#define POLICY_NAME 16 /* TCP_CA_NAME_MAX */
#define POLICY_FOLDS 32

/* Of `struct policy_label`. src/host/policy/pins.rs has the same number in the paths of pins. */
#define POLICY_LABEL_VERSION 2

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

/* A name, padded with zeros. */
struct policy_name {
	char text[POLICY_NAME];
} __attribute__((aligned(8)));

struct policy_label {
	__u32 version;	  /* POLICY_LABEL_VERSION */
	__u32 generation; /* number of the policy that decided */
	__u32 slot;	  /* rule and arm, as numbered in the policy's record; 0: none */
	__u32 unit;	  /* hash of what the rule splits by: the connection, its peer or the peer's prefix */
	__u8 outcome;
	__u8 fold; /* hash of the peer */
	__u8 pad[6];
	struct policy_name before; /* algorithm that the connection would have without a policy */
	struct policy_name given;  /* algorithm that tccc set last, also if it gave back the one before; empty: none */
	struct policy_counted counted;
};

#endif
