/* SPDX-License-Identifier: GPL-2.0-only */
/* The links as lab.c drives them. */
#ifndef TCCC_LINK_H
#define TCCC_LINK_H

#include <linux/proc_fs.h>

int link_init(struct proc_dir_entry *folder);
int link_start(u64 begin_ns, u64 length_ns);
void link_stop(u64 end_ns);
void link_exit(void);

#endif
