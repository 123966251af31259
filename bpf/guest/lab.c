// SPDX-License-Identifier: GPL-2.0-only
/*
 * The laboratory inside the guest kernel of virtual time: the folder /proc/tccc, and the run.
 *
 * Links, traffic and tracer are one kernel module, so that no process is in the data path. A process configures them
 * through the files that layout.h describes, and starts them by a write to /proc/tccc/run.
 */
#include <linux/hrtimer.h>
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/timekeeping.h>
#include <linux/uaccess.h>

#include "answer.h"
#include "kernel.h"
#include "layout.h"
#include "link.h"
#include "traffic.h"
#include "watch.h"

#define FOLDER "tccc"
/* A day. A longer run is a mistake, and up to this limit the sum of two times does not overflow. */
#define RUN_NS_MAX (86400 * (u64)NSEC_PER_SEC)

/* The kernel's timers are exact to the nanosecond only after the first tick. Meanwhile the network settles. */
#define SETTLE_NS ((u64)NSEC_PER_SEC / 2)

static struct proc_dir_entry *folder;
static struct tccc_run_report ran;

static int run_open(struct inode *inode, struct file *file)
{
	struct answer *answer = answer_new(sizeof(ran));

	if (!answer)
		return -ENOMEM;
	memcpy(answer->bytes, &ran, sizeof(ran));
	file->private_data = answer;
	return 0;
}

/* Waits for a full second of the clock, so that a run does not depend on the time that the guest took before it. */
static u64 await_begin(void)
{
	const u64 begin_ns = roundup_u64(ktime_get_ns() + SETTLE_NS, NSEC_PER_SEC);
	ktime_t until = ns_to_ktime(begin_ns);

	while (ktime_get_ns() < begin_ns) {
		set_current_state(TASK_IDLE);
		schedule_hrtimeout(&until, HRTIMER_MODE_ABS);
	}
	return begin_ns;
}

/* A guest makes one run. */
static ssize_t run_write(struct file *file, const char __user *from, size_t length, loff_t *place)
{
	struct tccc_run_request asked;
	int error;

	if (length != sizeof(asked))
		return -EINVAL;
	if (copy_from_user(&asked, from, sizeof(asked)))
		return -EFAULT;
	if (!asked.length_ns || asked.length_ns > RUN_NS_MAX || asked.grace_ns > RUN_NS_MAX)
		return -EINVAL;
	if (!traffic_is_complete())
		return -EINVAL;
	if (ran.begin_ns)
		return -EBUSY;
	ran.begin_ns = await_begin();
	error = link_start(ran.begin_ns, asked.length_ns);
	if (error)
		return error;
	ran.unfinished = traffic_run(ran.begin_ns, ran.begin_ns + asked.length_ns + asked.grace_ns);
	ran.end_ns = ktime_get_ns();
	link_stop(ran.end_ns);
	return length;
}

static const struct proc_ops run_file = {
	.proc_open = run_open,
	.proc_read = answer_read,
	.proc_write = run_write,
	.proc_release = answer_release,
	.proc_lseek = default_llseek,
};

static int __init lab_init(void)
{
	int error = -ENOMEM;

	/* The network and the run draw the same numbers, whatever was drawn before. */
	os_restart_draws();
	folder = proc_mkdir(FOLDER, NULL);
	if (!folder || !proc_create("run", 0600, folder, &run_file))
		goto no_folder;
	error = link_init(folder);
	if (error)
		goto no_folder;
	error = traffic_init(folder);
	if (error)
		goto no_traffic;
	error = watch_init(folder);
	if (error)
		goto no_watch;
	return 0;
no_watch:
	traffic_exit();
no_traffic:
	link_exit();
no_folder:
	proc_remove(folder);
	return error;
}

/* The module cannot be unloaded, because sockets that close after the run still call its functions. */
module_init(lab_init);
MODULE_DESCRIPTION("links, traffic and tracer of virtual time");
MODULE_LICENSE("GPL");
