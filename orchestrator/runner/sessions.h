/*
 * Sessions: commands that somebody runs in replicas of this job, beside their own processes
 * (specs/design/runner.md, "Sessions"). Who asks for one connects to a socket in the job's directory,
 * and is to the runner what the runner is to an agent; the runner hands on frames.
 */
#ifndef SMD_RUNNER_SESSIONS_H
#define SMD_RUNNER_SESSIONS_H

#include "orchestrator/runner/hosts.h"

#define SMD_SESSIONS_MAX 32 /* at once; others are refused */

struct smd_sessions;

/* Listens in the job's directory, for the replicas of these hosts, which are open. Where that cannot
 * be, as on file systems without sockets, a line of the log says so, and there are none. */
void smd_sessions_open(struct smd_hosts *hosts);
void smd_sessions_close(struct smd_hosts *hosts);

/* To be called after each turn of the loop. */
void smd_sessions_turn(struct smd_sessions *sessions);

#endif
