/*
 * Strings of a job that no program could be given, once $(NAME) in them is expanded.
 */
#ifndef SMD_INTAKE_OVERLONG_H
#define SMD_INTAKE_OVERLONG_H

#include "orchestrator/document/diagnostics.h"
#include "orchestrator/job/job.h"

/* Each is an error in the document that the job was decoded from. One process stands for all of a
 * pool, with Vertex AI's addresses. 0 or -ENOMEM. */
int smd_overlong_check(const struct smd_job *job, const struct smd_node *document,
	struct smd_diagnostics *diagnostics);

#endif
