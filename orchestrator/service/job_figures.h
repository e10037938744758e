/*
 * What jobs of the service that run have reported, as metrics (specs/guide/metrics.md): their
 * runners write it into the jobs' directories, about once a second.
 */
#ifndef SMD_SERVICE_JOB_FIGURES_H
#define SMD_SERVICE_JOB_FIGURES_H

#include "orchestrator/store/store.h"
#include "reduction_server/metrics/text.h"

void smd_job_figures_write(struct smd_store *store, struct smd_metrics_text *text);

#endif
