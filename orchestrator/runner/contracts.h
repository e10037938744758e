/*
 * What the replicas of a job get, and what of that is shown: the job's contract with the values of its
 * secrets, and the same without. Both are made anew for each number of reduction servers.
 */
#ifndef SMD_RUNNER_CONTRACTS_H
#define SMD_RUNNER_CONTRACTS_H

#include "orchestrator/contract/contract.h"
#include "orchestrator/job/secret.h"
#include "orchestrator/runner/redaction.h"

struct smd_contracts {
	const struct smd_job *job;
	int show_secrets; /* those that the job file has, in records too */
	struct smd_secrets secrets; /* that it refers to */
	struct smd_redaction redaction;
	struct smd_job resolved;     /* with these in the place of references */
	struct smd_masked_job shown; /* as records have it; of no use with show_secrets */
	struct smd_job scaled;       /* resolved, with as many reduction servers as there are */
	struct smd_job shown_scaled; /* the same of the shown one */
	/* Once made: */
	struct smd_contract *contract;
	struct smd_contract *shown_contract; /* NULL: the same */
};

/* Reads the secrets from their folder, or NULL. 0, or -errno with a text; it is to be closed in either
 * case. */
int smd_contracts_open(struct smd_contracts *contracts, const struct smd_job *job,
	const char *secrets_folder, int show_secrets, struct smd_error *error);
void smd_contracts_close(struct smd_contracts *contracts);

/* The job as records have it. */
const struct smd_job *smd_contracts_shown(const struct smd_contracts *contracts);

/* Makes both, for jobs with so many reduction servers. 0 or -errno. */
int smd_contracts_make(
	struct smd_contracts *contracts, int nservers, const struct smd_placement *placement);

#endif
