/* SPDX-License-Identifier: GPL-2.0-only */
/* The part of libbpf's header of this name that bpf/option needs in a native build. */
#include <arpa/inet.h>
#define bpf_htons htons
#define bpf_htonl htonl
#define bpf_ntohl ntohl
