/* Collects the figures of a job's summary from its replicas' results. */
#include "orchestrator/runner/figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

double smd_figures_number(const struct smd_replica *replica, const char *key)
{
	const char *text = smd_replica_result(replica, key);
	double number;
	char *end;

	if (!text) {
		return -1;
	}
	number = strtod(text, &end);
	return end > text && *end == '\0' && isfinite(number) && number >= 0 ? number : -1;
}

/* The figure from the first replica of these roles that has it; replicas are in pool order. */
static double figure(const struct smd_job_status *status, const char *key, unsigned roles)
{
	for (size_t i = 0; i < status->count; i++) {
		double number = smd_figures_number(&status->replicas[i], key);

		if (roles & 1u << status->replicas[i].role && number >= 0) {
			return number;
		}
	}
	return -1;
}

static void collect_weights(
	const struct smd_job_status *status, unsigned workers, struct smd_figures *out)
{
	out->weights_equal = 1;
	for (size_t i = 0; i < status->count; i++) {
		const char *weights = smd_replica_result(&status->replicas[i], "weights");

		if (!(workers & 1u << status->replicas[i].role)) {
			continue;
		}
		out->nworkers++;
		if (!weights) {
			continue;
		}
		out->nweights++;
		if (!out->weights) {
			out->weights = weights;
		}
		out->weights_equal &= strcmp(weights, out->weights) == 0;
	}
}

void smd_figures_collect(const struct smd_job_status *status, struct smd_figures *out)
{
	const unsigned workers = 1u << SMD_ROLE_CHIEF | 1u << SMD_ROLE_WORKER;

	*out = (struct smd_figures){0};
	out->accuracy = figure(status, "accuracy", 1u << SMD_ROLE_EVALUATOR);
	if (out->accuracy < 0) {
		out->accuracy = figure(status, "accuracy", workers);
	}
	out->steps = figure(status, "steps", workers);
	out->allreduce_bytes = figure(status, "allreduce_bytes", workers);
	out->allreduce_seconds = figure(status, "allreduce_seconds", workers);
	collect_weights(status, workers, out);
}
