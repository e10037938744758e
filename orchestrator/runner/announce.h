/*
 * What the runner itself says about a job: in its progress, and in its stream as the task
 * "service".
 */
#ifndef SMD_RUNNER_ANNOUNCE_H
#define SMD_RUNNER_ANNOUNCE_H

#include "orchestrator/runner/display.h"
#include "orchestrator/runner/job_status.h"
#include "orchestrator/runner/stream.h"

/* The phase that the job has come to; of a failure the sentences of its message. */
void smd_announce_phase(struct smd_stream *stream, const struct smd_job_status *status);

/* How a replica has ended. */
void smd_announce_end(struct smd_display *display, struct smd_replica *replica);

/* That a first signal ends the job, how long that may take, and what ends it at once. */
void smd_announce_interrupt(
	struct smd_display *display, struct smd_stream *stream, int signo, unsigned grace_s);

/* That a replica has failed, and the others are stopped; where its end is not told. */
void smd_announce_stopping(
	struct smd_display *display, const struct smd_job_status *status, unsigned grace_s);

/* That a replica is started again alone after wait_s. */
void smd_announce_replica_restart(struct smd_display *display, const struct smd_job *job,
	const struct smd_replica *replica, unsigned wait_s);

/* That the whole job is started again after wait_s, because of the decisive end; where there is none,
 * because hosts did not come, which `no_hosts` says. */
void smd_announce_restart(struct smd_display *display, struct smd_stream *stream,
	const struct smd_job_status *status, const char *no_hosts, unsigned wait_s);

/* That a reduction server was lost, with how many the job goes on, and whether it is started again,
 * after wait_s; -1: it was started again too often. */
void smd_announce_loss(struct smd_display *display, struct smd_stream *stream,
	const struct smd_job_status *status, const struct smd_replica *replica, int wait_s);

/* That one of them is not ready in time after its restart. */
void smd_announce_late_server(struct smd_display *display, struct smd_stream *stream,
	const struct smd_replica *replica, unsigned timeout_s);

/* That one of them serves again, or was added and is ready. */
void smd_announce_return(struct smd_display *display, struct smd_stream *stream,
	const struct smd_job_status *status, const struct smd_replica *replica);

/* What has become of a request to scale. */
void smd_announce_scaling(struct smd_display *display, struct smd_stream *stream, const char *text);

/* `hosts`: which ones, and why. */
void smd_announce_left_out(
	struct smd_display *display, struct smd_stream *stream, const char *hosts);

/* A host has not come, for that reason, and the job runs without it. */
void smd_announce_absent(
	struct smd_display *display, struct smd_stream *stream, const char *reason);

/* The engine waits for hosts. */
void smd_announce_waiting(
	struct smd_display *display, struct smd_stream *stream, const char *reason);

/* A host is lost; the reason names it. */
void smd_announce_lost_host(
	struct smd_display *display, struct smd_stream *stream, const char *reason);

#endif
