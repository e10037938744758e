/*
 * The id of one run of a job, by which reduction servers tell it from all others. The spec's own id
 * begins it, so that people know it again; but a spec may be run twice at once, or as many trials,
 * and random digits tell these apart. All attempts of a run have one id.
 */
#ifndef SMD_RUNNER_RUN_ID_H
#define SMD_RUNNER_RUN_ID_H

#include "orchestrator/job/job.h"
#include "reduction_server/base/error.h"

/* Draws one, which the caller frees. 0, or -errno with a text. */
int smd_run_id_draw(const struct smd_job *job, char **out, struct smd_error *error);

#endif
