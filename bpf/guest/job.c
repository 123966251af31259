// SPDX-License-Identifier: GPL-2.0-only
/*
 * Jobs of flows. One process runs them, at once or at a given time. Their order depends only on these times.
 */
#include <linux/hrtimer.h>
#include <linux/sched.h>
#include <linux/timekeeping.h>

#include "job.h"

static LIST_HEAD(ready_jobs);
static DEFINE_SPINLOCK(ready_lock);
static struct timerqueue_head due_jobs = {.rb_root = RB_ROOT_CACHED};
static struct task_struct *worker; /* the process that runs the jobs; NULL before and after the run */

void job_init(struct job *job, void (*act)(struct job *job))
{
	job->act = act;
	INIT_LIST_HEAD(&job->ready);
	timerqueue_init(&job->due);
}

/* May be called from anywhere. The job runs at the same virtual time, after the softirq or job that called this. */
void job_wake(struct job *job)
{
	spin_lock_bh(&ready_lock);
	if (list_empty(&job->ready)) {
		list_add_tail(&job->ready, &ready_jobs);
		if (worker)
			wake_up_process(worker);
	}
	spin_unlock_bh(&ready_lock);
}

/* Sets or changes the job's time. Only jobs may call this. Jobs with the same time run in the order of these calls. */
void job_at(struct job *job, u64 time_ns)
{
	job_cancel(job);
	job->due.expires = ns_to_ktime(time_ns);
	timerqueue_add(&due_jobs, &job->due);
}

void job_cancel(struct job *job)
{
	if (!RB_EMPTY_NODE(&job->due.node))
		timerqueue_del(&due_jobs, &job->due);
}

static struct job *next_ready(void)
{
	struct job *job;

	spin_lock_bh(&ready_lock);
	job = list_first_entry_or_null(&ready_jobs, struct job, ready);
	if (job)
		list_del_init(&job->ready);
	spin_unlock_bh(&ready_lock);
	return job;
}

static struct job *next_due(u64 now_ns)
{
	struct timerqueue_node *node = timerqueue_getnext(&due_jobs);

	if (!node || ktime_to_ns(node->expires) > now_ns)
		return NULL;
	timerqueue_del(&due_jobs, node);
	return container_of(node, struct job, due);
}

/* Sleeps until a job is due, until one is ready, or until the end. */
static void rest(u64 end_ns)
{
	struct timerqueue_node *node = timerqueue_getnext(&due_jobs);
	ktime_t until = ns_to_ktime(end_ns);

	if (node && node->expires < until)
		until = node->expires;
	set_current_state(TASK_IDLE);
	if (list_empty(&ready_jobs))
		schedule_hrtimeout(&until, HRTIMER_MODE_ABS);
	__set_current_state(TASK_RUNNING);
}

static void serve(u64 end_ns, const u32 *unfinished)
{
	while (*unfinished) {
		struct job *job = next_ready();
		const u64 now_ns = job ? 0 : ktime_get_ns();

		if (!job)
			job = next_due(now_ns);
		if (job)
			job->act(job);
		else if (now_ns >= end_ns)
			return;
		else
			rest(end_ns);
	}
}

/* Runs the jobs until nothing is unfinished, or until the end. */
void jobs_serve(u64 end_ns, const u32 *unfinished)
{
	WRITE_ONCE(worker, current);
	serve(end_ns, unfinished);
	WRITE_ONCE(worker, NULL);
}

bool jobs_are_served(void)
{
	return READ_ONCE(worker);
}
