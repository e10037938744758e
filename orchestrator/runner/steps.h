/* The steps of a run's single replicas, whatever the reason for them is. */
#ifndef SMD_RUNNER_STEPS_H
#define SMD_RUNNER_STEPS_H

#include "orchestrator/runner/run.h"

/* Applies an event to its state; a change is recorded and shown. */
void smd_run_apply(
	struct smd_run *run, struct smd_replica *replica, enum smd_replica_event event);

/* Starts one that is PENDING. */
void smd_run_start(struct smd_run *run, struct smd_replica *replica);

/* Asks one to end. */
void smd_run_stop(struct smd_run *run, struct smd_replica *replica);

/* Takes one that has ended back to PENDING; its exit record is kept. */
void smd_run_retry(struct smd_run *run, struct smd_replica *replica);

/* The same, as another start of it alone. */
void smd_run_retry_alone(struct smd_run *run, struct smd_replica *replica);

#endif
