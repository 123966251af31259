/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Every header of the kernel that code for the guest of virtual time may include. `cargo xtask virtual` keeps these, and
 * what they include, beside the guest: a header that is missing here cannot be had later.
 */
#ifndef TCCC_GUEST_HEADERS_H
#define TCCC_GUEST_HEADERS_H

#include <linux/bvec.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/inet.h>
#include <linux/inetdevice.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/random.h>
#include <linux/seq_file.h>
#include <linux/time-internal.h>
#include <linux/timerqueue.h>
#include <linux/tracepoint.h>
#include <linux/udp.h>
#include <linux/version.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>
#include <net/gso.h>
#include <net/inet_ecn.h>
#include <net/ip.h>
#include <net/pkt_cls.h>
#include <net/pkt_sched.h>
#include <net/tcp.h>
#include <net/udp.h>

#endif
