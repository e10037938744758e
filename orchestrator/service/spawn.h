/*
 * Starts the processes of a service: runners, which outlive it, and the sender of notices, which does
 * not.
 */
#ifndef SMD_SERVICE_SPAWN_H
#define SMD_SERVICE_SPAWN_H

#include <sys/types.h>

#include "orchestrator/service/service.h"

/* The command that takes a job of the queue, and its words. */
#define SMD_SPAWN_VERB "run-queued"

/* Lets this process have as many descriptors as it may: each client is one. Runners have the limit
 * that there was before. */
void smd_spawn_lift_limits(void);

/* Its process, a child of this one; `devices` are the GPUs that it may use, or NULL. -errno. */
pid_t smd_spawn_runner(int64_t id, const char *devices, const struct smd_service_options *options);

/* The sender, of those words and NULL behind; it ends when this process does. Its process; -errno. */
pid_t smd_spawn_sender(char *const *words);

#endif
