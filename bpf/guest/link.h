/* SPDX-License-Identifier: GPL-2.0-only */
/* The links as lab.c drives them, and their lines as a queue discipline fills them. */
#ifndef TCCC_LINK_H
#define TCCC_LINK_H

#include <linux/proc_fs.h>

#include "depart.h"

int link_init(struct proc_dir_entry *folder);
int link_start(u64 begin_ns, u64 length_ns);
void link_stop(u64 end_ns);
void link_exit(void);

/* Lines up a packet that has left the queue. `ack` is NULL if it is not a pure acknowledgement. */
void link_line_up(struct Qdisc *sch, struct sk_buff *skb, const struct verdict *verdict, const struct ack *ack);

#endif
