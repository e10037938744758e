/*
 * The service: answers the API over HTTP, keeps jobs in the store's queue, and starts a runner for
 * each that has room (specs/design/service.md).
 */
#ifndef SMD_SERVICE_SERVICE_H
#define SMD_SERVICE_SERVICE_H

#include "orchestrator/service/http.h"
#include "orchestrator/store/queue.h"

#define SMD_QUOTAS_MAX 64

/* What the jobs of a project may take together. */
struct smd_quota {
	const char *project;
	struct smd_demand limit;
};

struct smd_service_options {
	struct smd_http_options http;
	const char *metrics; /* where metrics are read; NULL: nowhere */
	json_t *images;      /* commands that stand in for images, or NULL */
	/* What jobs may take together; less than 0: what this machine has. */
	struct smd_demand capacity;
	struct smd_quota quotas[SMD_QUOTAS_MAX];
	size_t nquotas;
	int begins_at_once;          /* jobs do not wait for room, or wait for that of a cluster */
	int deals_gpus;              /* those of this machine are dealt out between jobs */
	int runs_images;             /* there is a container runtime */
	const char *secrets_folder;  /* of what jobs refer to by name; or NULL */
	char *const *runner_options; /* words for each runner, then NULL */
	char *const *sender_words;   /* of the sender of notices, then NULL; NULL: no webhook */
};

/* Answers until SIGTERM or SIGINT, which leave jobs running. 0; -EBUSY with a text: another service
 * has the state directory; another -errno with a text. */
int smd_service_run(const struct smd_service_options *options, struct smd_error *error);

#endif
