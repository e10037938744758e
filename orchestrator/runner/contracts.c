/* Makes a job's contracts, with its secrets and without. */
#include "orchestrator/runner/contracts.h"

#include <errno.h>
#include <string.h>

int smd_contracts_open(struct smd_contracts *contracts, const struct smd_job *job,
	const char *secrets_folder, int show_secrets, struct smd_error *error)
{
	int ret;

	*contracts = (struct smd_contracts){.job = job, .show_secrets = show_secrets};
	ret = smd_secrets_read(secrets_folder, job, &contracts->secrets, error);
	if (ret) {
		return ret;
	}
	ret = smd_redaction_open(&contracts->redaction, &contracts->secrets);
	ret = ret ? ret : smd_secrets_resolve(&contracts->secrets, job, &contracts->resolved);
	ret = ret || show_secrets ? ret : smd_masked_job_open(&contracts->shown, job);
	return ret ? smd_error_set(error, -ret, "secrets: %s", strerror(-ret)) : 0;
}

static void forget(struct smd_contracts *contracts)
{
	smd_contract_free(contracts->contract);
	smd_contract_free(contracts->shown_contract);
	contracts->contract = NULL;
	contracts->shown_contract = NULL;
}

void smd_contracts_close(struct smd_contracts *contracts)
{
	forget(contracts);
	smd_masked_job_close(&contracts->shown);
	smd_secrets_resolved_clear(&contracts->resolved);
	smd_redaction_close(&contracts->redaction);
	smd_secrets_clear(&contracts->secrets);
}

const struct smd_job *smd_contracts_shown(const struct smd_contracts *contracts)
{
	return contracts->shown.count > 0 ? &contracts->shown.job : contracts->job;
}

int smd_contracts_make(
	struct smd_contracts *contracts, int nservers, const struct smd_placement *placement)
{
	int ret;

	forget(contracts);
	contracts->scaled = contracts->resolved;
	contracts->shown_scaled = *smd_contracts_shown(contracts);
	if (smd_job_has_servers(contracts->job)) {
		contracts->scaled.pools[2].replica_count = nservers;
		contracts->shown_scaled.pools[2].replica_count = nservers;
	}
	ret = smd_contract_create(&contracts->scaled, placement, &contracts->contract);
	if (!ret && (contracts->shown.count > 0 || contracts->secrets.count > 0)) {
		ret = smd_contract_create(
			&contracts->shown_scaled, placement, &contracts->shown_contract);
	}
	return ret;
}
