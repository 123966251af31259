/* SPDX-License-Identifier: GPL-2.0-only */
/* What bpf/option needs of libbpf's header of this name, for a native build. */
#include <arpa/inet.h>
#define bpf_htons htons
#define bpf_htonl htonl
#define bpf_ntohl ntohl
