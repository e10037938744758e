/*
 * What one launch of a replica needs: its variables, its command line, its files. It starts
 * nothing.
 */
#ifndef SMD_RUNNER_LAUNCH_H
#define SMD_RUNNER_LAUNCH_H

#include "orchestrator/contract/environment.h"
#include "orchestrator/runner/jobdir.h"
#include "orchestrator/runner/replica.h"
#include "orchestrator/runner/workspace.h"
#include "worker/agent/host/gpu.h"
#include "worker/agent/wire/launch.h"

/* What all launches of a job share; borrowed. */
struct smd_launcher {
	const struct smd_job *job;
	const struct smd_contract *contract;
	const struct smd_contract *shown_contract; /* what records have in place of it; or NULL */
	int show_secrets;
	const struct smd_placement *placement;
	const struct smd_jobdir *dir;
	const struct smd_workspace *workspace;
	const char *container_runtime; /* runs images; NULL: commands are run, as processes */
	unsigned grace_s;
	unsigned attempt; /* of the job, from 0 */
};

/* What a launch needs to know of its host. */
struct smd_launch_host {
	const char *folder; /* of its agent; NULL: it sees the job directory */
	const struct smd_gpus *gpus;
	int first; /* the first replica of the pool there */
};

#define SMD_LAUNCH_MOUNTS_MAX 6

struct smd_prepared_launch {
	struct smd_environment environment;
	char **argv;
	char *log; /* in the job directory */
	char *error_file;
	int brings_error_file; /* it is on another host */
	char *directory;       /* where it runs; NULL: where the agent does */
	char *errors; /* the folder of error files */
	struct smd_mount mounts[SMD_LAUNCH_MOUNTS_MAX];
	size_t nmounts;
	char *name;
	const char *image;   /* NULL: argv is run as a process */
	const char *program; /* what is executed; NULL: not known yet */
};

/* Prepares the launch of a replica that was started `restarts` times before. 0 or -errno; the
 * launch is to be cleared in any case. */
int smd_launch_prepare(struct smd_prepared_launch *launch, const struct smd_launcher *launcher,
	const struct smd_replica *replica, const struct smd_launch_host *host, unsigned restarts);
/* The same, less a command line, for a session beside the replica's process. */
int smd_launch_prepare_session(struct smd_prepared_launch *launch,
	const struct smd_launcher *launcher, const struct smd_replica *replica,
	const struct smd_launch_host *host, unsigned restarts, const struct smd_terminal *terminal);
void smd_launch_clear(struct smd_prepared_launch *launch);

/* The same for the agent; it points into the launch. */
struct smd_launch smd_launch_request(const struct smd_prepared_launch *launch,
	const struct smd_launcher *launcher, const struct smd_replica *replica);

#endif
