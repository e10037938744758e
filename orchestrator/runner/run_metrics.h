/* What a job's runner knows as metrics (specs/guide/metrics.md, "The runner"). */
#ifndef SMD_RUNNER_RUN_METRICS_H
#define SMD_RUNNER_RUN_METRICS_H

#include "orchestrator/runner/job_status.h"
#include "reduction_server/metrics/text.h"

/* Writes all of them; `status` is a struct smd_job_status. */
void smd_run_metrics_write(void *status, struct smd_metrics_text *text);

#endif
