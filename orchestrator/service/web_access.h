/*
 * The page's way into replicas: only of jobs that ask for it (enableWebAccess), and as long as they
 * run. Each replica, of a tuning job each trial's, then has an address of a terminal.
 */
#ifndef SMD_SERVICE_WEB_ACCESS_H
#define SMD_SERVICE_WEB_ACCESS_H

#include "orchestrator/service/desk.h"

/* Whether the job as the API shows it wants shells in its replicas. */
int smd_web_access_is_wanted(const json_t *resource);

/* Adds webAccessUris, as whoever asked reaches this service, to such a job that runs. */
void smd_web_access_add(
	const struct smd_call *call, const struct smd_stored_job *job, json_t *resource);

#endif
