/*
 * The queue at work: starts a runner for each waiting job that has room, and ends jobs that have
 * waited for too long.
 *
 * What it knows is read from the store again whenever that has changed, so that a service that was
 * killed has lost nothing. In memory alone is which runners were started and have not taken their
 * job yet.
 */
#ifndef SMD_SERVICE_SCHEDULER_H
#define SMD_SERVICE_SCHEDULER_H

#include "orchestrator/service/service.h"

struct smd_scheduler;

int smd_scheduler_open(struct smd_store *store, const struct smd_service_options *options,
	struct smd_scheduler **out, struct smd_error *error);
void smd_scheduler_close(struct smd_scheduler *scheduler);

/* What jobs may take together. */
const struct smd_demand *smd_scheduler_capacity(const struct smd_scheduler *scheduler);

struct smd_queue_figures {
	uint64_t waiting;
	uint64_t begun;
	uint64_t started;  /* runners, since the service began */
	uint64_t given_up; /* jobs, since then */
	uint64_t preempted;
	struct smd_demand capacity;
	struct smd_demand taken;
};

/* As of the last look. */
void smd_scheduler_figures(const struct smd_scheduler *scheduler, struct smd_queue_figures *out);

/* Whether a job of that demand can ever begin. NULL; else what is too little for it: what this
 * machine has, or the project's quota. */
const struct smd_demand *smd_scheduler_refuses(const struct smd_scheduler *scheduler,
	const char *project, const struct smd_demand *demand);

/* Looks at the queue at the next turn, whether the store has changed or not. */
void smd_scheduler_wake(struct smd_scheduler *scheduler);

/* Looks at the queue if need be. Called a few times a second. */
void smd_scheduler_turn(struct smd_scheduler *scheduler);

/* Takes note of runners that have ended: a child of this process has. */
void smd_scheduler_reap(struct smd_scheduler *scheduler);

#endif
