/*
 * The reduction servers of a job that runs: one that is lost does not end the job while others
 * serve, and is started again (specs/design/runner.md, "Lost servers").
 */
#ifndef SMD_RUNNER_SERVERS_H
#define SMD_RUNNER_SERVERS_H

#include "orchestrator/runner/run.h"

/* Whether the job goes on without the replica that has just ended: a reduction server, and not the
 * last one. That is told then, and its restart is scheduled. */
int smd_servers_go_on(struct smd_run *run, struct smd_replica *replica);

/* Whether the replica was lost so shortly before that what fails now may do so for want of it. */
int smd_servers_are_cause(const struct smd_replica *replica);

/* Ends a server that was started again and is not ready in time; its end is another loss. */
void smd_servers_turn(struct smd_run *run);

/* Forgets the losses: another attempt begins with all servers. */
void smd_servers_reset(struct smd_run *run);

#endif
