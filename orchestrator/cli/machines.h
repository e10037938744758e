/*
 * Whether a job's machines may have the accelerators that its spec gives them.
 */
#ifndef SMD_CLI_MACHINES_H
#define SMD_CLI_MACHINES_H

#include "orchestrator/document/diagnostics.h"
#include "orchestrator/plan/machine.h"

/* Errors of the CustomJob's document go to the diagnostics. */
void smd_machines_check(const struct smd_catalogue *catalogue, const struct smd_job *job,
	const struct smd_node *document, struct smd_diagnostics *diagnostics);

/* A CustomJob's, a CustomJobSpec's or a tuning job's list of worker pools. */
const struct smd_node *smd_machines_pools(const struct smd_node *document);

#endif
