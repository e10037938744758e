/* Runs jobs on a thread, and hands them back to the loop. */
#include "reduction_server/transport/rdma/maker.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"
#include "reduction_server/base/thread.h"
#include "reduction_server/transport/loop.h"

STAILQ_HEAD(rdma_jobs, rdma_job);

struct rdma_maker {
	struct smd_wakeup wakeup; /* some are run */
	pthread_t thread;
	pthread_mutex_t lock; /* for all below */
	pthread_cond_t changed;
	struct rdma_jobs urgent; /* of those that were given, */
	struct rdma_jobs given;  /* and the others */
	struct rdma_jobs run;
	const struct rdma_job *at;       /* one that is in neither list; NULL: it waits */
	_Atomic(uint64_t) busy_since_ns; /* with that one; else 0 */
	bool ends;
	bool given_up; /* which has been said */
};

/* NULL: there is none to run. */
static struct rdma_job *maker_take(struct rdma_maker *maker)
{
	struct rdma_jobs *jobs = STAILQ_EMPTY(&maker->urgent) ? &maker->given : &maker->urgent;
	struct rdma_job *job = STAILQ_FIRST(jobs);

	if (job) {
		STAILQ_REMOVE_HEAD(jobs, link);
		atomic_store(&maker->busy_since_ns, smd_clock_ns());
		atomic_store(&job->taken_ns, maker->busy_since_ns);
	}
	return job;
}

static void *maker_main(void *arg)
{
	struct rdma_maker *maker = arg;

	pthread_mutex_lock(&maker->lock);
	for (;;) {
		struct rdma_job *job = maker_take(maker);

		if (!job && maker->ends) {
			break;
		}
		if (!job) {
			pthread_cond_wait(&maker->changed, &maker->lock);
			continue;
		}
		maker->at = job;
		pthread_mutex_unlock(&maker->lock);
		job->run(job);
		pthread_mutex_lock(&maker->lock);
		maker->at = NULL;
		atomic_store(&maker->busy_since_ns, 0);
		STAILQ_INSERT_TAIL(&maker->run, job, link);
		pthread_cond_broadcast(&maker->changed);
		smd_wakeup_signal(&maker->wakeup);
	}
	pthread_mutex_unlock(&maker->lock);
	return NULL;
}

/* Not one by one: a done() may give the next job, or be the last for this maker. */
static void maker_hand_back(struct rdma_maker *maker)
{
	struct rdma_jobs run = STAILQ_HEAD_INITIALIZER(run);

	pthread_mutex_lock(&maker->lock);
	STAILQ_CONCAT(&run, &maker->run);
	pthread_mutex_unlock(&maker->lock);
	while (!STAILQ_EMPTY(&run)) {
		struct rdma_job *job = STAILQ_FIRST(&run);

		STAILQ_REMOVE_HEAD(&run, link);
		job->done(job);
	}
}

static void maker_on_run(void *owner)
{
	maker_hand_back(owner);
}

int smd_rdma_maker_create(struct event_base *base, struct rdma_maker **out)
{
	struct rdma_maker *maker = calloc(1, sizeof(*maker));
	pthread_condattr_t monotonic;
	int ret;

	if (!maker) {
		return -ENOMEM;
	}
	STAILQ_INIT(&maker->urgent);
	STAILQ_INIT(&maker->given);
	STAILQ_INIT(&maker->run);
	pthread_mutex_init(&maker->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&maker->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	ret = smd_wakeup_create(&maker->wakeup, base, maker_on_run, maker);
	if (ret == 0) {
		ret = smd_thread_start(&maker->thread, NULL, maker_main, maker);
		if (ret) {
			smd_wakeup_destroy(&maker->wakeup);
		}
	}
	if (ret) {
		free(maker);
		return ret;
	}
	*out = maker;
	return 0;
}

void smd_rdma_maker_destroy(struct rdma_maker *maker)
{
	pthread_mutex_lock(&maker->lock);
	maker->ends = true;
	pthread_cond_broadcast(&maker->changed);
	pthread_mutex_unlock(&maker->lock);
	pthread_join(maker->thread, NULL);
	smd_wakeup_destroy(&maker->wakeup);
	pthread_cond_destroy(&maker->changed);
	pthread_mutex_destroy(&maker->lock);
	free(maker);
}

void smd_rdma_maker_give(struct rdma_maker *maker, struct rdma_job *job)
{
	pthread_mutex_lock(&maker->lock);
	STAILQ_INSERT_TAIL(job->urgent ? &maker->urgent : &maker->given, job, link);
	pthread_cond_broadcast(&maker->changed);
	pthread_mutex_unlock(&maker->lock);
}

uint64_t smd_rdma_maker_busy_since(const struct rdma_maker *maker)
{
	return atomic_load(&maker->busy_since_ns);
}

static bool maker_has_jobs(const struct rdma_maker *maker)
{
	return maker->at || !STAILQ_EMPTY(&maker->urgent) || !STAILQ_EMPTY(&maker->given);
}

static bool maker_is_stuck(const struct rdma_maker *maker, uint64_t patience_ns)
{
	return maker->at && smd_clock_ns() - maker->busy_since_ns >= patience_ns;
}

/* Until something changes, or it may be stuck. */
static void maker_wait(struct rdma_maker *maker, uint64_t patience_ns)
{
	uint64_t until_ns = (maker->at ? maker->busy_since_ns : smd_clock_ns()) + patience_ns;
	const struct timespec until = {
		(time_t)(until_ns / SMD_SECOND_NS), (long)(until_ns % SMD_SECOND_NS)};

	pthread_cond_timedwait(&maker->changed, &maker->lock, &until);
}

static void maker_give_up(struct rdma_maker *maker, uint64_t patience_ns)
{
	if (!maker->given_up) {
		smd_log(SMD_LOG_ERROR, "rdma",
			"the driver has not returned within %llu s when asked to %s; it is not "
			"waited for, and what it uses stays until the process ends",
			(unsigned long long)(patience_ns / SMD_SECOND_NS), maker->at->what);
	}
	maker->given_up = true;
}

void smd_rdma_maker_finish(struct rdma_maker *maker, uint64_t patience_ns)
{
	pthread_mutex_lock(&maker->lock);
	while (maker_has_jobs(maker) && !maker_is_stuck(maker, patience_ns)) {
		maker_wait(maker, patience_ns);
	}
	if (maker_has_jobs(maker)) {
		maker_give_up(maker, patience_ns);
	}
	pthread_mutex_unlock(&maker->lock);
	maker_hand_back(maker);
}
