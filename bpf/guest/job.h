/* SPDX-License-Identifier: GPL-2.0-only */
/* Jobs of flows and of the tracer. */
#ifndef TCCC_JOB_H
#define TCCC_JOB_H

#include <linux/list.h>
#include <linux/timerqueue.h>

/*
 * Work to do at once or at a given time. Softirqs only wake a job. The process that wrote to /proc/tccc/run runs it,
 * because a process may lock and close sockets. A job is due at one time at most.
 */
struct job {
	void (*act)(struct job *job);
	struct list_head ready;
	struct timerqueue_node due;
};

void job_init(struct job *job, void (*act)(struct job *job));
void job_wake(struct job *job);
void job_at(struct job *job, u64 time_ns);
void job_cancel(struct job *job);
void jobs_serve(u64 end_ns, const u32 *unfinished);
bool jobs_are_served(void);

#endif
