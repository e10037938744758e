/*
 * What the service has done and has, as metrics: what they are called is in specs/guide/metrics.md.
 */
#ifndef SMD_SERVICE_FIGURES_H
#define SMD_SERVICE_FIGURES_H

#include "orchestrator/service/http.h"
#include "orchestrator/service/scheduler.h"
#include "reduction_server/metrics/text.h"

/* Where they are read from. */
struct smd_figure_sources {
	const struct smd_http *http;
	const struct smd_scheduler *scheduler;
	struct smd_store *store;
};

/* Writes all of them; the owner is a struct smd_figure_sources. */
void smd_figures_write(void *owner, struct smd_metrics_text *text);

#endif
