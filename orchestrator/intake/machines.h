/*
 * What the machine catalogue says of a job's machines, and of the accelerators that they are given.
 */
#ifndef SMD_INTAKE_MACHINES_H
#define SMD_INTAKE_MACHINES_H

#include "orchestrator/document/diagnostics.h"
#include "orchestrator/plan/machine.h"

/* Errors of the CustomJob's document go to the diagnostics. */
void smd_machines_check(const struct smd_catalogue *catalogue, const struct smd_job *job,
	const struct smd_node *document, struct smd_diagnostics *diagnostics);

/* What `plan` tells without a place in the document, and what is accepted here alone. */
void smd_machines_warn(const struct smd_catalogue *catalogue, const struct smd_job *job,
	const struct smd_node *document, struct smd_diagnostics *diagnostics);

/* A CustomJob's, a CustomJobSpec's or a tuning job's list of worker pools. */
const struct smd_node *smd_machines_pools(const struct smd_node *document);

#endif
