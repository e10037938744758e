/*
 * What a job's replicas reported in sum (specs/guide/reporting.md, "Keys that the summary knows").
 */
#ifndef SMD_RUNNER_FIGURES_H
#define SMD_RUNNER_FIGURES_H

#include "orchestrator/runner/job_status.h"

/* Numbers are negative and texts are NULL where nothing was reported. */
struct smd_figures {
	double accuracy;
	double steps;
	double allreduce_bytes;
	double allreduce_seconds;
	const char *weights; /* the first reported hash; borrowed from its replica */
	int weights_equal;   /* all reported hashes are the same one */
	int nweights;        /* how many replicas reported one */
	int nworkers;        /* chief and workers */
};

void smd_figures_collect(const struct smd_job_status *status, struct smd_figures *out);

/* A replica's result as a number; -1 if there is none or it is not a number. */
double smd_figures_number(const struct smd_replica *replica, const char *key);

#endif
