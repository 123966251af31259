/* SPDX-License-Identifier: GPL-2.0-only */
/* The tracer as lab.c drives it. */
#ifndef TCCC_WATCH_H
#define TCCC_WATCH_H

#include <linux/proc_fs.h>

int watch_init(struct proc_dir_entry *folder);
void watch_refill(void);

#endif
