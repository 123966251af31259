/* SPDX-License-Identifier: GPL-2.0-only */
/* The traffic as lab.c drives it. */
#ifndef TCCC_TRAFFIC_H
#define TCCC_TRAFFIC_H

#include <linux/proc_fs.h>

#include "flow.h"

int traffic_init(struct proc_dir_entry *folder);
bool traffic_is_complete(void); /* whether every flow has both ends */
/* The flow to a port of an address in a namespace. NULL: there is none. */
const struct flow *traffic_flow_to(const struct net *net, __be32 address, __be16 port);
u32 traffic_run(u64 begin_ns, u64 end_ns);
void traffic_exit(void);

#endif
