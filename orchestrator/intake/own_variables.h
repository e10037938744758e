/*
 * A spec's own variables: which of them take the place of what the job's contract sets, and which
 * the runner sets whatever the spec says.
 */
#ifndef SMD_INTAKE_OWN_VARIABLES_H
#define SMD_INTAKE_OWN_VARIABLES_H

#include "orchestrator/document/diagnostics.h"
#include "orchestrator/job/job.h"

/* Warns of these, and of names that a pool gives twice. 0 or -errno. */
int smd_own_variables_check(const struct smd_job *job, const struct smd_node *document,
	struct smd_diagnostics *diagnostics);

#endif
