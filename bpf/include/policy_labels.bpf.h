/* SPDX-License-Identifier: GPL-2.0-only */
/* The labels of sockets. All generations of a policy and the guard share the map. */
#ifndef TCCC_POLICY_LABELS_BPF_H
#define TCCC_POLICY_LABELS_BPF_H

#include "policy_kernel.bpf.h"
#include "policy_label.h"

struct {
	__uint(type, MAP_SOCKET_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct policy_label);
} tccc_labels SEC(".maps");

/* The label of a socket. Null without one, or if another version of tccc wrote it. */
static __always_inline struct policy_label *label_of(void *sk)
{
	struct policy_label *mark = bpf_sk_storage_get(&tccc_labels, sk, 0, 0);

	return mark && mark->version == POLICY_LABEL_VERSION ? mark : 0;
}

/* The label of a socket, to write to. Empty if the socket had none. Null if the kernel has no memory for it. */
static __always_inline struct policy_label *label_for(void *sk)
{
	struct policy_label *mark = bpf_sk_storage_get(&tccc_labels, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	if (mark && mark->version != POLICY_LABEL_VERSION) {
		__builtin_memset(mark, 0, sizeof(*mark));
		mark->version = POLICY_LABEL_VERSION;
	}
	return mark;
}

#endif
